"""Thread pointers out of memory, for doors that cannot know them: LLDB before 18, i386, a process that is not held.

libc keeps its threads in two lists and tells a debugger's libthread_db how, in exported tables (`_thread_db_…`,
nptl_db/structs.def): with these no layout is guessed. Where they are missing (a static program, glibc before 2.34)
x86's control blocks are recognised by what they hold: their own address twice, and the thread's tid.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import AbstractSet, Iterator, Mapping, Sequence

from ..errors import MemoryReadError
from ..memory import Memory
from ..target import Region, ThreadInfo
from .brk import exported
from .libc_file import Libc

# the thread pointer points to struct pthread itself, or behind it (TLS_TCB_AT_TP, TLS_DTV_AT_TP)
AT_BLOCK = ("x86_64", "x32", "i386", "s390x")
BEHIND_BLOCK = ("aarch64", "arm")
X86 = ("x86_64", "x32", "i386")
LISTS = ("_thread_db_rtld_global__dl_stack_used", "_thread_db_rtld_global__dl_stack_user")  # since 2.34
FIELDS = ("_thread_db_pthread_list", "_thread_db_pthread_tid", "_thread_db_list_t_next")
THREAD_LIMIT = 1 << 20
TID_WITHIN = 0x400
"""How far behind its start struct pthread has `tid`: 0x2d0 on x86-64, 0x68 on i386, in every release."""
TOP_OF_STACK = 64 << 10
"""A thread's control block and TLS lie at the end of its stack's mapping."""
SMALL = 256 << 10
"""The first thread's control block lies in a small mapping of ld.so's."""


def complete(memory: Memory, machine: str, libc: Libc, regions: Sequence[Region], threads: Sequence[ThreadInfo]
             ) -> list[ThreadInfo]:  # fmt: skip
    """The threads, with thread pointers where they had none and memory tells."""
    missing = [thread for thread in threads if thread.thread_pointer is None]
    if not missing:
        return list(threads)
    found = _by_lists(memory, machine, libc)
    if not found and machine in X86:
        found = _by_shape(memory, regions, threads)
    return [replace(thread, thread_pointer=found.get(thread.tid)) if thread.thread_pointer is None else thread
            for thread in threads]  # fmt: skip


def _by_lists(memory: Memory, machine: str, libc: Libc) -> dict[int, int]:
    """tid: thread pointer, by the lists that pthread_create keeps."""
    if machine not in (*AT_BLOCK, *BEHIND_BLOCK):
        return {}
    names = (*LISTS, *FIELDS, "_thread_db_sizeof_pthread", "__nptl_rtld_global")
    tables = exported(memory, libc, *names)
    if len(tables) != len(names):
        return {}
    try:
        # a descriptor is {bits, elements, offset}
        offsets = {name: memory.u32(tables[name] + 8) for name in (*LISTS, *FIELDS)}
        behind = memory.u32(tables["_thread_db_sizeof_pthread"]) if machine in BEHIND_BLOCK else 0
        loader = memory.word(tables["__nptl_rtld_global"])
        found = {}
        for name in LISTS:
            for entry in _walk(memory, loader + offsets[name], offsets["_thread_db_list_t_next"]):
                block = entry - offsets["_thread_db_pthread_list"]
                found[memory.u32(block + offsets["_thread_db_pthread_tid"])] = block + behind
        return found
    except MemoryReadError:
        return {}


def _walk(memory: Memory, head: int, next_offset: int) -> Iterator[int]:
    """The entries of a ring of list_t, without its head; none where it was not set up."""
    seen = {head, 0}
    entry = memory.word(head + next_offset)
    while entry not in seen and len(seen) < THREAD_LIMIT:
        seen.add(entry)
        yield entry
        entry = memory.word(entry + next_offset)


def _by_shape(memory: Memory, regions: Sequence[Region], threads: Sequence[ThreadInfo]) -> dict[int, int]:
    """By tcbhead_t: `tcb` and `self`, its words 0 and 2, hold its own address."""
    blocks: list[int] = []
    for start, end in _places(regions, threads):
        blocks += _self_pointing(memory, start, end)
    tids = {thread.tid for thread in threads}
    at: Counter[int] = Counter()
    holds: dict[int, Mapping[int, int]] = {}
    for block in blocks:
        holds[block] = _tids_in(memory, block, tids)
        at.update(holds[block].keys())
    if not at:
        return {}
    # a tid may stand elsewhere as well (a lock's owner), but not in every block at the same place
    place = max(at, key=lambda offset: (at[offset], -offset))
    return {held[place]: block for block, held in holds.items() if place in held}


def _places(regions: Sequence[Region], threads: Sequence[ThreadInfo]) -> Iterator[tuple[int, int]]:
    """Ends of stacks, small mappings, and where the break begins (a static program's first thread)."""
    pointers = [thread.stack_pointer for thread in threads if thread.stack_pointer is not None]
    for region in regions:
        if not (region.writable and region.present) or region.is_file or region.shared:
            continue
        if region.size <= SMALL:
            yield region.start, region.end
            continue
        if region.path == "[heap]":
            yield region.start, region.start + TOP_OF_STACK
        if any(region.contains(pointer) for pointer in pointers):
            yield region.end - TOP_OF_STACK, region.end


def _self_pointing(memory: Memory, start: int, end: int) -> Iterator[int]:
    step = memory.pointer_size
    try:
        words = memory.words(start, (end - start) // step)
    except MemoryReadError:
        return
    for index, (first, third) in enumerate(zip(words, words[2:])):
        if first == third and first == start + index * step:
            yield first


def _tids_in(memory: Memory, block: int, tids: AbstractSet[int]) -> dict[int, int]:
    """Offset: value of every 32-bit number in the block that is a tid."""
    found: dict[int, int] = {}
    for offset in range(0, TID_WITHIN, 4):
        try:
            value = memory.u32(block + offset)
        except MemoryReadError:
            break
        if value in tids:
            found[offset] = value
    return found
