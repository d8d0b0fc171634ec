"""What HotSpot puts in front of its blocks where native memory tracking is on (-XX:NativeMemoryTracking), since JDK 18
and in updates of 17: how many bytes were asked for, which subsystem they are of, and a mark; another mark comes after.

The names of the subsystems, as jcmd has them, are in libjvm's own table, which its table of symbols tells.
"""

from __future__ import annotations

from typing import Optional, Sequence

from .module_memory import LoadedModules
from .prefix_headers import Front
from .size_fits import fits

NAMES, LEVEL = "_ZN7NMTUtil18_memory_type_namesE", "_ZN10MemTracker15_tracking_levelE"
OFF = 1
MARK = 0xE99E
HEADER, MARK_AFTER = 16, 2
MOST_TYPES, LONGEST_NAME = 64, 64
OTHER = "Other"
"""Direct buffers are of that, and have a name of their own."""


class Nmt:
    """HotSpot's headers in one process."""

    sizes: Sequence[int] = (HEADER,)

    def __init__(self, ground: LoadedModules) -> None:
        self._ground = ground
        self._names: dict[int, Optional[str]] = {}
        self._table = 0
        library = next((each for each in ground.modules.all if each.name == "libjvm.so"), None)
        little = ground.memory.pointer_size == 8 and ground.memory.byte_order == "little"
        if library is not None and little:
            found = ground.modules.static(library, [NAMES, LEVEL])
            base = library.base
            level = ground.word(found[LEVEL] + base) if len(found) == 2 else None
            if level is not None and level & 0xFFFFFFFF > OFF:
                self._table = found[NAMES] + base
        self.runs = self._table != 0

    def front_of(self, words: Sequence[int], at: int, count: int, usable: int) -> Optional[Front]:
        """Of a block of so many bytes, of which `count` words are known, from `at` on."""
        if count < 3:
            return None
        size, marks = words[at], words[at + 1]
        if marks >> 48 != MARK or not size or not fits(HEADER + size + MARK_AFTER, usable):
            return None
        name = self._name(marks >> 32 & 0xFF)
        return Front(HEADER // 8, size, name) if name is not None else None

    def holds(self, front: Front, words: Sequence[int], user: int) -> Optional[str]:
        """What a block is that is known by no more than its front."""
        return f"HotSpot {front.of} (NMT)" if front.of != OTHER else None

    def _name(self, number: int) -> Optional[str]:
        if number not in self._names:
            place = self._ground.word(self._table + 8 * number) if number < MOST_TYPES else None
            name = self._ground.string(place, LONGEST_NAME) if place else None
            self._names[number] = name.decode("ascii", "replace") if name else None
        return self._names[number]
