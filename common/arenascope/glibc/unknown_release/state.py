"""Derives malloc_state by relations, for a release that the table does not know (docs/derivation.md has the reasons).

`bins` and `next` are given (py: bins lead back to themselves, the ring closes). top is proven by its end,
system_mem by what it must add up to; a word that only has a likely place is left out, or listed as not known.

Of mp_ only what the values prove is shown, member by member. Three groups are recognised by their values: the
thresholds at its start (multiples of each other), the counters of mmapped blocks up to sbrk_base (n_mmaps_max is 65536,
bytes and counts agree), and the thread cache's limits. Members between them are taken from the newest row if all groups
stand as they do there and the members hold its defaults.
"""

from __future__ import annotations

import struct
from collections import Counter
from typing import Callable, Iterator, Mapping, NamedTuple, Optional, Sequence, Union

from ...base.errors import MemoryReadError, NotFoundError
from ...base.heap_model import ARENA_FLAGS, NONCONTIGUOUS, ArenaHeader, Finding, Statement
from ...glibc import release_table
from ...sources.memory import Memory
from ...sources.target import Region
from ..arena import (
    PREFIX_LIMIT,
    ArenaSurroundings,
    FoundBins,
    follow_ring,
    heap_for_ptr,
    main_regions,
    next_offset,
    scan,
)
from ..fitting_layout import PAGE, PAGES_BEHIND, majority
from ..malloc_chunk import IS_MMAPPED, NON_MAIN_ARENA, PREV_INUSE, masked
from ..malloc_par import INTS
from ..process_layout import Layout, Struct, fastbin_count, from_table
from ..regular_bins import fastbin_size

WINDOW = 10
"""The number of words examined from next_free on: up to max_system_mem they are 4 so far."""


class Surroundings(NamedTuple):
    """The image's facts besides the arenas."""

    mappings: Sequence[Region]
    page: int
    near: frozenset[int]
    """The words around main_arena and mp_: one of them is sbrk_base."""
    threads: int
    """The number of threads; 0 if not known."""


class TopChunk(NamedTuple):
    """An arena's last chunk; `address` is 0 if it has no memory yet (initial_top)."""

    address: int
    end: int


class Raw(NamedTuple):
    """One arena, before any of its members but `bins` and `next` is known."""

    place: int
    """The position in the ring: 0 is main_arena."""
    address: int
    head: bytes
    """The bytes from its start to `bins`."""
    after_bins: tuple[int, ...]
    """The words from next_free on."""

    def word(self, memory: Memory, offset: int) -> int:
        value: int = struct.unpack_from(memory.mark + memory.code, self.head, offset)[0]
        return value

    def u32(self, memory: Memory, offset: int) -> int:
        value: int = struct.unpack_from(memory.mark + "I", self.head, offset)[0]
        return value


def read_raws(memory: Memory, hit: FoundBins) -> list[Raw]:
    """Reads the arenas of the ring that can be read."""
    word = memory.pointer_size
    size = hit.bins - hit.ring[0]
    raws = []
    for index, address in enumerate(hit.ring):
        start = address + size + next_offset(word) + word
        for count in (WINDOW, 4):
            try:
                raws.append(Raw(index, address, memory.read(address, size), memory.words(start, count)))
                break
            except MemoryReadError:
                continue
    return raws


def read_top(memory: Memory, layout: Layout, raw: Raw, offset: int) -> Optional[TopChunk]:
    """Returns the top chunk if `top` were at this offset; None if there is none."""
    address = raw.word(memory, offset)
    if address in (0, raw.address + len(raw.head) - layout.header):
        return TopChunk(0, 0)
    if not layout.aligned(address):
        return None
    size_word = memory.try_word(address + layout.word)
    if size_word is None or not size_word & PREV_INUSE or size_word & (IS_MMAPPED | NON_MAIN_ARENA):
        return None
    size = masked(size_word)
    if size < layout.min_size or (address + size) % PAGE:
        return None
    return TopChunk(address, address + size)


def not_less(values: Mapping[int, int], least: Mapping[int, int], bound: int) -> bool:
    """Tells whether this can be the peak of `least`: pages above it, or a few below (systrim, since 2.19)."""

    def fits(value: int, base: int) -> bool:
        if not value and not base:
            return True
        more = value - base
        return more % PAGE == 0 and (0 <= more < bound or (value >= PAGE and 0 < -more <= PAGES_BEHIND))

    return majority(fits(values[index], base) for index, base in least.items() if index in values)


def undisputed(candidates: Sequence[tuple[int, Mapping[int, int]]]) -> Optional[int]:
    """Returns the first of the places that can hold a value; None if they hold different ones, which decides
    nothing."""
    if not candidates or any(values != candidates[0][1] for _, values in candidates):
        return None
    return candidates[0][0]


MOST_BEHIND = 512
"""The most bytes of new members after the known ones."""
CHUNKS_BEHIND = 16
"""This many consecutive chunks are no accident."""


def derive_state(memory: Memory, layout: Layout, hit: FoundBins, around: Surroundings) -> Layout:
    """Returns `layout` with malloc_state and heap_info as these arenas prove them, or NotFoundError with what is not
    proven."""
    if follow_ring(memory, hit.bins)[:1] != hit.ring[:1]:
        raise NotFoundError("its ring of arenas does not close where `next` should be")
    raws = read_raws(memory, hit)
    bins = hit.bins - hit.ring[0]
    # a ring of several that closes proves `next`; one that leads back at once may be another word
    stray = next(_outside(memory, layout, hit, around), None) if len(hit.ring) == 1 else None
    if stray is not None:
        raise NotFoundError(f"the bins of an arena at {stray:#x} are in no arena of the ring")
    lacking = "the arenas cannot be read"
    for top in (place for place in (bins - layout.header, *range(8, bins, layout.word)) if place >= 8):
        tops = {raw.place: there for raw in raws for there in [read_top(memory, layout, raw, top)] if there}
        if not raws or not majority(raw.place in tops for raw in raws):
            continue
        if not any(each.address for each in tops.values()):
            # words that are 0 in front of bins are a top only where nothing after them suggests memory either
            if top == bins - layout.header and not any(word for raw in raws for word in raw.after_bins[2:4]):
                return _empty(layout, bins)
            continue
        lacking = "no heap_info fits the arenas of its threads"
        heaps = derive_heaps(memory, layout, raws, tops)
        if heaps is None:
            continue
        placed = _State(memory, layout, raws, tops, heaps=heaps, around=around, top=top).place()
        if isinstance(placed, Layout):
            return placed
        lacking = placed
    raise NotFoundError(lacking)


def _outside(memory: Memory, layout: Layout, hit: FoundBins, around: Surroundings) -> Iterator[int]:
    """Finds bins at the start of heaps that the ring does not lead to: then `next` is not where it is read."""
    for region in around.mappings:
        if region.is_file or not (region.writable and region.present):
            continue
        for heap in range(-(-region.start // layout.heap_max) * layout.heap_max, region.end, layout.heap_max):
            end = min(region.end, heap + PREFIX_LIMIT + 256 * layout.word)
            yield from (other.bins for other in scan(memory, heap, end) if other.bins != hit.bins)


def _empty(layout: Layout, bins: int) -> Layout:
    """Handles arenas that were all only initialised: members in the order of the newest release."""
    word = layout.word
    next_at = bins + next_offset(word)
    names = ("next", "next_free", "attached_threads", "system_mem", "max_system_mem")
    offsets = {
        "mutex": 0,
        "flags": 4,
        "top": bins - 2 * word,
        "last_remainder": bins - word,
        "bins": bins,
        "binmap": bins + 254 * word,
        **{name: next_at + n * word for n, name in enumerate(names)},
    }
    return layout._replace(arena=Struct(offsets, next_at + 5 * word), fastbins=0)


class _State(NamedTuple):
    memory: Memory
    layout: Layout
    raws: Sequence[Raw]
    tops: Mapping[int, TopChunk]
    heaps: HeapEvidence
    around: Surroundings
    top: int

    def place(self) -> Union[Layout, str]:
        """Returns the layout, or a text on what could not be placed."""
        word, bins = self.layout.word, len(self.raws[0].head)
        flags = self._flags()
        if flags is None:
            return "flags of its thread arenas (NONCONTIGUOUS) are not in front of top"
        system = self._system_mem(flags)
        if system is None:
            return (
                "no word of malloc_state is what system_mem must be: the sum of an arena's heaps, in main_arena "
                "the way from sbrk_base to the end of top"
            )
        peak = self._max_system_mem(system)
        if peak is None:
            return "max_system_mem cannot be told from its neighbours"
        next_at = bins + next_offset(word)
        offsets = {
            "mutex": 0,
            "flags": flags,
            "top": self.top,
            "bins": bins,
            "binmap": bins + 254 * word,
            "next": next_at,
            "next_free": next_at + word,
            "system_mem": next_at + word + system * word,
            "max_system_mem": next_at + word + peak * word,
        }
        attached = self._attached(system, peak)
        if attached is not None:
            offsets["attached_threads"] = next_at + word + attached * word
        offsets["last_remainder"] = bins - word if self.top != bins - word else self.top - word
        size = self._size(next_at + word + (max(system, peak) + 1) * word)
        if size is None:
            return "no chunks follow malloc_state in the heaps of its threads' arenas"
        layout = self.layout._replace(
            heap=self.heaps.struct, heap_max=self.heaps.heap_max, fastbins=0, arena=Struct(offsets, size)
        )
        return place_lists(self.memory, layout, self.raws)

    def _size(self, least: int) -> Optional[int]:
        """Finds the size of malloc_state by the first chunks of threads' arenas: new members may follow the last one
        that is known. None if no chunks follow it in most of them."""
        threads = [raw for raw in self.raws if raw.place and raw.place in self.heaps.sums]
        if not threads:
            return least
        first = self.layout.first_aligned(threads[0].address + least) - threads[0].address
        for size in range(first, first + MOST_BEHIND, self.layout.align):
            if majority(self._chunks_follow(raw, size) for raw in threads):
                return size
        return None

    def _chunks_follow(self, raw: Raw, size: int) -> bool:
        """Tells whether chunks follow each other behind a malloc_state of this size: several, or all there are."""
        memory, layout, heap = self.memory, self.layout, self.heaps.struct
        start = raw.address - heap.size
        end = start + (memory.try_word(start + heap["size"]) or 0)
        top = self.tops[raw.place].address
        place = first = raw.address + size
        for _ in range(CHUNKS_BEHIND):
            if place == top:
                return True
            size_word = memory.try_word(place + layout.word) or 0
            bytes_here = masked(size_word)
            if bytes_here == layout.header and place != first:
                return True  # a fencepost: the heap that follows has the rest
            if place == first and not size_word & PREV_INUSE:
                return False
            if size_word & IS_MMAPPED or bytes_here < layout.min_size or bytes_here & layout.mask:
                return False
            place += bytes_here
            if place > (top if start < top < end else end) - layout.header:
                return place == top
        return True

    def _flags(self) -> Optional[int]:
        for offset in range(4, self.top - 3, 4):
            values = {raw.place: raw.u32(self.memory, offset) for raw in self.raws}
            others = [value & NONCONTIGUOUS and value <= ARENA_FLAGS for index, value in values.items() if index]
            if values.get(0, 0) <= ARENA_FLAGS and (not others or majority(bool(each) for each in others)):
                return offset
        return None

    def _values(self, place: int) -> dict[int, int]:
        return {raw.place: raw.after_bins[place] for raw in self.raws if place < len(raw.after_bins)}

    def _places(self) -> range:
        return range(1, min(len(raw.after_bins) for raw in self.raws))

    def _system_mem(self, flags: int) -> Optional[int]:
        votes = {
            place: [self._vote(raw, raw.after_bins[place], flags) for raw in self.raws] for place in self._places()
        }
        sure = [place for place, cast in votes.items() if majority(cast) and True in cast]
        if sure:
            best = max(sure, key=lambda place: (sum(vote is True for vote in votes[place]), -place))
            # one in front that holds in fewer arenas: a new member, or system_mem of which one was overwritten
            return best if best == sure[0] else None
        main = self.raws[0]
        if len(self.raws) > 1 or main.place or not main.u32(self.memory, flags) & NONCONTIGUOUS:
            return None
        whole = self._sum_of_regions(main, flags)
        return next((place for place in self._places() if main.after_bins[place] == whole), None)

    def _vote(self, raw: Raw, value: int, flags: int) -> Optional[bool]:
        """Tells whether this can be system_mem of that arena; None if unknown."""
        top = self.tops.get(raw.place)
        if raw.place:
            return self.heaps.sums[raw.place] == value if raw.place in self.heaps.sums else None
        if top is None or not top.address:
            return None if not value else False
        if raw.u32(self.memory, flags) & NONCONTIGUOUS:
            return None
        return bool(value) and self._is_base(top, top.end - value)

    def _is_base(self, top: TopChunk, base: int) -> bool:
        """Tells whether mp_.sbrk_base may be this: it stands near main_arena, and a chunk begins there."""
        if base not in self.around.near or not 0 < base <= top.address:
            return False
        layout = self.layout
        first = layout.first_aligned(base)
        size_word = self.memory.try_word(first + layout.word) or 0
        return bool(size_word & PREV_INUSE) and first + masked(size_word) <= top.end

    def _sum_of_regions(self, main: Raw, flags: int) -> int:
        """Sums main_arena's regions, found by their chunks, if brk was refused and no other arena tells."""
        top = self.tops[0]
        header = ArenaHeader(
            0,
            main.address,
            main=True,
            mutex=0,
            flags=main.u32(self.memory, flags),
            top=top.address,
            top_bytes=top.end - top.address,
            next=0,
            attached_threads=None,
            system_mem=0,
            max_system_mem=0,
            initialised=True,
        )
        parts = main_regions(
            self.memory,
            self.layout,
            header,
            ArenaSurroundings(None, self.around.mappings, self.around.page),
            findings=[],
        )
        return sum(part.bytes for part in parts)

    def _max_system_mem(self, system: int) -> Optional[int]:
        least = self._values(system)
        bound = 1 << (46 if self.layout.word == 8 else 32)
        for places in (range(system + 1, self._first_chunk()), range(system - 1, 0, -1)):
            fitting = [(place, self._values(place)) for place in places if not_less(self._values(place), least, bound)]
            if fitting:
                return undisputed(fitting)
        return None

    def _first_chunk(self) -> int:
        """Returns the most words from next_free on that can be malloc_state's: a thread's first chunk follows it."""
        words = len(self._places()) + 1
        layout = self.layout
        for raw in self.raws[1:]:
            start = raw.address + len(raw.head) + next_offset(layout.word) + layout.word
            for place in range(3, words - 1):
                chunk = start + place * layout.word
                size = masked(raw.after_bins[place + 1])
                if not layout.aligned(chunk) or raw.after_bins[place + 1] & 3 != PREV_INUSE or size < layout.min_size:
                    continue
                if masked(self.memory.try_word(chunk + size + layout.word) or 0) >= layout.header:
                    words = place
                    break
        return words

    def _attached(self, system: int, peak: int) -> Optional[int]:
        """Finds a count of threads between next_free and system_mem, if exactly one word there can be it."""
        most_threads = self.around.threads or 1 << 16
        fitting = []
        for place in range(1, min(system, peak)):
            values = self._values(place)
            if values.get(0) and sum(values.values()) <= most_threads:
                fitting.append(place)
        return fitting[0] if len(fitting) == 1 else None


WORDS_LIMIT = 64
"""The most words of a heap_info (5 at most so far)."""
HEAPS_LIMIT = 65536


class HeapEvidence(NamedTuple):
    """The evidence from the heaps of the threads' arenas."""

    heap_max: int
    struct: Struct
    sums: Mapping[int, int]
    """By the arenas' position in the ring: the sum of their heaps, which system_mem must equal."""


class _Own(NamedTuple):
    """One thread arena: its first heap's words and those of the heap that its top lies in."""

    raw: Raw
    first: tuple[int, tuple[int, ...]]
    newest: tuple[int, tuple[int, ...]]
    end: int


def derive_heaps(
    memory: Memory, layout: Layout, raws: Sequence[Raw], tops: Mapping[int, TopChunk]
) -> Optional[HeapEvidence]:
    """Derives heap_info; None if none fits most arenas."""
    others = [raw for raw in raws if raw.place]
    if not others:
        return HeapEvidence(layout.heap_max, layout.heap, {})
    sizes = [layout.heap_max, *(1 << bits for bits in range(16, 34 if layout.word == 8 else 29))]
    for heap_max in dict.fromkeys(sizes):
        size, _ = Counter(raw.address & (heap_max - 1) for raw in others).most_common(1)[0]
        if not 4 * layout.word <= size <= WORDS_LIMIT * layout.word:
            continue
        owned = [own for raw in others for own in _own(memory, raw, tops.get(raw.place), heap_max, size=size)]
        form = _struct(memory, owned, heap_max, size) if 2 * len(owned) > len(others) else None
        if form is not None:
            return form
    return None


def _own(memory: Memory, raw: Raw, top: Optional[TopChunk], heap_max: int, size: int) -> Iterator[_Own]:
    """Reads an arena's heaps; nothing if they cannot be read like this."""
    first = raw.address & ~(heap_max - 1)
    if top is None or not top.address or raw.address - first != size:
        return
    newest = top.address & ~(heap_max - 1)
    words = _words(memory, first, size), _words(memory, newest, size)
    if words[0] and words[1]:
        yield _Own(raw, (first, words[0]), (newest, words[1]), top.end)


def _words(memory: Memory, heap: int, size: int) -> tuple[int, ...]:
    return memory.try_words(heap, size // memory.pointer_size) or ()


def _struct(memory: Memory, owned: Sequence[_Own], heap_max: int, size: int) -> Optional[HeapEvidence]:
    places = range(size // memory.pointer_size)
    ar_ptr = _best(places, lambda k: [own.first[1][k] == own.newest[1][k] == own.raw.address for own in owned])
    end = _best(places, lambda k: [own.newest[1][k] == own.end - own.newest[0] for own in owned])
    if ar_ptr is None or end is None:
        return None
    rest = [k for k in (ar_ptr + 1, *places) if k in places and k not in (ar_ptr, end)]
    chained = [own for own in owned if own.first[0] != own.newest[0]]
    prev = _best(rest, lambda k: [_chain(memory, own, k, heap_max, size=size) is not None for own in chained or owned])
    if prev is None:
        return None
    chains = {own.raw.place: _chain(memory, own, prev, heap_max, size=size) for own in owned}
    heaps = [heap for chain in chains.values() for heap in chain or ()]
    sizes = {n: words[end] for n, words in enumerate(heaps)}
    rest = [k for k in (end + 1, *places) if k in places and k not in (ar_ptr, end, prev)]
    access = [(k, {n: words[k] for n, words in enumerate(heaps)}) for k in dict.fromkeys(rest)]
    access = [
        (k, values)
        for k, values in access
        if not_less(values, sizes, heap_max) and majority(values[n] >= sizes[n] for n in sizes)
    ]
    mprotect = undisputed(access)
    if mprotect is None:
        return None
    word = memory.pointer_size
    offsets = {"ar_ptr": ar_ptr * word, "prev": prev * word, "size": end * word, "mprotect_size": mprotect * word}
    sums = {
        index: sum(words[end] for words in chain)
        for index, chain in chains.items()
        if chain and all(not words[end] % PAGE and words[end] <= heap_max for words in chain)
    }
    return HeapEvidence(heap_max, Struct(offsets, size), sums)


def _best(places: Sequence[int], votes: Callable[[int], Sequence[bool]]) -> Optional[int]:
    """Returns the place with the most votes, the first of equals; None without a majority."""
    cast = {place: votes(place) for place in places}
    return max((place for place in cast if majority(cast[place])), key=lambda place: sum(cast[place]), default=None)


def _chain(memory: Memory, own: _Own, prev: int, heap_max: int, size: int) -> Optional[list[tuple[int, ...]]]:
    """Returns the heaps from the newest back to the first, if the word at this place links them."""
    chain: list[tuple[int, ...]] = []
    seen: set[int] = set()
    heap, words = own.newest
    while heap not in seen and len(chain) < HEAPS_LIMIT:
        seen.add(heap)
        chain.append(words)
        if heap == own.first[0]:
            return chain if not words[prev] else None
        heap = words[prev]
        words = _words(memory, heap, size) if heap and not heap & (heap_max - 1) else ()
        if not words:
            return None
    return None


HUGE = 2 << 20
"""If brk was refused: so much in front of top counts as the arena's."""


def place_lists(memory: Memory, layout: Layout, raws: Sequence[Raw]) -> Layout:
    """Returns the layout with fastbinsY if words in front of top prove them."""
    start = _fastbins(memory, layout, raws)
    if start is None:
        return layout
    arena = Struct({**layout.arena.offsets, "fastbinsY": start}, layout.arena.size)
    return layout._replace(arena=arena, fastbins=fastbin_count(layout.word, layout.align))


def heap_extents(memory: Memory, layout: Layout, arenas: Sequence[int]) -> Callable[[int], bool]:
    """Returns a function that tells whether an address lies among the chunks of these arenas."""
    main, known = arenas[0], set(arenas)
    word = memory.pointer_size
    top, system, flags = (memory.try_word(main + layout.arena[name]) or 0 for name in ("top", "system_mem", "flags"))
    end = top + masked(memory.try_word(top + word) or 0)
    start = end - system if not flags & NONCONTIGUOUS else top & -HUGE

    def leads(value: int) -> bool:
        if start <= value < end:
            return True
        heap = heap_for_ptr(layout, value)
        owner = memory.try_word(heap + layout.heap["ar_ptr"]) if heap else None
        if owner not in known or owner == main:
            return False
        header = layout.heap.size + (layout.arena.size if heap == heap_for_ptr(layout, owner) else 0)
        return value - heap >= header

    return leads


def unknown_lists(memory: Memory, layout: Layout, arenas: Sequence[int], leads: Callable[[int], bool]) -> list[Finding]:
    """Reports words of malloc_state that are no known member's and lead to chunks: what they hold is not known."""
    taken: set[int] = set()
    counts = {"bins": 254, "fastbinsY": layout.fastbins, "binmap": 16 // layout.word}
    for name, offset in layout.arena.offsets.items():
        taken.update(offset + n * layout.word for n in range(counts.get(name, 1)))
    findings = []
    for index, arena in enumerate(arenas):
        for offset in range(layout.word, layout.arena.size, layout.word):
            if offset in taken:
                continue
            value = memory.try_word(arena + offset) or 0
            if value >= PAGE and leads(value):
                findings.append(
                    Finding(
                        Statement("list-unknown", {"offset": offset}, {"leads_to": f"{value:#x}"}),
                        arena,
                        index,
                        unknown="list-unknown",
                    )
                )
    return findings


def _fastbins(memory: Memory, layout: Layout, raws: Sequence[Raw]) -> Optional[int]:
    """Finds where the words in front of top are heads of lists of fast chunks, each of its own size; None if
    nowhere."""
    count = fastbin_count(layout.word, layout.align)
    filled: dict[int, int] = {}
    for start in range(layout.word, layout.arena["top"] - (count - 1) * layout.word, layout.word):
        votes = [_heads(memory, layout, raw, start, count=count) for raw in raws]
        if majority(vote is not None for vote in votes) and any(votes):
            filled[start] = sum(vote or 0 for vote in votes)
    return max(filled, key=filled.__getitem__, default=None)


def _heads(memory: Memory, layout: Layout, raw: Raw, start: int, count: int) -> Optional[int]:
    """Counts the fastbins that would not be empty; None if a word is neither 0 nor a chunk of its bin's size."""
    filled = 0
    for index in range(count):
        chunk = raw.word(memory, start + index * layout.word)
        if not chunk:
            continue
        size = memory.try_word(chunk + layout.word)
        if size is None or not layout.aligned(chunk) or masked(size) != fastbin_size(layout, index):
            return None
        filled += 1
    return filled


REACH = 256
"""mp_ takes 144 bytes in 2.43."""
GAP = 4
"""The most new words in front of the thread cache's limits."""
N_MMAPS_MAX = 65536
DEFAULT = 128 << 10
MIDDLE = {"arena_max": 0, "thp_mode": 0, "thp_pagesize": 0, "hp_pagesize": 0, "hp_flags": 0}
"""The members that are proven only by their defaults."""


Offsets = dict[str, int]


class ArenaWindow(NamedTuple):
    """The bytes around main_arena."""

    memory: Memory
    start: int
    data: bytes

    def word(self, address: int) -> Optional[int]:
        return self._value(address, self.memory.code, self.memory.pointer_size)

    def i32(self, address: int) -> Optional[int]:
        return self._value(address, "i", 4)

    def _value(self, address: int, code: str, width: int) -> Optional[int]:
        offset = address - self.start
        if not 0 <= offset <= len(self.data) - width:
            return None
        value: int = struct.unpack_from(self.memory.mark + code, self.data, offset)[0]
        return value


class Proven(NamedTuple):
    """The members of mp_ that are proven."""

    address: int
    struct: Struct
    unknown: Optional[Finding]
    """The members that are not."""
    counted: bool
    """False if n_mmaps must agree with the blocks that are found before it is accepted."""


def derive_params(window: ArenaWindow, layout: Layout, main: ArenaHeader, guess: Optional[int]) -> Optional[Proven]:
    """Derives mp_; None if nothing proves it, or its counters."""
    base = main.brk_base
    newest = from_table(release_table.NEWEST, layout.word, "").params
    groups = [
        group
        for group in _counters(window, layout.word, base)
        if guess is None or guess <= group["n_mmaps"] < guess + REACH
    ]
    if len(groups) != 1:
        return None
    places = groups[0]
    head = _head(window, layout.word, places, guess)
    limits = _limits(window, layout, places)
    # what sets no_dyn_threshold sets one of the thresholds, too; a 0 may be padding where that would end right here
    dynamic = places["no_dyn_threshold"]
    may_be_padding = layout.word == 8 and dynamic + 4 == places["mmapped_mem"] and not window.i32(dynamic)
    if window.i32(dynamic) if head else may_be_padding:
        return None
    # without a base the limits show where the counters end
    if base is None and not limits:
        return None
    places.update({**head, **limits})
    address = guess or places.get("trim_threshold") or places["n_mmaps"]
    offsets = {name: place - address for name, place in places.items()}
    front = bool(guess or head) and offsets["n_mmaps"] == newest["n_mmaps"]
    if all(newest[name] == offset for name, offset in offsets.items()) and head and limits:
        read = {name: window.i32 if name in INTS else window.word for name in MIDDLE}
        if all(read[name](address + newest[name]) == value for name, value in MIDDLE.items()):
            offsets.update({name: newest[name] for name in MIDDLE})
    missing = [name for name in newest.offsets if name not in offsets and name != "tcache_unsorted_limit"]
    finding = None
    if missing:
        names = {"newest": release_table.text(release_table.NEWEST), "missing": ", ".join(missing)}
        finding = Finding(Statement("mp-in-parts", names=names), address, unknown="mp-in-parts")
    ordered = dict(sorted(offsets.items(), key=lambda item: item[1]))
    return Proven(address, Struct(ordered, max(ordered.values()) + layout.word), finding, front)


def _counters(window: ArenaWindow, word: int, base: Optional[int]) -> Iterator[Offsets]:
    """Yields the places of n_mmaps and what follows it up to sbrk_base, wherever values fit the order of all
    releases."""
    wanted = struct.pack(window.memory.mark + "I", N_MMAPS_MAX)
    position = window.data.find(wanted)
    while position >= 0:
        place = window.start + position
        sums_at = -(-(place + 12) // word) * word
        places = {
            "n_mmaps": place - 4,
            "n_mmaps_max": place,
            "max_n_mmaps": place + 4,
            "no_dyn_threshold": place + 8,
            "mmapped_mem": sums_at,
            "max_mmapped_mem": sums_at + word,
            "sbrk_base": sums_at + 2 * word,
        }
        if not place % 4 and _counts_fit(window, places, word):
            at_base = window.word(places["sbrk_base"])
            if at_base == base or (base is None and at_base is not None):
                yield places
        position = window.data.find(wanted, position + 1)


def _counts_fit(window: ArenaWindow, places: Offsets, word: int) -> bool:
    """Checks that each block is at least a page; mremap adds a header permanently (2.43)."""
    count, count_peak, dynamic = (window.i32(places[name]) for name in ("n_mmaps", "max_n_mmaps", "no_dyn_threshold"))
    held, peak = window.word(places["mmapped_mem"]), window.word(places["max_mmapped_mem"])
    if count is None or count_peak is None or held is None or peak is None:
        return False
    padding = places["no_dyn_threshold"] + 4
    if padding < places["mmapped_mem"] and window.i32(padding):
        return False
    if dynamic not in (0, 1) or not 0 <= count <= count_peak or held > peak or (held | peak) % word:
        return False
    if not count_peak:
        return not peak
    return peak >= count_peak * PAGE and (held >= count * PAGE if count else held < PAGE)


def _head(window: ArenaWindow, word: int, places: Mapping[str, int], guess: Optional[int]) -> Offsets:
    """Finds trim_threshold, top_pad, mmap_threshold and arena_test, if their values tell each from the others."""
    names = ("trim_threshold", "top_pad", "mmap_threshold", "arena_test")
    end = -(-places["n_mmaps"] // word) * word
    starts = []
    for start in range(max(guess or 0, end - REACH), end - 4 * word, word):
        trim, pad, mmap, test = (window.word(start + n * word) for n in range(4))
        if pad != DEFAULT or test != (8 if word == 8 else 2) or trim is None or mmap is None:
            continue
        if trim == mmap == DEFAULT or (trim == 2 * mmap and mmap > DEFAULT):
            starts.append(start)
    return {name: starts[0] + n * word for n, name in enumerate(names)} if len(starts) == 1 else {}


def _limits(window: ArenaWindow, layout: Layout, places: Mapping[str, int]) -> Offsets:
    """Finds tcache_bins, tcache_max_bytes and tcache_count, if they hold their defaults."""
    word = layout.word
    small = layout.min_size + 63 * layout.align
    max_bytes = small + 1 if layout.behaviour.tcache_logarithmic else small - word
    first = places["sbrk_base"] + word
    starts = []
    for start in range(first, first + (GAP + 1) * word, word):
        bins, limit, count = (window.word(start + n * word) for n in range(3))
        if bins == 64 and limit == max_bytes and count == layout.behaviour.tcache_count:
            starts.append(start)
    if len(starts) != 1:
        return {}
    return {name: starts[0] + n * word for n, name in enumerate(("tcache_bins", "tcache_max_bytes", "tcache_count"))}
