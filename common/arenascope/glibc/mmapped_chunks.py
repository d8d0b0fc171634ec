"""Finds blocks that malloc got by mmap. glibc keeps no list of them, only their number and sum (mp_).

They are recognised by their own headers: size word and prev_size of the chunk must give the page-aligned mapping. They
are read one after the other from the start of each anonymous mapping, as neighbours share a VMA. A block may lie in
several: madvise, mlock and mprotect of a part of it split its own.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from enum import Enum
from functools import cached_property
from itertools import combinations, islice
from math import comb
from typing import Callable, Iterable, Iterator, NamedTuple, Optional, Sequence

from ..base.errors import MemoryReadError
from ..base.heap_model import Heap, MmappedBlock, Tally
from ..sources.memory import Memory
from ..sources.target import Region, RegionIndex, Residency
from .malloc_chunk import IS_MMAPPED, SIZE_BITS
from .process_layout import Layout

MAX_TRIES = 32
"""The most attempts to treat what looks like a resized block's header as the program's data."""
FARTHEST = 4 << 20
"""How far behind a block's start such a header is searched for on any page: larger alignments are rare."""
MOST_READ = 256 << 20
"""The most bytes read for this for all blocks: the process stands still, and other blocks may be many."""
Decode = Callable[[int], Optional[MmappedBlock]]


def is_private(region: Region) -> bool:
    """Tells whether malloc can have got it by mmap, whatever the program did with its flags since."""
    named = region.path.startswith("[") and not region.path.startswith("[anon")
    return not (region.is_file or region.shared or named)


class Try(NamedTuple):
    """The headers behind a block's first one that are accepted in an attempt."""

    anywhere: Optional[Sequence[tuple[int, int]]] = None
    """The resident ranges, in order, if any page may have such a header; None: only where memalign would put it."""
    ignored: frozenset[int] = frozenset()
    """Chunks that are not accepted as headers."""
    grown: bool = False
    """Whether any page may have one only in blocks that nothing known follows."""


class Inner:
    """Finds the header that counts behind the first header of each block."""

    def __init__(self, memory: Memory, layout: Layout, page: int, regions: Sequence[Region]) -> None:
        self.memory, self.layout, self.page, self.regions = memory, layout, page, regions
        self.way = Try()
        self._left = MOST_READ
        self.met: set[int] = set()
        """Chunks whose size differs from what the header in front tells."""

    @cached_property
    def _by_address(self) -> RegionIndex:
        return RegionIndex(self.regions)

    def begin(self, way: Try) -> None:
        self.way, self.met = way, set()

    def of(self, block: MmappedBlock, at: Decode, limit: int) -> MmappedBlock:
        """Returns the block by the header that counts. `at` returns a possible block by its chunk's address."""
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
        """Searches other pages: realloc() keeps the distance from the mapping's start, and with it the offset in a
        page."""
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
    """Returns the address that _int_memalign chooses: the next aligned one that leaves room for a chunk in front."""
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
    """Yields sets to ignore, one after the other: all of them, then some."""
    numbers = dict.fromkeys([len(met), *range(1, len(met))]) if met else ()
    ways = (frozenset(chosen) for number in numbers for chosen in combinations(sorted(met), number))
    return islice(ways, MAX_TRIES)


MAX_CHOICES = 100_000
"""The most ways to leave blocks out: if there are more, none is tried."""
MAX_SPLIT = 16
"""With more blocks that may hold others, not every number is tried."""


def read_mmapped(memory: Memory, layout: Layout, chunk: int, page: int) -> Optional[MmappedBlock]:
    """Reads the mmapped block whose chunk is at this address, or None."""
    words = memory.try_words(chunk, 2)
    return decode_mmapped(layout, chunk, words[0], words[1], page=page) if words is not None else None


def decode_mmapped(layout: Layout, chunk: int, prev_size: int, raw: int, page: int) -> Optional[MmappedBlock]:
    """Decodes a header: prev_size is the distance from the mapping's start, the size word the rest of it."""
    if raw & SIZE_BITS != IS_MMAPPED:
        return None
    size = raw & ~SIZE_BITS
    if layout.behaviour.mmapped_size_less_header:
        # 2.43: the size leaves out the header, and bit 0 of prev_size marks a block of huge pages
        prev_size &= ~1
        size += layout.header
    base = chunk - prev_size
    total = prev_size + size
    if (
        base <= 0
        or base & (page - 1)
        or total & (page - 1)
        or not total
        or prev_size & (layout.align - 1) not in (0, layout.header % layout.align)
    ):
        return None
    return MmappedBlock(chunk, base, total)


def counts_headers_twice(layout: Layout, counted: int, held: int) -> bool:
    """Tells whether it is 2.43, which counts a header too many at each realloc() that moves a mapping."""
    excess = counted - held
    return layout.behaviour.mmapped_size_less_header and excess > 0 and excess % layout.header == 0


def counts(blocks: Sequence[MmappedBlock]) -> Tally:
    """Returns the counts that mp_ should have for them."""
    return Tally(len(blocks), sum(block.bytes for block in blocks))


def without_strangers(blocks: Sequence[MmappedBlock], counted: Tally) -> list[MmappedBlock]:
    """Drops mappings that only look like blocks (a JVM's tables do), if glibc's counts leave only one choice."""
    surplus = len(blocks) - counted.chunks
    excess = sum(block.bytes for block in blocks) - counted.bytes
    if counted.chunks < 0 or surplus <= 0 or comb(len(blocks), surplus) > MAX_CHOICES:
        return list(blocks)
    choices = combinations(blocks, surplus)
    fitting = [each for each in choices if sum(block.bytes for block in each) == excess]
    left_out = set(fitting[0]) if len(fitting) == 1 else ()
    return [block for block in blocks if block not in left_out]


def agree(layout: Layout, blocks: Sequence[MmappedBlock], counted: Tally) -> bool:
    """Tells whether number and sum are those in mp_."""
    held = counts(blocks)
    return held == counted or (
        held.chunks == counted.chunks and counts_headers_twice(layout, counted.bytes, held.bytes)
    )


class Within(Enum):
    """A range that a block may lie in."""

    ONE = "one mapping"
    PRIVATE = "private anonymous mappings side by side, whatever their flags"
    ANY = "whatever lies there now, if anything: part of it may be unmapped, or something mapped over it"


Ranges = Callable[[Within], "Iterable[MmappedSearch]"]
"""search_ranges for one image."""


def find_mmapped(inner: Inner, ranges: Ranges, counted: Optional[Tally], alone: bool) -> list[MmappedBlock]:
    """Finds the blocks that begin there, without look-alikes.

    `counted` are glibc's counts. If that many are found and their sizes sum up, nothing further is read, unless another
    libc's blocks may be among them (not `alone`). Blocks that only those counts can prove are searched for if they do
    not agree.
    """
    layout, page = inner.layout, inner.page
    if counted is None:
        inner.begin(Try(_spans(ranges), grown=True))
        return list(walk_mmapped(inner, ranges(Within.PRIVATE)))
    if not counted.chunks and (not counted.bytes or counts_headers_twice(layout, counted.bytes, 0)):
        return []
    likely: list[MmappedBlock] = []
    agreeing: list[list[MmappedBlock]] = []
    for way in _ways(inner, ranges, agreeing):
        inner.begin(way)
        blocks = _as_counted(inner, ranges, counted, alone)
        # without counts to compare: a header left by realloc() is likelier than data that looks like one
        likely = likely if way.ignored else blocks
        if agree(layout, blocks, counted):
            agreeing.append(blocks)
            # 2.43 counts a few bytes too many at each realloc(), and of a page the blocks may really be larger
            if counted.bytes - counts(blocks).bytes < page:
                break
    return max(agreeing, key=lambda blocks: counts(blocks).bytes, default=likely)


def _ways(inner: Inner, ranges: Ranges, agreeing: Sequence[object]) -> Iterator[Try]:
    """Yields attempts, one after the other; once some headers agreed, nothing tells of more."""
    for anywhere in (False, True):
        spans = _spans(ranges) if anywhere else None
        yield Try(spans, grown=bool(agreeing))
        for ignored in without_some(inner.met) if not agreeing else ():
            yield Try(spans, ignored, grown=bool(agreeing))


def _spans(ranges: Ranges) -> list[tuple[int, int]]:
    return [(each.start, each.end) for each in ranges(Within.ANY)]


def _as_counted(inner: Inner, ranges: Ranges, counted: Tally, alone: bool) -> list[MmappedBlock]:
    """Returns the blocks that glibc counts, if they can be chosen; otherwise those found in private mappings."""
    layout = inner.layout
    blocks: list[MmappedBlock] = []
    total = 0
    # no block is larger than all together, unless that sum is damaged
    largest = counted.bytes if counted.bytes >= counted.chunks * inner.page else None
    for block in walk_mmapped(inner, ranges(Within.PRIVATE), largest):
        blocks.append(block)
        total += block.bytes
        if alone and (len(blocks), total) == counted:
            return blocks
    private = without_strangers(blocks, counted)
    if agree(layout, private, counted):
        return private
    most: list[MmappedBlock] = []
    if len(blocks) <= counted.chunks:  # where there are strangers, none is looked for that may be one rather
        most = list(walk_mmapped(inner, ranges(Within.ANY), largest))
    if agree(layout, most, counted):
        return most
    least = list(walk_mmapped(inner, ranges(Within.ONE), largest))
    known = set(least)
    split = [block for block in most if block not in known]
    for found in (least, without_strangers(least, counted), without_strangers(most, counted)):
        if agree(layout, found, counted):
            return found
    return some_split(least, split, counted) or private


def some_split(
    whole: Sequence[MmappedBlock], split: Sequence[MmappedBlock], counted: Tally
) -> Optional[list[MmappedBlock]]:
    """Chooses among blocks that lie in one mapping with others, if glibc's counts leave only one choice."""
    starts = [block.base for block in whole]
    inside = [whole[bisect_left(starts, block.base) : bisect_left(starts, block.base + block.bytes)] for block in split]
    more = [Tally(1 - len(within), block.bytes - counts(within).bytes) for block, within in zip(split, inside)]
    held = counts(whole)
    lacking = Tally(counted.chunks - held.chunks, counted.bytes - held.bytes)
    numbers: Sequence[int] = range(len(split) + 1)
    if len(split) > MAX_SPLIT or not any(inside):
        numbers = [lacking.chunks] if 0 <= lacking.chunks <= len(split) else []
    if sum(comb(len(split), number) for number in numbers) > MAX_CHOICES:
        return None
    fitting = [
        chosen
        for number in numbers
        for chosen in combinations(range(len(split)), number)
        if (sum(more[at].chunks for at in chosen), sum(more[at].bytes for at in chosen)) == lacking
    ]
    if len(fitting) != 1:
        return None
    left_out = {block for at in fitting[0] for block in inside[at]}
    found = [block for block in whole if block not in left_out] + [split[at] for at in fitting[0]]
    return sorted(found, key=lambda block: block.base)


def chunk_offsets(layout: Layout, page: int) -> list[int]:
    """Returns the offsets in a page where a block's chunk can lie: its start, or just below a multiple of memalign's
    alignment."""
    plain = layout.first_aligned(0)
    offsets = [plain]
    alignment = 2 * layout.align
    while alignment <= page:
        offsets.append(alignment - layout.header)
        alignment *= 2
    return offsets


class MmappedSearch(NamedTuple):
    """A range to search for blocks: from `start` to `end`, page by page."""

    start: int
    end: int
    limit: int
    """The end that a block may reach."""
    least: int
    """The earliest start of a block: pages between a mapping's start and memalign's chunk may be absent."""


class _UnclaimedPart(NamedTuple):
    """The part of a mapping that no arena holds."""

    start: int
    end: int
    region: Region


def search_ranges(
    layout: Layout,
    regions: Sequence[Region],
    heaps: Sequence[Heap],
    residency: Optional[Residency],
    within: Within = Within.PRIVATE,
) -> Iterator[MmappedSearch]:
    """Returns where blocks can lie: resident private anonymous memory that no arena holds.

    A header was written, so its page is resident or swapped; looking at untouched pages would map them.
    """
    taken = _taken(heaps)
    parts = [
        _UnclaimedPart(*part, region) for region in regions if is_private(region) for part in without(region, taken)
    ]
    for (start, end, region), limit in zip(parts, _limits(parts, regions, taken, within)):
        # the program may have made a header's page read-only; such pages are many, and seldom have one
        if not region.present or not (region.writable or (within is Within.ANY and region.readable)):
            continue
        held = residency.resident_ranges(start, end) if residency else None
        for low, high in held if held is not None else ((start, end),):
            yield MmappedSearch(max(low, start), min(high, end), limit=limit, least=start)


def _taken(heaps: Sequence[Heap]) -> list[tuple[int, int]]:
    return sorted(
        (heap.address, heap.address + heap.mprotect_bytes if heap.mprotect_bytes is not None else heap.end)
        for heap in heaps
    )


def unclaimed(regions: Sequence[Region], heaps: Sequence[Heap], blocks: Sequence[MmappedBlock]) -> list[int]:
    """Returns the bytes of each stretch of private anonymous memory that no arena and no block holds."""
    taken = sorted([*_taken(heaps), *((block.base, block.base + block.bytes) for block in blocks)])
    free = [part for region in regions if is_private(region) for part in without(region, taken)]
    starts = [start for place, (start, _) in enumerate(free) if not place or free[place - 1][1] != start]
    ends = [end for place, (_, end) in enumerate(free) if place + 1 == len(free) or free[place + 1][0] != end]
    return [end - start for start, end in zip(starts, ends)]


def _limits(
    parts: Sequence[_UnclaimedPart], regions: Sequence[Region], taken: Sequence[tuple[int, int]], within: Within
) -> Sequence[int]:
    """Returns, for each part, the end that a block may reach that begins in it."""
    if within is Within.ONE:
        return [part.end for part in parts]
    if within is Within.ANY:
        last = regions[-1].end if regions else 0
        nexts = [bisect_right(taken, (part.start, 0)) for part in parts]
        return [taken[at][0] if at < len(taken) else last for at in nexts]
    limits = [part.end for part in parts]
    for at in range(len(parts) - 2, -1, -1):
        if parts[at].end == parts[at + 1].start:
            limits[at] = limits[at + 1]
    return limits


def without(region: Region, taken: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Returns the region without the arenas' own memory (of a thread's heap all that is accessible), which is in
    order."""
    start = region.start
    # the previous one may reach into this
    for index in range(max(0, bisect_left(taken, (start, 0)) - 1), len(taken)):
        address, end = taken[index]
        if address >= region.end:
            break
        if end <= start:
            continue
        if address > start:
            yield start, address
        start = end
    if start < region.end:
        yield start, region.end


def walk_mmapped(
    inner: Inner, ranges: Iterable[MmappedSearch], largest: Optional[int] = None
) -> Iterator[MmappedBlock]:
    """Yields the blocks that begin there, of `largest` bytes at most: in a JVM's heap, data may look like a block of 3
    GB."""
    memory, page = inner.memory, inner.page
    offsets = chunk_offsets(inner.layout, page)
    past = 0
    for start, end, limit, least in ranges:
        position, floor = max(start, past), max(least, past)
        window = page
        while position < end:
            stop = min(position + window, end)
            block = None
            for place in _likely(memory, page, offsets, position, end=stop):
                block = _block_at(inner, place, offsets, start=floor, limit=limit)
                if block is not None and largest is not None and block.bytes > largest:
                    block = None
                if block is not None:
                    yield block
                    past = position = floor = block.base + block.bytes
                    break
            if block is None:
                position, window = stop, min(2 * window, Memory.BLOCK)
            else:
                # blocks lie side by side: what is inside one is not read
                window = page


def _likely(memory: Memory, page: int, offsets: Sequence[int], start: int, end: int) -> Sequence[int]:
    """Returns the pages of a window with a word that could be a block's size: the others only cost being read."""
    word = memory.pointer_size
    try:
        words = memory.block(start, end - start)
    except MemoryReadError:
        words = ()
    if len(words) * word < end - start:
        return range(start, end, page)  # not all of it can be read
    pages = set()
    for offset in offsets:
        sizes = words[offset // word + 1 :: page // word]
        pages.update([place for place, raw in enumerate(sizes) if raw & SIZE_BITS == IS_MMAPPED])
    return [start + place * page for place in sorted(pages)]


def _block_at(inner: Inner, position: int, offsets: list[int], start: int, limit: int) -> Optional[MmappedBlock]:
    """Returns a block whose header lies in the page at `position`; memalign's may have started pages before."""
    memory, layout, page = inner.memory, inner.layout, inner.page
    data = memory.try_read(position, page) or b""
    if not data.strip(b"\0"):
        return None
    words = memory.unpack_words(data)

    def at(chunk: int) -> Optional[MmappedBlock]:
        index = (chunk - position) // layout.word
        if not 0 <= index < len(words) - 1:
            return read_mmapped(memory, layout, chunk, page)
        return decode_mmapped(layout, chunk, words[index], words[index + 1], page=page)

    for offset in offsets:
        if words[offset // layout.word + 1] & SIZE_BITS != IS_MMAPPED:
            continue
        block = at(position + offset)
        if block and block.base >= start and block.base + block.bytes <= limit:
            return inner.of(block, at, limit)
    return None
