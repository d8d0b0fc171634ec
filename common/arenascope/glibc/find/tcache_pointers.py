"""Finds threads' pointers to their caches: at a distance from thread_arena chosen by that libc's linker.

libc's symbol table tells the distance. Without it, all of libc's TLS segment is searched, and a word is accepted by
what it leads to. If none is, nothing is known: a cache that was not found is not an empty one.
"""

from __future__ import annotations

from collections import Counter
from typing import Iterator, Mapping, NamedTuple, Optional, Sequence

from ...base.errors import ArenascopeError, MemoryReadError
from ...base.model import ArenaHeader, Statement
from ...sources.elf.elf_file import PT_TLS, Elf, proven_files
from ...sources.elf.symbols import tls_offsets
from ...sources.memory import Memory
from ...sources.target import Region, RegionIndex, Target
from ..arena import heap_for_ptr, read_arena
from ..chunk import IS_MMAPPED, NON_MAIN_ARENA, masked
from ..process_layout import NO_TRAIL, CandidateTrail, Layout, TcacheLayout, tcache_forms
from ..tcache import damaged_bins, has_tcache_size, read_if_sized, tcache_sizes
from ..unknown_release.tcache_form import leads_to_block, solve
from .libc_file import Libc

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
                segment = next((each for each in elf.segments if each.type == PT_TLS), None)
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
