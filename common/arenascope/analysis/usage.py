"""What each arena holds: the figures behind `heap arenas` and everything that sums them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterable, Mapping, Optional, Sequence

from ..model import Arena, ArenaHeader, Heap, Tally, ThreadCache
from ..target import Pages


@dataclass(frozen=True)
class ArenaUsage:
    """One arena's bytes; what is not known is None, never 0."""

    header: ArenaHeader
    heaps: Optional[int]
    threads: tuple[ThreadCache, ...]
    tcache: Optional[Tally]
    fast: Optional[Tally]
    bins: Optional[Tally]
    resident: Optional[int]
    swapped: Optional[int]
    damaged: bool = False
    """What was read is not all there is: nothing may be derived from it."""

    @property
    def used(self) -> Optional[int]:
        """Blocks in the program's hands, with the allocator's own bookkeeping."""
        if self.damaged or self.tcache is None or self.fast is None or self.bins is None:
            return None
        free = self.fast.bytes + self.bins.bytes + self.header.top_bytes + self.tcache.bytes
        return self.header.system_mem - free


def arena_usage(arenas: Sequence[Arena], caches: Sequence[ThreadCache], cached: Optional[Mapping[Optional[int], Tally]],
                resident: Mapping[int, Optional[Pages]]) -> list[ArenaUsage]:  # fmt: skip
    """Every arena with its lists walked; `cached` is None where thread caches are not known."""
    usages = []
    for arena in arenas:
        index = arena.header.index
        pages = resident.get(index)
        usages.append(
            ArenaUsage(
                header=arena.header,
                heaps=len(arena.heaps),
                threads=tuple(cache for cache in caches if cache.arena == index),
                tcache=None if cached is None else cached.get(index, Tally()),
                fast=arena.fast,
                bins=arena.binned,
                resident=pages.resident if pages else None,
                swapped=pages.swapped if pages else None,
                damaged=not arena.complete,
            )
        )
    return usages


def header_usage(headers: Sequence[ArenaHeader], heaps: Mapping[int, tuple[Heap, ...]], caches: Sequence[ThreadCache],
                 resident: Mapping[int, Optional[Pages]]) -> list[ArenaUsage]:  # fmt: skip
    """What the headers alone tell: no list is walked."""
    usages = []
    for header in headers:
        pages = resident.get(header.index)
        usages.append(ArenaUsage(header, len(heaps.get(header.index, ())),
                                 tuple(cache for cache in caches if cache.arena == header.index), None, None, None,
                                 pages.resident if pages else None, pages.swapped if pages else None))  # fmt: skip
    return usages


def total(values: Iterable[Optional[int]]) -> Optional[int]:
    """The sum, unless one part is not known."""
    found = 0
    for value in values:
        if value is None:
            return None
        found += value
    return found


def total_tally(tallies: Iterable[Optional[Tally]]) -> Optional[Tally]:
    found = Tally()
    for tally in tallies:
        if tally is None:
            return None
        found += tally
    return found


def orphans(usages: Sequence[ArenaUsage]) -> list[ArenaUsage]:
    """Arenas that no thread is attached to: they outlived their threads and wait on the free list."""
    return [usage for usage in usages if not usage.header.main and usage.header.attached_threads == 0]
