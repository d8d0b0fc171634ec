"""What all objects of a type have in common: of each member how many values there are, which, and how often.

The engine reads the objects, wherever they lie. What is kept does not grow with the number of objects: of a member with
too many values the rarer ones are forgotten again and again.
"""

from __future__ import annotations

from itertools import islice
from typing import NamedTuple, Optional, Sequence, Union

from ...base.class_names import named as readable
from ...base.progress_bar import Meter
from ...engine import TypesAnswer, TypesQuestion
from .conditions import Compiled
from .members import (
    MOST_PLACES,
    UNSIGNED,
    MemberPlace,
    MemberReading,
    ObjectsWithin,
    TypeMembers,
    places_within,
)
from .named_blocks import NONE, BlockName, NamedBlocks
from .type_table import TypeTable
from .values import Values

WORDS = ("struct ", "class ", "union ", "enum ")
OF_OBJECTS = ("object", "array", "tail")
"""Blocks of these forms have objects of their type in them."""
Key = Union[int, float, bytes, None]
NULL, NUMBER, FLOAT_BITS, TEXT = range(1, 5)


class FrequentValue(NamedTuple):
    """A value that many objects have."""

    key: Key
    objects: int
    guessed: int
    """Those of them in blocks that are named by a guess."""


class ValuesColumn(NamedTuple):
    """A member of all objects."""

    place: MemberPlace
    enumerators: dict[str, int]
    type: str
    form: str
    """As Value has it; "text" for a pointer to characters, too."""
    objects: int
    unreadable: int
    nulls: int
    least: Union[int, float, None]
    """Of a text its length; of a container how many elements it has."""
    greatest: Union[int, float, None]
    sum: Union[int, float]
    apart: int
    """What all differences between integers are a multiple of."""
    distinct: Optional[int]
    """None: more than are counted. What is told of them may be too low by a little."""
    frequent: Sequence[FrequentValue]
    """Where one is had more than once."""

    @property
    def average(self) -> Optional[float]:
        measured = self.objects - self.nulls
        return self.sum / measured if self.least is not None and measured else None


class Way(NamedTuple):
    """Objects that just these paths lead to."""

    paths: Sequence[str]
    objects: int


class SplitPart(NamedTuple):
    """Objects with one value."""

    key: Key
    objects: int
    ways: Sequence[Way]
    """By what most are reached first."""


class Split(NamedTuple):
    """A member that has one value in objects that are reached in one way, and another in the others."""

    column: ValuesColumn
    parts: Sequence[SplitPart]


class TypeValues(NamedTuple):
    type: str
    objects: int
    blocks: int
    guessed_objects: int
    """Those of the objects in blocks that are named by a guess."""
    guessed_blocks: int
    unknown: int
    """More objects, of which the condition cannot be read."""
    columns: Sequence[ValuesColumn]
    splits: Sequence[Split]
    names: frozenset[str]
    """Of blocks in which they are."""
    is_whole: bool
    """Blocks of another type may have more of them than are looked at."""


class Called(NamedTuple):
    """What a name stands for."""

    type: int
    blocks: Optional[frozenset[int]] = None
    """Only what lies in blocks of these names, by number; None: the type's objects, wherever they lie."""
    whole: Optional[int] = None
    """The type is what objects of this one begin with, where some were allocated without all of their last member."""

    @property
    def types(self) -> set[int]:
        return {self.type} if self.whole is None else {self.type, self.whole}


def types_called(named: NamedBlocks, wanted: str) -> list[Called]:
    """By a name as `types` writes it, or without its namespaces. Several where it is not clear which is meant."""
    types = named.types
    for word in WORDS:
        wanted = wanted.removeprefix(word)
    wanted = wanted.removesuffix("[]").strip()
    of_blocks: dict[int, set[int]] = {}
    # some names were given up for stronger ones, as made-up control blocks
    for number in {*named.name} - {NONE}:
        name = named.names[number]
        if name.type is not None and name.form in OF_OBJECTS and wanted in _spellings(_object_name(name)):
            of_blocks.setdefault(name.type, set()).add(number)
    if of_blocks:
        # what is called after its container ("std::string body") is no more than these blocks, and so are plain numbers
        own = {type for type in of_blocks if types.facts(type).form == "struct"}
        own = {type for type in own if wanted in _spellings(types.facts(type).name)}
        called = [Called(type, None if type in own else frozenset(of_blocks[type])) for type in of_blocks]
        return _shortened(types, called) or called
    exact, short = [], []
    for type, facts in types.known():
        if facts.form == "struct" and facts.size:
            names = _spellings(facts.name)
            if wanted in names:
                exact.append(Called(type))
            elif any(each.endswith(f"::{wanted}") for each in names):
                short.append(Called(type))
    return exact or short


def _object_name(name: BlockName) -> str:
    return name.label if name.form == "tail" else name.text


def _shortened(types: TypeTable, called: Sequence[Called]) -> list[Called]:
    """Both as one, where objects of one type are as long as their text needs; otherwise none."""
    found = {each.type for each in called}
    shortened = [each for each in found if types.whole_of(each) in found]
    return [Called(each, whole=types.whole_of(each)) for each in shortened] if len(found) == 2 else []


def _ends_in_union(types: TypeTable, struct: int) -> bool:
    last = max(types.facts(struct).fields, key=lambda each: each.offset)
    return types.facts(last.type).form == "union"


def _spellings(text: str) -> set[str]:
    """Of a type or a block, as debug information and as screens have it."""
    text = text.removesuffix("[]")
    return {text, readable(text).name}


def uses_of(named: NamedBlocks, wanted: set[int]) -> dict[int, dict[int, ObjectsWithin]]:
    """By types, and by the numbers of names, where objects lie in blocks. An object that was destroyed, while something
    still knows of it, has no values."""
    assert named.contents is not None
    found: dict[int, dict[int, ObjectsWithin]] = {}
    for number, name in enumerate(named.names):
        if name.type is None or name.form not in OF_OBJECTS or not (name.words or name.form == "array"):
            continue
        offsets: dict[int, list[int]] = {}
        for type, offset in islice(places_within(named.contents, name.type, wanted), MOST_PLACES):
            offsets.setdefault(type, []).append(offset)
        element = named.types.facts(name.type).size if name.form == "array" else 0
        for type, own in offsets.items():
            found.setdefault(type, {})[number] = ObjectsWithin(name.front, element, own)
    return found


def objects_of(
    named: NamedBlocks, values: Values, called: Called, meter: Meter, condition: Optional[Compiled] = None
) -> Optional[TypeValues]:
    """None where no block has such an object. `condition`: only of those for which it holds. KeyboardInterrupt."""
    assert named.contents is not None
    assert named.traced is not None
    contents = named.contents
    uses: dict[int, ObjectsWithin] = {}
    for own in uses_of(named, called.types).values():
        uses.update(own)
    if called.blocks is not None:
        uses = {number: each for number, each in uses.items() if number in called.blocks}
    is_text = called.blocks is not None and values.is_letter(called.type)
    members = TypeMembers(contents, values)
    places = [MemberPlace("", 0, called.type)] if is_text else _places(members, called)
    question = TypesQuestion()
    question.put(len(uses))
    for number, each in uses.items():
        each.put(question, number, is_text=is_text)
    readings = [MemberReading(UNSIGNED, 0, 1) if is_text else members.reading(each) for each in places]
    question.put(len(readings))
    for reading in readings:
        reading.put(question)
    (condition or Compiled(())).put(question)
    answer = named.traced.values(question, meter)
    objects, blocks, guessed_objects, guessed_blocks, unknown = (answer.size() for _ in range(5))
    names = frozenset(named.names[answer.number()].text for _ in range(answer.number()))
    assert answer.number() == len(places)
    columns = [_column(answer, members, each, is_text=is_text) for each in places]
    paths = [answer.string() for _ in range(answer.number())]
    splits = [_split(answer, columns, paths) for _ in range(answer.number())]
    text = readable(contents.types.text(called.type)).name
    if called.blocks is not None:
        text = readable(_object_name(named.names[min(called.blocks)]).removesuffix("[]")).name
    found = TypeValues(text, objects, blocks, guessed_objects, guessed_blocks, unknown, columns, splits, names, True)
    is_whole = all(len(each.offsets) < MOST_PLACES for each in uses.values())
    return found._replace(is_whole=is_whole) if objects or unknown else None


def _places(members: TypeMembers, called: Called) -> list[MemberPlace]:
    places, types = members.of(called.type), members.types
    if called.whole is not None and _ends_in_union(types, called.whole):
        # where some have the text that all of the others end with nobody knows which member there is
        size = types.facts(called.type).size
        return [each for each in places if each.offset < size]
    return places


def _column(answer: TypesAnswer, members: TypeMembers, place: MemberPlace, is_text: bool) -> ValuesColumn:
    form = "text" if is_text else members.form(place)
    type = readable(members.types.text(place.type)).name
    if is_text:
        type = f"{type}[]"
    elif place.bits is not None:
        type = f"{place.bits.size} bits"
    objects, unreadable, nulls, has_text = (answer.size() for _ in range(4))
    if form == "elements" and has_text:
        form = "text"
    read = {0: lambda: None, 1: lambda: _wide(answer), 2: answer.float}[answer.number()]
    least, greatest, sum = read(), read(), read()
    apart, distinct = _wide(answer), answer.option()
    frequent = [FrequentValue(_key(answer), answer.size(), answer.size()) for _ in range(answer.number())]
    return ValuesColumn(
        place,
        members.enumerators(place) if form == "enum" else {},
        type,
        form=form,
        objects=objects,
        unreadable=unreadable,
        nulls=nulls if form in ("pointer", "text") else 0,
        least=least,
        greatest=greatest,
        sum=sum or 0,
        apart=apart if form == "integer" else 0,
        distinct=distinct,
        frequent=frequent,
    )


def _wide(answer: TypesAnswer) -> int:
    return answer.number() << 64 | answer.size()


def _key(answer: TypesAnswer) -> Key:
    kind = answer.number()
    if kind == NUMBER:
        return _wide(answer)
    if kind == FLOAT_BITS:
        return answer.float()
    return answer.data() if kind == TEXT else None


def _split(answer: TypesAnswer, columns: Sequence[ValuesColumn], paths: Sequence[str]) -> Split:
    column = columns[answer.number()]
    parts = []
    for _ in range(answer.number()):
        key, objects = _key(answer), answer.size()
        ways = [
            Way([paths[answer.number()] for _ in range(answer.number())], answer.size()) for _ in range(answer.number())
        ]
        parts.append(SplitPart(key, objects, ways))
    return Split(column, parts)
