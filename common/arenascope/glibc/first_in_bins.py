"""The first chunks of an arena's bins, read while the process runs on: so many at most, bins of large ones first."""

from __future__ import annotations

from typing import NamedTuple

from ..base.errors import MemoryReadError
from ..base.model import ArenaHeader, Range
from ..sources.memory import Memory
from .bins import LAST_USED, NBINS, UNSORTED, bin_sizes
from .chunk import PREV_INUSE, SIZE_BITS
from .process_layout import Layout

ORDER = (*range(LAST_USED, UNSORTED, -1), UNSORTED)
"""A large bin begins with its largest chunk, and the unsorted bin may be long."""


class FirstChunks(NamedTuple):
    """What was seen of the bins."""

    chunks: list[Range]
    whole: bool
    """Whether all bins were followed to their ends."""


def first_chunks(memory: Memory, layout: Layout, header: ArenaHeader, limit: int) -> FirstChunks:
    """A list that changes meanwhile, or is damaged, ends at the first chunk whose links or size do not fit."""
    base = header.address + layout.arena["bins"]
    try:
        links = memory.words(base, 2 * (NBINS - 1))
    except MemoryReadError:
        return FirstChunks([], whole=False)
    chunks: list[Range] = []
    whole = True
    for index in ORDER:
        first = links[2 * index - 2]
        bin_header = base + 2 * (index - 1) * layout.word - layout.header
        if first not in (bin_header, 0):
            walk = _Walk(memory, layout, header, index)
            whole &= walk.follow(bin_header, first, limit, chunks)
    return FirstChunks(chunks, whole)


class _Walk:
    def __init__(self, memory: Memory, layout: Layout, header: ArenaHeader, index: int) -> None:
        self._node = memory.node
        self._mask, self._header = layout.mask, layout.header
        self._sizes = bin_sizes(layout, index).within(header.peak)

    def follow(self, bin_header: int, first: int, limit: int, chunks: list[Range]) -> bool:
        """Adds to `chunks` up to `limit`; whether it came to the list's end."""
        previous, chunk = bin_header, first
        while chunk != bin_header:
            if len(chunks) >= limit:
                return False
            try:
                raw, fd, bk = self._node(chunk)
            except MemoryReadError:
                return False
            # the bk of a chunk that is met twice names another neighbour, so no cycle is followed
            odd = raw & SIZE_BITS != PREV_INUSE or (raw & ~SIZE_BITS | chunk + self._header) & self._mask
            size = raw & ~SIZE_BITS
            if bk != previous or odd or not self._sizes.least <= size <= self._sizes.most:
                return False
            chunks.append(Range(chunk, size))
            previous, chunk = chunk, fd
        return True
