"""Assigns arenas to threads: each thread's thread_arena and tcache, by symbol or by its TLS block's contents.

Without symbols the two words are recognised by value: one equals a known arena, the other points to a
tcache_perthread_struct (tcache_pointers.py). Both lie at the same distance from every thread's pointer: near it, or, if
the program has large TLS of its own, in one of the blocks in ld.so's vector (thread_pointers.py).
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Callable, Container, Mapping, NamedTuple, Optional, Sequence

from ...base.model import ArenaHeader, Statement
from ...sources.memory import Memory
from ...sources.target import Target, ThreadInfo
from ..process_layout import NO_TRAIL, CandidateTrail, Layout
from .libc_file import Libc
from .tcache_pointers import ARENA_NAMES, SAMPLE, Blocks, CacheFinder, CachePlace
from .thread_pointers import STATIC, TLS_BIAS, read_dtv

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
        if blocks.get(tid) or _holds_any(caches.memory, pointer, at_arena, look)
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


def _holds_any(memory: Memory, pointer: int, at_arena: int, look: Look) -> bool:
    """Tells whether a thread's TLS block has anything but zeros."""
    return bool(memory.try_word(pointer + at_arena)) or bool(look(pointer))


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
