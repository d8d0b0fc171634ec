"""What each arena holds: in use, free in lists, kept by threads, resident; and sums over arenas."""

from __future__ import annotations

from typing import Iterable, Mapping, NamedTuple, Optional, Sequence

from ..base.heap_model import Arena, ArenaHeader, Heap, Tally, ThreadCache
from ..sources.target import PageUse


class ArenaUsage(NamedTuple):
    """One arena's bytes; a figure that is not known is None, never 0."""

    header: ArenaHeader
    heaps: Optional[int]
    threads: tuple[ThreadCache, ...]
    tcache: Optional[Tally]
    fast: Optional[Tally]
    bins: Optional[Tally]
    resident: Optional[int]
    swapped: Optional[int]
    damaged: bool = False
    """Not everything was read, so that nothing may be derived from it."""

    @property
    def used(self) -> Optional[int]:
        """Blocks in use, with the allocator's own bookkeeping."""
        top = self.header.top_bytes
        if self.damaged or self.tcache is None or self.fast is None or self.bins is None or top is None:
            return None
        free = self.fast.bytes + self.bins.bytes + top + self.tcache.bytes
        return self.header.system_mem - free


Cached = Mapping[Optional[int], Optional[Tally]]
"""The chunks in thread caches by arena; None if not known."""


def arena_usage(
    arenas: Sequence[Arena],
    caches: Sequence[ThreadCache],
    cached: Optional[Cached],
    resident: Mapping[int, Optional[PageUse]],
) -> list[ArenaUsage]:
    """Sums every arena with its lists walked; `cached` is None if thread caches are not known."""
    heaps = {arena.header.index: arena.heaps for arena in arenas}
    usages = header_usage([arena.header for arena in arenas], heaps, caches, resident)
    return [
        usage._replace(
            tcache=None if cached is None else cached.get(arena.header.index, Tally()),
            fast=arena.fast,
            bins=arena.binned,
            damaged=not arena.complete,
        )
        for usage, arena in zip(usages, arenas)
    ]


def header_usage(
    headers: Sequence[ArenaHeader],
    heaps: Mapping[int, tuple[Heap, ...]],
    caches: Sequence[ThreadCache],
    resident: Mapping[int, Optional[PageUse]],
) -> list[ArenaUsage]:
    """Sums what the headers alone tell, without walking lists."""
    usages, threads = [], _by_arena(caches)
    for header in headers:
        pages = resident.get(header.index)
        usages.append(
            ArenaUsage(
                header,
                _count_heaps(header, heaps.get(header.index, ())),
                threads=tuple(threads.get(header.index, ())),
                tcache=None,
                fast=None,
                bins=None,
                resident=pages.resident if pages else None,
                swapped=pages.swapped if pages else None,
            )
        )
    return usages


def _by_arena(caches: Sequence[ThreadCache]) -> Mapping[Optional[int], Sequence[ThreadCache]]:
    """Groups threads by arena once: there may be as many arenas as threads."""
    found: dict[Optional[int], list[ThreadCache]] = {}
    for cache in caches:
        found.setdefault(cache.arena, []).append(cache)
    return found


def _count_heaps(header: ArenaHeader, heaps: Sequence[Heap]) -> Optional[int]:
    """Counts the heaps; None if some were not found: all of them sum to system_mem."""
    return len(heaps) if sum(heap.bytes for heap in heaps) == header.system_mem else None


def total(values: Iterable[Optional[int]], whole: bool = True) -> Optional[int]:
    """Returns the sum; None if one part is not known, or if there are more parts than these (`whole` is false)."""
    if not whole:
        return None
    so_far = 0
    for value in values:
        if value is None:
            return None
        so_far += value
    return so_far


def total_tally(tallies: Iterable[Optional[Tally]], whole: bool = True) -> Optional[Tally]:
    if not whole:
        return None
    so_far = Tally()
    for tally in tallies:
        if tally is None:
            return None
        so_far = so_far.plus(tally)
    return so_far


def orphans(usages: Sequence[ArenaUsage]) -> list[ArenaUsage]:
    """Returns arenas that no thread is attached to: they outlived their threads and wait on the free list."""
    return [usage for usage in usages if not usage.header.main and usage.header.attached_threads == 0]
