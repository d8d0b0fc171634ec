"""Splits resident memory: bytes of resident pages, by what malloc keeps in them."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate, repeat
from operator import add, le
from types import ModuleType
from typing import TYPE_CHECKING, Iterable, NamedTuple, Optional, Sequence

from ..base.model import Arena, Range
from ..sources.target import Span
from .params import MMAP_THRESHOLD
from .trim import ArenaTrim, Chunk

if TYPE_CHECKING:
    from ..base.array_types import Numbers


def covered(ranges: Iterable[Chunk], resident: Sequence[Span]) -> int:
    """Returns how many bytes of these ranges, which must be in address order, lie in resident pages."""
    total = index = 0
    low = high = 0
    count = len(resident)
    for start, size in ranges:
        end = start + size
        while high <= start:
            if index == count:
                return total
            low, high = resident[index]
            index += 1
        if low <= start and end <= high:
            # as nearly all of a million are
            total += size
            continue
        at = index - 1
        while at < count and resident[at].start < end:
            total += min(end, resident[at].end) - max(start, resident[at].start)
            at += 1
    return total


def all_inside(addresses: Sequence[int], sizes: Sequence[int], resident: Sequence[Span]) -> bool:
    """Tells whether each of these chunks lies in resident pages, as in a heap that returned nothing. Works on arrays in
    any order, as there may be a million chunks."""
    starts, ends = [each.start for each in resident], [0, *(each.end for each in resident)]
    limits = map(ends.__getitem__, map(bisect_right, repeat(starts), addresses))
    return all(map(le, map(add, addresses, sizes), limits))


def clipped(spans: Iterable[Span], start: int, end: int) -> list[Span]:
    """Returns the parts of resident pages in [start, end): a heap need not begin or end at a page."""
    return [Span(max(low, start), min(high, end)) for low, high in spans if low < end and start < high]


class ArenaResident(NamedTuple):
    """One arena's resident bytes; the parts sum to `total`."""

    arena: int
    total: int
    live: int
    """Blocks in use, with the allocator's own bookkeeping."""
    tcache: int
    returnable: int
    """The bytes that malloc_trim(0) would return: whole free pages, and the end of the main arena's top."""
    top_end: int
    """The end of the main arena's top."""
    top: int
    """The rest of the top."""
    scraps: int
    """Free bytes in pages that blocks in use share."""
    large: int
    """Free chunks of at least mmap's default threshold, which would have kept a block of that size out of the arena."""
    single: int
    """The part of that which indicates one block to a chunk: all of it up to the current threshold. A chunk that is
    slightly larger is such a block, joined with free memory beside it; beyond that, the rest is evidence against it.
    Blocks of a few KiB, freed side by side, leave chunks of twice the threshold and of many MiB."""


def arena_resident(
    arena: Arena, plan: ArenaTrim, cached: Sequence[Range], resident: Sequence[Span], mmap_threshold: int
) -> ArenaResident:
    """Splits one arena. `cached` are its chunks in thread caches, `resident` the resident parts of its heaps, in
    order."""
    header = arena.header
    unused = 0
    free: list[Chunk] = []
    large: list[Chunk] = []
    for each in (*arena.bins, *arena.fastbins):
        if all_inside(each.addresses, each.sizes, resident):
            unused += each.bytes
        else:
            free += zip(each.addresses, each.sizes)
        if each.max_bytes is None or each.max_bytes >= MMAP_THRESHOLD:
            large += (chunk for chunk in zip(each.addresses, each.sizes) if chunk[1] >= MMAP_THRESHOLD)
    large.sort()
    single = [(address, min(size, 2 * mmap_threshold - size)) for address, size in large if size < 2 * mmap_threshold]
    if header.top_bytes:
        free.append((header.top, header.top_bytes))
    free.sort()
    total = sum(each.bytes for each in resident)
    unused += covered(free, resident)
    returnable = covered(plan.ranges, resident)
    top = covered([plan.top] if plan.top else [], resident)
    tcache = covered(sorted(cached), resident)
    return ArenaResident(
        arena=header.index,
        total=total,
        live=total - unused - tcache,
        tcache=tcache,
        returnable=returnable,
        top_end=covered([plan.brk_range] if plan.brk_range else [], resident),
        top=top,
        scraps=unused - returnable - top,
        large=covered(large, resident),
        single=covered(single, resident),
    )


class Present:
    """Counts the resident bytes of any range of a heap."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self._spans = spans
        self._starts = [span.start for span in spans]
        self._arrays: Optional[tuple[Numbers, Numbers, Numbers]] = None
        self._before = [0, *accumulate(span.end - span.start for span in spans)]

    def within(self, start: int, end: int) -> int:
        return self._below(end) - self._below(start)

    def _below(self, address: int) -> int:
        at = bisect_right(self._starts, address)
        if not at:
            return 0
        span = self._spans[at - 1]
        return self._before[at - 1] + min(address, span.end) - span.start

    def at_once(self, numpy: ModuleType, starts: Numbers, ends: Numbers) -> Numbers:
        """Returns the same for many ranges, as arrays."""
        if not self._spans:
            none: Numbers = numpy.zeros(len(starts), dtype=numpy.int64)
            return none
        if self._arrays is None:
            spans = numpy.array(self._spans, dtype=numpy.int64)
            self._arrays = spans[:, 0].copy(), spans[:, 1].copy(), numpy.array(self._before, dtype=numpy.int64)
        lows, highs, before = self._arrays

        def below(addresses: Numbers) -> Numbers:
            at = numpy.searchsorted(lows, addresses, side="right")
            # ranges before the first span are empty: they use its start
            last = numpy.maximum(at - 1, 0)
            places = numpy.maximum(numpy.minimum(addresses, highs[last]), lows[last])
            sums: Numbers = before[last] + places - lows[last]
            return sums

        return below(ends) - below(starts)
