"""Assigns arenas to threads: each thread's thread_arena and tcache, by symbol or by its TLS block's contents.

Without symbols the two words are recognised by value: one equals a known arena, the other points to a
tcache_perthread_struct. Both lie at the same distance from every thread's pointer: near it, or, if the program has
large TLS of its own, in one of the blocks in ld.so's vector (thread_pointers.py). That libc's linker chose the distance
between them, and its symbol table tells it. Without it, all of libc's TLS segment is searched, and a word is accepted
by what it leads to. If none is, nothing is known: a cache that was not found is not an empty one.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Callable, Container, Iterator, Mapping, NamedTuple, Optional, Sequence

from ...base.errors import ArenascopeError, MemoryReadError
from ...base.heap_model import ArenaHeader, Statement
from ...sources.elf.elf_file import PT_TLS, Elf, proven_files, tls_offsets
from ...sources.memory import Memory
from ...sources.target import Region, RegionIndex, Target, ThreadInfo
from ..arena import heap_for_ptr, read_arena
from ..malloc_chunk import IS_MMAPPED, NON_MAIN_ARENA, masked
from ..process_layout import NO_TRAIL, CandidateTrail, Layout, TcacheLayout, tcache_forms
from ..tcache import damaged_bins, has_tcache_size, read_if_sized, tcache_sizes
from ..unknown_release.tcache_form import leads_to_block, solve
from .libc_file import Libc
from .thread_pointers import STATIC, TLS_BIAS, read_dtv

ARENA_NAMES = ("thread_arena", "__libc_tsd_MALLOC")  # since 2.23, before
UNKNOWN_REACH = 64
"""In words, if the image lacks libc's program headers: its TLS segment takes 18 to 20 on 64-bit machines."""
MAX_REACH = 64 << 10
"""The limit for a static program, whose TLS segment is all of the program's."""
SAMPLE = 32
"""This many threads are searched for their caches; for all others only the word at the same place is read."""
DAMAGED_BINS = 8
"""How many bins of a thread cache may be damaged before it is no longer recognised."""

Blocks = Mapping[int, Mapping[int, int]]
"""By tid: a thread's words around thread_arena that are not 0, by their distance from the thread pointer."""


class CachePlace(NamedTuple):
    """The place of the pointers, and the form of the caches."""

    offset: Optional[int]
    """The distance from the thread pointer; None if unknown."""
    form: Optional[TcacheLayout] = None
    """None if every thread that was examined has no cache, or one whose form nothing proves."""
    without: frozenset[int] = frozenset()
    """If the offset is None: the threads that have no cache wherever its pointer may be."""


class _Vote(NamedTuple):
    """The evidence for one place; the larger vote wins."""

    proven: int
    """Threads whose word leads to a cache with more evidence than its size and zeros."""
    threads: int
    own: int
    """The position of its form in the list of forms, negated."""
    near: int
    """The distance from thread_arena, negated."""


class CacheFinder:
    """Finds the caches of one libc."""

    def __init__(
        self,
        memory: Memory,
        layout: Layout,
        target: Target,
        libc: Libc,
        ring: Sequence[ArenaHeader],
        others: Sequence[int],
        trail: CandidateTrail = NO_TRAIL,
    ) -> None:
        self.memory, self.layout, self.target, self.libc, self.others = memory, layout, target, libc, others
        self.trail = trail
        self.regions = target.regions()
        self._by_address = RegionIndex(self.regions)
        self.arenas = {header.address: header for header in ring}
        self.main = ring[0] if ring else None

    def distance(self) -> Optional[int]:
        """Returns the distance from thread_arena to tcache, by libc's symbol table."""
        if self.libc.base is None or self.libc.build_id is None:
            return None
        here = next((region for region in self.regions if region.start == self.libc.base), None)
        files = self.target.symbol_files(here, self.libc.build_id) if here is not None else ()
        offsets = tls_offsets(files, self.libc.build_id, ("tcache", *ARENA_NAMES))
        arena = next((offsets[name] for name in ARENA_NAMES if name in offsets), None)
        return offsets["tcache"] - arena if arena is not None and "tcache" in offsets else None

    def tls_bytes(self) -> int:
        """Returns the length of libc's TLS segment (a static program's is all of the program's), in whole words."""
        try:
            if self.libc.base is not None:
                elf = Elf(self.memory.read, self.libc.base, mapped=True)
                segment = elf.segment(PT_TLS)
                if segment is not None:
                    return -(-segment.memory_size // self.layout.word) * self.layout.word
        except (ArenascopeError, ValueError):
            pass
        return UNKNOWN_REACH * self.layout.word

    def reach(self) -> int:
        """Returns how far from thread_arena another variable of libc's can be: less than its TLS segment is long."""
        return min(self.tls_bytes(), MAX_REACH)

    def find(self, blocks: Blocks, at_arena: int) -> CachePlace:
        """Finds the place by the votes of some threads."""
        # one without an arena never called malloc, and has no cache to show
        asked = {tid: words for tid, words in blocks.items() if words.get(at_arena) in self.arenas}
        sample = {tid: asked[tid] for tid in list(asked)[:SAMPLE]}
        place = self._new(sample, at_arena) if self.layout.newer is not None else self._known(sample, at_arena)
        place = place or self._of_nobody(sample, blocks)
        taken = _name(place.offset, place.form) if place.offset is not None else None
        self.trail.choose("thread_caches", taken, Statement("fewer-caches-there"))
        return place

    def pointer(self, place: CachePlace, value: int) -> Optional[int]:
        """Returns the cache that a thread's word leads to, 0 if it has none; None if unknown."""
        if not value:
            return 0
        if self.layout.newer is not None and self.in_heap(value):
            return value
        forms = [place.form] if place.form is not None else tcache_forms(self.layout)
        if self.layout.newer is None and any(has_tcache_size(self.memory, self.layout, form, value) for form in forms):
            return value
        return 0 if self._among_constants(value) and self._zeros(value) is not False else None

    def in_heap(self, address: int) -> bool:
        """Tells whether malloc's memory can be here: writable, and no file's."""
        here = self._by_address.find(address)
        return here is not None and here.writable and not here.is_file

    def _among_constants(self, value: int) -> bool:
        """Tells whether this can be __tcache_dummy: a thread without a cache has its address (since 2.43) or 0
        (before)."""
        here = self._by_address.find(value)
        return here is None if not self.regions else here is not None and here.is_file and not here.writable

    def _zeros(self, value: int) -> Optional[bool]:
        """Tells whether a cache's length of zeros is there; None if neither memory nor libc's file shows it."""
        size = self.layout.tcache.size if self.layout.tcache is not None else self.layout.word
        data, here = self.memory.try_read(value, size), self._by_address.find(value)
        if data is None and here is not None:
            data = self._in_file(here, value, size)
        return not data.strip(b"\0") if data is not None else None

    def _in_file(self, region: Region, address: int, size: int) -> Optional[bytes]:
        """Reads what a core leaves out because nobody wrote there; only from the very libc that is mapped."""
        path = self.target.open_file(region)
        if path is None or self.libc.build_id is None or region.path != self.libc.path:
            return None
        for file in proven_files([path], self.libc.build_id):
            start = address - region.start + region.offset
            data = file.data[start : start + size]
            return data if len(data) == size else None
        return None

    # by what words lead to

    def _known(self, sample: Blocks, at_arena: int) -> Optional[CachePlace]:
        """Returns complete caches, or else damaged ones."""
        for wrong in (0, DAMAGED_BINS):
            votes: dict[_Vote, CachePlace] = {}
            for rank, form in enumerate(tcache_forms(self.layout)):
                for offset, shown in self._shown(sample, form, wrong):
                    vote = _Vote(sum(each > 0 for each in shown), len(shown), -rank, -abs(offset - at_arena))
                    self._tell(offset, form, vote.threads, len(sample), proven=vote.proven)
                    votes.setdefault(vote, CachePlace(offset, form))
            if votes:
                return votes[max(votes)]
        return None

    def _shown(self, sample: Blocks, form: TcacheLayout, wrong: int) -> Iterator[tuple[int, list[int]]]:
        """Returns the distances where words lead to caches of this form, with the evidence for each."""
        by_offset: dict[int, list[int]] = {}
        for words in sample.values():
            for offset, value in words.items():
                shown = cache_shown(self.memory, self.layout, form, value, wrong=wrong)
                if shown is not None and self._is_ours(value):
                    by_offset.setdefault(offset, []).append(shown)
        yield from by_offset.items()

    def _new(self, sample: Blocks, at_arena: int) -> Optional[CachePlace]:
        """Handles a release that the table does not know: the form that fits most caches, with more evidence than
        zeros."""
        votes: dict[tuple[int, int, int], CachePlace] = {}
        for offset in sorted({offset for words in sample.values() for offset in words}):
            values = [words.get(offset, 0) for words in sample.values()]
            values = [
                each
                for each in values
                if leads_to_block(self.memory, self.layout, each) and self.in_heap(each) and self._is_ours(each)
            ]
            form = solve(self.memory, self.layout, values) if values else None
            if form is None or not form.shown or form.layout.tcache is None:
                continue
            vote = form.lists, len(values), -abs(offset - at_arena)
            self._tell(offset, form.layout.tcache, len(values), len(sample), proven=len(values))
            votes.setdefault(vote, CachePlace(offset, form.layout.tcache))
        return votes[max(votes)] if votes else None

    def _of_nobody(self, sample: Blocks, blocks: Blocks) -> CachePlace:
        """Tells whether every thread has the address of the same zeros among libc's constants: then no thread has a
        cache.

        A core may lack these zeros; then a thread has none if none of its words leads to malloc's memory.
        """
        if not (self.layout.behaviour.tcache_dummy or self.layout.newer is not None) or not sample:
            return CachePlace(None)
        seen = Counter(place for words in sample.values() for place in words.items())
        places = {
            offset: self._zeros(value)
            for (offset, value), times in seen.items()
            if times == len(sample) and self._among_constants(value)
        }
        proven = [offset for offset, zeros in places.items() if zeros]
        for offset, zeros in places.items():
            good = Statement("same-constant-everywhere")
            bad = [] if zeros else [Statement("zeros-unknown" if zeros is None else "not-zeros")]
            self.trail.add("thread_caches", _name(offset, None), (good,), bad)
        if len(proven) == 1:
            return CachePlace(proven[0])
        if proven or None not in places.values():
            return CachePlace(None)
        return CachePlace(
            None, without=frozenset(tid for tid, words in blocks.items() if not any(map(self._given, words.values())))
        )

    def _given(self, value: int) -> bool:
        """Tells whether malloc may have given what is here: it lies in an arena, or is a mmapped block."""
        if value in self.arenas or not self.in_heap(value):
            return False
        return self._is_ours(value) or bool((self.memory.try_word(value - self.layout.word) or 0) & IS_MMAPPED)

    def _tell(self, offset: int, form: TcacheLayout, threads: int, asked: int, proven: int) -> None:
        there = Statement("caches-there", {"threads": threads, "of": asked})
        filled = Statement("caches-with-blocks", {"threads": proven})
        self.trail.add("thread_caches", _name(offset, form), (there, filled))

    def _is_ours(self, user: int) -> bool:
        """Tells whether this block is of this libc's own arenas: the next TLS block may be another's (dlmopen)."""
        raw = self.memory.try_word(user - self.layout.word) or 0
        if raw & IS_MMAPPED:
            return False
        if raw & NON_MAIN_ARENA:
            heap = heap_for_ptr(self.layout, user)
            owner = self.memory.try_word(heap + self.layout.heap["ar_ptr"])
            return owner in self.arenas and not self.arenas[owner].main
        if self.main is not None and self.main.brk_base is not None:
            return _within(self.main, user)
        return not self._anothers(user) and (self.in_heap(user) or not self.regions)

    def _anothers(self, user: int) -> bool:
        """Tells whether it lies where another copy of libc grows by brk; of the same layout, or nothing is found
        there."""
        for address in self.others:
            try:
                other = read_arena(self.memory, self.layout, address)
            except MemoryReadError:
                continue
            if _within(other, user):
                return True
        return False


def _within(main: ArenaHeader, address: int) -> bool:
    """Tells whether this lies in a main arena that is one stretch up to its top's end."""
    base = main.brk_base
    return base is not None and base <= address < base + main.system_mem


def _name(offset: int, form: Optional[TcacheLayout]) -> str:
    what = f", {form.bins} bins with counts of {form.count_bytes} bytes" if form is not None else ""
    return f"tcache at thread pointer{offset:+#x}{what}"


def cache_shown(memory: Memory, layout: Layout, form: TcacheLayout, address: int, wrong: int) -> Optional[int]:
    """Returns how many bins show a tcache_perthread_struct of this form here; None if it is none.

    `wrong` bins may be damaged. An empty one of a release before 2.42 is all zeros: 0.
    """
    cache = read_if_sized(memory, layout, form, address)
    if cache is None:
        return None
    pairs = list(enumerate(zip(cache.counts, cache.entries)))
    if form.counts_free_slots:
        # tcache_init() gives every bin as many
        free = Counter(count for _, (count, entry) in pairs if not entry).most_common(1)
        usual = free[0][0] if free else max(cache.counts)
        bad = sum(
            entry & layout.mask != 0 or count > usual or (not entry and count != usual) for _, (count, entry) in pairs
        )
        filled = int(usual > 0)
    else:
        bad = damaged_bins(layout, form, cache)
        filled = 0
    if bad > wrong:
        return None
    return filled + sum(_is_cached(memory, layout, index, entry) for index, (_, entry) in pairs if entry)


def _is_cached(memory: Memory, layout: Layout, index: int, user: int) -> bool:
    """Tells whether this can be the first block of that bin, by its size and its key."""
    if user & layout.mask or user < layout.header:
        return False
    sizes = tcache_sizes(layout, index)
    if not sizes.least <= masked(memory.try_word(user - layout.word) or 0) <= sizes.most:
        return False
    return not layout.behaviour.tcache_key or bool(memory.try_word(user + layout.word))


WINDOW = 4096
SPANS = (1, 4, 16)
"""The sizes of windows that are searched, one after the other: libc's block is near, unless the program has large
TLS."""
MOST_OF_BLOCK = WINDOW * SPANS[-1]
MOST_OF_BLOCKS = 1 << 20
"""The most bytes that are read of one block, and of all in a vector: libc's has less than 256 bytes, a static program's
variables come before libc's, and a damaged vector may hold anything."""
ENOUGH = 8
"""This many of the sampled threads must agree; otherwise all threads are examined."""
TLS_BELOW = ("x86_64", "i386", "x32", "s390x", "s390", "")
"""Machines whose TLS blocks end at the thread pointer (variant II); elsewhere they follow it."""

TCB_IN_FRONT = ("arm", "aarch64")
"""Machines where the thread pointer leads to a TCB of two words (the first is the dtv, a block of malloc's), followed
by TLS blocks."""

Look = Callable[[int], "dict[int, int]"]
"""A thread's words that are not 0, by their distance from this thread pointer."""


class ThreadWords(NamedTuple):
    """The values of a thread's two words; None if not known."""

    thread: ThreadInfo
    arena: Optional[int] = None
    """thread_arena: an arena's address, or 0 before the first malloc and after thread exit."""
    tcache: Optional[int] = None
    """0 if the thread is known to have no cache."""


class ThreadsFound(NamedTuple):
    """Every thread's words."""

    words: Sequence[ThreadWords]
    how: str
    """"symbols", "scan" or "" (not at all)."""


def find_thread_words(
    memory: Memory,
    layout: Layout,
    target: Target,
    threads: Sequence[ThreadInfo],
    libc: Libc,
    ring: Sequence[ArenaHeader],
    *,
    symbols: bool,
    others: Sequence[int] = (),
    trail: CandidateTrail = NO_TRAIL,
    left: Sequence[ThreadInfo] = (),
) -> ThreadsFound:
    """Finds the words. Without `symbols`, the target's symbols are another libc's. `others`: main arenas of its further
    copies.

    `left` are guesses at a main thread that has exited, each with another thread pointer.
    """
    caches = CacheFinder(memory, layout, target, libc, ring=ring, others=others, trail=trail)
    # a thread pointer that is another thread's leads to that one's cache
    without = [ThreadWords(each._replace(thread_pointer=None), 0, 0) for each in threads if each.lone]
    threads = [each for each in threads if not each.lone]
    by_symbol = [_by_symbol(caches, thread) for thread in threads if symbols]
    if by_symbol:
        _tell(trail, by_symbol)
    whole = bool(by_symbol) and all(words is not None for words in by_symbol)
    # the guesses share a number, and count as separate threads until one is accepted
    guesses = [each._replace(tid=-place) for place, each in enumerate(left, 1)]
    scanned = _by_scan(caches, [*threads, *guesses]) if left or not whole else None
    seen = zip(scanned[len(threads) :], left) if scanned is not None else ()
    exited = _exited([words._replace(thread=each) for words, each in seen])
    if whole:
        threads_found = ThreadsFound([words for words in by_symbol if words is not None], "symbols")
    elif scanned is not None:
        threads_found = ThreadsFound(scanned[: len(threads)], "scan")
    else:
        threads_found = ThreadsFound([ThreadWords(thread) for thread in threads], "")
    if exited is not None:
        # /proc still has it among the threads, debuggers and cores have not
        without.append(exited)
    more = {words.thread.tid for words in without}
    living = [words for words in threads_found.words if words.thread.tid not in more]
    return threads_found._replace(words=sorted([*living, *without], key=lambda words: words.thread.tid))


def _exited(guesses: Sequence[ThreadWords]) -> Optional[ThreadWords]:
    """Returns the guess that still has an arena or a cache, unlike any other ended thread; a single one is accepted."""
    known = [words for words in guesses if words.arena is not None and words.tcache is not None]
    holding = [words for words in known if words.arena or words.tcache] or known
    return holding[0] if len(holding) == 1 else None


def _tell(trail: CandidateTrail, by_symbol: Sequence[Optional[ThreadWords]]) -> None:
    known = sum(words is not None for words in by_symbol)
    good = [Statement("leads-to-it", {"threads": known, "of": len(by_symbol)})] if known else []
    lost = [Statement("nothing-tells-it", {"threads": len(by_symbol) - known, "of": len(by_symbol)})]
    for kind, name in (("thread_arena", "the symbol thread_arena"), ("thread_caches", "the symbol tcache")):
        trail.add(kind, name, good, lost if known < len(by_symbol) else ())
        trail.choose(kind, name if known == len(by_symbol) else None)


def _by_symbol(caches: CacheFinder, thread: ThreadInfo) -> Optional[ThreadWords]:
    target, memory = caches.target, caches.memory
    for name in ARENA_NAMES:
        address = target.thread_local(name, thread)
        if address is not None:
            break
    else:
        return None
    arena = memory.try_word(address)
    if arena is None or (arena and arena not in caches.arenas):
        return None
    if caches.layout.tcache is None:
        return ThreadWords(thread, arena, 0)
    where = target.thread_local("tcache", thread)
    pointer = memory.try_word(where) if where is not None else None
    if pointer is None:
        return None
    return ThreadWords(thread, arena, caches.pointer(CachePlace(None), pointer))


def _by_scan(caches: CacheFinder, threads: Sequence[ThreadInfo]) -> Optional[list[ThreadWords]]:
    """Finds them without symbols. Guesses among the threads have a negative tid."""
    machine = caches.target.machine
    pointers = {
        thread.tid: thread.thread_pointer - TLS_BIAS.get(machine, 0) for thread in threads if thread.thread_pointer
    }
    many = len(pointers) > SAMPLE and not caches.trail.wanted
    # no TLS lies below a stack pointer, where what has returned left its words
    floors = {thread.tid: thread.stack_pointer for thread in threads if thread.stack_pointer is not None}
    shown = _arena_among(caches, _sample(pointers), floors, ENOUGH) if many else None
    # guesses come last: stacks of ended threads hold many stale words
    living = {tid: pointer for tid, pointer in pointers.items() if tid > 0}
    shown = shown or _arena_among(caches, living, floors, 1)
    if shown is None and len(living) < len(pointers):
        shown = _arena_among(caches, pointers, floors, 1)
    if shown is None:
        return None
    blocks, at_arena, look = shown
    cache_place = _caches(caches, pointers, at_arena) if caches.layout.tcache is not None else None
    # a TLS block of zeros alone is one that gcore left out: no thread has that
    held = {
        tid: pointer
        for tid, pointer in pointers.items()
        if blocks.get(tid) or caches.memory.try_word(pointer + at_arena) or look(pointer)
    }
    words = [_words_of(caches, thread, held.get(thread.tid), at_arena, cache_place=cache_place) for thread in threads]
    if _by_chance(caches, words):
        caches.trail.add("thread_arena", _place(at_arena), (), (Statement("no-cache-beside"),))
        caches.trail.choose("thread_arena", None)
        caches.trail.choose("thread_caches", None)
        return None
    return words


def _by_chance(caches: CacheFinder, words: Sequence[ThreadWords]) -> bool:
    """Tells whether an arena's address in a single thread may be any word: left on its stack by a call.

    A thread that takes an arena gets a cache next (arena_get() and tcache_init() of the first malloc). The main thread
    with main_arena is exempt: it can have no other before threads contend.
    """
    holding = [each for each in words if each.arena]
    if caches.layout.tcache is None or len(holding) != 1 or caches.main is None:
        return False
    (only,) = holding
    return not only.tcache and (only.thread.tid, only.arena) != (caches.target.pid, caches.main.address)


class _Shown(NamedTuple):
    """The place of thread_arena, by the blocks of the threads that were examined."""

    blocks: Blocks
    at_arena: int
    look: Look


def _sample(pointers: Mapping[int, int]) -> Mapping[int, int]:
    """Returns some threads, old ones and new."""
    tids = list(pointers)
    return {tid: pointers[tid] for tid in tids[:: -(-len(tids) // SAMPLE)]}


def _arena_among(
    caches: CacheFinder, pointers: Mapping[int, int], floors: Mapping[int, int], least: int
) -> Optional[_Shown]:
    """Finds thread_arena by the words of these threads; None if fewer than `least` of them agree."""
    for look in _looks(caches, pointers):
        blocks = {tid: _above(look(pointer), pointer, floors.get(tid)) for tid, pointer in pointers.items()}
        at_arena = _agreed_offset(blocks, caches.arenas, caches.trail, least)
        if at_arena is not None:
            return _Shown(blocks, at_arena, look)
    return None


def _looks(caches: CacheFinder, pointers: Mapping[int, int]) -> Sequence[Look]:
    """Yields windows. If TLS is large, nearby words are not libc's: those of the program, or of a stack, may lead to
    arenas."""
    memory, machine, size = caches.memory, caches.target.machine, caches.tls_bytes()
    near = [partial(_tls_words, memory, machine, windows) for windows in SPANS]
    by_vector = partial(_words_of_blocks, memory, machine, size)
    told = ([abs(start - pointer) for start in _starts(memory, machine, pointer)] for pointer in pointers.values())
    large = size > WINDOW or max(next(filter(None, told), (0,))) > WINDOW
    return [by_vector, *near] if large else [*near, by_vector]


def _above(words: dict[int, int], pointer: int, floor: Optional[int]) -> dict[int, int]:
    if floor is None or not floor < pointer:
        return words
    return {distance: value for distance, value in words.items() if pointer + distance >= floor}


def _caches(caches: CacheFinder, pointers: Mapping[int, int], at_arena: int) -> CachePlace:
    distance = caches.distance()
    if distance is not None:
        name = f"tcache at thread pointer{at_arena + distance:+#x}"
        caches.trail.add("thread_caches", name, (Statement("symbols-place-it", {"bytes": distance}),))
        caches.trail.choose("thread_caches", name)
        return CachePlace(at_arena + distance)
    reach = caches.reach()
    # no TLS lies beyond the thread pointer where blocks end there: that is struct pthread
    first, last = at_arena - reach, at_arena + reach
    machine = caches.target.machine
    head = 2 * caches.memory.pointer_size if machine in TCB_IN_FRONT else 0
    first, last = (first, min(last, 0)) if machine in TLS_BELOW else (max(first, head), last)
    blocks = {
        tid: _words_between(caches.memory, pointer, first, last, sure=at_arena) for tid, pointer in pointers.items()
    }
    return caches.find(blocks, at_arena)


def _words_of(
    caches: CacheFinder, thread: ThreadInfo, pointer: Optional[int], at_arena: int, cache_place: Optional[CachePlace]
) -> ThreadWords:
    arena = caches.memory.try_word(pointer + at_arena) if pointer is not None else None
    if pointer is None or arena is None or (arena and arena not in caches.arenas):
        return ThreadWords(thread)
    if cache_place is None:
        return ThreadWords(thread, arena, 0)
    if cache_place.offset is None:
        # arena_get() comes before tcache_init(): who never had an arena has no cache
        return ThreadWords(thread, arena, 0 if not arena or thread.tid in cache_place.without else None)
    value = caches.memory.try_word(pointer + cache_place.offset)
    return ThreadWords(thread, arena, caches.pointer(cache_place, value) if value is not None else None)


def confirm_attached(headers: Sequence[ArenaHeader], words: Sequence[ThreadWords]) -> list[ArenaHeader]:
    """Confirms attached_threads of a release that the table does not know, if it agrees with threads' own words."""
    seen = Counter(each.arena for each in words)
    if None not in seen and all(header.attached_threads == seen[header.address] for header in headers):
        return list(headers)
    return [header._replace(attached_threads=None) for header in headers]


def _words_between(memory: Memory, pointer: int, first: int, last: int, sure: int) -> dict[int, int]:
    """Returns the words from one distance to the other that are not 0; only as far from `sure` as can be read."""
    step = memory.pointer_size
    data = memory.try_read(pointer + first, last - first)
    if data is not None:
        return _placed(memory.unpack_words(data), pointer + first, pointer, memory)
    words: dict[int, int] = {}
    for way, end in ((-step, first), (step, last)):
        for distance in range(sure, end, way):
            value = memory.try_word(pointer + distance)
            if value is None:
                break
            words[distance] = value
    return {distance: value for distance, value in words.items() if value}


def _tls_words(memory: Memory, machine: str, windows: int, pointer: int) -> dict[int, int]:
    """Returns the words around a thread pointer that are not 0, by their distance from it."""
    below = [pointer - WINDOW * n for n in range(1, windows + 1)]
    above = [] if machine in TLS_BELOW else [pointer + WINDOW * n for n in range(windows)]
    return _windows(memory, pointer, below, above)


def _words_of_blocks(memory: Memory, machine: str, size: int, pointer: int) -> dict[int, int]:
    """Returns the words of the blocks beside this thread pointer, the end of each if it has this size, and of what
    follows."""
    ends = memory.top - size - WINDOW
    starts = [start for start in _starts(memory, machine, pointer) if WINDOW <= start <= ends]
    if not starts:
        return {}
    # dlmopen()'s copies come to lie there, which the vector may not tell yet
    low, high = starts[0] - WINDOW, starts[-1] + size
    words = _windows(memory, pointer, [low], []) if machine in TLS_BELOW else _windows(memory, pointer, [], [high])
    length = min(size, MOST_OF_BLOCK)
    for start in starts[: MOST_OF_BLOCKS // max(length, 1)]:
        first = start + size - length
        data = memory.try_read(first, length) if not first % memory.pointer_size else None
        if data is not None:
            words.update(_placed(memory.unpack_words(data), first, pointer, memory))
    return words


def _starts(memory: Memory, machine: str, pointer: int) -> Sequence[int]:
    """Yields the starts of the blocks beside this thread pointer."""
    thread = ThreadInfo(0, thread_pointer=pointer + TLS_BIAS.get(machine, 0))
    dtv = read_dtv(memory, machine, thread)
    return sorted({each.start for each in dtv.blocks if each.freed_as in STATIC}) if dtv is not None else ()


def _windows(memory: Memory, pointer: int, below: Sequence[int], above: Sequence[int]) -> dict[int, int]:
    """Returns readable windows at these addresses, those before the pointer and those after it."""
    step = memory.pointer_size
    words: dict[int, int] = {}
    for starts in (below, above):
        for start in starts:
            first, data = start, memory.try_read(start, WINDOW)
            cut = data is None
            if cut:
                # its first pages cannot be read, or after the pointer its last ones
                page = -(-start // WINDOW) * WINDOW
                first, end = (page, start + WINDOW) if starts is below else (start, page)
                data = memory.try_read(first, (end - first) // step * step)
            words.update(_placed(memory.unpack_words(data or b""), first, pointer, memory))
            if cut:
                break
    return words


def _placed(values: Sequence[int], start: int, pointer: int, memory: Memory) -> dict[int, int]:
    step = memory.pointer_size
    return {start - pointer + step * n: value for n, value in enumerate(values) if value}


def _agreed_offset(blocks: Blocks, wanted: Container[int], trail: CandidateTrail, least: int) -> Optional[int]:
    """Returns the distance where the most threads, and at least so many, have a word that is wanted."""
    votes = Counter(offset for words in blocks.values() for offset, value in words.items() if value in wanted)
    # a chance match (a stack below the TLS block) is at one thread's offset only; of equals the nearest counts
    agreed = max(votes, key=lambda offset: (votes[offset], -abs(offset))) if votes else None
    if agreed is not None and votes[agreed] < least:
        return None
    if trail.wanted:
        for offset, times in votes.items():
            trail.add(
                "thread_arena", _place(offset), (Statement("arenas-there", {"threads": times, "of": len(blocks)}),)
            )
        taken = _place(agreed) if agreed is not None else None
        trail.choose("thread_arena", taken, Statement("fewer-arenas-there"))
    return agreed


def _place(offset: int) -> str:
    return f"thread_arena at thread pointer{offset:+#x}"
