"""Where each module's variables of a thread lie, by the vector that the dynamic linker keeps for every thread."""

from __future__ import annotations

from typing import Mapping, NamedTuple, Optional, Sequence

from ...base.errors import MemoryReadError
from ...sources.memory import Memory
from ...sources.target import ThreadInfo

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
"""tcbhead_t.dtv, in words from the thread pointer."""
TLS_BIAS = {"ppc": 0x7000, "ppc64": 0x7000}
"""What the ABI adds to the address after the TCB, so that signed 16-bit offsets reach more."""
MOST_MODULES = 1 << 14
STATIC = (0, 1)
"""What stands beside a block that lies with the thread's control block: since 2.25 what free() will be given (nothing),
before that `is_static`."""


class TlsBlock(NamedTuple):
    """Where a module's variables of a thread lie; `module` as the dynamic linker counts, from 1."""

    tid: int
    module: int
    start: int
    freed_as: int
    """What free() will be given; 0 where it lies beside the thread's control block."""


class Dtv(NamedTuple):
    tid: int
    address: int
    """Of its first entry, which malloc or ld.so gave: a thread points to the second."""
    blocks: Sequence[TlsBlock]


def read_dtv(memory: Memory, machine: str, thread: ThreadInfo) -> Optional[Dtv]:
    """A thread's vector of TLS blocks (dtv_t); None where it does not look like one."""
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
