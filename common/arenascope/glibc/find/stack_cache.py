"""Finds stacks that pthread_create made (nptl/allocatestack.c): its threads', and those of ended ones, which it keeps.

The contents of the latter are unused, except the vector of TLS blocks, which the next thread takes over.
"""

from __future__ import annotations

from typing import NamedTuple, Optional

from ...base.errors import MemoryReadError
from ...sources.memory import Memory
from ...sources.target import Span
from .libc_file import Libc
from .thread_pointers import PthreadLists, read_lists

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
