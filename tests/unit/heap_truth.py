"""What a built heap holds: the truth that walkers are compared with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Optional

if TYPE_CHECKING:
    from heap_chunks import Segment


class Chunk(NamedTuple):
    """A chunk by its header's address; equals the plain tuple (address, size)."""

    address: int
    size: int

    @property
    def end(self) -> int:
        return self.address + self.size


@dataclass
class ArenaTruth:
    index: int
    """The place in the ring, which is the number that malloc_info prints."""
    address: int
    system_mem: int
    max_system_mem: int
    attached_threads: int
    contiguous: bool
    top: Optional[Chunk] = None
    """None before the first malloc."""
    heaps: list[Segment] = field(default_factory=list)
    """Oldest first."""
    used: list[Chunk] = field(default_factory=list)
    """In address order, as are the next four. A thread cache's own struct is a used chunk of its arena."""
    free: list[Chunk] = field(default_factory=list)
    fast: list[Chunk] = field(default_factory=list)
    cached: list[Chunk] = field(default_factory=list)
    fences: list[Chunk] = field(default_factory=list)
    """Headers that are no chunks, as large as their size word says (the last of a retired heap: 0)."""
    bins: dict[int, list[Chunk]] = field(default_factory=dict)
    """Non-empty bins, in list order from fd."""
    fastbins: dict[int, list[Chunk]] = field(default_factory=dict)

    def states(self) -> list[tuple[int, int, str]]:
        """(address, size, state) of every chunk but top and fences, in address order."""
        kinds = {"used": self.used, "free": self.free, "fast": self.fast, "cached": self.cached}
        return sorted((chunk.address, chunk.size, kind) for kind, chunks in kinds.items() for chunk in chunks)


@dataclass
class ThreadTruth:
    tid: int
    arena: Optional[int]
    """The arena's address; None while the thread has none."""
    tcache: Optional[int]
    """tcache_perthread_struct, None while there is none."""
    bins: dict[int, list[Chunk]] = field(default_factory=dict)
    """By tcache index, in list order."""

    @property
    def cached(self) -> list[Chunk]:
        return [chunk for index in sorted(self.bins) for chunk in self.bins[index]]


@dataclass
class MmappedTruth:
    chunk: int
    base: int
    total: int
    """The bytes of the mapping."""


@dataclass
class Truth:
    arenas: list[ArenaTruth]
    """In ring order: main, then newest to oldest."""
    threads: list[ThreadTruth]
    mmapped: list[MmappedTruth]
    mp: dict[str, int]
    """Every field of mp_ that the release has."""
    curbrk: int

    @property
    def main(self) -> ArenaTruth:
        return self.arenas[0]

    def arena(self, address: int) -> ArenaTruth:
        return next(arena for arena in self.arenas if arena.address == address)
