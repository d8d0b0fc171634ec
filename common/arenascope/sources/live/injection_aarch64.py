"""aarch64's part of a call from outside (injection.py): every system call is a signal frame, which returns to the next.

The link register leads to the vdso's rt_sigreturn wherever a function returns, and a function leaves its stack pointer
where it was: at the next frame. A system call that the kernel will make again needs nothing: whoever traces a thread
sees it already in front of its `svc` (do_signal of arch/arm64/kernel/signal.c).
"""

from __future__ import annotations

import struct
from typing import Mapping, Optional, Sequence

from ..elf.elf_file import EM_AARCH64, NT_ARM_GCS, NT_ARM_SSVE, NT_ARM_SVE, NT_ARM_TLS, NT_ARM_ZA, NT_FPREGSET
from ..elf.registers import GENERAL
from ..memory import Memory
from .injection import ALL, OTHER_STACK, UNKNOWN, WORD, InjectedCall, Registers, Sets, Thread

SYSTEM_CALLS: Mapping[str, int] = {"tkill": 130, "process_vm_writev": 271, "futex": 98}
RESTART, NANOSLEEP, CLOCK_NANOSLEEP, FUTEX = 128, 101, 115, 98
TIMER_ABSTIME, FUTEX_OPERATION, FUTEX_WAIT = 1, 0x7F, 0
MODE, BRANCH_TYPE, SINGLE_STEP = 0x1F, 3 << 10, 1 << 21
"""Bits of PSTATE: 0 is a program's 64-bit code; the type of the last branch; a debugger's single step."""
SVC = b"\x01\0\0\xd4"
SIGINFO_BYTES, MASK_BYTES = 128, 128
RESERVED_AT, RESERVED_BYTES = 592, 4096
FPSIMD, FPSIMD_BYTES, FPSR = (0x46508001, 528, 512)
SVE, SVE_HEADER, SVE_ACTIVE = (0x53564501, 16, 1)
"""Both struct user_sve_header and struct sve_context have 16 bytes, and the same registers after them."""
FRAME_BYTES = RESERVED_AT + FPSIMD_BYTES + 16
LOOK_BACK = 16
"""The number of instructions before an `svc` where its number may be loaded."""


class Aarch64:
    """aarch64's Processor."""

    machine, counter, stack, thread = "aarch64", "pc", "sp", "tpidr_el0"
    general_bytes = 34 * WORD
    stands_in = (32 * WORD, 31 * WORD)
    sets: Sequence[int] = (NT_FPREGSET, NT_ARM_TLS, NT_ARM_SVE, NT_ARM_SSVE, NT_ARM_ZA, NT_ARM_GCS)
    named: Sequence[int] = (NT_ARM_TLS,)
    gadgets: Mapping[str, bytes] = {
        "system call": SVC + b"\xc0\x03\x5f\xd6",  # svc #0; ret
        "sigreturn": b"\x68\x11\x80\xd2" + SVC,  # mov x8, #139; svc #0: the vdso's __kernel_rt_sigreturn
    }
    with_masks: Mapping[int, tuple[str, bool]] = {
        73: ("x3", False),  # ppoll
        22: ("x4", False),  # epoll_pwait
        441: ("x4", False),  # epoll_pwait2
        72: ("x5", True),  # pselect6
        292: ("x5", True),  # io_pgetevents
    }
    never: Sequence[int] = (133, 426)

    def refusal(self, pid: int) -> Optional[str]:
        return None

    def unpacked(self, general: bytes, sets: Sets) -> dict[str, int]:
        registers = dict(zip(GENERAL[EM_AARCH64], struct.unpack("<34Q", general)))
        return {**registers, self.thread: int.from_bytes(sets[NT_ARM_TLS][:WORD], "little")}

    def packed(self, registers: Registers) -> bytes:
        return struct.pack("<34Q", *(registers[name] & ALL for name in GENERAL[EM_AARCH64]))

    def is_plain(self, registers: Registers) -> bool:
        return not registers["cpsr"] & MODE and not registers["sp"] % 16

    def put_back(self, sets: Sets) -> Optional[Sequence[tuple[int, bytes]]]:
        # in streaming mode, or with a matrix (SME: what follows their headers is not always of that), or with a second
        # stack of returns (GCS)
        streaming = scalable_registers(sets[NT_ARM_SSVE])
        matrix = int.from_bytes(sets[NT_ARM_ZA][:4], "little") > SVE_HEADER
        if streaming or matrix or any(sets[NT_ARM_GCS][:WORD]):
            return None
        if len(sets[NT_FPREGSET]) != FPSIMD_BYTES:
            return None
        scalable = scalable_registers(sets[NT_ARM_SVE])
        if not scalable:
            return [(NT_FPREGSET, sets[NT_FPREGSET])]
        fits = FRAME_BYTES - RESERVED_AT + SVE_HEADER + len(scalable) <= RESERVED_BYTES
        return [(NT_ARM_SVE, sets[NT_ARM_SVE])] if fits else None

    def call_under_way(self, registers: Registers, memory: Memory) -> Optional[int]:
        """Also returns a call that has not been made yet, which looks the same."""
        place = registers["pc"]
        if memory.try_read(place, 4) != SVC:
            return None
        if registers["x8"] != RESTART:
            return registers["x8"]
        # it was interrupted before: which call it is says an instruction in front: mov x8, #N
        for back in range(1, LOOK_BACK):
            code = int.from_bytes(memory.try_read(place - 4 * back, 4) or b"", "little")
            if code & 0x7FE0001F == 0x52800008:
                number = code >> 5 & 0xFFFF
                # these are all that the kernel ends so
                return number if number in (NANOSLEEP, CLOCK_NANOSLEEP, FUTEX) else UNKNOWN
            is_branch = code & 0x1C000000 == 0x14000000 and code & 0xFFC00000 != 0xD5000000  # and no nop or mrs
            if is_branch or code & 0x1F == 8:
                break  # the last that may change x8
        return UNKNOWN

    def making(self, registers: Registers, number: int) -> dict[str, int]:
        return {**registers, "x8": number}

    def begins_anew(self, number: int, registers: Registers) -> bool:
        """A wait for a length of time is completed only if the kernel wrote the rest of that time into it."""
        if number == NANOSLEEP:
            return registers["x0"] == registers["x1"]
        if number == CLOCK_NANOSLEEP:
            return bool(registers["x1"] & TIMER_ABSTIME) or registers["x2"] == registers["x3"]
        if number == FUTEX:
            return registers["x1"] & FUTEX_OPERATION != FUTEX_WAIT or not registers["x3"]
        return True

    def is_timed(self, registers: Registers) -> bool:
        return False

    def find_errno(self, thread: int, place: int, memory: Memory) -> Optional[int]:
        """Expects mrs Xn, tpidr_el0; adrp and ldr its offset; add; ret, in any order."""
        values: dict[int, int] = {}
        for at in range(place, place + 4 * 12, 4):
            code = int.from_bytes(memory.try_read(at, 4) or b"", "little")
            to, one, two = code & 31, code >> 5 & 31, code >> 16 & 31
            if code & 0xFFFFF01F == 0xD503201F:
                continue  # nop, bti, paciasp and its like
            if code & 0xFFFFFFE0 == 0xD53BD040:
                values[to] = thread
            elif code & 0x9F000000 == 0x90000000:
                pages = (code >> 5 & 0x7FFFF) << 2 | code >> 29 & 3
                pages -= (1 << 21) if pages >> 20 else 0
                values[to] = ((at & ~0xFFF) + (pages << 12)) & ALL
            elif code & 0xFFC00000 == 0xF9400000 and one in values:
                offset = memory.try_word(values[one] + (code >> 10 & 0xFFF) * WORD)
                if offset is None:
                    return None
                values[to] = offset
            elif code & 0xFFE0FC00 == 0x8B000000 and one in values and two in values:
                values[to] = (values[one] + values[two]) & ALL
            elif code == 0xD65F03C0:
                return values.get(0)
            else:
                return None
        return None

    def frames(self, thread: Thread, gadgets: Mapping[str, int]) -> Aarch64Frames:
        return Aarch64Frames(thread, gadgets)


def scalable_registers(data: bytes) -> bytes:
    """Returns Z, P and FFR from an NT_ARM_SVE or NT_ARM_SSVE; empty if that mode is off, or the thread has only the
    part in NT_FPREGSET."""
    if len(data) < SVE_HEADER:
        return b""
    _, _, length, _, flags, _ = struct.unpack_from("<IIHHHH", data)
    size = 32 * length + 17 * (length // 8)
    return data[SVE_HEADER : SVE_HEADER + size] if flags & SVE_ACTIVE else b""


class Aarch64Frames:
    red_zone = entry = state_bytes = 0
    halt_bytes = frame_bytes = FRAME_BYTES

    def __init__(self, thread: Thread, gadgets: Mapping[str, int]) -> None:
        self.thread, self.gadgets = thread, gadgets
        data = thread.sets[NT_ARM_SVE]
        scalable = scalable_registers(data)
        self._scalable = b""
        if scalable:
            size = -(-(SVE_HEADER + len(scalable)) // 16) * 16
            length = struct.unpack_from("<H", data, 8)[0]
            self._scalable = (struct.pack("<IIH6x", SVE, size, length) + scalable).ljust(size, b"\0")
        self.back_bytes = FRAME_BYTES + len(self._scalable)

    def halt(self, tid: int, signal: int, then: int, mask: int) -> bytes:
        return self.frame(self.begin(InjectedCall(0, (tid, signal), system_call="tkill"), then), mask)

    def halted(self) -> int:
        return self.gadgets["system call"] + 4

    def frame(self, registers: Registers, mask: int) -> bytes:
        return self._frame(registers, mask, b"")

    def back(self, state: int) -> bytes:
        return self._frame(self.thread.registers, self.thread.mask, self._scalable)

    def state(self) -> bytes:
        return b""

    def begin(self, step: InjectedCall, then: int) -> Registers:
        values = {f"x{at}": value for at, value in enumerate(step.arguments)}
        values["pc"] = step.address
        if step.system_call is not None:
            values.update(x8=SYSTEM_CALLS[step.system_call], pc=self.gadgets["system call"])
        return {**self._plain(), **values, "x30": self.gadgets["sigreturn"], "sp": then}

    def through_frame(self, at: int) -> Optional[Registers]:
        return {**self._plain(), "pc": self.gadgets["sigreturn"], "sp": at}

    def _plain(self) -> dict[str, int]:
        status = self.thread.registers["cpsr"] & ~(BRANCH_TYPE | SINGLE_STEP)
        return {**self.thread.registers, "cpsr": status}

    def _frame(self, registers: Registers, mask: int, scalable: bytes) -> bytes:
        """Returns a struct rt_sigframe. The kernel reads no more of its reserved bytes than the records."""
        context = bytes(SIGINFO_BYTES + 2 * WORD) + OTHER_STACK + struct.pack("<Q", mask).ljust(MASK_BYTES + 8, b"\0")
        general = bytes(WORD) + struct.pack("<34Q", *(registers[name] & ALL for name in GENERAL[EM_AARCH64]))
        vectors = self.thread.sets[NT_FPREGSET]
        record = struct.pack("<II", FPSIMD, FPSIMD_BYTES) + vectors[FPSR : FPSR + 8] + vectors[:FPSR]
        return (context + general).ljust(RESERVED_AT, b"\0") + record + scalable + bytes(16)
