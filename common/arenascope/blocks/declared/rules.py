"""Rules of the user, with the types that debug information has of what they name."""

from __future__ import annotations

import os
import pkgutil
import re
from contextlib import suppress
from typing import Iterator, Literal, Mapping, NamedTuple, Optional, Sequence, Union

from ...base.errors import UsageError
from ...base.heap_model import Statement
from ...base.optional_libraries import is_ours
from ...session.session import Session
from ...sources.elf.modules import programs_of
from ...sources.elf.sysroot import open_regular
from ...sources.type_source import BitField, StructField
from .type_table import TypeTable

NONE = "none"
"""In place of a file: no rules at all."""
LARGEST = 1 << 20
ALIKE = {"redis-sentinel": "redis-server", "redis-check-rdb": "redis-server", "valkey-sentinel": "valkey-server"}
"""One program under several names."""


class RuleText(NamedTuple):
    path: str
    text: str
    named: bool = False
    """Somebody asked for this file."""
    shipped: bool = False
    """It came with arenascope: it may be for another release of the program."""


def named_rules(path: str) -> RuleText:
    """UsageError where it cannot be read, or is not to be trusted."""
    try:
        with open(open_regular(path), "rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
    if not is_ours(path):
        raise UsageError(f"{path} is not read: another user can write to it, or to a folder that leads there")
    if len(data) > LARGEST:
        raise UsageError(f"{path} is too large to be a file of rules")
    return RuleText(path, data.decode("utf-8", "replace"), named=True)


def rules_of(session: Session) -> Optional[RuleText]:
    """None where there are none for this program."""
    file = session.rules.file
    if file:
        return named_rules(file) if file != NONE else None
    program = program_name(session)
    if not program:
        return None
    path = os.path.join(_users_folder(), f"{program}.rules")
    if os.path.isabs(path) and os.path.isfile(path) and is_ours(path):
        with suppress(UsageError):
            return named_rules(path)._replace(named=False)
    return _shipped(ALIKE.get(program, program))


def program_name(session: Session) -> str:
    """ "": not known."""
    for run in programs_of(session.target.regions()):
        name = os.path.basename(run[0].path)
        return name.removesuffix(" (deleted)")
    return ""


def _users_folder() -> str:
    """No absolute path where nobody's home is known."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    return os.path.join(base if os.path.isabs(base) else os.path.expanduser("~/.config"), "arenascope", "rules")


def _shipped(program: str) -> Optional[RuleText]:
    with suppress(OSError):
        data = pkgutil.get_data(__package__, f"programs/{program}.rules")
        if data is not None:
            return RuleText(f"arenascope's own {program}.rules", data.decode(), shipped=True)
    return None


PLACE = re.compile(r"(?P<holder>[^\s.][^.]*?)\.(?P<member>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)")
CONDITION = re.compile(r"(\.|->)(\w+(?:\.\w+)*) (==|!=|<|>|<=|>=) (-?\w[\w:]*)")
AND_MORE = " and more"
KEYWORDS = re.compile(r"^(?:struct|union|class|enum) ")
COMMENT = re.compile(r"(?:^|\s)#.*")
CHARACTERS = ("char[]", "unsigned char[]")
MOST_LINES = 4096


class RuleCondition(NamedTuple):
    """What a member has to be."""

    of_target: bool
    """Of the object that is led to, not of the one that leads there."""
    member: str
    sign: str
    value: Union[int, str]


class Rule(NamedTuple):
    """One line."""

    line: int
    text: str
    """As it is written, without what is for people."""
    kind: Literal["leads to", "lies in"]
    holder: str
    """The type that has the member."""
    member: str
    """By its way from there: "v.val"."""
    target: str
    conditions: tuple[RuleCondition, ...] = ()

    @property
    def label(self) -> str:
        """As the member's own names of blocks have it."""
        return f"{self.holder}.{self.member}"


class Unread(NamedTuple):
    """A line that cannot be read, or is about what the program does not have."""

    line: int
    why: str


def read_rules(text: str) -> Iterator[Union[Rule, Unread]]:
    for number, line in enumerate(text.splitlines()[:MOST_LINES], 1):
        said = " ".join(COMMENT.sub("", line).split())
        if said:
            yield _read(number, said)


def _read(number: int, said: str) -> Union[Rule, Unread]:
    place, sign, target = said.partition(" = ")
    target, when, told = target.partition(" when ")
    holder, found = split(place), [CONDITION.fullmatch(each) for each in told.split(" and ")] if when else []
    conditions = [
        RuleCondition(each[1] == "->", each[2], each[3], _number(each[4])) for each in found if each is not None
    ]
    if sign and holder is not None and target and len(conditions) == len(found):
        return Rule(number, said, "leads to", *holder, target=_plain(target), conditions=tuple(conditions))
    target, sign, place = said.partition(" in ")
    holder = split(place)
    if sign and holder is not None:
        return Rule(number, said, "lies in", *holder, target=_plain(target))
    return Unread(number, f"{said!r} is no rule: TYPE.MEMBER = TYPE is one, TYPE in TYPE.MEMBER another")


def _plain(name: str) -> str:
    return KEYWORDS.sub("", name.strip())


def _number(text: str) -> Union[int, str]:
    """An enumerator's name stays what it is."""
    try:
        return int(text, 0)
    except ValueError:
        return text


def split(place: str) -> Optional[tuple[str, str]]:
    """ "TYPE.MEMBER"."""
    found = PLACE.fullmatch(_plain(place))
    return (found["holder"], found["member"]) if found is not None else None


DEEPEST = 16
UNREAD, CONTRADICTED = "rule-unread", "rule-contradicted"


COMPARISONS = ("==", "!=", "<", ">", "<=", ">=")


class Tag(NamedTuple):
    """What a member has to be."""

    bits: BitField
    sign: str
    value: int


class PointerRule(NamedTuple):
    """What a member leads to."""

    rule: Rule
    offset: int
    """Of the member in its type."""
    target: Optional[int]
    """None: characters."""
    is_array: bool = False
    and_more: bool = False
    back: int = 0
    """So many bytes in front of where it leads the object begins."""
    tags: Sequence[Tag] = ()
    """Of the object that has the member."""
    told: Sequence[Tag] = ()
    """Of the object to which it leads."""


class MemberRule(NamedTuple):
    """Which object a pointer leads into."""

    rule: Rule
    whole: int
    offset: int


class ProgramRules:
    """Of one program. `pointers` by the name that blocks get by the member; `inside` by what a pointer is to."""

    def __init__(self, types: TypeTable, said: Sequence[Union[Rule, Unread]] = ()) -> None:
        self._types = types
        self.pointers: dict[str, list[PointerRule]] = {}
        self.inside: dict[int, list[MemberRule]] = {}
        self.unread: list[Unread] = []
        for each in said:
            why = each if isinstance(each, Unread) else self._add(each)
            if why is not None:
                self.unread.append(why)

    def _add(self, rule: Rule) -> Optional[Unread]:
        try:
            holder, place = self._holder(rule)
            if rule.kind == "lies in":
                target = self._type(rule.target, beside=holder)
                self.inside.setdefault(target, []).append(MemberRule(rule, holder, place.offset))
            else:
                self.pointers.setdefault(rule.label, []).append(self._pointer(rule, holder, place))
        except LookupError as error:
            return Unread(rule.line, str(error.args[0]))
        return None

    def _holder(self, rule: Rule) -> tuple[int, StructField]:
        """Of several types of that name the one that has the member."""
        found, wrong = list[tuple[int, StructField]](), LookupError(f"this program has no type {rule.holder}")
        for type in self._types.named(rule.holder):
            try:
                found.append((type, self._member(type, rule.member)))
            except LookupError as error:
                wrong = error
        if not found:
            raise wrong
        if len(found) > 1:
            raise LookupError(f"this program has several types {rule.holder} with {rule.member}")
        return found[0]

    def _pointer(self, rule: Rule, holder: int, place: StructField) -> PointerRule:
        facts = self._types.facts(place.type)
        in_array = facts.form == "array"
        while facts.form == "array" and facts.target is not None:
            facts = self._types.facts(facts.target)
        if facts.form not in ("pointer", "reference"):
            raise LookupError(f"{rule.label} is no pointer")
        tags = [self._tag(holder, each) for each in rule.conditions if not each.of_target]
        if tags and in_array:
            raise LookupError(f"{rule.label} is an array: no member beside it tells what all of them lead to")
        found = PointerRule(rule, place.offset, None, tags=tags)
        if rule.target not in CHARACTERS:
            found = self._pointed(found, rule.target, holder)
        told = [each for each in rule.conditions if each.of_target]
        if told and (found.target is None or found.is_array):
            raise LookupError(f"{rule.target} has no members for a condition")
        return found._replace(told=[self._tag(found.target, each) for each in told if found.target is not None])

    def _pointed(self, found: PointerRule, name: str, holder: int) -> PointerRule:
        if name.endswith(AND_MORE):
            return found._replace(target=self._type(name[: -len(AND_MORE)], holder), and_more=True)
        if name.endswith("[]"):
            return found._replace(target=self._type(name[:-2], holder), is_array=True)
        within = split(name)
        if within is None or self._types.named(name):
            return found._replace(target=self._type(name, holder))
        whole = self._type(within[0], holder)
        return found._replace(target=whole, back=self._member(whole, within[1]).offset)

    def _type(self, name: str, beside: int) -> int:
        """Of several types of that name the one that the source file with `beside` has."""
        found = [each for each in self._types.named(name.strip(), beside) if self._types.facts(each).size]
        if len(found) != 1:
            raise LookupError(f"this program has {'several types' if found else 'no type'} {name}")
        return found[0]

    def _member(self, type: int, path: str) -> StructField:
        """By the names on the way. LookupError where the type has none of that name, or the way leads through a type
        that has a name of its own: its members are called by that."""
        offset, label = 0, self._types.facts(type).name
        for index, name in enumerate(path.split(".")):
            facts = self._types.facts(type)
            if index and facts.form == "struct" and facts.name:
                rest = ".".join(path.split(".")[index:])
                raise LookupError(f"{label}.{path} is called {facts.name}.{rest}")
            found = next((each for each in self._fields(type) if each.name == name), None)
            if found is None:
                raise LookupError(f"{facts.name or label} has no member {name}")
            offset, type = offset + found.offset, found.type
        return StructField(path, offset, type)

    def _fields(self, type: int, offset: int = 0, depth: int = 0) -> Iterator[StructField]:
        """With those of bases and of structs and unions without a name."""
        for each in self._types.facts(type).fields if depth < DEEPEST else ():
            if each.is_base or not each.name:
                yield from self._fields(each.type, offset + each.offset, depth + 1)
            else:
                yield each._replace(offset=offset + each.offset)

    def _tag(self, type: int, said: RuleCondition) -> Tag:
        name = f"{self._types.facts(type).name}.{said.member}"
        enumerators: Mapping[str, int] = {}
        bits = next((each for each in self._types.facts(type).bits if each.name == said.member), None)
        if bits is None:
            place = self._member(type, said.member)
            facts = self._types.facts(place.type)
            if facts.form not in ("integer", "character", "boolean", "enum", "pointer"):
                raise LookupError(f"{name} is no number")
            bits, enumerators = BitField(said.member, place.offset * 8, facts.size * 8, facts.signed), facts.enumerators
        value = said.value if isinstance(said.value, int) else enumerators.get(said.value.rpartition("::")[2])
        least = -(1 << bits.size - 1) if bits.signed else 0
        if value is None or not least <= value < least + (1 << bits.size):
            raise LookupError(f"{name} is never {said.value}")
        return Tag(bits, said.sign, value)


def made(types: TypeTable, text: Optional[RuleText]) -> ProgramRules:
    """UsageError where a line of a file that somebody named is about what the program does not have."""
    if text is None:
        return ProgramRules(types)
    found = ProgramRules(types, [*read_rules(text.text)])
    if found.unread and text.named:
        first = found.unread[0]
        raise UsageError(f"{text.path}:{first.line}: {first.why}")
    return found


def doubts(rules: ProgramRules, text: Optional[RuleText], contradicted: Mapping[Rule, int]) -> Iterator[Statement]:
    """Lines that were not read, and blocks to which others were not applied. What comes with arenascope may be for
    another release of the program, and is for several tables: it says nothing."""
    if text is None or text.shipped:
        return
    for unread in rules.unread:
        yield Statement(UNREAD, {"line": unread.line}, {"file": text.path, "why": unread.why})
    for rule, blocks in contradicted.items():
        yield Statement(CONTRADICTED, {"line": rule.line, "blocks": blocks}, {"file": text.path, "rule": rule.text})
