"""Reads variables by address and classes by name from debug information, where a debugger does not provide them.

LLDB cannot find a static variable of a function that is only ever inlined. LLDB 22 reads one class of those whose
templates' arguments GCC writes into their names alone, such as std::tuple's, and no other
(https://github.com/llvm/llvm-project/issues/204791). An address or a name is searched for as bytes, and of the entries
in front of it only the path down to it is read.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from contextlib import suppress
from functools import cached_property
from typing import Iterator, Mapping, NamedTuple, Optional, Sequence

from ..target import ByteOrder
from ..type_spelling import spelled, within
from .elf_file import ElfFile
from .unwind import Cursor

MOST_ENTRIES = 300_000
"""The most entries that are skipped on the way to one."""
DEEPEST = 32
DAMAGED = IndexError, KeyError, ValueError, OverflowError

CLASS, ENUM, STRUCT, UNION, BASE, NAMESPACE = 0x02, 0x04, 0x13, 0x17, 0x24, 0x39
ROOMS = NAMESPACE, CLASS, STRUCT, UNION
"""Entries whose names prefix the names within."""
SIBLING, NAME, ORIGIN, SPECIFICATION = 0x01, 0x03, 0x31, 0x47

BLOCK1, STRING, STRP, UDATA, REF_ADDR, REF_UDATA = 0x0A, 0x08, 0x0E, 0x0F, 0x10, 0x15
EXPRLOC, LINE_STRP, CONSTANT = 0x18, 0x1F, 0x21
BLOCKS = {0x03: 2, 0x04: 4, BLOCK1: 1}
"""Forms that begin with a length of so many bytes."""
LENGTHS, NUMBERS = (0x09, EXPRLOC), (0x0D, UDATA, REF_UDATA, 0x1A, 0x1B, 0x22, 0x23)
"""Forms that begin with a ULEB128 length, and forms that are one LEB128 number."""
SIZES = {0x05: 2, 0x06: 4, 0x07: 8, 0x0B: 1, 0x0C: 1, STRP: 4, 0x11: 1, 0x12: 2, 0x13: 4, 0x14: 8, 0x17: 4, 0x19: 0}
SIZES.update({0x1C: 4, 0x1D: 4, 0x1E: 16, LINE_STRP: 4, 0x20: 8, CONSTANT: 0, 0x24: 8, 0x1F20: 4, 0x1F21: 4})
SIZES.update({0x25: 1, 0x26: 2, 0x27: 3, 0x28: 4, 0x29: 1, 0x2A: 2, 0x2B: 3, 0x2C: 4})
CONSTANTS = {0x05: 2, 0x06: 4, 0x07: 8, 0x0B: 1}
WITHIN_UNIT = {0x11: 1, 0x12: 2, 0x13: 4, 0x14: 8}
"""References relative to the unit's start."""


class _Unit(NamedTuple):
    start: int
    first: int
    """Its first entry."""
    end: int
    version: int
    word: int
    shapes: int
    """The offset of its abbreviations."""


class _Shape(NamedTuple):
    """An abbreviation."""

    tag: int
    has_children: bool
    attributes: Sequence[tuple[int, int]]
    """Name and form."""


class DebugEntry(NamedTuple):
    at: int
    end: int
    shape: _Shape
    places: Mapping[int, tuple[int, int]]
    """The attributes' forms and offsets."""


class EntryTree:
    """The entries of one file."""

    def __init__(self, sections: Mapping[str, bytes], byte_order: ByteOrder, word: int) -> None:
        self._sections, self._byte_order, self._word = sections, byte_order, word
        self._bytes = sections.get(".debug_info", b"")
        self._shapes: dict[int, Mapping[int, _Shape]] = {}
        self._passed: dict[int, list[int]] = {}
        """By unit: the starts of its outermost entries that were skipped so far."""

    # names

    def _full_name(self, way: Sequence[DebugEntry]) -> str:
        """Returns the full name; "" if a part has no name, or it is a function's own."""
        specified = self._own_reference(way[-1], SPECIFICATION)
        if specified is not None and NAME not in way[-1].places:
            way = self._way_to(specified)
        *rooms, last = way[1:] or way
        if last.shape.tag not in (*ROOMS, ENUM, BASE) or any(each.shape.tag not in ROOMS for each in rooms):
            return ""
        names = [self._name(each) or "(anonymous namespace)" * (each.shape.tag == NAMESPACE) for each in (*rooms, last)]
        return "::".join(names) if all(names) else ""

    # attributes, of an entry or of what it completes

    def _name(self, entry: DebugEntry) -> str:
        for each in self._same(entry):
            form, place = each.places.get(NAME, (0, 0))
            if form == STRING:
                return text_at(self._bytes, place)
            if form in (STRP, LINE_STRP):
                return text_at(self._sections[".debug_str" if form == STRP else ".debug_line_str"], self._number(place))
        return ""

    def _reference(self, entry: DebugEntry, attribute: int) -> Optional[int]:
        led = (self._own_reference(each, attribute) for each in self._same(entry))
        return next((each for each in led if each is not None), None)

    def _same(self, entry: DebugEntry) -> Iterator[DebugEntry]:
        for _ in range(DEEPEST):
            yield entry
            references = (self._own_reference(entry, each) for each in (ORIGIN, SPECIFICATION))
            led = next((each for each in references if each is not None), None)
            way = self._way_to(led) if led is not None else []
            if not way:
                return
            entry = way[-1]

    def _constant(self, entry: DebugEntry, attribute: int) -> Optional[int]:
        form, place = entry.places.get(attribute, (0, 0))
        size = CONSTANTS.get(form)
        if form == UDATA:
            cursor = Cursor(self._bytes, self._byte_order)
            cursor.at = place
            return cursor.uleb()
        return self._number(place, size) if size is not None else None

    def _own_reference(self, entry: DebugEntry, attribute: int) -> Optional[int]:
        form, place = entry.places.get(attribute, (0, 0))
        if form in WITHIN_UNIT:
            return self._unit_at(entry.at).start + self._number(place, WITHIN_UNIT[form])
        if form == REF_ADDR:
            unit = self._unit_at(entry.at)
            return self._number(place, 4 if unit.version > 2 else unit.word)
        return None

    def _number(self, place: int, size: int = 4) -> int:
        return int.from_bytes(self._bytes[place : place + size], self._byte_order)

    # entries

    def _way_to(self, place: int) -> list[DebugEntry]:
        """Returns the entries from the root down to the one that contains this place."""
        unit = self._unit_at(place)
        cursor = Cursor(self._bytes, self._byte_order)
        cursor.at = unit.first
        way = [self._entry(cursor, unit)]
        passed = self._passed.setdefault(unit.start, [cursor.at])
        # its outermost entries: on from the last that is known
        cursor.at = max(cursor.at, passed[bisect_right(passed, place) - 1])
        for _ in range(MOST_ENTRIES):
            if not way or not unit.first <= cursor.at <= place or cursor.at >= unit.end:
                break
            if len(way) == 1 and cursor.at > passed[-1]:
                passed.append(cursor.at)
            if not self._bytes[cursor.at]:
                cursor.at += 1
                way.pop()
                continue
            entry = self._entry(cursor, unit)
            if entry.end > place:
                return [*way, entry]
            sibling = self._own_reference(entry, SIBLING)
            if sibling is not None and entry.end < sibling <= place:
                cursor.at = sibling
            elif entry.shape.has_children:
                way.append(entry)
        return []

    def _entry(self, cursor: Cursor, unit: _Unit) -> DebugEntry:
        at = cursor.at
        shape = self._shapes_of(unit.shapes)[cursor.uleb()]
        places = {}
        for attribute, form in shape.attributes:
            places[attribute] = form, cursor.at
            size = SIZES.get(form)
            if size is not None:
                cursor.at += size
            elif form in NUMBERS:
                cursor.uleb()
            elif form in LENGTHS or form in BLOCKS:
                length = cursor.uleb() if form in LENGTHS else cursor.number(BLOCKS[form])
                cursor.at += length
            elif form == STRING:
                cursor.at = self._bytes.index(b"\0", cursor.at) + 1
            elif form == REF_ADDR:
                cursor.at += 4 if unit.version > 2 else unit.word
            elif form == 0x01:  # an address
                cursor.at += unit.word
            else:
                raise ValueError
        return DebugEntry(at, cursor.at, shape, places)

    def _shapes_of(self, start: int) -> Mapping[int, _Shape]:
        if start not in self._shapes:
            found: dict[int, _Shape] = {}
            cursor = Cursor(self._sections[".debug_abbrev"], self._byte_order)
            cursor.at = start
            number = cursor.uleb()
            while number:
                tag, has_children = cursor.uleb(), bool(cursor.number(1))
                attributes = []
                pair = cursor.uleb(), cursor.uleb()
                while pair != (0, 0):
                    if pair[1] == CONSTANT:
                        cursor.sleb()
                    attributes.append(pair)
                    pair = cursor.uleb(), cursor.uleb()
                found[number] = _Shape(tag, has_children, attributes)
                number = cursor.uleb()
            self._shapes[start] = found
        return self._shapes[start]

    # units

    def _unit_at(self, place: int) -> _Unit:
        unit = self._units[max(0, bisect_right(self._starts, place) - 1)]
        if not unit.first <= place < unit.end:
            raise IndexError
        return unit

    @cached_property
    def _starts(self) -> list[int]:
        return [each.start for each in self._units]

    @cached_property
    def _units(self) -> list[_Unit]:
        """Yields the units that can be read."""
        found: list[_Unit] = []
        start = 0
        with suppress(*DAMAGED):
            while start < len(self._bytes):
                cursor = Cursor(self._bytes, self._byte_order)
                cursor.at = start
                end = start + 4 + cursor.number(4)
                version = cursor.number(2)
                kind = cursor.number(1) if version > 4 else 1
                word = cursor.number(1) if version > 4 else 0
                shapes = cursor.number(4)
                word = word or cursor.number(1)
                # from 64-bit DWARF on nothing is known
                if not 2 <= version <= 5 or not cursor.at < end <= len(self._bytes):
                    break
                # type units, and what belongs to other files, have more in front
                if kind in (1, 3):
                    found.append(_Unit(start, cursor.at, end, version, word=word, shapes=shapes))
                start = end
        return found


def text_at(data: bytes, place: int) -> str:
    return data[place : data.index(b"\0", place)].decode("utf-8", "replace")


LARGEST = 64 << 20
"""The most bytes of a section: as much as the shell reads unasked."""
MOST_PLACES, MOST_STRINGS, MOST_MEMBERS = 64, 10_000, 10_000
COMPRESSED = 0x800
CHECKED = ".debug_info", ".debug_abbrev", ".debug_str", ".debug_line_str"

MEMBER, POINTER, REFERENCE, TYPEDEF, INHERITANCE = 0x0D, 0x0F, 0x10, 0x16, 0x1C
CONST, FUNCTION, VARIABLE, VOLATILE, RVALUE = 0x26, 0x2E, 0x34, 0x35, 0x42
MARKS = {POINTER: "*", REFERENCE: "&", RVALUE: "&&"}
LOCATION, SIZE, PLACE, DECLARATION, TYPE = 0x02, 0x0B, 0x38, 0x3C, 0x49


class DescribedType(NamedTuple):
    name: str
    """The name with namespaces and classes in front, as the compiler wrote it, without const and typedefs; or
    "void"."""
    marks: Sequence[str] = ()
    """The pointers and references: "*" for each pointer, "&" or "&&", the innermost first."""


class DescribedVariable(NamedTuple):
    """A static variable."""

    function: str
    """The C name of the function that it is declared in; "" if there is none, or it has no name."""
    name: str
    type: DescribedType


class DescribedMember(NamedTuple):
    """A member of a class, or a base class of it."""

    name: str
    offset: int
    type: DescribedType
    is_base: bool


class DescribedClass(NamedTuple):
    size: int
    members: Sequence[DescribedMember]


class DebugEntries(EntryTree):
    """The debug entries of one file."""

    def __init__(self, sections: Mapping[str, bytes], byte_order: ByteOrder, word: int) -> None:
        super().__init__(sections, byte_order, word)
        self._strings: dict[str, Mapping[str, Sequence[int]]] = {}

    def variable_at(self, address: int) -> Optional[DescribedVariable]:
        """Finds the variable by the address for which the file was linked."""
        place = -1
        with suppress(*DAMAGED):
            wanted = bytes((1 + self._word, 3)) + address.to_bytes(self._word, self._byte_order)  # DW_OP_addr
            for _ in range(MOST_PLACES):
                place = self._bytes.find(wanted, place + 1)
                way = self._way_to(place) if place >= 0 else []
                told = (EXPRLOC, place), (BLOCK1, place)
                if way and way[-1].shape.tag == VARIABLE and way[-1].places.get(LOCATION) in told:
                    return self._describe(way)
                if place < 0:
                    break
        return None

    def class_named(self, name: str) -> Optional[DescribedClass]:
        """Finds an instance of a class template, spelled as type_spelling.py does. None if two are not alike."""
        own = within(name)[1]
        with suppress(*DAMAGED):
            starts = self._strings_like(own.partition("<")[0]).get(own, ())
            found = [told for start in starts for full, told in self._classes_of(start) if spelled(full) == name]
            return found[0] if found and all(each == found[0] for each in found) else None
        return None

    def _strings_like(self, template: str) -> Mapping[str, Sequence[int]]:
        """Returns names of a template's instances by offset, as they are spelled."""
        if template not in self._strings:
            found: dict[str, list[int]] = {}
            strings, wanted = self._sections[".debug_str"], f"\0{template}<".encode()
            start = strings.find(wanted)
            while start >= 0 and len(found) < MOST_STRINGS:
                found.setdefault(spelled(text_at(strings, start + 1)), []).append(start + 1)
                start = strings.find(wanted, start + 1)
            self._strings[template] = found
        return self._strings[template]

    def _classes_of(self, string: int) -> Iterator[tuple[str, DescribedClass]]:
        """Returns the first complete class of each full name whose own name lies there."""
        place, wanted = -1, string.to_bytes(4, self._byte_order)
        for _ in range(MOST_PLACES):
            place = self._bytes.find(wanted, place + 1)
            if place < 0:
                return
            way = self._way_to(place)
            if way and way[-1].shape.tag in ROOMS and way[-1].places.get(NAME) == (STRP, place):
                size, name = self._constant(way[-1], SIZE), self._full_name(way)
                if size and name and DECLARATION not in way[-1].places:
                    yield name, DescribedClass(size, list(self._members(way[-1])))

    def _members(self, entry: DebugEntry) -> Iterator[DescribedMember]:
        """Returns the members that have a fixed place, whole bytes, and a type with a name."""
        unit, cursor = self._unit_at(entry.at), Cursor(self._bytes, self._byte_order)
        cursor.at = entry.end
        for _ in range(MOST_MEMBERS if entry.shape.has_children else 0):
            if not self._bytes[cursor.at]:
                return
            each = self._entry(cursor, unit)
            offset = self._constant(each, PLACE)
            if each.shape.tag in (MEMBER, INHERITANCE) and offset is not None:
                type = self._type_of(each)
                if type is not None:
                    yield DescribedMember(self._name(each), offset, type, each.shape.tag == INHERITANCE)
            if each.shape.has_children:
                sibling = self._own_reference(each, SIBLING)
                if sibling is None or sibling <= each.end:
                    return
                cursor.at = sibling

    def _describe(self, way: Sequence[DebugEntry]) -> Optional[DescribedVariable]:
        functions = [self._name(each) for each in way if each.shape.tag == FUNCTION]
        name, type = self._name(way[-1]), self._type_of(way[-1])
        return DescribedVariable("".join(functions[-1:]), name, type) if name and type is not None else None

    def _type_of(self, entry: DebugEntry) -> Optional[DescribedType]:
        """Returns the type; None if it has no name."""
        type, found = self._reference(entry, TYPE), DescribedType("void")
        for _ in range(DEEPEST):
            if type is None:
                return found if found.marks else None
            led = self._way_to(type)
            if not led or led[-1].at != type:
                return None
            tag = led[-1].shape.tag
            if tag in MARKS:
                found = found._replace(marks=[MARKS[tag], *found.marks])
            elif tag not in (CONST, VOLATILE, TYPEDEF):
                name = self._full_name(led)
                return found._replace(name=name) if name else None
            type = self._reference(led[-1], TYPE)
        return None


def debug_entries_of(file: ElfFile) -> Optional[DebugEntries]:
    """Returns the file's entries; None if it has none, or too many."""
    sections = {}
    with suppress(*DAMAGED, zlib.error):
        for each in (section for section in file.sections if section.name in CHECKED):
            data = file.read(each.offset, min(each.size, LARGEST + 1))
            if each.flags & COMPRESSED:
                header = 12 if file.pointer_size == 4 else 24
                is_zlib = int.from_bytes(data[:4], file.byte_order) == 1
                data = zlib.decompressobj().decompress(data[header:], LARGEST + 1) if is_zlib else b""
            if not data or len(data) > LARGEST:
                return None
            sections[each.name] = data
        if ".debug_info" in sections:
            return DebugEntries(sections, file.byte_order, file.pointer_size)
    return None
