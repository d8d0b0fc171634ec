"""What would leave memory with what an owner holds: pages on which nothing else is, once free chunks have joined.

madvise keeps the page in which a free chunk's links lie: what is in use behind it reaches so much further.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import Callable, Iterator, Optional, Sequence

from ..glibc.chunks.blocks import blocks as chunks_of
from ..model import ArenaHeader, Heap, Run
from ..records import NamedTuple
from ..session import Session
from ..target import Residency, Span
from .blocks import LiveBlocks

NOBODY = -1


class Kept(NamedTuple):
    """In memory of one owner, in bytes."""

    resident: int
    """Of its blocks themselves."""
    returns: int
    """Pages that would leave with them."""


Join = Callable[[int, int], int]
"""Whose is what two have something on."""


def nobodys(one: int, other: int) -> int:
    return one if one == other else NOBODY


def returns(
    session: Session, blocks: LiveBlocks, whose: Sequence[int], owners: int, join: Join = nobodys
) -> Optional[list[Kept]]:
    """By the owners' numbers; None where it is not known what is in memory."""
    residency = session.residency
    if residency is None or not session.started:
        return None
    sums = _Sums(session, owners, join)
    for header in session.headers:
        for heap in session.heaps[header.index]:
            sums.add_heap(residency, heap, list(_stretches(session, header, heap, blocks, whose)))
    for block in session.mmapped:
        number = blocks.find(block.chunk + session.layout.header)
        pages = residency.count(block.base, block.base + block.bytes)
        if number >= 0 and pages is not None:
            sums.resident[whose[number]] += pages.resident
            sums.returns[whose[number]] += pages.resident
    return [Kept(resident, gone) for resident, gone in zip(sums.resident, sums.returns)]


class _Stretch(NamedTuple):
    """Bytes of a heap that are not free, and whose they are."""

    start: int
    end: int
    owner: int


def _stretches(
    session: Session, header: ArenaHeader, heap: Heap, blocks: LiveBlocks, whose: Sequence[int]
) -> Iterator[_Stretch]:
    starts, start = blocks.starts, session.layout.header
    # both sweeps meet the blocks in the order of their addresses
    number, last = bisect_right(starts, heap.address), len(starts)
    for piece in session.sweep(header, heap):
        if not isinstance(piece, Run):
            if piece.kind != "top":
                yield _Stretch(piece.address, piece.address + piece.bytes, NOBODY)
            continue
        for chunk, size, state in chunks_of(piece, session.listed):
            if state == "free":
                continue
            owner = NOBODY
            if number < last and starts[number] == chunk + start:
                owner = whose[number]
                number += 1
            yield _Stretch(chunk, chunk + size, owner)


class _Sums:
    def __init__(self, session: Session, owners: int, join: Join) -> None:
        self._page, self._join = session.target.page_size, join
        # PREV_SIZE, SIZE, and four links
        self._links = 6 * session.layout.word
        self.resident, self.returns = [0] * owners, [0] * owners

    def add_heap(self, residency: Residency, heap: Heap, stretches: Sequence[_Stretch]) -> None:
        there = _Resident(residency.resident_ranges(heap.address, heap.end) or ())
        for start, end, owner in stretches:
            if owner != NOBODY:
                self.resident[owner] += there.bytes_in(start, end)
        for page, owner in self._pages(stretches):
            if owner != NOBODY and page.start >= heap.address and page.end <= heap.end:
                self.returns[owner] += there.bytes_in(page.start, page.end)

    def _pages(self, stretches: Sequence[_Stretch]) -> Iterator[tuple[Span, int]]:
        """Runs of pages on which only one owner has anything."""
        size = self._page
        open_: dict[int, int] = {}
        join = self._join

        def touch(page: int, owner: int) -> None:
            before = open_.get(page, owner)
            open_[page] = owner if before == owner else join(before, owner)

        for start, end, owner in stretches:
            first, last, beyond = start // size, (end - 1) // size, (end + self._links - 1) // size
            for page in [page for page in open_ if page < first]:
                yield Span(page * size, (page + 1) * size), open_.pop(page)
            touch(first, owner)
            inner = first + 1
            if inner in open_ and inner < last:
                # links of what is in front reach so far
                touch(inner, owner)
                inner += 1
            if inner < last:
                yield Span(inner * size, last * size), owner
            touch(last, owner)
            touch(beyond, owner)
        for page, owner in open_.items():
            yield Span(page * size, (page + 1) * size), owner


class _Resident:
    """What of a range is in memory."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self._starts = [each.start for each in spans]
        self._ends = [each.end for each in spans]
        self._before = [0, *accumulate(each.bytes for each in spans)]

    def _up_to(self, address: int) -> int:
        at = bisect_right(self._starts, address) - 1
        return self._before[at] + min(address, self._ends[at]) - self._starts[at] if at >= 0 else 0

    def bytes_in(self, start: int, end: int) -> int:
        return self._up_to(end) - self._up_to(start)
