"""What all objects of a type have in common: of each member how many values there are, which, and how often.

Numbers are counted as they lie in memory, thousands of objects at a time. What is kept does not grow with the number of
objects: of a member with too many values the rarer ones are forgotten again and again.
"""

from __future__ import annotations

import struct
from collections import Counter
from hashlib import blake2b
from itertools import islice
from math import gcd
from typing import Iterable, Iterator, NamedTuple, Optional, Sequence, Union

from ...base.class_names import named as readable
from ...base.meter import Meter
from ...sources.debug_info_types import BitField, TypeFacts
from .contents import Contents
from .named_blocks import NONE, BlockName, NamedBlocks
from .type_table import DEEPEST, TypeTable
from .values import PIECE, VTABLE, Value, Values

MOST = 1 << 14
"""Values of one member that are counted."""
AT_ONCE = 1 << 12
"""Objects."""
MOST_MEMBERS = 256
MOST_PLACES = 1 << 12
"""Objects of a type in a block of another one."""
FREQUENT = 3
LONG_TEXT, DIGEST = 48, 8
"""Of a longer text so much is kept, and what tells it from others."""
INTEGERS = {1: "b", 2: "h", 4: "i", 8: "q"}
FLOATS = {2: "e", 4: "f", 8: "d"}
SCALARS = ("integer", "boolean", "enum", "character", "float")
PLAIN = ("std::pair", "std::tuple", "std::_Tuple_impl", "std::_Head_base", "std::atomic", "std::__atomic_base")
"""Of the library's own structs these are taken apart: what else they are made of tells nobody anything."""
WORDS = ("struct ", "class ", "union ", "enum ")
Key = Union[int, float, bytes, None]


class MemberPlace(NamedTuple):
    name: str
    """"peer.port"; "" for what is a number itself."""
    offset: int
    type: int
    bits: Optional[BitField] = None
    """Of the struct of that type, where it is no member of whole bytes."""

    def inner(self, step: str) -> str:
        """The name of a member of it."""
        return f"{self.name}.{step}" if self.name and step else self.name or step


class Column:
    """A member of all objects."""

    def __init__(self, place: MemberPlace, facts: TypeFacts, type: str, form: str) -> None:
        self.place, self.facts, self.type = place, facts, type
        self.form = form
        """As Value has it; "text" for a pointer to characters, too."""
        self.objects = self.unreadable = self.nulls = 0
        self.least: Union[int, float, None] = None
        """Of a text its length; of a container how many elements it has."""
        self.greatest: Union[int, float, None] = None
        self.sum: Union[int, float] = 0
        self.apart = 0
        """What all differences between integers are a multiple of."""
        self.forgotten = False
        """There were more values than are counted: what is told of them may be too low by a little."""
        self._counts: Counter[Key] = Counter()
        self._first: Optional[int] = None

    def add(self, keys: Sequence[Key], sizes: Optional[Sequence[Union[int, float]]] = None) -> None:
        """`sizes`: what is measured, where that is not the value itself."""
        self.objects += len(keys)
        self._counts.update(keys)
        measured = [each for each in (sizes if sizes is not None else keys) if isinstance(each, (int, float))]
        measured = [each for each in measured if each == each]
        if measured:
            least, greatest = min(measured), max(measured)
            self.least = least if self.least is None else min(least, self.least)
            self.greatest = greatest if self.greatest is None else max(greatest, self.greatest)
            self.sum += sum(measured)
        if self.form == "integer" and self.apart != 1:
            self._compare(keys)
        if len(self._counts) > MOST:
            self._forget()

    def _compare(self, keys: Iterable[Key]) -> None:
        for each in keys:
            if isinstance(each, int):
                if self._first is None:
                    self._first = each
                self.apart = gcd(self.apart, each - self._first)
                if self.apart == 1:
                    break

    def _forget(self) -> None:
        """As Misra and Gries do: what is taken from all was counted for as many that are gone."""
        self.forgotten = True
        least = sorted(self._counts.values(), reverse=True)[MOST // 2]
        self._counts = Counter({key: number - least for key, number in self._counts.items() if number > least})

    @property
    def distinct(self) -> Optional[int]:
        """None: more than are counted."""
        return None if self.forgotten else len(self._counts)

    @property
    def average(self) -> Optional[float]:
        measured = self.objects - self.nulls
        return self.sum / measured if self.least is not None and measured else None

    def frequent(self) -> list[tuple[Key, int]]:
        """Where one is had more than once."""
        return [each for each in self._counts.most_common(FREQUENT) if each[1] > 1 or len(self._counts) <= FREQUENT]


class TypeValues(NamedTuple):
    type: str
    objects: int
    blocks: int
    columns: Sequence[Column]
    names: frozenset[str]
    """Of blocks in which they are."""


class _Use(NamedTuple):
    """Where objects lie in blocks of one name."""

    name: BlockName
    size: int
    offsets: Sequence[int]


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
    assert named.contents is not None
    types = named.contents.types
    for word in WORDS:
        wanted = wanted.removeprefix(word)
    wanted = wanted.removesuffix("[]").strip()
    of_blocks: dict[int, set[int]] = {}
    # some names were given up for stronger ones, as made-up control blocks
    for number in {*named.name} - {NONE}:
        name = named.names[number]
        if name.type is not None and name.form in ("object", "array") and wanted in _spellings(name.text):
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


def _shortened(types: TypeTable, called: Sequence[Called]) -> list[Called]:
    """Both as one, where objects of one type are as long as their text needs; otherwise none."""
    if len(called) != 2:
        return []
    short, whole = sorted(each.type for each in called)
    begins, ends = types.facts(short).fields[:-1], {*types.facts(whole).fields}
    return [Called(short, whole=whole)] if short < 0 <= whole and begins and {*begins} < ends else []


def _ends_in_union(types: TypeTable, struct: int) -> bool:
    last = max(types.facts(struct).fields, key=lambda each: each.offset)
    return types.facts(last.type).form == "union"


def _spellings(text: str) -> set[str]:
    """Of a type or a block, as debug information and as screens have it."""
    text = text.removesuffix("[]")
    return {text, readable(text).name}


def objects_of(named: NamedBlocks, values: Values, called: Called, meter: Meter) -> Optional[TypeValues]:
    """None where no block has such an object for certain. KeyboardInterrupt."""
    assert named.contents is not None
    type, contents = called.type, named.contents
    uses = _uses(named, contents, called.types)
    wanted = called.blocks if called.blocks is not None else uses.keys()
    numbers = {number: each for number, each in uses.items() if each.offsets and number in wanted}
    if not numbers:
        return None
    is_text = called.blocks is not None and values.is_letter(type)
    table = _Texts(named, values, type) if is_text else _Table(contents, values, called)
    used: set[int] = set()
    blocks = objects = 0

    def places() -> Iterator[int]:
        nonlocal blocks
        for block in named.typed():
            use = numbers.get(named.name[block])
            if use is None:
                continue
            blocks += 1
            used.add(named.name[block])
            start = named.blocks.starts[block] + use.name.front
            for element in range(named.elements[block] if use.name.form == "array" and not is_text else 1):
                for offset in use.offsets:
                    yield start + element * use.size + offset

    found = places()
    while True:
        some = list(islice(found, AT_ONCE))
        if not some:
            break
        objects += len(some)
        table.add(some)
        meter.advance(len(some) * table.size)
    names = frozenset(named.names[number].text for number in used)
    text = readable(contents.types.text(type)).name
    if called.blocks is not None:
        text = readable(named.names[min(called.blocks)].text.removesuffix("[]")).name
    return TypeValues(text, objects, blocks, columns=table.columns, names=names) if objects else None


def _uses(named: NamedBlocks, contents: Contents, wanted: set[int]) -> dict[int, _Use]:
    """By the numbers of names. An object that was destroyed, while something still knows of it, has no values."""
    uses = {}
    for number, name in enumerate(named.names):
        if name.type is not None and name.form in ("object", "array") and (name.words or name.form == "array"):
            offsets = tuple(islice(_within(contents, name.type, wanted, 0), MOST_PLACES))
            uses[number] = _Use(name, contents.types.facts(name.type).size, offsets)
    return uses


def _within(contents: Contents, whole: int, wanted: set[int], offset: int, depth: int = 0) -> Iterator[int]:
    """Where objects of wanted types lie in one of another. Of a union nobody knows which member there is."""
    if whole in wanted:
        yield offset
        return
    facts = contents.types.facts(whole)
    if facts.form == "struct" and depth < DEEPEST and not contents.nature(whole).is_container:
        for each in facts.fields:
            yield from _within(contents, each.type, wanted, offset + each.offset, depth=depth + 1)
    elif facts.form == "array" and facts.target is not None and depth < DEEPEST:
        size = contents.types.facts(facts.target).size
        if next(_within(contents, facts.target, wanted, 0, depth=depth + 1), None) is not None:
            for number in range(min(facts.length or 0, MOST_PLACES)):
                yield from _within(contents, facts.target, wanted, offset + number * size, depth=depth + 1)


class _Texts:
    """Blocks of characters: each is one text."""

    size = PIECE

    def __init__(self, named: NamedBlocks, values: Values, type: int) -> None:
        assert named.contents is not None
        self._named, self._values, self._type = named, values, type
        text = f"{named.contents.types.text(type)}[]"
        self.columns = [Column(MemberPlace("", 0, type), named.contents.types.facts(type), text, "text")]

    def add(self, objects: Sequence[int]) -> None:
        (column,) = self.columns
        texts = []
        for address in objects:
            count = self._named.elements[self._named.blocks.find(address)]
            texts += [each.value for each in self._values.members(self._type, address, count)]
        known = [each for each in texts if each.form == "text"]
        column.unreadable += len(texts) - len(known)
        column.add([_text_key(each) for each in known], [len(each.data) for each in known])


class _Table:
    """The members of a type, and their values."""

    def __init__(self, contents: Contents, values: Values, called: Called) -> None:
        self._contents, self._types, self._values = contents, contents.types, values
        type = called.type
        self.size = self._types.facts(type).size
        self._numbers: list[Column] = []
        """Those that are read all at once."""
        self._others: list[Column] = []
        form, at = values.mark, 0
        places = sorted(
            islice(self._members(type, MemberPlace("", 0, type), 0), MOST_MEMBERS), key=lambda each: each.offset
        )
        self.columns = []
        if called.whole is not None and _ends_in_union(self._types, called.whole):
            # where some have the text that all of the others end with nobody knows which member there is
            places = [each for each in places if each.offset < self.size]
        for place in places:
            facts = self._types.facts(place.type)
            column = Column(place, facts, readable(self._types.text(place.type)).name, self._form(facts))
            if place.bits is not None:
                column.type, column.form = f"{place.bits.size} bits", "boolean" if place.bits.size == 1 else "integer"
            self.columns.append(column)
            code = self._code(facts)
            if code is None or column.form == "text" or place.bits is not None or place.offset < at:
                self._others.append(column)
                continue
            form += f"{place.offset - at}x{code}"
            at = place.offset + facts.size
            self._numbers.append(column)
        self._struct = struct.Struct(form)

    def _members(self, type: int, at: MemberPlace, depth: int) -> Iterator[MemberPlace]:
        facts = self._types.facts(type)
        if self._has_value(type, facts):
            yield at._replace(type=type)
        elif facts.form == "struct" and depth < DEEPEST and (type < 0 or _is_plain(facts)):
            for bits in facts.bits:
                yield MemberPlace(at.inner(bits.name), at.offset + bits.offset // 8, type, bits)
            # compilers add the pointer to a vtable, which LLDB does not have among the members
            for each in (field for field in facts.fields if not field.name.startswith(VTABLE)):
                step = "" if each.is_base or each.name.startswith("_M_") else each.name
                inner = MemberPlace(at.inner(step), at.offset + each.offset, each.type)
                # a node's links, a control block's counts and what leads to a vtable are no values of the program's
                if (type >= 0 or facts.language or not each.name) and not each.name.startswith(VTABLE):
                    yield from self._members(each.type, inner, depth + 1)

    def _has_value(self, type: int, facts: TypeFacts) -> bool:
        if facts.form == "struct":
            return self._contents.nature(type).is_container
        return facts.form in (*SCALARS, "pointer", "reference") or self._is_text(facts)

    def _is_text(self, facts: TypeFacts) -> bool:
        return facts.form == "array" and facts.target is not None and self._values.is_letter(facts.target)

    def _form(self, facts: TypeFacts) -> str:
        if self._is_text(facts) or (facts.form == "pointer" and self._values.is_letter(facts.target)):
            return "text"
        if facts.form == "struct":
            return "elements"
        return "pointer" if facts.form == "reference" else facts.form

    def _code(self, facts: TypeFacts) -> Optional[str]:
        """Of `struct`; None: it has none."""
        if facts.form == "float":
            return FLOATS.get(facts.size)
        code = INTEGERS.get(facts.size) if facts.form in (*SCALARS, "pointer", "reference") else None
        return code if code is None or facts.signed else code.upper()

    def add(self, objects: Sequence[int]) -> None:
        rows, lost = [], 0
        for address in objects:
            data = self._values.reader.bytes(address, self._struct.size)
            if data is None:
                lost += 1
            else:
                rows.append(self._struct.unpack(data))
        for column in self._numbers:
            column.unreadable += lost
        for column, keys in zip(self._numbers, zip(*rows)):
            column.add(keys)
            if column.form == "pointer":
                column.nulls += keys.count(0)
        for column in self._others:
            self._add(column, objects)

    def _add(self, column: Column, objects: Sequence[int]) -> None:
        keys: list[Key] = []
        sizes: list[Union[int, float]] = []
        for address in objects:
            value = self._value(column.place, address + column.place.offset)
            if value.form == "pointer" and column.form == "text" and not value.number:
                column.nulls += 1
                keys.append(None)
            elif value.form == "text" or value.name == "text":
                column.form = "text"
                keys.append(_text_key(value))
                sizes.append(len(value.data))
            elif value.form == "none" or (value.form == "pointer" and column.form == "text") or value.number is None:
                column.unreadable += 1
            else:
                if value.form == "pointer":
                    column.form = "pointer"
                    column.nulls += not value.number
                keys.append(value.number)
                sizes.append(value.number)
        column.add(keys, sizes)

    def _value(self, place: MemberPlace, address: int) -> Value:
        bits = place.bits
        if bits is None:
            return self._values.of(place.type, address)
        first = bits.offset % 8
        data = self._values.reader.bytes(address, (first + bits.size + 7) // 8)
        if data is None:
            return Value("none")
        little = self._values.mark == "<"
        number = int.from_bytes(data, "little" if little else "big")
        number = number >> (first if little else 8 * len(data) - first - bits.size) & (1 << bits.size) - 1
        if bits.signed and number >> bits.size - 1:
            number -= 1 << bits.size
        return Value("integer", number)


def _is_plain(facts: TypeFacts) -> bool:
    return not facts.name.startswith("std::") or facts.name.partition("<")[0] in PLAIN


def _text_key(value: Value) -> bytes:
    data = value.data
    return data if len(data) <= LONG_TEXT else data[:LONG_TEXT] + blake2b(data, digest_size=DIGEST).digest()
