"""Whether a thread may be inside malloc, by the words of its stack, where no table tells of its frames."""

from __future__ import annotations

import struct
from typing import Optional

import pytest

from arenascope.base.errors import MemoryReadError
from arenascope.glibc.find.inside_malloc import ThreadStacks
from arenascope.sources.memory import Memory
from arenascope.sources.target import Region, ThreadInfo

LIBC, MALLOC, ELSEWHERE = 0xFFFF_A000_0000, 0xFFFF_A009_8000, 0xFFFF_A002_0000
STACK, TOP, POINTER = 0xFFFF_9000_0000, 0xFFFF_9001_0000, 0xFFFF_9000_F000
SIGNED = 0x00A5_0000_0000_0000


class Code:
    """Of malloc, a page."""

    libc = (Region(LIBC, LIBC + 0x20_0000, executable=True),)

    def holds(self, address: int) -> bool:
        return MALLOC <= address < MALLOC + 0x1000


def stacks(machine: str, word: int) -> ThreadStacks:
    at = POINTER - 0x100

    def read(address: int, size: int) -> bytes:
        if not STACK <= address < address + size <= TOP:
            raise MemoryReadError(address, size)
        data = bytearray(TOP - STACK)
        data[at - STACK : at - STACK + 8] = struct.pack("<Q", word)
        return bytes(data[address - STACK : address - STACK + size])

    regions = [Region(STACK, TOP), *Code.libc]
    return ThreadStacks(Memory(read, 8, "little"), machine, regions, Code(), 1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("machine", "word", "link", "caller", "unsure"),
    [
        ("x86_64", MALLOC + 8, None, None, "stack"),
        ("x86_64", MALLOC + 8 | SIGNED, None, None, None),
        ("aarch64", MALLOC + 8, None, None, "stack"),
        # signed by a processor with pointer authentication
        ("aarch64", MALLOC + 8 | SIGNED, None, None, "stack"),
        ("aarch64", ELSEWHERE | SIGNED, ELSEWHERE, ELSEWHERE, None),
        # a function of malloc's called one that calls nobody: nothing of it is on the stack
        ("aarch64", 0, MALLOC + 8, None, "function"),
        ("aarch64", 0, MALLOC + 8 | SIGNED, None, "function"),
        ("aarch64", 0, None, MALLOC + 8, "function"),
        ("riscv64", 0, None, MALLOC + 8, "function"),
        ("x86_64", 0, None, MALLOC + 8, None),
    ],
)
def test_a_return_into_malloc_is_seen(
    machine: str, word: int, link: Optional[int], caller: Optional[int], unsure: Optional[str]
) -> None:
    thread = ThreadInfo(2, stack_pointer=POINTER - 0x800, thread_pointer=POINTER, link_register=link)
    why = stacks(machine, word).why_unsure(thread, caller)
    assert (why is None) == (unsure is None), why
    assert unsure is None or unsure in str(why)
