"""V8's own blocks: segments of its zones, by the name of the zone, and the table of its strings.

A segment begins with its zone, the next segment and how many bytes it has. The zone knows its first segment, and after
that its own name. Of StringTable::Data the first words are the table that it replaced, how many strings it has, and how
many there is room for; its strings are tagged pointers.
"""

from __future__ import annotations

from array import array
from typing import NamedTuple, Optional

from ...base.heap_model import Kind
from .module_memory import PAGE_SHIFT, LoadedModules
from .selection import PLACE, PLAIN, USABLE, USER, Condition, Found, Selection, holds_in_each, holds_in_one

HOW = "its zone, which leads back"
STRINGS = Kind("V8 string table", "holder", how="its counts, and its tagged pointers")
LEAST = 256
ZONE_WORDS, LONGEST_NAME = 10, 100
MOST_SEGMENTS = 1 << 20
FRONT = 24
"""Bytes of a string table in front of its strings."""
LEAST_ROOM, MOST_ROOM, LOOKED_AT = 64, 1 << 30, 29
"""Of strings, and how many are looked at."""


class Zone(NamedTuple):
    """One, as its segments lead to it and it to them."""

    name: str
    segments: set[int]


class V8:
    """The zones of one process."""

    def __init__(self, ground: LoadedModules) -> None:
        self._ground = ground
        self.runs = ground.has("_ZN2v87Isolate7DisposeEv", "libnode", "libv8")

    def kinds(self, blocks: Selection) -> Found:
        zone, size = USER.word(0), USER.word(2)
        is_segment = (USABLE >= LEAST) & ((size == USABLE) | ((zone > 0) & (size < USABLE) & size.fits()))
        for address, some in blocks.grouped(zone, blocks.where(is_segment)):
            found = self.zone(address)
            if found is not None:
                users = zip(some, blocks.column(USER, some))
                own_ones = array("I", [each for each, user in users if user in found.segments])
                yield own_ones, Kind(f"V8 zone {found.name}", "holder", how=HOW)
        yield blocks.where(_is_string_table()), STRINGS

    def zone(self, address: int) -> Optional[Zone]:
        """What lies there, where its segments lead to it."""
        words = self._ground.words(address, ZONE_WORDS) if address and not address % 8 else None
        for first, place in zip(words or (), (words or ())[1:]):
            name = self._ground.string(place, LONGEST_NAME) if place >> PAGE_SHIFT in self._ground.pages else None
            segments = self._segments_of(address, first) if name and not name.translate(None, PLAIN) else None
            if name and segments:
                return Zone(name.decode(), segments)
        return None

    def _segments_of(self, zone: int, first: int) -> set[int]:
        """None of them where one is not of this zone."""
        found: set[int] = set()
        at = first
        while at and len(found) < MOST_SEGMENTS:
            front = self._ground.words(at, 2) if not at % 8 and at not in found else None
            if front is None or front[0] != zone:
                return set()
            found.add(at)
            at = front[1]
        return found


def _is_string_table() -> Condition:
    elements, deleted, room = ((USER + at).number(4) for at in (8, 12, 16))
    has_room = room.between(LEAST_ROOM, MOST_ROOM) & (room & room - 1 == 0) & (room * 8 + FRONT).fits()
    is_counted = (USABLE >= LEAST) & (elements + deleted).between(1, room + 1) & USER.word(0).is_multiple(8)
    string = (USER + PLACE * 8 + FRONT).number()
    are_tagged = holds_in_each((string == 0) | (string & 3 == 1), LOOKED_AT)
    return has_room & is_counted & are_tagged & holds_in_one(string > 0, LOOKED_AT)
