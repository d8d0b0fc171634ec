"""Reads entries of debug information (DWARF 2 to 5): only the path down to one, skipping its siblings.

Entries that need another file (split DWARF, dwz), or a table of addresses or strings (as clang's do), are left out.
"""

from __future__ import annotations

from bisect import bisect_right
from contextlib import suppress
from functools import cached_property
from typing import Iterator, Mapping, NamedTuple, Optional, Sequence

from ..target import ByteOrder
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
