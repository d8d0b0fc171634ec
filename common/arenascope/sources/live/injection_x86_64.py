"""x86-64's part of a call from outside (injection.py): system calls are chained by returns, frames as signals have."""

from __future__ import annotations

import struct
from typing import Mapping, Optional, Sequence

from ..elf.elf_file import EM_X86_64, NT_X86_XSTATE
from ..elf.registers import GENERAL
from ..memory import Memory
from . import proc_tables
from .injection import ALL, OTHER_STACK, UNKNOWN, WORD, InjectedCall, Registers, Sets, Thread, signed

SYSTEM_CALLS: Mapping[str, int] = {"tkill": 200, "process_vm_writev": 311, "futex": 202, "restart_syscall": 219}
RED_ZONE = 128
FLAGS = 0x202
# ucontext of x86-64 (asm/ucontext.h, asm/sigcontext.h)
UC_FP_XSTATE, UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS = 1, 2, 4
_ORDER = "r8 r9 r10 r11 r12 r13 r14 r15 rdi rsi rbp rbx rdx rax rcx rsp rip eflags"
UCONTEXT_BYTES = 304
# the legacy area of XSAVE has room for software's notes (struct _fpx_sw_bytes)
SW_NOTES, XSAVE_LEAST, MAGIC1, MAGIC2 = 464, 576, 0x46505853, 0x46505845
TILES = 18
"""AMX's tile data: the kernel does not count it in a signal frame until a thread asks for it."""
WITH_TILES, WITHOUT_TILES = 11008, 2816
TIMED = -516
RESTARTS = (-512, -513, -514, TIMED)
"""-ERESTARTSYS and the like: the kernel's mark in rax of a system call that it will make again."""
RESTARTED = (7, 35, 202, 230)
"""poll, nanosleep, futex, clock_nanosleep: all calls that the kernel resumes by restart_syscall."""
CANCELLABLE = bytes.fromhex("4c895c24080f05")
"""mov %r11, 8(%rsp); syscall: the end of __syscall_cancel_arch."""
PASSED_ON, PASSING = bytes.fromhex("488b7424"), 40
"""mov N(%rsp), %rsi, and its largest distance from where __syscall_cancel_arch returns to."""
GIVEN = b"\xbe"
"""mov $N, %esi, likewise."""
ARGUMENTS = ("rdi", "rsi", "rdx", "rcx", "r8", "r9")
SYSTEM_ARGUMENTS = ("rdi", "rsi", "rdx", "r10", "r8", "r9")
ERRNO = bytes.fromhex("644803042500000000c3")
"""add %fs:0, %rax; ret: the end of __errno_location; before it rax is loaded with the variable's offset."""
LOAD, ENTRY_MARK = b"\x48\x8b\x05", b"\xf3\x0f\x1e\xfa"


class X8664:
    """x86-64's Processor. Aarch64 has the same members."""

    machine, counter, stack, thread = "x86_64", "rip", "rsp", "fs_base"
    """Its name; and the names of its program counter, stack pointer and thread pointer."""
    general_bytes = 27 * WORD
    stands_in = (16 * WORD, 19 * WORD)
    sets: Sequence[int] = (NT_X86_XSTATE,)
    """Register sets read besides the general ones, of a thread that will call."""
    named: Sequence[int] = ()
    """Register sets read of every thread, as `unpacked` uses them."""
    gadgets: Mapping[str, bytes] = {
        # each with a return after it; the last is __restore_rt
        "pop rdi": b"\x5f\xc3",
        "pop rsi": b"\x5e\xc3",
        "pop rax": b"\x58\xc3",
        "system call": b"\x0f\x05\xc3",
        "sigreturn": b"\x48\xc7\xc0\x0f\0\0\0\x0f\x05",
    }
    """Instructions that every libc or vdso contains."""
    with_masks: Mapping[int, tuple[str, bool]] = {
        271: ("r10", False),  # ppoll
        281: ("r8", False),  # epoll_pwait
        441: ("r8", False),  # epoll_pwait2
        270: ("r9", True),  # pselect6
        333: ("r9", True),  # io_pgetevents
    }
    """System calls that change the signal mask while they wait, and the register that points to that mask; true: a
    pointer to a pointer."""
    never: Sequence[int] = (130, 426)
    """System calls that need a mask, or hide it (rt_sigsuspend, io_uring_enter)."""

    def refusal(self, pid: int) -> Optional[str]:
        """Returns why no thread of this process can be made to call."""
        features = proc_tables.status_row(pid, "x86_Thread_features")
        has = "shstk" in features.split()
        return "the process has a shadow stack, which forbids calls from outside" if has else None

    def unpacked(self, general: bytes, sets: Sets) -> dict[str, int]:
        return dict(zip(GENERAL[EM_X86_64], struct.unpack("<27Q", general)))

    def packed(self, registers: Registers) -> bytes:
        return struct.pack("<27Q", *(registers[name] & ALL for name in GENERAL[EM_X86_64]))

    def is_plain(self, registers: Registers) -> bool:
        """Whether the thread runs 64-bit code."""
        return registers["cs"] == 0x33

    def put_back(self, sets: Sets) -> Optional[Sequence[tuple[int, bytes]]]:
        """Returns the sets that must be restored; None if a signal frame could not restore them."""
        vectors = sets[NT_X86_XSTATE]
        return None if usable(vectors) is None else [(NT_X86_XSTATE, vectors)]

    def call_under_way(self, registers: Registers, memory: Memory) -> Optional[int]:
        """Returns the number of the system call that the thread will make again; None: it is in none, UNKNOWN: in
        some."""
        number = interrupted_call(registers)
        if number != SYSTEM_CALLS["restart_syscall"]:
            return number
        # it was interrupted before: which call it is says the instruction in front: mov $N, %eax; syscall
        code = memory.try_read(registers["rip"] - 7, 7) or b""
        if code[:1] == b"\xb8" and code[5:] == b"\x0f\x05":
            return int.from_bytes(code[1:5], "little")
        return _number_passed(registers["rsp"], memory) if code == CANCELLABLE else UNKNOWN

    def making(self, registers: Registers, number: int) -> dict[str, int]:
        """Returns registers with which a thread makes this call again by itself, where the kernel has a short cut for
        it."""
        return {**registers, "orig_rax": number}

    def begins_anew(self, number: int, registers: Registers) -> bool:
        """Whether this call, made again by registers alone, waits no longer than it would have."""
        return True  # a guard that lives puts back what the kernel remembers

    def is_timed(self, registers: Registers) -> bool:
        """Whether only the kernel remembers the rest of a wait, which then lives as long as we do."""
        return is_timed(registers)

    def find_errno(self, thread: int, place: int, memory: Memory) -> Optional[int]:
        """Finds a thread's errno by the code of __errno_location at `place`.

        It expects mov errno@gottpoff(%rip), %rax; add %fs:0, %rax; ret.
        """
        code = memory.try_read(place, 32) or b""
        if code.startswith(ENTRY_MARK):
            code, place = code[4:], place + 4
        if not code.startswith(LOAD) or code[7 : 7 + len(ERRNO)] != ERRNO:
            return None
        offset = memory.try_word(place + 7 + int.from_bytes(code[3:7], "little", signed=True))
        return (thread + offset) & memory.top if offset is not None else None

    def frames(self, thread: Thread, gadgets: Mapping[str, int]) -> X8664Frames:
        return X8664Frames(thread, gadgets)


def _number_passed(stack: int, memory: Memory) -> int:
    """Returns the number that the caller of __syscall_cancel_arch passed on. Since glibc 2.41 one function makes all
    cancellable calls. Its caller gets the number on the stack and passes it on: mov N(%rsp), %rsi; some moves; call. In
    2.44 the caller is inlined, and the number is in the code: mov $N, %esi."""
    goes_on = memory.try_word(stack)
    code = memory.try_read(goes_on - PASSING, PASSING) or b"" if goes_on is not None else b""
    inlined = [number for number in RESTARTED if GIVEN + number.to_bytes(4, "little") in code]
    if inlined:
        return inlined[0] if len(inlined) == 1 else UNKNOWN
    at = code.rfind(PASSED_ON) + len(PASSED_ON)
    if not len(PASSED_ON) <= at < len(code):
        return UNKNOWN
    number = memory.try_word(stack + WORD + code[at])
    return number if number in RESTARTED else UNKNOWN


def interrupted_call(registers: Registers) -> Optional[int]:
    """Returns the number of the system call that the thread will make again; None: it is in none."""
    number = signed(registers["orig_rax"])
    return number if number >= 0 and signed(registers["rax"]) in RESTARTS else None


def is_timed(registers: Registers) -> bool:
    return interrupted_call(registers) is not None and signed(registers["rax"]) == TIMED


def going_on(registers: Registers) -> dict[str, int]:
    """Returns registers that do what the kernel would have done: make the interrupted system call again.

    restart_syscall itself is lost by any rt_sigreturn: such a call, which waits for a length of time, starts again.
    """
    anew = dict(registers)
    number = interrupted_call(registers)
    if number is not None:
        anew["rax"], anew["rip"] = number, registers["rip"] - 2
    return anew


def usable(vectors: bytes) -> Optional[int]:
    """Returns how many bytes of an NT_X86_XSTATE a signal frame may have; None if unknown."""
    if len(vectors) < XSAVE_LEAST:
        return None
    features, in_use = (int.from_bytes(vectors[at : at + 8], "little") for at in (SW_NOTES, 512))
    if not features >> TILES & 1:
        return len(vectors)
    return WITHOUT_TILES if len(vectors) == WITH_TILES and not in_use >> TILES & 1 else None


class X8664Frames:
    """x86-64's Frames. Aarch64Frames has the same members."""

    red_zone, entry = RED_ZONE, 8
    """`entry`: the stack pointer at a function's entry, past a multiple of 16."""
    halt_bytes = 7 * WORD
    frame_bytes = back_bytes = WORD + UCONTEXT_BYTES

    def __init__(self, thread: Thread, gadgets: Mapping[str, int]) -> None:
        self.thread, self.gadgets = thread, gadgets
        self._vectors = thread.sets[NT_X86_XSTATE]
        size = usable(self._vectors)
        assert size is not None
        self._size = size
        self.state_bytes = size + 4
        """Registers outside the last frame, which it refers to."""

    def halt(self, tid: int, signal: int, then: int, mask: int) -> bytes:
        """Returns tkill, then what lies at `then`."""
        gadgets, number = self.gadgets, SYSTEM_CALLS["tkill"]
        words = (gadgets["pop rdi"], tid, gadgets["pop rsi"], signal, gadgets["pop rax"], number)
        return struct.pack("<7Q", *words, gadgets["system call"])

    def halted(self) -> int:
        """Returns the program counter after tkill."""
        return self.gadgets["system call"] + 2

    def frame(self, registers: Registers, mask: int) -> bytes:
        """Returns rt_sigreturn, with these registers loaded."""
        return self._frame(registers, mask, 0)

    def back(self, state: int) -> bytes:
        """Returns rt_sigreturn with all of the thread's state; `state`: the address of its `state`."""
        return self._frame(going_on(self.thread.registers), self.thread.mask, state)

    def state(self) -> bytes:
        """Returns an NT_X86_XSTATE as rt_sigreturn wants it: with the kernel's own notes, and a mark after them."""
        size, vectors = self._size, bytearray(self._vectors[: self._size])
        features = int.from_bytes(vectors[SW_NOTES : SW_NOTES + 8], "little")
        if size < len(self._vectors):
            features &= ~(1 << TILES)
        vectors[SW_NOTES : SW_NOTES + 48] = struct.pack("<IIQI28x", MAGIC1, size + 4, features, size)
        return bytes(vectors) + struct.pack("<I", MAGIC2)

    def begin(self, step: InjectedCall, then: int) -> Registers:
        """Returns the registers at the start of a step that returns to what lies at `then`."""
        if step.system_call is not None:
            values = dict(zip(SYSTEM_ARGUMENTS, step.arguments))
            values.update(rax=SYSTEM_CALLS[step.system_call], rip=self.gadgets["system call"])
        else:
            values = {**dict(zip(ARGUMENTS, step.arguments)), "rip": step.address}
        return {**self._plain(), **values, "rsp": then}

    def through_frame(self, at: int) -> Optional[Registers]:
        """Returns registers for rt_sigreturn of the frame at `at`; None if that would lose something."""
        if is_timed(self.thread.registers):
            return None
        # the frame's first word is used before rt_sigreturn
        return {**self._plain(), "rip": self.gadgets["sigreturn"], "rsp": at + WORD}

    def _plain(self) -> dict[str, int]:
        """Returns the thread's registers, with flags as a function expects them and no system call under way."""
        return {**self.thread.registers, "eflags": FLAGS, "rax": 0, "orig_rax": ALL}

    def _frame(self, registers: Registers, mask: int, vectors: int) -> bytes:
        flags = UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS | (UC_FP_XSTATE if vectors else 0)
        values = struct.pack("<18Q", *(registers[name] & ALL for name in _ORDER.split()))
        segments = struct.pack("<4H", registers["cs"], 0, 0, registers["ss"])
        rest = struct.pack("<4Q", 0, 0, 0, 0) + struct.pack("<Q", vectors) + bytes(64)
        context = struct.pack("<QQ", flags, 0) + OTHER_STACK + values + segments + rest + struct.pack("<Q", mask)
        assert len(context) == UCONTEXT_BYTES
        return struct.pack("<Q", self.gadgets["sigreturn"]) + context
