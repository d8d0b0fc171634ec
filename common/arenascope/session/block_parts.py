"""Blocks served by mmap, mapping by mapping: what of them is still malloc's.

A program may have split a block's mapping by other flags for a part of it, unmapped a part, or laid something over it:
a file or shared memory that lies there now is no block's.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Callable, Iterable, Iterator, Optional, Sequence

from ..base.model import MmappedBlock
from ..sources.target import Pages, Region, Span
from .session import Session


def parts_of(blocks: Iterable[MmappedBlock], regions: Sequence[Region]) -> Iterator[list[Span]]:
    """Of each the parts, one of every mapping; all of it, where nothing tells what is mapped."""
    spans = [Span(block.base, block.base + block.bytes) for block in blocks]
    return split(spans, regions, lambda region: not (region.is_file or region.shared))


def split(
    spans: Iterable[Span], regions: Sequence[Region], wanted: Callable[[Region], bool] = lambda region: True
) -> Iterator[list[Span]]:
    """The part of each in every mapping of a kind."""
    starts = [region.start for region in regions]
    for span in spans:
        parts = [] if regions else [span]
        # there may be as many of both
        for at in range(max(bisect_right(starts, span.start) - 1, 0), bisect_left(starts, span.end)):
            region = regions[at]
            if region.end > span.start and wanted(region):
                parts.append(Span(max(region.start, span.start), min(region.end, span.end)))
        yield parts


def pages_of(session: Session, blocks: Sequence[MmappedBlock]) -> list[Optional[Pages]]:
    """What each has in memory; None where that is not known."""
    residency = session.residency
    if residency is None:
        return [None] * len(blocks)
    sums: list[Optional[Pages]] = []
    for parts in parts_of(blocks, session.regions):
        pages = [residency.count(part.start, part.end) for part in parts]
        known = [each for each in pages if each is not None]
        whole = len(known) == len(pages)
        sums.append(Pages(sum(each.resident for each in known), sum(each.swapped for each in known)) if whole else None)
    return sums
