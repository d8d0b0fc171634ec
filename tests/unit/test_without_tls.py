"""Who of those with one thread pointer has what it leads to: by the tid in struct pthread, before or after it."""

from __future__ import annotations

import struct

import pytest

from arenascope.base.errors import MemoryReadError
from arenascope.glibc.find.thread_pointers import complete
from arenascope.sources.memory import Memory
from arenascope.sources.target import ThreadInfo

POINTER, START, SIZE = 0x7000, 0x6000, 0x2000


def lone(threads: list[ThreadInfo], tid: int = 0, at: int = 0) -> set[int]:
    data = bytearray(SIZE)
    struct.pack_into("<I", data, POINTER + at - START, tid)

    def read(address: int, size: int) -> bytes:
        if not START <= address <= START + SIZE - size:
            raise MemoryReadError(address, size)
        return bytes(data[address - START : address - START + size])

    found = complete(Memory(read, 8, "little"), "x86_64", None, (), threads=threads, pid=9)  # type: ignore[arg-type]
    assert [each.thread_pointer for each in found] == [each.thread_pointer for each in threads]
    return {each.tid for each in found if each.lone}


def thread(tid: int, pointer: int = POINTER, stack: int = 0x100) -> ThreadInfo:
    return ThreadInfo(tid, stack_pointer=stack, thread_pointer=pointer, program_counter=stack)


@pytest.mark.parametrize("at", [0x2D0, -0x630])
@pytest.mark.parametrize("mine", [10, 11, 12])
def test_the_tid_says_whose_it_is(mine: int, at: int) -> None:
    """Tids begin anew some time: who was made later may have a smaller one."""
    assert lone([thread(tid) for tid in (10, 11, 12)], mine, at) == {10, 11, 12} - {mine}


def test_the_first_where_no_tid_is_there() -> None:
    assert lone([thread(tid) for tid in (11, 10, 12)]) == {11, 12}


def test_who_never_left_the_kernel() -> None:
    """Its registers are zeros, but for the one that threads inherit."""
    assert lone(
        [thread(10), thread(11, stack=0), thread(9, pointer=0x6900, stack=0), thread(12, pointer=0x6800)], 11, 0x2D0
    ) == {11}


def test_each_has_its_own() -> None:
    assert (
        lone([thread(10), thread(11, pointer=0x6800), ThreadInfo(12, thread_pointer=0), thread(13, pointer=0)]) == set()
    )
