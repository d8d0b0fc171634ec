"""V8's own blocks: segments of its zones, by the name of the zone, and the table of its strings.

A segment begins with its zone, the next segment and how many bytes it has. The zone knows its first segment, and after
that its own name. Of StringTable::Data the first words are the table that it replaced, how many strings it has, and how
many there is room for; its strings are tagged pointers.
"""

from __future__ import annotations

import struct
from typing import NamedTuple, Optional

from ...base.model import Kind
from .contents import PLAIN
from .module_memory import PAGE_SHIFT, LoadedModules, fits

HOW = "its zone, which leads back"
STRINGS = Kind("V8 string table", "holder", how="its counts, and its tagged pointers")
LEAST = 256
ZONE_WORDS, LONGEST_NAME = 10, 100
MOST_SEGMENTS = 1 << 20
FRONT = 24
"""Bytes of a string table in front of its strings."""
LEAST_ROOM, MOST_ROOM = 64, 1 << 30


class Zone(NamedTuple):
    """One, as its segments lead to it and it to them."""

    name: str
    segments: set[int]


class V8:
    """The zones of one process."""

    def __init__(self, ground: LoadedModules) -> None:
        self._ground = ground
        self._zones: dict[int, Optional[Zone]] = {}
        self.runs = ground.has("_ZN2v87Isolate7DisposeEv", "libnode", "libv8")

    def kind_of(self, user: int, usable: int, head: bytes) -> Optional[Kind]:
        if usable < LEAST:
            return None
        first, _, third = struct.unpack_from("<3Q", head)
        if third == usable or (first and third < usable and fits(third, usable)):
            name = self._name_of_zone(first, user)
            if name is not None:
                return Kind(f"V8 zone {name}", "holder", how=HOW)
        return STRINGS if _is_string_table(usable, head) else None

    def _name_of_zone(self, zone: int, segment: int) -> Optional[str]:
        """Where one of its segments is this one, and all of them say so."""
        if zone not in self._zones:
            self._zones[zone] = self._read(zone)
        found = self._zones[zone]
        return found.name if found is not None and segment in found.segments else None

    def _read(self, zone: int) -> Optional[Zone]:
        words = self._ground.words(zone, ZONE_WORDS) if zone and not zone % 8 else None
        for first, place in zip(words or (), (words or ())[1:]):
            name = self._ground.string(place, LONGEST_NAME) if place >> PAGE_SHIFT in self._ground.pages else None
            segments = self._segments_of(zone, first) if name and not name.translate(None, PLAIN) else None
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


def _is_string_table(usable: int, head: bytes) -> bool:
    before, elements, deleted, room = struct.unpack_from("<Q3I", head)
    if not LEAST_ROOM <= room < MOST_ROOM or room & room - 1 or not fits(FRONT + 8 * room, usable):
        return False
    strings = struct.unpack(f"<{len(head) // 8 - 3}Q", head[FRONT : len(head) // 8 * 8])
    tagged = all(not each or each & 3 == 1 for each in strings)
    return 0 < elements + deleted <= room and tagged and any(strings) and not before % 8
