"""Builders of threads: the arena that each is attached to and the chunks that its cache keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

from heap_chunks import ArenaBuilder
from heap_truth import Chunk

if TYPE_CHECKING:
    from heapbuilder import HeapImage


class ThreadBuilder:
    def __init__(self, image: HeapImage, number: int, arena: Optional[ArenaBuilder]) -> None:
        self.image = image
        self.row = image.row
        self.number = number
        self.tid = image.PID + number
        self.arena = arena
        self.tcache: Optional[Chunk] = None
        """The chunk that holds tcache_perthread_struct."""
        self.bins: dict[int, list[Chunk]] = {}
        self.stack_pointer, self.thread_pointer = image.map_stack(number)
        if arena is not None and self.row.has_tcache and not self.row.tcache_lazy and arena.segments:
            self._make_tcache()

    def cached(self, size: int, of: Optional[ArenaBuilder] = None) -> Chunk:
        """A chunk of the thread's arena, or of another, that the thread freed into its cache."""
        if self.tcache is None:
            self._make_tcache()
        assert self.accepts(size), f"the cache of thread {self.number} in {self.row} takes no (more) chunk of {size:#x}"
        chunk = (of or self.arena)._lay(size, "cached")
        index = self.row.tcache_index(size)
        entries = self.bins.setdefault(index, [])
        # a large bin of 2.42 and later holds mixed sizes, ascending
        place = sum(each.size < chunk.size for each in entries) if index >= 64 else 0
        entries.insert(place, chunk)
        return chunk

    def accepts(self, size: int) -> bool:
        if not self.row.has_tcache:
            return False
        index = self.row.tcache_index(size)
        if len(self.bins.get(index, ())) >= self.image.mp["tcache_count"]:
            return False
        if self.row.counts_free_slots:
            return size < self.image.mp["tcache_max_bytes"] and index < self.row.tcache["slots"]
        return index < self.image.mp["tcache_bins"]

    def _make_tcache(self) -> None:
        assert self.row.has_tcache, f"{self.row} has no tcache"
        self.tcache = self.arena.used(self.row.tcache["chunk"])
