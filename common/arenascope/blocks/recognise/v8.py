"""V8's own blocks: segments of its zones, by the name of the zone, and the table of its strings.

A segment begins with its zone, the next segment and how many bytes it has. The zone knows its first segment, and after
that its own name. Of StringTable::Data the first words are the table that it replaced, how many strings it has, and how
many there is room for; its strings are tagged pointers.
"""

from __future__ import annotations

import struct
from typing import Optional

from ...base.kinds import Kind
from .contents import PLAIN
from .ground import PAGE_SHIFT, Ground
from .sizes import fits

HOW = "its zone, which leads back"
STRINGS = Kind("V8 string table", "holder", how="its counts, and its tagged pointers")
LEAST = 256
ZONE_WORDS, LONGEST_NAME = 10, 100
MOST_SEGMENTS = 10_000
FRONT = 24
"""Bytes of a string table in front of its strings."""
LEAST_ROOM, MOST_ROOM = 64, 1 << 30


class V8:
    """The zones of one process."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
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
        words = self._ground.words(zone, ZONE_WORDS) if zone and not zone % 8 else None
        for first, place in zip(words or (), (words or ())[1:]):
            at, met = first, 0
            while at and not at % 8 and met < MOST_SEGMENTS:
                front = self._ground.words(at, 2)
                if front is None or front[0] != zone:
                    break
                if at == segment and place >> PAGE_SHIFT in self._ground.pages:
                    name = self._ground.string(place, LONGEST_NAME)
                    return name.decode() if name and not name.translate(None, PLAIN) else None
                at, met = front[1], met + 1
        return None


def _is_string_table(usable: int, head: bytes) -> bool:
    before, elements, deleted, room = struct.unpack_from("<Q3I", head)
    if not LEAST_ROOM <= room < MOST_ROOM or room & room - 1 or not fits(FRONT + 8 * room, usable):
        return False
    strings = struct.unpack(f"<{len(head) // 8 - 3}Q", head[FRONT : len(head) // 8 * 8])
    tagged = all(not each or each & 3 == 1 for each in strings)
    return 0 < elements + deleted <= room and tagged and any(strings) and not before % 8
