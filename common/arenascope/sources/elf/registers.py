"""Reads stack and thread pointers from a thread's registers, as cores and ptrace give them."""

from __future__ import annotations

import struct
from typing import Mapping, Optional, Sequence

from ..target import ByteOrder, RegisterSets, ThreadInfo
from .elf_file import (
    EM_386,
    EM_AARCH64,
    EM_ARM,
    EM_LOONGARCH,
    EM_PPC,
    EM_PPC64,
    EM_RISCV,
    EM_S390,
    EM_X86_64,
    TLS_NOTES,
)

# machine: (index of the program counter, the stack pointer, the thread pointer, in the registers of a prstatus); the
# thread pointer is the register as it stands (ppc's is 0x7000 past the TCB's end), None where another set has it
_REGISTERS: Mapping[int, tuple[int, int, Optional[int]]] = {
    EM_X86_64: (16, 19, 21),  # rip, rsp, fs_base
    EM_386: (12, 15, None),  # eip, esp; gs_base: NT_386_TLS
    EM_AARCH64: (32, 31, None),  # pc, sp; tpidr_el0: NT_ARM_TLS
    EM_ARM: (15, 13, None),  # pc, sp; the kernel's 32-bit cores have no TLS note
    EM_PPC64: (32, 1, 13),  # nip
    EM_PPC: (32, 1, 2),
    EM_RISCV: (0, 2, 4),
    EM_LOONGARCH: (33, 3, 2),  # csr_era, after 32 registers and orig_a0
    EM_S390: (1, 17, None),  # r15 after the two PSW words; access registers: below
}


_SELECTING_TLS = {EM_S390: (18,), EM_386: (10,)}
"""The place of the access registers 0 and 1, which follow PSW and r0 to r15, and of gs."""
AARCH64_LINK = 30
PRSTATUS: Mapping[int, tuple[int, int]] = {8: (32, 112), 4: (24, 72)}
"""By word size: the offsets in struct elf_prstatus of the thread's number and its registers. Siginfo and signal (16
bytes) and two signal sets precede the first; four pids and four timevals the second."""


_X86_64 = "r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss"
_SEGMENTS = " fs_base gs_base ds es fs gs"
_I386 = "ebx ecx edx esi edi ebp eax ds es fs gs orig_eax eip cs eflags esp ss"
GENERAL: Mapping[int, Sequence[str]] = {
    EM_X86_64: (_X86_64 + _SEGMENTS).split(),
    EM_386: _I386.split(),
    EM_AARCH64: [*(f"x{number}" for number in range(31)), "sp", "pc", "cpsr"],
}
"""The general registers of an NT_PRSTATUS in its order, by debuggers' names."""
NUMBERS = {"x86_64": EM_X86_64, "i386": EM_386, "aarch64": EM_AARCH64}
"""The machines whose registers have names here, by Linux's names of them."""
WIDE: Mapping[int, Sequence[str]] = {
    EM_X86_64: [f"ymm{number}" for number in range(16)],
    EM_386: [f"ymm{number}" for number in range(8)],
}
"""Vector registers by debuggers' names."""
WIDE_BYTES = 32


def thread_from_registers(machine: int, pointer_size: int, byte_order: ByteOrder, sets: RegisterSets) -> ThreadInfo:
    """Reads a thread's registers. `machine` is the process's ELF number, EM_386 for a 32-bit one under a 64-bit kernel
    too."""
    if machine not in _REGISTERS:
        return ThreadInfo(sets.tid)
    numbers = _Numbers(machine, pointer_size, byte_order, sets)
    counter, stack, thread = _REGISTERS[machine]
    pointer = numbers.register(thread) if thread is not None else numbers.thread_pointer()
    return ThreadInfo(
        sets.tid,
        name=None,
        stack_pointer=numbers.register(stack),
        thread_pointer=pointer or None,
        program_counter=numbers.register(counter),
        link_register=numbers.register(AARCH64_LINK) if machine == EM_AARCH64 else None,
    )


def without_values(machine: int, pointer_size: int, prstatus: bytes) -> bytes:
    """Clears an NT_PRSTATUS except the program counter, stack pointer and thread pointer."""
    _, at = PRSTATUS[pointer_size]
    size = 8 if machine == EM_X86_64 else pointer_size
    kept_ones = (*_REGISTERS.get(machine, ()), *_SELECTING_TLS.get(machine, ()))
    indexes = [index for index in kept_ones if index is not None]
    kept = bytearray(len(prstatus))
    for place in (slice(at), *(slice(at + index * size, at + (index + 1) * size) for index in indexes)):
        kept[place] = prstatus[place]
    return bytes(kept)


class _Numbers:
    """One thread's registers as integers."""

    def __init__(self, machine: int, pointer_size: int, byte_order: ByteOrder, sets: RegisterSets) -> None:
        self.machine, self.pointer_size, self.byte_order = machine, pointer_size, byte_order
        self.general = sets.general
        self.tls = next((data for owner, type, data in reversed(sets.others) if (owner, type) in TLS_NOTES), b"")

    def register(self, index: int) -> Optional[int]:
        # x32 processes have 64-bit registers in a 32-bit core
        size = 8 if self.machine == EM_X86_64 else self.pointer_size
        raw = self.general[index * size : (index + 1) * size]
        return self._number(raw) if len(raw) == size else None

    def _number(self, raw: bytes) -> int:
        return int.from_bytes(raw, self.byte_order)

    def thread_pointer(self) -> Optional[int]:
        size = self.pointer_size
        if self.machine == EM_S390:
            # access registers 0 and 1 follow PSW and r0 to r15: their 32 bits each make the 64
            raw = self.general[18 * size : 19 * size]
            return self._number(raw) if len(raw) == size else None
        if self.machine == EM_386:
            return self._i386_tls()
        return self._number(self.tls[:size]) if len(self.tls) >= size else None

    def _i386_tls(self) -> Optional[int]:
        """Returns the base of the GDT entry that gs selects; the set holds struct user_desc for each TLS entry."""
        selector = self.register(10)
        usable = len(self.tls) // 16 * 16
        if selector is None:
            return None
        mark = "<" if self.byte_order == "little" else ">"
        for entry, base, _, _ in struct.iter_unpack(mark + "4I", self.tls[:usable]):
            if entry == (selector & 0xFFFF) >> 3:
                return int(base)
        return None
