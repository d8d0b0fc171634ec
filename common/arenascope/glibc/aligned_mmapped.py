"""Chunks that memalign moved to within a block served by mmap.

The header that it moved away from stays at the mapping's start, and nobody clears it. Once realloc() resized the block
it tells an old size, and where that moved the mapping the chunk is no longer where memalign would put it.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property
from itertools import combinations, islice
from typing import Callable, Iterator, NamedTuple, Optional, Sequence

from ..base.errors import MemoryReadError
from ..base.model import MmappedBlock
from ..sources.memory import Memory
from ..sources.region_index import RegionIndex
from ..sources.target import Region
from .chunk import IS_MMAPPED, SIZE_BITS
from .process_layout import Layout

MAX_TRIES = 32
"""The limit on the ways in which what looks like a resized block's header may be the program's data in part."""
FARTHEST = 4 << 20
"""How far behind a block's start such a header is looked for on any page: larger alignments are rare."""
MOST_READ = 256 << 20
"""The limit on what is read so for all blocks: the process stands still, and it may have many of other shapes."""
Decode = Callable[[int], Optional[MmappedBlock]]


def is_private(region: Region) -> bool:
    """Whether malloc can have got it by mmap: what the program did with its flags since tells nothing."""
    named = region.path.startswith("[") and not region.path.startswith("[anon")
    return not (region.is_file or region.shared or named)


class Try(NamedTuple):
    """Which headers behind a block's first one are believed."""

    anywhere: Optional[Sequence[tuple[int, int]]] = None
    """What is in memory, in order, where any page of it may have one; None: only where memalign would put it."""
    ignored: frozenset[int] = frozenset()
    """Chunks that are not believed to be one."""
    grown: bool = False
    """Anywhere only in blocks that nothing known follows."""


class Inner:
    """Looks behind the first header of each block for the one that counts."""

    def __init__(self, memory: Memory, layout: Layout, page: int, regions: Sequence[Region]) -> None:
        self.memory, self.layout, self.page, self.regions = memory, layout, page, regions
        self.way = Try()
        self._left = MOST_READ
        self.met: set[int] = set()
        """Chunks of another size than the header in front says."""

    @cached_property
    def _by_address(self) -> RegionIndex:
        return RegionIndex(self.regions)

    def begin(self, way: Try) -> None:
        self.way, self.met = way, set()

    def of(self, block: MmappedBlock, at: Decode, limit: int) -> MmappedBlock:
        """The block, by the header that counts. `at` gives what could be a block's chunk at an address."""
        resized: Optional[MmappedBlock] = None
        # only the plain place can have a header that was left behind
        plain = block.chunk == self.layout.first_aligned(block.base)
        for chunk in self._places(block, at, limit) if plain else ():
            # no header is in what the program mapped over a part; a read of shared memory would add a page to it
            region = self._by_address.find(chunk)
            found = at(chunk) if region is not None and is_private(region) else None
            if found is None or found.base != block.base:
                continue
            if found.bytes == block.bytes:
                return found
            fits = found.base + found.bytes <= limit and chunk + self.layout.header < found.base + found.bytes
            if fits and chunk not in self.way.ignored and resized is None:
                resized = found
        if resized is None:
            return block
        self.met.add(resized.chunk)
        return resized

    def _places(self, block: MmappedBlock, at: Decode, limit: int) -> Iterator[int]:
        yield from _aligned(self.layout, block)
        if self.way.anywhere is None:
            return
        end = block.base + block.bytes
        if not self.way.grown or (end < limit and at(self.layout.first_aligned(end)) is None):
            yield from self._behind_pages(block, self.way.anywhere)

    def _behind_pages(self, block: MmappedBlock, ranges: Sequence[tuple[int, int]]) -> Iterator[int]:
        """realloc() keeps the distance from the mapping's start, and with it the place in a page."""
        page, word = self.page, self.layout.word
        end = block.base + min(block.bytes, FARTHEST)
        for low, high in ranges[max(0, bisect_left(ranges, (block.base, 0)) - 1) :]:
            if low >= end:
                break
            start, stop = max(low, block.base), min(high, end)
            while start < stop and self._left > 0:
                window = min(stop - start, Memory.BLOCK)
                self._left -= window
                try:
                    words = self.memory.block(start, window)
                except MemoryReadError:
                    words = ()
                first = (page - self.layout.header) // word
                # a copy: the next block is read into the same buffer
                for place, raw in enumerate(list(words[first + 1 :: page // word])):
                    if raw & SIZE_BITS == IS_MMAPPED:
                        yield start + place * page + first * word
                start += window


def _aligned(layout: Layout, block: MmappedBlock) -> Iterator[int]:
    """_int_memalign: the next aligned address that leaves room for a chunk in front."""
    alignment, least = 2 * layout.align, layout.min_size
    user = layout.first_aligned(block.base) + layout.header
    last = 0
    while alignment < block.bytes:
        chunk = -(-user // alignment) * alignment - layout.header
        if chunk - (user - layout.header) < least:
            chunk += alignment
        if chunk + layout.header <= block.base + block.bytes and chunk != last:
            yield chunk
            last = chunk
        alignment *= 2


def without_some(met: set[int]) -> Iterator[frozenset[int]]:
    """What to ignore, one after the other: all of them, then some."""
    numbers = dict.fromkeys([len(met), *range(1, len(met))]) if met else ()
    ways = (frozenset(chosen) for number in numbers for chosen in combinations(sorted(met), number))
    return islice(ways, MAX_TRIES)
