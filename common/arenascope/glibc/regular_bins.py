"""Walks the regular bins: unsorted, small and large. Doubly linked rings through the arena's bins array."""

from __future__ import annotations

from array import array
from contextlib import suppress
from typing import Iterator, Mapping, NamedTuple, Optional, Sequence

from ..base.errors import MemoryReadError
from ..base.heap_model import ArenaHeader, Bin, Finding, Lists, Range, Statement, cannot_read
from ..base.progress_bar import MakeMeter, metered
from ..engine import FollowedList, FollowedLists, ListStart
from ..sources.memory import Memory
from .arena import ArenaReach, Reaches
from .malloc_chunk import IS_MMAPPED, NON_MAIN_ARENA, PREV_INUSE, SIZE_BITS, ChunkSizes, OneWay
from .process_layout import Layout

NBINS = 128
UNSORTED = 1
LAST_USED = 126

# largebin_index: (shift, up to this shifted size, what is added to it)
LARGE_64 = ((6, 48, 48), (9, 20, 91), (12, 10, 110), (15, 4, 119), (18, 2, 124))
LARGE_32 = ((6, 38, 56), (9, 20, 91), (12, 10, 110), (15, 4, 119), (18, 2, 124))
LARGE_32_BIG = ((6, 45, 49), (9, 20, 91), (12, 10, 110), (15, 4, 119), (18, 2, 124))


def small_correction(layout: Layout) -> int:
    """Returns SMALLBIN_CORRECTION."""
    return 1 if layout.align > layout.header else 0


def min_large_size(layout: Layout) -> int:
    """Returns MIN_LARGE_SIZE: the first size of the large bins."""
    return (64 - small_correction(layout)) * layout.align


def bin_index(layout: Layout, size: int) -> int:
    """Computes bin_index(): the bin that keeps a chunk of this size once it has been sorted."""
    if size < min_large_size(layout):
        return (size >> 4) + small_correction(layout) if layout.align == 16 else size >> 3
    rows = LARGE_64 if layout.word == 8 else LARGE_32_BIG if layout.align == 16 else LARGE_32
    for shift, limit, base in rows:
        if size >> shift <= limit:
            return base + (size >> shift)
    return LAST_USED


class BinSizes(NamedTuple):
    """The chunk sizes of a bin."""

    least: int
    most: Optional[int]
    """None: only memory bounds it."""

    def within(self, limit: int) -> ChunkSizes:
        return ChunkSizes(self.least, limit if self.most is None else min(self.most, limit))


_known_sizes: dict[tuple[int, int, int], BinSizes] = {}
"""By word, alignment and index: the same for every arena."""


def bin_sizes(layout: Layout, index: int) -> BinSizes:
    """Returns the chunk sizes that bin_index() sends to a bin."""
    place = layout.word, layout.align, index
    if place not in _known_sizes:
        _known_sizes[place] = _find_sizes(layout, index)
    return _known_sizes[place]


def _find_sizes(layout: Layout, index: int) -> BinSizes:
    if index == UNSORTED:
        return BinSizes(layout.min_size, most=None)
    if index >= LAST_USED:
        return BinSizes(_least_size(layout, LAST_USED), most=None)
    return BinSizes(_least_size(layout, index), most=_least_size(layout, index + 1) - layout.align)


def _least_size(layout: Layout, index: int) -> int:
    """Returns the smallest chunk size whose bin_index() is at least this: the index never falls as sizes grow.

    It is searched for, as the rows of largebin_index() overlap (bin 120 is the last of one and the first of the next).
    """
    low, high = 1, (1 << 20) // layout.align
    while low < high:
        middle = (low + high) // 2
        if bin_index(layout, middle * layout.align) >= index:
            high = middle
        else:
            low = middle + 1
    return low * layout.align


def bin_kind(layout: Layout, index: int) -> str:
    if index == UNSORTED:
        return "unsorted"
    return "small" if index < bin_index(layout, min_large_size(layout)) else "large"


def walk_bins(
    memory: Memory,
    layout: Layout,
    header: ArenaHeader,
    reach: ArenaReach,
    findings: list[Finding],
    rings: Mapping[int, FollowedList] = {},
) -> Iterator[Bin]:
    """Returns the non-empty bins of an arena, by index; `rings` are those already followed."""
    base = header.address + layout.arena["bins"]
    try:
        links = memory.words(base, 2 * (NBINS - 1))
    except MemoryReadError as error:
        findings.append(
            Finding(cannot_read("bins-unreadable", error.address, error.size), header.address, header.index)
        )
        return
    for index in range(1, NBINS):
        # bin_at(): the header is laid so that the array's pair stands where a chunk's fd and bk would
        bin_header = base + 2 * (index - 1) * layout.word - layout.header
        first, last = links[2 * index - 2], links[2 * index - 1]
        if first in (bin_header, 0):
            if last != first:
                ends = Statement("bin-ends", {"bin": index}, {"first": f"{first:#x}", "last": f"{last:#x}"})
                findings.append(Finding(ends, bin_header, header.index, "bin-link"))
            continue
        sizes, before = bin_sizes(layout, index), len(findings)
        ring = rings.get(bin_header)
        if ring is None:
            walker = _BinWalk(memory, layout, header, index, findings=findings)
            ring = walker.follow(bin_header, first, last, sizes.within(header.peak))
        if ring.addresses:
            yield reach.within(
                Bin(
                    bin_kind(layout, index),
                    index,
                    min_bytes=sizes.least,
                    max_bytes=sizes.most,
                    addresses=ring.addresses,
                    sizes=ring.sizes,
                    raw_flags=len(ring.addresses),
                    whole=len(findings) == before,
                ),
                findings,
            )


def ring_starts(memory: Memory, layout: Layout, headers: Sequence[ArenaHeader]) -> dict[int, ListStart]:
    """Returns the non-empty bins of these arenas, by their own addresses as chunks."""
    starts: dict[int, ListStart] = {}
    known = {index: bin_sizes(layout, index) for index in range(1, NBINS)}
    for header in headers:
        base = header.address + layout.arena["bins"]
        with suppress(MemoryReadError):
            links = memory.words(base, 2 * (NBINS - 1))
            for index, sizes in known.items():
                place = base + 2 * (index - 1) * layout.word - layout.header
                first, last = links[2 * index - 2], links[2 * index - 1]
                if first not in (place, 0):
                    limit = header.peak // layout.min_size
                    starts[place] = ListStart(place, first, last, *sizes.within(header.peak), limit=limit)
    return starts


class Walked(NamedTuple):
    """The bins of all arenas."""

    lists: Mapping[int, Lists]
    """Lists by arena."""
    stopped: bool = False
    """Whether Ctrl-C interrupted it."""


def walk_all(
    memory: Memory,
    layout: Layout,
    reaches: Reaches,
    findings: list[Finding],
    make_meter: MakeMeter,
    followed: FollowedLists,
) -> Walked:
    """Walks the bins of every arena; after Ctrl-C, those not reached have none. Those that were not followed before are
    followed link by link."""
    by_arena: dict[int, Lists] = {}
    headers = [reach.header for reach in reaches.values()]
    first, size = layout.arena["bins"] - layout.header, 2 * (NBINS - 1) * layout.word
    unread = {
        header.index
        for header in headers
        if any(header.address + first <= head < header.address + first + size for head in followed.unread)
    }
    try:
        with make_meter("walking free lists", sum(header.system_mem for header in headers)) as meter:
            for index, reach in reaches.items():
                if index in unread:
                    continue
                met: list[Finding] = []
                lists = tuple(metered(walk_bins(memory, layout, reach.header, reach, met, followed.whole), meter))
                meter.advance(reach.header.system_mem - sum(each.bytes for each in lists))
                findings += met
                by_arena[index] = Lists(lists, whole=not met)
    except KeyboardInterrupt:
        unread.update(header.index for header in headers if header.index not in by_arena)
    by_arena.update((index, Lists(whole=False)) for index in unread)
    if unread:
        left = Statement("lists-not-reached", {"arenas": len(headers), "unread": len(unread)})
        findings.append(Finding(left, unknown="stopped"))
    return Walked({header.index: by_arena[header.index] for header in headers}, stopped=bool(unread))


def find_bin(memory: Memory, layout: Layout, header: ArenaHeader, chunk: int) -> Optional[int]:
    """Finds the bin of a free chunk: its links, followed both ways, lead to that bin's header."""
    base = header.address + layout.arena["bins"] - layout.header
    end = base + 2 * (NBINS - 1) * layout.word
    forward = backward = chunk
    try:
        for _ in range(header.system_mem // layout.min_size):
            forward, backward = memory.node(forward)[1], memory.node(backward)[2]
            for place in (forward, backward):
                if base <= place < end:
                    index, odd = divmod(place - base, 2 * layout.word)
                    return None if odd else index + 1
    except MemoryReadError:
        pass
    return None


class _BinWalk:
    """Follows one ring by fd, as malloc_info does, and checks every bk against it."""

    def __init__(
        self, memory: Memory, layout: Layout, header: ArenaHeader, index: int, findings: list[Finding]
    ) -> None:
        self.memory = memory
        self.layout = layout
        self.arena = header
        self.index = index
        self.findings = findings

    def follow(self, bin_header: int, first: int, last: int, sizes: ChunkSizes) -> FollowedList:
        """Follows the list up to its end, or to the first error."""
        node = self.memory.node
        followed = FollowedList(array("Q"), array("Q"))
        add_address, add_size = followed.addresses.append, followed.sizes.append
        mask, header = self.layout.mask, self.layout.header
        # a size word is the size with PREV_INUSE and no other flag; sizes have the alignment of chunks
        low, lowest, highest = mask | SIZE_BITS, sizes.least | PREV_INUSE, sizes.most | PREV_INUSE
        previous, chunk = bin_header, first
        try:
            while chunk != bin_header:
                raw, fd, bk = node(chunk)
                # A chunk reached twice has a neighbour other than the one its bk names, so this test ends every cycle.
                if bk != previous or raw & low != PREV_INUSE or not lowest <= raw <= highest or (chunk + header) & mask:
                    self._damage(previous, chunk, raw, bk, sizes=sizes)
                    break
                add_address(chunk)
                add_size(raw - PREV_INUSE)
                previous, chunk = chunk, fd
            else:
                if previous != last:
                    self._say("bin-end", bin_header, {"end": f"{previous:#x}", "bk": f"{last:#x}"})
        except MemoryReadError:
            self._say("bin-link-unreadable", chunk, {"holder": f"{previous:#x}"})
        return followed

    def _damage(self, previous: int, chunk: int, raw: int, bk: int, sizes: ChunkSizes) -> None:
        size = raw & ~SIZE_BITS
        if not self.layout.aligned(chunk):
            self._say("bin-link-misaligned", chunk, {"holder": f"{previous:#x}"})
        elif not sizes.least <= size <= sizes.most or size & self.layout.mask:
            self._say("bin-size", chunk, {"size": f"{size:#x}"})
        elif bk != previous:
            self._say("bin-bk", chunk, {"bk": f"{bk:#x}", "expected": f"{previous:#x}"})
        else:
            names = [
                name for bit, name in ((NON_MAIN_ARENA, "NON_MAIN_ARENA"), (IS_MMAPPED, "IS_MMAPPED")) if raw & bit
            ]
            if not raw & PREV_INUSE:
                names.append("no PREV_INUSE")
            self._say("bin-flags", chunk, {"flags": ", ".join(names), "size_word": f"{raw:#x}"})

    def _say(self, what: str, address: int, names: Mapping[str, str]) -> None:
        said = Statement(what, {"bin": self.index}, names)
        self.findings.append(Finding(said, address, self.arena.index, "bin-link"))


ORDER = (*range(LAST_USED, UNSORTED, -1), UNSORTED)
"""Large bins come first, as they begin with their largest chunks; the unsorted bin, which may be long, comes last."""


class FirstChunks(NamedTuple):
    """The chunks that were seen in bins."""

    chunks: list[Range]
    whole: bool
    """Whether all bins were followed to their ends."""


def first_chunks(memory: Memory, layout: Layout, header: ArenaHeader, limit: int) -> FirstChunks:
    """Reads bins. A list that changes meanwhile, or is damaged, ends at the first chunk whose links or size do not
    fit."""
    base = header.address + layout.arena["bins"]
    try:
        links = memory.words(base, 2 * (NBINS - 1))
    except MemoryReadError:
        return FirstChunks([], whole=False)
    chunks: list[Range] = []
    whole = True
    for index in ORDER:
        first, sizes = links[2 * index - 2], bin_sizes(layout, index)
        bin_header = base + 2 * (index - 1) * layout.word - layout.header
        if first not in (bin_header, 0):
            whole &= _add_chunks(memory, layout, bin_header, first, limit, sizes.within(header.peak), chunks)
    return FirstChunks(chunks, whole)


def _add_chunks(
    memory: Memory, layout: Layout, bin_header: int, first: int, limit: int, sizes: ChunkSizes, chunks: list[Range]
) -> bool:
    """Adds to `chunks` up to `limit`, and tells whether it came to the list's end."""
    previous, chunk = bin_header, first
    while chunk != bin_header:
        if len(chunks) >= limit:
            return False
        try:
            raw, fd, bk = memory.node(chunk)
        except MemoryReadError:
            return False
        # the bk of a chunk that is met twice names another neighbour, so no cycle is followed
        odd = raw & SIZE_BITS != PREV_INUSE or (raw & ~SIZE_BITS | chunk + layout.header) & layout.mask
        size = raw & ~SIZE_BITS
        if bk != previous or odd or not sizes.least <= size <= sizes.most:
            return False
        chunks.append(Range(chunk, size))
        previous, chunk = chunk, fd
    return True


def fastbin_index(layout: Layout, size: int) -> int:
    return (size >> (4 if layout.word == 8 else 3)) - 2


def fastbin_size(layout: Layout, index: int) -> int:
    return (index + 2) << (4 if layout.word == 8 else 3)


def read_fastbins(
    memory: Memory,
    layout: Layout,
    header: ArenaHeader,
    reach: ArenaReach,
    findings: list[Finding],
    followed: Mapping[int, FollowedList],
) -> Lists:
    """Reads an arena's fastbins, without empty ones; `followed` are those that were followed before, by where their
    heads lie."""
    before = len(findings)
    lists: list[Bin] = []
    try:
        for slot, head, links in _fast_lists(memory, layout, header):
            walked = links.follow(memory, layout, head, findings, followed.get(slot))
            if walked.addresses:
                lists.append(reach.within(walked, findings))
    except MemoryReadError as error:
        unread = cannot_read("fastbins-unreadable", error.address, error.size)
        findings.append(Finding(unread, header.address, header.index))
    return Lists(tuple(lists), whole=len(findings) == before)


def fast_starts(memory: Memory, layout: Layout, headers: Sequence[ArenaHeader]) -> dict[int, ListStart]:
    """Returns the non-empty fastbins of these arenas, by where their heads lie."""
    starts: dict[int, ListStart] = {}
    for header in headers:
        with suppress(MemoryReadError):
            starts.update(
                (slot, links.start(layout, head)) for slot, head, links in _fast_lists(memory, layout, header)
            )
    return starts


def _fast_lists(memory: Memory, layout: Layout, header: ArenaHeader) -> Iterator[tuple[int, int, OneWay]]:
    """(where its head lies, what that leads to, the list) of each fastbin that is not empty; MemoryReadError."""
    base = header.address + layout.arena["fastbinsY"] if layout.fastbins else 0
    limit = header.peak // layout.min_size + 1
    for index, head in enumerate(memory.words(base, layout.fastbins) if layout.fastbins else ()):
        if head:
            size = fastbin_size(layout, index)
            links = OneWay(
                index,
                rule="fast",
                to_user=layout.header,
                least=size,
                most=size,
                limit=limit,
                holder=header.address,
                arena=header.index,
            )
            yield base + index * layout.word, head, links
