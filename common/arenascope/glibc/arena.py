"""struct malloc_state: arena headers, and the ring that links them."""

from __future__ import annotations

import struct
from bisect import bisect_right
from itertools import repeat
from operator import add, le
from typing import Iterator, Mapping, NamedTuple, Optional, Sequence

from ..base.errors import MemoryReadError
from ..base.heap_model import Arena, ArenaHeader, Bin, Finding, Heap, Params, Statement, Tally, ThreadCache, cannot_read
from ..sources.memory import Memory
from ..sources.target import Region
from .malloc_chunk import IS_MMAPPED, NON_MAIN_ARENA, PREV_INUSE, SIZE_BITS, masked
from .process_layout import Layout

BLOCK = 1 << 20
BINS_PAIRS = 127
TOLERANCE = 16
"""The most of the 127 bins that may be damaged or half linked: chance matches have more than a hundred wrong."""
PREFIX_LIMIT = 1024
"""The most bytes in front of `bins` where malloc_state may begin (112 at most so far)."""
RING_LIMIT = 65536
HEAP_SIZES = (1 << 20, 64 << 20, 8 << 20, 4 << 30)
"""HEAP_MAX_SIZE on 32-bit and on 64-bit, and in 2.35 to 2.41 with huge pages of 2 MiB or 1 GiB."""
LEAST_HEAP = min(HEAP_SIZES)


class FoundBins(NamedTuple):
    """An arena's bins, found by their shape."""

    bins: int
    ring: tuple[int, ...]
    """The arenas' addresses from this one on, by the `next` words; empty if the ring does not close."""

    @property
    def arena(self) -> Optional[int]:
        return self.ring[0] if self.ring else None


def anchors(memory: Memory, start: int, end: int) -> Iterator[int]:
    """Returns addresses of possible `bins` arrays: their bin 127 would be a self-linked pair that was found."""
    word = memory.pointer_size
    header = 2 * word
    position = start
    while position < end:
        size = min(BLOCK, end - position)
        words = memory.try_words(position, size // word)
        if words is None:
            position += size
            continue
        following = iter(words)
        next(following, None)
        for index, (first, second) in enumerate(zip(words, following)):
            if first == second and first == position + index * word - header:
                yield position + index * word - 2 * (BINS_PAIRS - 1) * word
        # one word back: a pair may straddle two blocks
        position += size if position + size >= end else size - word


def wrong_bins(memory: Memory, bins: int) -> Optional[int]:
    """Counts the bins that do not look like an arena's: each is empty, or linked to chunks that link back.

    None beyond TOLERANCE. A few pairs to either side nearly all still point to themselves, so the fewest wrong count.
    """
    word = memory.pointer_size
    links = memory.try_words(bins, 2 * BINS_PAIRS)
    if links is None:
        return None
    wrong = 0
    for index in range(BINS_PAIRS):
        header = bins + 2 * index * word - 2 * word
        first, last = links[2 * index], links[2 * index + 1]
        if first == header and last == header:
            continue
        if memory.try_word(first + 3 * word) != header or memory.try_word(last + 2 * word) != header:
            wrong += 1
            if wrong > TOLERANCE:
                return None
    return wrong


def next_offset(word: int) -> int:
    """Returns the distance from `bins` to `next`, the same in every release: 254 links and the binmap lie between."""
    return 254 * word + 16


def follow_ring(memory: Memory, bins: int) -> tuple[int, ...]:
    """Returns the ring through an arena whose bins are known; its start is where the other arenas point to."""
    word = memory.pointer_size
    first = memory.try_word(bins + next_offset(word))
    if first is None:
        return ()
    # mutex, flags and top stand in front
    if word + 8 <= bins - first < PREFIX_LIMIT:
        return (first,)
    for prefix in range(word + 8, PREFIX_LIMIT, word):
        start, offset = bins - prefix, prefix + next_offset(word)
        # the first arena's link ends the ring here, or goes on: null leads nowhere
        second = memory.try_word(first + offset)
        if second is None and memory.try_word(first + PREFIX_LIMIT + next_offset(word)) is None:
            return ()  # it is not all mapped: what can be read ends at a page's edge
        ring = _close_ring(memory, start, first, offset) if second else ()
        if ring:
            return ring
    return ()


def ring_from(memory: Memory, arena: int, bins: int) -> tuple[int, ...]:
    """Returns the ring through an arena whose start is known, too; empty if it does not close."""
    offset = bins - arena + next_offset(memory.pointer_size)
    first = memory.try_word(arena + offset)
    return _close_ring(memory, arena, first, offset) if first is not None else ()


def _close_ring(memory: Memory, start: int, first: int, offset: int) -> tuple[int, ...]:
    ring = [start]
    seen = {start}
    address: Optional[int] = first
    elsewhere = 0
    while address is not None and address not in seen and len(ring) < RING_LIMIT:
        # all but main_arena lie at the start of a heap: there are no more of them than there are heaps
        elsewhere += address % LEAST_HEAP >= PREFIX_LIMIT
        if elsewhere > 1:
            return ()
        seen.add(address)
        ring.append(address)
        address = memory.try_word(address + offset)
    return tuple(ring) if address == start else ()


def _in_a_threads_heap(memory: Memory, bins: int) -> bool:
    """Tells whether a heap_info precedes this arena, whose first word names it (an image may not name its mappings)."""
    for size in HEAP_SIZES:
        heap = bins & -size
        if bins - heap < PREFIX_LIMIT + 2 * memory.pointer_size:
            owner = memory.try_word(heap)
            if owner is not None and heap < owner < bins:
                return True
    return False


def scan(memory: Memory, start: int, end: int) -> Iterator[FoundBins]:
    """Finds the arenas whose malloc_state lies in [start, end), except threads', which lie in heaps of their own."""
    for bins in anchors(memory, start, end):
        if wrong_bins(memory, bins) is not None and not _in_a_threads_heap(memory, bins):
            yield FoundBins(bins, follow_ring(memory, bins))


def heap_for_ptr(layout: Layout, address: int) -> int:
    return address & ~(layout.heap_max - 1)


def walk_heaps(memory: Memory, layout: Layout, header: ArenaHeader, findings: list[Finding]) -> list[Heap]:
    """Returns the heaps of a thread's arena, oldest first; the last one holds top."""
    heaps: list[Heap] = []
    seen: set[int] = set()
    address = heap_for_ptr(layout, header.top)
    fields = layout.heap

    def say(
        rule: str, what: str, at: int, figures: Mapping[str, Optional[float]] = {}, names: Mapping[str, str] = {}
    ) -> None:
        findings.append(Finding(Statement(what, figures, names), at, header.index, rule))

    while address:
        if address in seen:
            say("heap-chain", "heaps-circle", address)
            break
        seen.add(address)
        try:
            words = memory.words(address, fields.size // layout.word)
        except MemoryReadError:
            say("heap-chain", "heaps-unreadable", address)
            break
        owner, previous, size, mprotect = (
            words[fields[name] // layout.word] for name in ("ar_ptr", "prev", "size", "mprotect_size")
        )
        if owner != header.address:
            names = {"owner": f"{owner:#x}", "expected": f"{header.address:#x}"}
            say("heap-arena", "heap-owner", address, names=names)
            break
        if not fields.size < size <= mprotect <= layout.heap_max:
            figures = {"bytes": size, "mprotect_bytes": mprotect, "max_bytes": layout.heap_max}
            say("heap-size", "heap-size", address, figures)
            break
        heaps.append(Heap(header.index, address, address + size, mprotect, last=not heaps))
        if previous & (layout.heap_max - 1):
            say("heap-chain", "heap-prev", address, names={"prev": f"{previous:#x}"})
            break
        address = previous
    end = None if header.top_bytes is None else header.top + header.top_bytes
    if heaps and end is not None and end != heaps[0].end:
        names = {"end": f"{end:#x}", "heap_end": f"{heaps[0].end:#x}"}
        say("top-end", "top-end-of-heap", header.top, names=names)
    total = sum(heap.bytes for heap in heaps)
    if heaps and total != header.system_mem:
        figures = {"bytes": total, "system_bytes": header.system_mem}
        say("system-mem", "heaps-sum", header.address, figures)
    heaps.reverse()
    return heaps


LEAST_PAGE = 4096
"""Every page size is a multiple of this; an arena grows and shrinks by pages."""


def initial_top(layout: Layout, address: int) -> int:
    """Returns the pseudo chunk that top points to while an arena has no heap: the header of bin 1."""
    return address + layout.arena["bins"] - layout.header


def read_arena(memory: Memory, layout: Layout, address: int, index: int = 0) -> ArenaHeader:
    """Reads the header at `address`, index 0 for main_arena; MemoryReadError if it cannot be read."""
    data = memory.read(address, layout.arena.size)

    def word(name: str) -> int:
        value: int = struct.unpack_from(memory.mark + memory.code, data, layout.arena[name])[0]
        return value

    mutex, flags = (struct.unpack_from(memory.mark + "I", data, layout.arena[name])[0] for name in ("mutex", "flags"))
    top = word("top")
    # the size word of the initial top is last_remainder: no heap follows it
    raw: Optional[int] = 0
    if top and top != initial_top(layout, address):
        raw = memory.try_word(top + layout.word)
    return ArenaHeader(
        index=index,
        address=address,
        main=index == 0,
        mutex=mutex,
        flags=flags,
        top=top,
        top_bytes=None if raw is None else masked(raw),
        next=word("next"),
        attached_threads=word("attached_threads") if "attached_threads" in layout.arena else None,
        system_mem=word("system_mem"),
        max_system_mem=word("max_system_mem"),
        initialised=top != 0,
    )


def evidence_at(memory: Memory, layout: Layout, address: int, must_link: bool) -> int:
    """Returns how strong the evidence is for such a main_arena here, if its ring is broken; 0: it cannot be one.

    All members but the first few are at the same distance from the bins in every release: only a link proves
    (`must_link`) how far in front of them malloc_state begins.
    """
    try:
        header = read_arena(memory, layout, address)
    except MemoryReadError:
        return 0
    if header.mutex > 2 or header.flags > 7:
        return 0
    linked = header.next == address or leads_to_arena(memory, layout, header.next)
    if must_link and not linked:
        return 0
    grown = 0 < header.system_mem <= header.max_system_mem and not header.system_mem % LEAST_PAGE
    return 1 + linked + grown + (bool(header.top) and not doubt_top(memory, layout, header))


def has_heap(layout: Layout, header: ArenaHeader) -> bool:
    return header.initialised and header.top != initial_top(layout, header.address)


def walk_ring(memory: Memory, layout: Layout, main_arena: int, findings: list[Finding]) -> list[ArenaHeader]:
    """Returns all arenas in the order of malloc_info: main_arena, then the newest to the oldest."""
    arenas: list[ArenaHeader] = []
    seen: set[int] = set()
    address = main_arena
    while address not in seen and len(arenas) < RING_LIMIT:
        seen.add(address)
        try:
            header = read_arena(memory, layout, address, len(arenas))
        except MemoryReadError as error:
            broken = cannot_read("ring-unreadable", error.address, error.size)
            findings.append(Finding(broken, address, len(arenas), rule="ring"))
            return arenas
        if not header.main:
            doubt = doubt_thread_arena(memory, layout, address)
            if doubt and leads_to_arena(memory, layout, address):
                # heap_info was overwritten, malloc_state after it was not
                about = doubt._replace(names={"arena_behind": f"{address:#x}"})
                findings.append(Finding(about, heap_for_ptr(layout, address), len(arenas), "heap-arena"))
            elif doubt:
                elsewhere = doubt._replace(id=f"ring-{doubt.id}")
                findings.append(Finding(elsewhere, address, len(arenas), rule="ring"))
                return arenas
        doubt = doubt_top(memory, layout, header)
        if doubt:
            findings.append(Finding(doubt, header.top, len(arenas), rule="top"))
            header = header._replace(top_bytes=None)
        arenas.append(header)
        address = header.next
    if address != main_arena:
        findings.append(Finding(Statement("ring-not-closed"), address, len(arenas) - 1, rule="ring"))
    return arenas


def is_closed(headers: Sequence[ArenaHeader]) -> bool:
    """Tells whether these are all the arenas: the ring leads back to its start."""
    return bool(headers) and headers[-1].next == headers[0].address


def doubt_top(memory: Memory, layout: Layout, header: ArenaHeader) -> Optional[Statement]:
    """Returns why top is not plausible; None if it is."""
    if not header.top:
        return Statement("top-zero") if header.system_mem else None
    if header.top == initial_top(layout, header.address):
        return None
    raw = memory.try_word(header.top + layout.word)
    if raw is None or header.top_bytes is None:
        return Statement("top-unreadable")
    if not layout.aligned(header.top):
        return Statement("top-misaligned")
    if not raw & PREV_INUSE or raw & (IS_MMAPPED | NON_MAIN_ARENA):
        return Statement("top-flags", names={"size_word": f"{raw:#x}"})
    if not layout.min_size <= header.top_bytes <= header.system_mem:
        return Statement("top-size", {"bytes": header.top_bytes, "system_bytes": header.system_mem})
    if (header.top + header.top_bytes) % LEAST_PAGE:
        return Statement("top-off-page", names={"end": f"{header.top + header.top_bytes:#x}"})
    return None


def leads_to_arena(memory: Memory, layout: Layout, address: int) -> bool:
    """Tells whether a first heap has its malloc_state here, with bins that look like bins."""
    in_place = address == heap_for_ptr(layout, address) + layout.heap.size
    return in_place and wrong_bins(memory, address + layout.arena["bins"]) is not None


def doubt_thread_arena(memory: Memory, layout: Layout, address: int) -> Optional[Statement]:
    """Returns why this cannot be a thread's arena, which directly follows its heap_info; None if it looks like one."""
    heap = heap_for_ptr(layout, address)
    if address != heap + layout.heap.size:
        return Statement("no-heap-info")
    owner = memory.try_word(heap + layout.heap["ar_ptr"])
    if owner != address:
        return Statement("heap-info-of-another")
    return None


class ArenaReach:
    """The heaps of one arena. If not all of them are known, nothing can be proven to lie outside."""

    def __init__(self, header: ArenaHeader, heaps: Sequence[Heap]) -> None:
        self.header = header
        self.known = sum(heap.bytes for heap in heaps) == header.system_mem
        ranges = sorted((heap.address, heap.end) for heap in heaps)
        self._starts = [start for start, _ in ranges]
        self._ends = [end for _, end in ranges]

    def holds(self, chunk: int, size: int = 1) -> bool:
        """Whether it lies completely in one heap."""
        if not self.known:
            return True
        place = bisect_right(self._starts, chunk) - 1
        return place >= 0 and chunk + size <= self._ends[place]

    def first_outside(self, addresses: Sequence[int], sizes: Sequence[int]) -> Optional[int]:
        """Returns the index of the first chunk that lies elsewhere."""
        if not self.known or not addresses:
            return None
        if (
            len(self._starts) == 1
            and self._starts[0] <= min(addresses)
            and (max(map(add, addresses, sizes)) <= self._ends[0])
        ):
            return None
        # without a line of Python for each, as there may be millions
        ends = [0, *self._ends]
        limits = map(ends.__getitem__, map(bisect_right, repeat(self._starts), addresses))
        if all(map(le, map(add, addresses, sizes), limits)):
            return None
        holds = self.holds
        return next((index for index, chunk in enumerate(zip(addresses, sizes)) if not holds(*chunk)), None)

    def within(self, walked: Bin, findings: list[Finding]) -> Bin:
        """Cuts a list at its first chunk that lies elsewhere, with a finding if there is one."""
        index = self.first_outside(walked.addresses, walked.sizes)
        if index is None:
            return walked
        chunk = walked.addresses[index]
        of, link = ("fast", "fast-link") if walked.kind == "fast" else ("bin", "bin-link")
        holder = walked.addresses[index - 1] if index else self.header.address
        outside = Statement("link-outside", {"bin": walked.index}, {"list": of})
        findings.append(Finding(outside, chunk, self.header.index, link, holder=holder))
        return walked._replace(
            addresses=walked.addresses[:index],
            sizes=walked.sizes[:index],
            whole=False,
            raw_flags=walked.raw_flags and index,
        )

    def doubt_sum(self, lists: Sequence[Bin], findings: list[Finding]) -> None:
        """Reports more free bytes than bytes: chunks that overlap, or a wrong size."""
        free = sum(each.bytes for each in lists) + (self.header.top_bytes or 0)
        if free > self.header.system_mem:
            figures = {"free_bytes": free, "system_bytes": self.header.system_mem}
            beyond = Statement("free-beyond-system-mem", figures)
            findings.append(Finding(beyond, self.header.address, self.header.index, "system-mem"))


Reaches = Mapping[int, ArenaReach]
"""ArenaReach by arena."""


def reaches_of(headers: Sequence[ArenaHeader], heaps: Mapping[int, Sequence[Heap]]) -> Reaches:
    return {header.index: ArenaReach(header, heaps[header.index]) for header in headers}


class ArenaIndexes:
    """The arenas' indexes by their heaps and by their own addresses."""

    def __init__(
        self, memory: Memory, layout: Layout, headers: Sequence[ArenaHeader], heaps: Mapping[int, Sequence[Heap]]
    ) -> None:
        self._memory = memory
        self._layout = layout
        self._known = {part.address: part.arena for parts in heaps.values() for part in parts if part.arena}
        self._all = [header.index for header in headers]
        self._partial = [
            header.index for header in headers if sum(part.bytes for part in heaps[header.index]) != header.system_mem
        ]
        self._found: dict[int, Optional[int]] = {}
        """The results of `find` so far."""
        self._parts = sorted((part.address, part.end, part.arena) for parts in heaps.values() for part in parts)
        for header in headers[1:]:
            self._known[header.address] = self._known[heap_for_ptr(layout, header.address)] = header.index

    def tallies(
        self, caches: Sequence[ThreadCache], arenas: Sequence[Arena], findings: list[Finding]
    ) -> dict[Optional[int], Optional[Tally]]:
        """Returns cached chunks by arena; None if a chunk may be that arena's, as the start of its heap is not in the
        image.

        It can only belong to an arena of which not all heaps are known. If its flags name another arena than the one
        that it lies in, they were overwritten.
        """
        by_arena: dict[Optional[int], Tally] = {}
        lost = False
        stray: Optional[int] = None
        doubtful: set[Optional[int]] = set()
        for cached in (cached for cache in caches for cached in cache.bins):
            for chunk, size in zip(cached.addresses, cached.sizes):
                try:
                    owner = self._found[chunk] = self.read(chunk)
                except MemoryReadError:
                    lost = True
                    continue
                by_arena[owner] = by_arena.get(owner, Tally()).plus(Tally(1, size))
                around = self.around(chunk)
                if around is None and not self._partial:
                    stray = chunk
                if owner != around and (around is not None or not (owner is None or owner in self._partial)):
                    doubtful |= {owner, around}
        if lost:
            doubtful.update(self._partial or self._all)
        if stray is not None:
            # mmapped blocks are never kept
            findings.append(Finding(Statement("cached-in-no-heap"), stray, unknown="cached-chunks-unowned"))
            doubtful.update(self._all)
        for index, free in ((arena.header.index, arena.free_bytes) for arena in arenas):
            kept = by_arena.get(index, Tally()).bytes
            if free is not None and index not in doubtful and free + kept > arenas[index].header.system_mem:
                what = Statement("cached-beyond-arena", {"bytes": kept})
                findings.append(Finding(what, arenas[index].header.address, index, unknown="cached-chunks-unowned"))
                doubtful.add(index)
        return {**by_arena, **dict.fromkeys(doubtful, None)}

    def around(self, chunk: int) -> Optional[int]:
        """Returns the arena that this address lies in."""
        place = bisect_right(self._parts, (chunk, self._layout.heap_max << 32, 0)) - 1
        return self._parts[place][2] if place >= 0 and chunk < self._parts[place][1] else None

    def find(self, chunk: int) -> Optional[int]:
        """Like `read`, but returns None if unknown."""
        if chunk not in self._found:
            try:
                self._found[chunk] = self.read(chunk)
            except MemoryReadError:
                self._found[chunk] = None
        return self._found[chunk]

    def read(self, chunk: int) -> Optional[int]:
        """Returns the arena's index, None for a mmapped block or an unknown arena; MemoryReadError."""
        raw = self._memory.word(chunk + self._layout.word)
        if raw & IS_MMAPPED:
            return None
        if not raw & NON_MAIN_ARENA:
            return 0
        info = heap_for_ptr(self._layout, chunk)
        known = self._known.get(info)
        # a heap that the chain no longer leads to still names its arena
        return known or self._known.get(self._memory.word(info + self._layout.heap["ar_ptr"]))


CHAIN_LIMIT = 1 << 26
"""A walk of this many headers is not in a heap: a region cannot hold as many."""

MAX_POSTS = 3


class ArenaSurroundings(NamedTuple):
    """The data besides its own header that tell where a main arena can have grown."""

    params: Optional[Params]
    """None if mp_ is not known, or not yet."""
    mappings: Sequence[Region]
    page: int


def heaps_of(
    memory: Memory, layout: Layout, header: ArenaHeader, ground: ArenaSurroundings, findings: list[Finding]
) -> tuple[Heap, ...]:
    """Returns an arena's heaps in order; the main arena's are the regions that it grew into."""
    if not has_heap(layout, header):
        return ()
    if header.main:
        return tuple(main_regions(memory, layout, header, ground, findings=findings))
    return tuple(walk_heaps(memory, layout, header, findings))


def main_regions(
    memory: Memory, layout: Layout, header: ArenaHeader, ground: ArenaSurroundings, findings: list[Finding]
) -> list[Heap]:
    """Returns the main arena's regions in address order; the one with top is `last`."""
    params, mappings, page = ground
    base = params.get("sbrk_base") if params else None
    start = header.brk_base
    if header.contiguous and start is None:
        # top cannot be read, yet it ends where sbrk_base and system_mem say
        return [] if base is None else [Heap(header.index, base, base + header.system_mem, None, last=True)]
    if start is not None:
        end = start + header.system_mem
        # no memory begins below 0, whatever a system_mem that was written over says
        start = max(start, 0)
        if base is not None and base != start:
            names = {"base": f"{base:#x}", "start": f"{start:#x}"}
            differs = Statement("sbrk-base", {"system_bytes": header.system_mem}, names)
            findings.append(Finding(differs, header.address, header.index, "sbrk-base"))
            # one of the two is wrong: the right one is where memory begins
            start = base if base <= header.top and memory.try_word(base) is not None else start
        if any(each.contains(header.top) for each in mappings) and not any(each.contains(end - 1) for each in mappings):
            # systrim() moves the break back before it writes top's new size
            beyond = Statement("top-beyond-mapped", names={"end": f"{end:#x}"})
            findings.append(Finding(beyond, header.top, header.index, "top-end"))
        return [Heap(header.index, start, end, None, last=True)]
    parts = []
    if base:
        brk_end = _chain_end(memory, layout, layout.first_aligned(base), header, mappings=mappings, page=page)
        if brk_end is not None:
            parts.append((base, brk_end))
    for mapping in mappings:
        if mapping.writable and mapping.readable and mapping.present and not mapping.is_file:
            parts += _mapped_regions(memory, layout, header, mapping, page=page, taken=list(parts))
    parts.sort()
    total = sum(stop - start for start, stop in parts)
    if total != header.system_mem:
        missing = Statement("regions-missing", {"bytes": total, "system_bytes": header.system_mem})
        findings.append(Finding(missing, header.address, unknown="regions-missing"))
    return [Heap(header.index, start, stop, None, last=start <= header.top < stop) for start, stop in parts]


def _mapped_regions(
    memory: Memory, layout: Layout, header: ArenaHeader, mapping: Region, page: int, taken: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """Yields page-aligned regions from sysmalloc's mmap fallback, which may share a mapping with others."""
    shift = layout.first_aligned(0)
    position = mapping.start
    while position < mapping.end:
        inside = next((stop for start, stop in taken if start <= position < stop), None)
        if inside is not None:
            position = -(-inside // page) * page
            continue
        end = _chain_end(memory, layout, position + shift, header, mappings=(mapping,), page=page)
        if end is None or end - position < page:
            # mmap gave a megabyte at least (MMAP_AS_MORECORE_SIZE): a few words that look like posts are chance
            position += page
            continue
        yield position, end
        position = -(-end // page) * page


def _chain_end(
    memory: Memory, layout: Layout, chunk: int, header: ArenaHeader, mappings: Sequence[Region], page: int
) -> Optional[int]:
    """Returns the end of the region whose first chunk this is; None if its headers lead nowhere."""
    limit = next((mapping.end for mapping in mappings if mapping.contains(chunk)), 0)
    word, fence = layout.word, layout.header
    read = memory.word
    try:
        for _ in range(CHAIN_LIMIT):
            if chunk == header.top:
                return None if header.top_bytes is None else chunk + header.top_bytes
            if chunk + 2 * word > limit:
                return None
            raw = read(chunk + word)
            size = raw & ~SIZE_BITS
            if raw & (IS_MMAPPED | NON_MAIN_ARENA):
                return None
            if size == fence:
                return _fence_end(memory, layout, chunk, limit, page=page)
            if size < layout.min_size or size & layout.mask:
                return None
            chunk += size
    except MemoryReadError:
        return None
    return None


def _fence_end(memory: Memory, layout: Layout, fence: int, limit: int, page: int) -> Optional[int]:
    """Returns the end of a region: two header-sized posts close it, then at most alignment slack.

    If the old top was only a header larger than these, sysmalloc leaves a rest in front of them that is no chunk and
    looks like a third post: then the last two are the posts, and end where every top has to, at a page.
    """
    posts = 1
    while posts < MAX_POSTS and fence + (posts + 1) * layout.header <= limit:
        raw = memory.word(fence + posts * layout.header + layout.word)
        if raw & ~SIZE_BITS != layout.header or not raw & PREV_INUSE:
            break
        posts += 1
    ends = [end + (-end & layout.mask) for end in (fence + count * layout.header for count in range(2, posts + 1))]
    return next((end for end in ends if not end & (page - 1)), ends[0] if ends else None)
