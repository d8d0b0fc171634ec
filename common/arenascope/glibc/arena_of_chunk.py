"""arena_for_chunk(): whose a chunk is, by the flags in its size word and the heap_info of its heap."""

from __future__ import annotations

from bisect import bisect_right
from typing import Mapping, Optional, Sequence

from ..base.errors import MemoryReadError
from ..base.model import Arena, ArenaHeader, Finding, Heap, Statement, Tally, ThreadCache
from ..sources.memory import Memory
from .chunk import IS_MMAPPED, NON_MAIN_ARENA
from .heap import heap_for_ptr
from .process_layout import Layout


class Owners:
    """The arenas' indexes by their heaps and by their own addresses."""

    def __init__(
        self, memory: Memory, layout: Layout, headers: Sequence[ArenaHeader], heaps: Mapping[int, Sequence[Heap]]
    ) -> None:
        self._memory = memory
        self._layout = layout
        self._known = {part.address: part.arena for parts in heaps.values() for part in parts if part.arena}
        self._all = [header.index for header in headers]
        self._partial = [
            header.index for header in headers if sum(part.bytes for part in heaps[header.index]) != header.system_mem
        ]
        self._found: dict[int, Optional[int]] = {}
        """What `find` was asked for before."""
        self._parts = sorted((part.address, part.end, part.arena) for parts in heaps.values() for part in parts)
        for header in headers[1:]:
            self._known[header.address] = self._known[heap_for_ptr(layout, header.address)] = header.index

    def tallies(
        self, caches: Sequence[ThreadCache], arenas: Sequence[Arena], findings: list[Finding]
    ) -> dict[Optional[int], Optional[Tally]]:
        """Cached chunks by arena; None where a chunk may be that arena's, as the start of its heap is not in the image.

        It can only belong to an arena of which not all heaps are known. Where its flags name another arena than the one
        that it lies in, they were written over.
        """
        by_arena: dict[Optional[int], Tally] = {}
        lost = False
        stray: Optional[int] = None
        doubtful: set[Optional[int]] = set()
        for cached in (cached for cache in caches for cached in cache.bins):
            for chunk, size in zip(cached.addresses, cached.sizes):
                try:
                    owner = self._found[chunk] = self.read(chunk)
                except MemoryReadError:
                    lost = True
                    continue
                by_arena[owner] = by_arena.get(owner, Tally()).plus(Tally(1, size))
                around = self.around(chunk)
                if around is None and not self._partial:
                    stray = chunk
                if owner != around and (around is not None or not (owner is None or owner in self._partial)):
                    doubtful |= {owner, around}
        if lost:
            doubtful.update(self._partial or self._all)
        if stray is not None:
            # mmapped blocks are never kept
            findings.append(Finding(Statement("cached-in-no-heap"), stray, unknown="cached-chunks-unowned"))
            doubtful.update(self._all)
        for index, free in ((arena.header.index, arena.free_bytes) for arena in arenas):
            kept = by_arena.get(index, Tally()).bytes
            if free is not None and index not in doubtful and free + kept > arenas[index].header.system_mem:
                what = Statement("cached-beyond-arena", {"bytes": kept})
                findings.append(Finding(what, arenas[index].header.address, index, unknown="cached-chunks-unowned"))
                doubtful.add(index)
        return {**by_arena, **dict.fromkeys(doubtful, None)}

    def around(self, chunk: int) -> Optional[int]:
        """The arena that this address lies in."""
        place = bisect_right(self._parts, (chunk, self._layout.heap_max << 32, 0)) - 1
        return self._parts[place][2] if place >= 0 and chunk < self._parts[place][1] else None

    def find(self, chunk: int) -> Optional[int]:
        """Like `read`, but None where it cannot be told."""
        if chunk not in self._found:
            try:
                self._found[chunk] = self.read(chunk)
            except MemoryReadError:
                self._found[chunk] = None
        return self._found[chunk]

    def read(self, chunk: int) -> Optional[int]:
        """The arena's index, None for a mmapped block or an arena that is not known; MemoryReadError."""
        raw = self._memory.word(chunk + self._layout.word)
        if raw & IS_MMAPPED:
            return None
        if not raw & NON_MAIN_ARENA:
            return 0
        info = heap_for_ptr(self._layout, chunk)
        known = self._known.get(info)
        # a heap that the chain no longer leads to still names its arena
        return known or self._known.get(self._memory.word(info + self._layout.heap["ar_ptr"]))
