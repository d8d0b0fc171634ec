"""Finds thread pointers in memory, for doors that cannot tell them: LLDB before 18, i386, a process that is not held.

libc keeps its threads in two lists and describes them to a debugger's libthread_db in exported tables (`_thread_db_…`,
nptl_db/structs.def): with these no layout is guessed. Without them (a static program, glibc before 2.34) control blocks
are recognised by their contents: on x86 their own address twice, and the thread's tid; on ARM the tid beside a link of
one of those lists, and after the block ld.so's notes on its TLS.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import AbstractSet, Iterator, Mapping, NamedTuple, Optional, Sequence

from ...base.errors import MemoryReadError
from ...sources.memory import Memory
from ...sources.target import Region, Span, ThreadInfo
from .libc_file import Libc, exported

# the thread pointer points to struct pthread itself, or past its end (TLS_TCB_AT_TP, TLS_DTV_AT_TP)
AT_BLOCK = ("x86_64", "x32", "i386", "s390x")
BEHIND_BLOCK = ("aarch64", "arm")
X86 = ("x86_64", "x32", "i386")
LISTS = ("_thread_db_rtld_global__dl_stack_used", "_thread_db_rtld_global__dl_stack_user")  # since 2.34
FIELDS = ("_thread_db_pthread_list", "_thread_db_pthread_tid", "_thread_db_list_t_next")
THREAD_LIMIT = 1 << 20
TID_WITHIN = 0x400
"""The largest offset of `tid` in struct pthread: 0x2d0 on x86-64, 0x68 on i386, in every release."""
TOP_OF_STACK = 64 << 10
"""A thread's control block and TLS lie at the end of its stack's mapping."""
LIST_WORDS = 24
BLOCK_LIMIT = 0x1000
"""struct pthread is shorter than this on every machine (0x700 to 0x900 bytes)."""
VECTOR_ENTRIES, FIRST_TLS = 8, 256
"""How many modules with TLS are searched for the one whose block comes first, and the largest alignment of that."""
ENDED = frozenset((0, 0xFFFFFFFF))
"""The values of `tid` after the kernel ends a thread, and after pthread_join(); until 2.42."""
SMALL = 256 << 10
"""The largest such mapping: the first thread's control block lies in a small one of ld.so's."""


def complete(
    memory: Memory,
    machine: str,
    libc: Libc,
    regions: Sequence[Region],
    *,
    threads: Sequence[ThreadInfo],
    pid: Optional[int],
) -> list[ThreadInfo]:
    """Completes the threads: thread pointers from memory if they had none, and a mark on those without TLS."""
    lone = _without_tls(memory, threads, pid)
    threads = [thread._replace(lone=True) if thread.tid in lone else thread for thread in threads]
    if all(thread.thread_pointer is not None or thread.lone for thread in threads):
        return threads
    pointers = dict(_by_lists(memory, machine, libc))
    if not pointers and machine in X86:
        pointers = _by_shape(memory, regions, threads)
    elif not pointers and machine in BEHIND_BLOCK:
        pointers = _by_links(memory, regions, threads)
    return [
        thread._replace(thread_pointer=pointers.get(thread.tid)) if thread.thread_pointer is None else thread
        for thread in threads
    ]


def _without_tls(memory: Memory, threads: Sequence[ThreadInfo], pid: Optional[int]) -> set[int]:
    """Returns the tids of threads that never left the kernel (their registers are as they were made: zeros), and of
    threads with the thread pointer of the one that made them, as clone(2) leaves it. A zombie main thread is left
    out."""
    nowhere = {thread.tid for thread in threads if thread.stack_pointer == 0 and not thread.program_counter}
    lone = nowhere - {pid}
    users: dict[int, list[int]] = {}
    for thread in threads:
        if thread.thread_pointer and thread.tid not in lone:
            users.setdefault(thread.thread_pointer, []).append(thread.tid)
    for pointer, tids in users.items():
        if len(tids) > 1:
            lone.update(set(tids) - {_tid_beside(memory, pointer, tids)})
    return lone


def _tid_beside(memory: Memory, pointer: int, tids: Sequence[int]) -> int:
    """Returns which of these tids is in struct pthread, which begins or ends at the thread pointer. If none is, the
    first, which most probably made them all."""
    low, high = pointer - BLOCK_LIMIT, pointer + TID_WITHIN
    for place in (*range(pointer, high, 4), *range(low, pointer, 4)):
        with suppress(MemoryReadError):
            value = memory.u32(place)
            if value in tids:
                return value
    return min(tids)


def left_by_the_main_thread(
    memory: Memory,
    machine: str,
    libc: Libc,
    regions: Sequence[Region],
    threads: Sequence[ThreadInfo],
    pid: Optional[int],
) -> list[ThreadInfo]:
    """Returns guesses at a main thread that has exited while others go on: one for each possible thread pointer.

    Its cache is not given back as other threads' are: __libc_start_call_main() goes on in exit(2) of the thread alone.

    These are control blocks that no thread has any more, by their `tid`. The kernel clears it when any thread ends
    (CLONE_CHILD_CLEARTID), so a thread that waits to be joined has a block like the main thread's, too, and on x86 so
    have the remains of a free stack: none of these has a cache. Since 2.43 the kernel clears another word
    (`joinstate`), and `tid` remains.
    """
    listed = next((each for each in threads if each.tid == pid), None)
    if pid is None or (listed is not None and listed.thread_pointer is not None) or not threads:
        return []
    known = {each.thread_pointer for each in threads}
    tids = ENDED | {pid}
    pointers = [pointer for tid, pointer in _by_lists(memory, machine, libc) if tid in tids]
    if machine in X86:
        # joined threads are in no list any more; ended threads that wait for a join still are
        at = Counter(
            offset
            for thread in threads
            if thread.thread_pointer is not None
            for offset in _tids_in(memory, thread.thread_pointer, {thread.tid})
        )
        place = max(at, key=lambda offset: (at[offset], -offset)) if at else 0
        blocks = [block for span in _places(regions, threads) for block in _self_pointing(memory, *span)]
        pointers += [block for block in blocks if place and _tids_in(memory, block, tids).get(place) in tids]
    return [
        (listed or ThreadInfo(pid))._replace(thread_pointer=each)
        for each in dict.fromkeys(pointers)
        if each not in known
    ]


class PthreadLists(NamedTuple):
    """pthread_create's lists, from what libc exports about them."""

    used: int
    user: int
    """The addresses of two rings' heads: of stacks that it made, and of others."""
    next: int
    """The offset of `next` in list_t."""
    link: int
    tid: int
    """The offsets of these members in struct pthread."""
    size: int
    """The size of struct pthread."""
    behind: bool = False
    """Whether the thread pointer points past its end."""

    def blocks(self, memory: Memory, *heads: int) -> Iterator[tuple[int, int]]:
        """Yields every struct pthread of these rings, and its thread pointer."""
        for head in heads:
            for entry in walk_list(memory, head, self.next):
                block = entry - self.link
                yield block, block + self.size * self.behind


def read_lists(memory: Memory, machine: str, libc: Libc) -> Optional[PthreadLists]:
    """Reads the tables; None if libc exports none."""
    if machine not in (*AT_BLOCK, *BEHIND_BLOCK):
        return None
    names = (*LISTS, *FIELDS, "_thread_db_sizeof_pthread", "__nptl_rtld_global")
    tables = exported(memory, libc, *names)
    if len(tables) != len(names):
        return None
    try:
        # a descriptor is {bits, elements, offset}
        used, user, link, tid, following = (memory.u32(tables[name] + 8) for name in (*LISTS, *FIELDS))
        loader = memory.word(tables["__nptl_rtld_global"])
        size = memory.u32(tables["_thread_db_sizeof_pthread"])
    except MemoryReadError:
        return None
    behind = machine in BEHIND_BLOCK
    return PthreadLists(loader + used, loader + user, following, link, tid=tid, size=size, behind=behind)


def _by_lists(memory: Memory, machine: str, libc: Libc) -> list[tuple[int, int]]:
    """Returns (tid, thread pointer), by pthread_create's lists."""
    lists = read_lists(memory, machine, libc)
    if lists is None:
        return []
    try:
        blocks = lists.blocks(memory, lists.used, lists.user)
        return [(memory.u32(block + lists.tid), pointer) for block, pointer in blocks]
    except MemoryReadError:
        return []


def walk_list(memory: Memory, head: int, next_offset: int) -> Iterator[int]:
    """Yields the entries of a ring of list_t, without its head; none if it was not set up."""
    seen = {head, 0}
    entry = memory.word(head + next_offset)
    while entry not in seen and len(seen) < THREAD_LIMIT:
        seen.add(entry)
        yield entry
        entry = memory.word(entry + next_offset)


def _by_shape(memory: Memory, regions: Sequence[Region], threads: Sequence[ThreadInfo]) -> dict[int, int]:
    """Recognises tcbhead_t: `tcb` and `self`, its words 0 and 2, hold its own address."""
    tids = {thread.tid for thread in threads}
    blocks: list[int] = []
    pointers: dict[int, int] = {}
    for places in (_places(regions, threads), _ends_of_large(regions)):
        for start, end in places:
            blocks += _self_pointing(memory, start, end)
        pointers = _holding(memory, blocks, tids)
        if len(pointers) == len(tids):
            break
    return pointers


def _holding(memory: Memory, blocks: Sequence[int], tids: AbstractSet[int]) -> dict[int, int]:
    """Returns by tid the block that has it, at the offset where the most blocks have one."""
    at: Counter[int] = Counter()
    holds: dict[int, Mapping[int, int]] = {}
    for block in dict.fromkeys(blocks):
        holds[block] = _tids_in(memory, block, tids)
        at.update(holds[block].keys())
    if not at:
        return {}
    # a tid may stand elsewhere as well (a lock's owner), but not in every block at the same place
    place = max(at, key=lambda offset: (at[offset], -offset))
    return {held[place]: block for block, held in holds.items() if place in held}


def _places(regions: Sequence[Region], threads: Sequence[ThreadInfo]) -> Iterator[Span]:
    """Yields ends of stacks, small mappings, and the start of the break (a static program's first thread)."""
    pointers = [thread.stack_pointer for thread in threads if thread.stack_pointer is not None]
    for region in regions:
        if not (region.writable and region.present) or region.is_file or region.shared:
            continue
        if region.size <= SMALL:
            yield Span(region.start, region.end)
            continue
        if region.path == "[heap]":
            yield Span(region.start, region.start + TOP_OF_STACK)
        if any(region.contains(pointer) for pointer in pointers):
            yield Span(region.end - TOP_OF_STACK, region.end)


def _ends_of_large(regions: Sequence[Region]) -> Iterator[Span]:
    """Yields ends of larger mappings: what malloc got by mmap may have merged with that small mapping, from below."""
    for region in regions:
        if region.writable and region.present and not (region.is_file or region.shared) and region.size > SMALL:
            yield Span(region.end - TOP_OF_STACK, region.end)


def _self_pointing(memory: Memory, start: int, end: int) -> Iterator[int]:
    step = memory.pointer_size
    words = memory.try_words(start, (end - start) // step) or ()
    for index, (first, third) in enumerate(zip(words, words[2:])):
        if first == third and first == start + index * step:
            yield first


def _tids_in(memory: Memory, block: int, tids: AbstractSet[int]) -> dict[int, int]:
    """Returns offset and value of every 32-bit number in the block that is a tid."""
    values: dict[int, int] = {}
    for offset in range(0, TID_WITHIN, 4):
        try:
            value = memory.u32(block + offset)
        except MemoryReadError:
            break
        if value in tids:
            values[offset] = value
    return values


def _by_links(memory: Memory, regions: Sequence[Region], threads: Sequence[ThreadInfo]) -> dict[int, int]:
    """Recognises struct pthread's beginning in nptl/descr.h: 24 words, `list`, `tid`.

    The lists' heads are in the data of ld.so (libpthread's before 2.34). Control blocks themselves are not searched
    for: their stacks lie in one mapping with others, and with any other memory, if nothing separates them.
    """
    word = memory.pointer_size
    tids = {thread.tid for thread in threads}
    pointers: dict[int, int] = {}
    for region in regions:
        if not (region.writable and region.present) or region.shared or region.size > SMALL:
            continue
        for index, first in enumerate(memory.try_words(region.start, region.size // word) or ()):
            if first and not first % word and _tid_at(memory, first) in tids and _is_linked(memory, first):
                pointers.update(_in_list(memory, region.start + index * word, tids))
    return pointers


def _tid_at(memory: Memory, link: int) -> Optional[int]:
    """Returns the offset of `tid`, which follows `list`."""
    try:
        return memory.u32(link + 2 * memory.pointer_size)
    except MemoryReadError:
        return None


def _in_list(memory: Memory, head: int, tids: AbstractSet[int]) -> Iterator[tuple[int, int]]:
    """Yields (tid, thread pointer) of the threads in a list."""
    try:
        for entry in walk_list(memory, head, 0):
            tid = _tid_at(memory, entry)
            pointer = _behind_block(memory, entry - LIST_WORDS * memory.pointer_size) if tid in tids else None
            if tid is not None and pointer is not None:
                yield tid, pointer
    except MemoryReadError:
        return


def _is_linked(memory: Memory, link: int) -> bool:
    """Tells whether a list_t is here: both its neighbours lead back to it."""
    word = memory.pointer_size
    try:
        following, previous = memory.words(link, 2)
        return memory.word(following + word) == link == memory.word(previous)
    except MemoryReadError:
        return False


def _behind_block(memory: Memory, block: int) -> Optional[int]:
    """Finds the end of struct pthread, where tcbhead_t begins with the pointer to the vector of TLS blocks.

    The first of those blocks follows tcbhead_t, and vector entries are pairs (dtv_t) of which number 0 is a counter.
    """
    word = memory.pointer_size
    for place in range(block + LIST_WORDS * word, block + BLOCK_LIMIT, 2 * word):
        vector = memory.try_word(place)
        if not vector or vector % word:
            continue
        entries = memory.try_words(vector + 2 * word, 2 * VECTOR_ENTRIES) or ()
        if any(place < address <= place + FIRST_TLS for address in entries[::2]):
            return place
    return None


DTV_AT: Mapping[str, int] = {
    "x86_64": 1,
    "x32": 1,
    "i386": 1,
    "s390x": 1,
    "arm": 0,
    "aarch64": 0,
    "riscv64": -2,
    "loongarch64": -2,
    "ppc": -1,
    "ppc64": -1,
}
"""The offset of tcbhead_t.dtv, in words from the thread pointer."""
TLS_BIAS = {"ppc": 0x7000, "ppc64": 0x7000}
"""The number that the ABI adds to the address after the TCB, so that signed 16-bit offsets reach more."""
MOST_MODULES = 1 << 14
STATIC = (0, 1)
"""The word beside a block that lies with the thread's control block: since 2.25 the argument for free() (null), before
that `is_static`."""


class TlsBlock(NamedTuple):
    """A thread's copy of a module's variables; `module` as the dynamic linker counts, from 1."""

    tid: int
    module: int
    start: int
    freed_as: int
    """The argument for free(); 0 if it lies beside the thread's control block."""


class Dtv(NamedTuple):
    tid: int
    address: int
    """The address of its first entry, which malloc or ld.so gave: a thread points to the second."""
    blocks: Sequence[TlsBlock]


def read_dtv(memory: Memory, machine: str, thread: ThreadInfo) -> Optional[Dtv]:
    """Reads a thread's vector of TLS blocks (dtv_t); None if it does not look like one."""
    pointer, place, word = thread.thread_pointer, DTV_AT.get(machine), memory.pointer_size
    if pointer is None or place is None:
        return None
    try:
        first = memory.word(pointer - TLS_BIAS.get(machine, 0) + place * word)
        # dtv[-1].counter: how many there is room for; dtv[0].counter: the generation
        room = memory.word(first - 2 * word) if first and not first % word else 0
        if not 0 < room <= MOST_MODULES:
            return None
        entries = memory.words(first + 2 * word, 2 * room)
    except (MemoryReadError, ValueError):
        return None
    # TLS_DTV_UNALLOCATED is -1
    blocks = [
        TlsBlock(thread.tid, number, start, freed)
        for number, (start, freed) in enumerate(zip(entries[::2], entries[1::2]), 1)
        if start and start != memory.top
    ]
    return Dtv(thread.tid, first - 2 * word, blocks)


LEAST = 1 << 12


class CachedStack(NamedTuple):
    stack: Span
    thread_pointer: int


class UsedStack(NamedTuple):
    stack: Span
    given: bool
    """Whether the program supplied it: it may hold other things, too."""


def cached_stacks(memory: Memory, machine: str, libc: Libc) -> list[CachedStack]:
    """Returns the kept stacks. None before 2.34 and in a static program, where no exported table leads to them."""
    lists = read_lists(memory, machine, libc)
    if lists is None:
        return []
    # ldsodefs.h: _dl_stack_cache after _dl_stack_user, and after that _dl_stack_cache_actsize
    head, word = lists.user + 2 * memory.pointer_size, memory.pointer_size
    stacks = []
    try:
        for block, pointer in lists.blocks(memory, head):
            stack = _stack_of(memory, lists, block)
            if stack is None:
                return []
            stacks.append(CachedStack(stack, pointer))
        # libc's sum of their sizes proves that this is the list
        return stacks if sum(each.stack.bytes for each in stacks) == memory.word(head + 2 * word) else []
    except MemoryReadError:
        return []


def used_stacks(memory: Memory, machine: str, libc: Libc) -> Optional[dict[int, UsedStack]]:
    """Returns stacks by thread pointer; None if libc does not tell, or not to the end."""
    lists = read_lists(memory, machine, libc)
    if lists is None:
        return None
    stacks = {}
    try:
        for head in (lists.used, lists.user):
            for block, pointer in lists.blocks(memory, head):
                stack = _stack_of(memory, lists, block)
                if stack is not None:
                    stacks[pointer] = UsedStack(stack, given=head == lists.user)
    except MemoryReadError:
        return None
    return stacks


def _stack_of(memory: Memory, lists: PthreadLists, block: int) -> Optional[Span]:
    """Reads struct pthread's `stackblock` and `stackblock_size`: the stack contains the struct at its end."""
    words = memory.words(block, lists.size // memory.pointer_size)
    for start, size in zip(words, words[1:]):
        # a zero in front of the stack protector's random word, of which one in sixteen ends as a page does, is none
        if not start or size < LEAST or (start | size) % LEAST:
            continue
        if start < block and block + lists.size <= start + size:
            return Span(start, start + size)
    return None
