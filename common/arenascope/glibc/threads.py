"""Whose arena is whose: each thread's thread_arena and tcache, by symbol or by what its TLS block holds.

Without symbols the two words are recognised by value: one equals a known arena, the other points to a
tcache_perthread_struct. Both lie at the same distance from every thread's pointer, which is the proof.
"""

from __future__ import annotations

from collections import Counter
from typing import Callable, Mapping, NamedTuple, Optional, Sequence

from ..errors import MemoryReadError
from ..memory import Memory
from ..model import ArenaHeader
from ..target import Target, ThreadInfo
from .layout import Layout, TcacheLayout, tcache_forms
from .tcache import has_tcache_size, is_tcache
from .tcache_form import heads, leads_to_block, solve

ARENA_NAMES = ("thread_arena", "__libc_tsd_MALLOC")  # since 2.23, before
WINDOW = 4096
SPANS = (1, 4, 16)
"""How many windows to look at, one try after the other: libc's block is near, unless the program has large TLS."""
NEAR = 8
"""In words: malloc.c has these two and tcache_shutting_down, and the next libc's block (dlmopen) is not far."""
DAMAGED_BINS = 8
"""How many bins of a thread cache may be damaged while it is still known as one."""
TLS_BELOW = ("x86_64", "i386", "x32", "s390x", "s390", "")
"""Machines whose TLS blocks end at the thread pointer (variant II); elsewhere they follow it."""

TLS_BIAS = {"ppc": 0x7000, "ppc64": 0x7000}
"""What the ABI adds to the address behind the TCB, so that signed 16-bit offsets reach more."""


class ThreadWords(NamedTuple):
    """What a thread's two words hold; None where they are not known."""

    thread: ThreadInfo
    arena: Optional[int] = None
    """thread_arena: an arena's address, or 0 before the first malloc and after thread exit."""
    tcache: Optional[int] = None
    """0 where the thread has no cache."""


def find_thread_words(memory: Memory, layout: Layout, target: Target, threads: Sequence[ThreadInfo],
                      arenas: Mapping[int, int], symbols: bool) -> tuple[list[ThreadWords], str]:  # fmt: skip
    """Every thread's words, and how they were found: "symbols", "scan" or "" (not at all).

    Without `symbols` those that the target knows are another libc's.
    """
    by_symbol = [_by_symbol(memory, layout, target, thread, arenas) for thread in threads if symbols]
    if by_symbol and all(words is not None for words in by_symbol):
        return [words for words in by_symbol if words is not None], "symbols"
    scanned = _by_scan(memory, layout, target, threads, arenas)
    if scanned is not None:
        return scanned, "scan"
    return [ThreadWords(thread) for thread in threads], ""


def _by_symbol(memory: Memory, layout: Layout, target: Target, thread: ThreadInfo,
               arenas: Mapping[int, int]) -> Optional[ThreadWords]:  # fmt: skip
    for name in ARENA_NAMES:
        address = target.thread_local(name, thread)
        if address is not None:
            break
    else:
        return None
    arena = memory.try_word(address)
    if arena is None or (arena and arena not in arenas):
        return None
    if layout.tcache is None:
        return ThreadWords(thread, arena, 0)
    where = target.thread_local("tcache", thread)
    pointer = memory.try_word(where) if where is not None else None
    if pointer is None:
        return None
    # 2.43 points to a read-only dummy while there is none
    if layout.newer is not None:
        return ThreadWords(thread, arena, pointer if in_heap(target, pointer) else 0)
    real = any(has_tcache_size(memory, layout, form, pointer) for form in tcache_forms(layout)) if pointer else False
    return ThreadWords(thread, arena, pointer if real else None if in_heap(target, pointer) else 0)


def _by_scan(memory: Memory, layout: Layout, target: Target, threads: Sequence[ThreadInfo],
             arenas: Mapping[int, int]) -> Optional[list[ThreadWords]]:  # fmt: skip
    for windows in SPANS:
        blocks = {thread.tid: _tls_words(memory, target.machine, thread.thread_pointer, windows) for thread in threads
                  if thread.thread_pointer}  # fmt: skip
        at_arena = _agreed_offset(blocks, lambda _, value: value in arenas)
        if at_arena is not None:
            break
    else:
        return None
    form: Optional[TcacheLayout] = None
    at_tcache: Optional[int] = None
    known = True
    if layout.tcache is not None and layout.newer is None:
        form, at_tcache = _find_tcaches(memory, layout, blocks, at_arena)
    elif layout.tcache is not None:
        form, at_tcache, known = _find_new_tcaches(memory, layout, target, blocks, at_arena, arenas)
    found = []
    for thread in threads:
        words = blocks.get(thread.tid)
        arena = words.get(at_arena, 0) if words else None
        if words is None or arena is None or (arena and arena not in arenas):
            found.append(ThreadWords(thread))
            continue
        cache: Optional[int] = 0 if at_tcache is None else words.get(at_tcache, 0)
        if cache and form is not None and not has_tcache_size(memory, layout, form, cache):
            cache = None if in_heap(target, cache) else 0
        found.append(ThreadWords(thread, arena, cache if known else None))
    return found


def confirm_attached(headers: Sequence[ArenaHeader], words: Sequence[ThreadWords]) -> list[ArenaHeader]:
    """attached_threads of a release that the table does not know: shown where it is what threads' own words say."""
    seen = Counter(each.arena for each in words)
    if None not in seen and all(header.attached_threads == seen[header.address] for header in headers):
        return list(headers)
    return [header._replace(attached_threads=None) for header in headers]


def in_heap(target: Target, address: int) -> bool:
    """Whether malloc's memory can be here: writable, and no file's."""
    here = next((region for region in target.regions() if region.contains(address)), None)
    return here is not None and here.writable and not here.is_file


def _find_new_tcaches(
    memory: Memory, layout: Layout, target: Target, blocks: Mapping[int, Mapping[int, int]], at_arena: int,
    arenas: Mapping[int, int],
) -> tuple[Optional[TcacheLayout], Optional[int], bool]:  # fmt: skip
    """(form, distance of the pointers, whether that is known) in a release that the table does not know.

    Where no word near thread_arena leads to a block that leads to others, no cache holds anything.
    """
    best: Optional[tuple[int, int, TcacheLayout]] = None
    leads = False
    step = memory.pointer_size
    for offset in range(at_arena - NEAR * step, at_arena + (NEAR + 1) * step, step):
        values = [words[offset] for words in blocks.values() if words.get(offset, 0) not in (0, *arenas)]
        values = [each for each in values if leads_to_block(memory, layout, each) and in_heap(target, each)]
        leads = leads or any(heads(memory, layout, each) for each in values)
        form = solve(memory, layout, values) if values else None
        if form is not None and form.shown and form.layout.tcache and (best is None or len(values) > best[0]):
            best = (len(values), offset, form.layout.tcache)
    return (best[2], best[1], True) if best else (None, None, not leads)


def _find_tcaches(memory: Memory, layout: Layout, blocks: Mapping[int, Mapping[int, int]],
                  at_arena: int) -> tuple[Optional[TcacheLayout], Optional[int]]:  # fmt: skip
    """The form of thread cache that is there, and the distance of the pointers to it: whole ones, else damaged ones."""
    for wrong in (0, DAMAGED_BINS):
        for form in tcache_forms(layout):
            offset = _agreed_offset(
                blocks,
                lambda offset, value, form=form, wrong=wrong: (  # type: ignore[misc]
                    abs(offset - at_arena) <= NEAR * memory.pointer_size
                    and is_tcache(memory, layout, form, value, wrong)
                ),
            )
            if offset is not None:
                return form, offset
    return None, None


def _tls_words(memory: Memory, machine: str, pointer: int, windows: int) -> dict[int, int]:
    """The words around a thread pointer that are not 0, by their distance from it."""
    words: dict[int, int] = {}
    pointer -= TLS_BIAS.get(machine, 0)
    below = [pointer - WINDOW * n for n in range(1, windows + 1)]
    above = [] if machine in TLS_BELOW else [pointer + WINDOW * n for n in range(windows)]
    for starts in (below, above):
        for start in starts:
            try:
                values = memory.words(start, WINDOW // memory.pointer_size)
            except MemoryReadError:
                values = _readable_tail(memory, start) if starts is below else _readable_head(memory, start)
                first = start + WINDOW - len(values) * memory.pointer_size if starts is below else start
                words.update(_placed(values, first, pointer, memory))
                break
            words.update(_placed(values, start, pointer, memory))
    return words


def _placed(values: Sequence[int], start: int, pointer: int, memory: Memory) -> dict[int, int]:
    step = memory.pointer_size
    return {start - pointer + step * n: value for n, value in enumerate(values) if value}


def _readable_tail(memory: Memory, start: int) -> tuple[int, ...]:
    """The words of a window whose first pages cannot be read."""
    page = -(-start // WINDOW) * WINDOW
    try:
        return memory.words(page, (start + WINDOW - page) // memory.pointer_size)
    except MemoryReadError:
        return ()


def _readable_head(memory: Memory, start: int) -> tuple[int, ...]:
    """The words of a window whose last pages cannot be read."""
    page = -(-start // WINDOW) * WINDOW
    try:
        return memory.words(start, (page - start) // memory.pointer_size)
    except MemoryReadError:
        return ()


def _agreed_offset(blocks: Mapping[int, Mapping[int, int]], fits: Callable[[int, int], bool]) -> Optional[int]:
    """The distance at which the most threads have a fitting word."""
    votes: dict[int, int] = {}
    for words in blocks.values():
        for offset, value in words.items():
            if fits(offset, value):
                votes[offset] = votes.get(offset, 0) + 1
    if not votes:
        return None
    # a chance match (a stack below the TLS block) is at one thread's offset only; of equals the nearest counts
    return max(votes, key=lambda offset: (votes[offset], -abs(offset)))
