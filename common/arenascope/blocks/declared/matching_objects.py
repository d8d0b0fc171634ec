"""For which objects a condition of --where holds."""

from __future__ import annotations

import re
from typing import Iterator, NamedTuple, Optional

from ...base.class_names import named as readable
from ...base.errors import NoTypeError, UsageError
from ...base.printable import first_few
from ...engine import TypesQuestion
from ...session.session import Session
from ..python_objects import has_python
from .conditions import Compiled, ConditionError, ObjectCondition, UnknownMember, compiled, parse
from .members import ObjectsWithin, TypeMembers
from .named_blocks import NamedBlocks
from .once_per_image import declared_blocks, values_of
from .type_table import TypeTable
from .type_values import Called, types_called, uses_of

OF_TYPE = re.compile(r"\s*((?:(?:struct|class) )?[\w$]+(?:::[\w$]+)*)\s*:(?!:)(.*)", re.DOTALL)
"""A type in front of a condition: "Session: closed == 1"."""
OTHER, UNKNOWN, MATCHES = 1, 2, 3
"""Of a block what is known of its objects, as the engine has it; 0: it has none."""
NOT_OF_PYTHON = "members are known of C, C++ and Rust types alone, not of Python's"
MOST_NAMED = 40
"""Members that are named where there is no such one."""


class Asked(NamedTuple):
    """A condition, and the type that it is about."""

    condition: ObjectCondition
    type: Optional[str]
    """None: all that have these members."""


class MatchingObjects(NamedTuple):
    """The objects for which a condition holds."""

    condition: str
    types: list[str]
    """The types that have its members."""
    objects: int
    """All of these types."""
    matching: int
    guessed: int
    """Those that match in blocks that are named by a guess."""
    unknown: int
    """Those of which a member cannot be read."""
    flags: memoryview
    """Of each live block OTHER, UNKNOWN, MATCHES or 0: the most of its objects."""

    @property
    def blocks(self) -> bytes:
        """Of each block 1 if it has an object that matches, else 0."""
        return bytes(self.flags).translate(_IS_MATCH)


_IS_MATCH = bytes(flag == MATCHES for flag in range(256))


def asked_condition(text: str, type: Optional[str] = None) -> Asked:
    """Parses what was typed; `type`: one that was named beside it. ConditionError if it is no condition."""
    prefix = OF_TYPE.fullmatch(text)
    if prefix is not None and type is None:
        return Asked(parse(prefix[2])._replace(text=text), prefix[1])
    return Asked(parse(text), type)


def matching_objects(session: Session, asked: Asked) -> MatchingObjects:
    """ConditionError if no type has its members, NoTypeError if types are not known. KeyboardInterrupt."""
    named = declared_blocks(session)
    values = values_of(session, named) if named is not None else None
    if named is None or named.traced is None or values is None or named.contents is None:
        raise NoTypeError("the program's types are not known here", "containers tells why")
    members = TypeMembers(named.contents, values)
    if asked.type is not None and has_python(session) and not types_called(named, asked.type):
        raise NoTypeError(f"no block is known to be a {asked.type}", NOT_OF_PYTHON)
    chosen = [*(_of_all if asked.type is None else _of_type)(named, members, asked)]
    names = sorted({readable(named.types.text(each.type)).name for each, _ in chosen})
    question = TypesQuestion()
    question.put(len(chosen))
    wanted = {type for each, _ in chosen for type in each.types}
    uses = uses_of(named, wanted)
    for called, condition in chosen:
        own: dict[int, ObjectsWithin] = {}
        for type in called.types:
            own.update(uses.get(type, {}))
        question.put(len(own))
        for number, within in own.items():
            within.put(question, number)
        condition.put(question)
    with session.meter("reading values", 2 * len(named.name)) as meter:
        numbers, flags = named.traced.matching(question, meter)
    objects, matching, unknown, guessed = (sum(numbers[at::4]) for at in range(4))
    return MatchingObjects(
        asked.condition.text,
        names,
        objects=objects,
        matching=matching,
        guessed=guessed,
        unknown=unknown,
        flags=flags,
    )


Chosen = tuple[Called, Compiled]


def _of_type(named: NamedBlocks, members: TypeMembers, asked: Asked) -> Iterator[Chosen]:
    assert asked.type is not None
    types = types_called(named, asked.type)
    if not types:
        raise NoTypeError(f"no block is known to be a {asked.type}", "types shows what there is")
    missing: Optional[UnknownMember] = None
    found = False
    for each in types:
        try:
            yield each, compiled(asked.condition, members, each.type)
            found = True
        except UnknownMember as error:
            missing = missing or error
    if missing is not None and not found:
        there = [each.name for called in types for each in members.of(called.type) if each.name]
        what = first_few([*dict.fromkeys(there)], MOST_NAMED) or "it has none"
        raise ConditionError(f"{asked.type} has no member {missing}", f"members: {what}")


def _of_all(named: NamedBlocks, members: TypeMembers, asked: Asked) -> Iterator[Chosen]:
    wrong: Optional[UsageError] = None
    found = False
    for each in _structs(named.types):
        try:
            yield each, compiled(asked.condition, members, each.type)
            found = True
        except UnknownMember:
            pass
        except ConditionError as error:
            wrong = wrong or error
    if not found:
        names = " and ".join(asked.condition.names)
        raise wrong or ConditionError(f"no type has {names}", "types NAME --values shows the members of one")


def _structs(types: TypeTable) -> list[Called]:
    """Those of the program that were met."""
    known = [(type, facts) for type, facts in types.known() if facts.form == "struct" and facts.size]
    short = {types.whole_of(type): type for type, _ in known}
    own = (type for type, facts in known if type >= 0 and not facts.name.startswith("std::"))
    return [Called(short[type], whole=type) if type in short else Called(type) for type in own]
