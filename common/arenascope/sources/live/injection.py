"""A function called in a thread of another process, so that the thread finds back by itself whatever becomes of us.

Who calls by changing registers and stops the thread again afterwards has it lost if he is killed in between. So, below
the thread's stack, everything is laid out beforehand that it needs to go on alone: the function returns into a system
call (tkill, with a signal that means nothing), at which a tracer, if there still is one, gets the thread back. Behind
it lies a signal frame as the kernel makes them: rt_sigreturn loads all registers, the signal mask and the floating
point registers out of it at once. From the moment at which the kernel has taken the changed registers, in one call,
the thread needs nobody. x86-64 alone.
"""

from __future__ import annotations

import struct
from typing import Mapping, Optional, Sequence

from ...records import NamedTuple

GADGETS: Mapping[str, bytes] = {
    "pop rdi": b"\x5f\xc3",
    "pop rsi": b"\x5e\xc3",
    "pop rax": b"\x58\xc3",
    "syscall": b"\x0f\x05\xc3",
    "sigreturn": b"\x48\xc7\xc0\x0f\0\0\0\x0f\x05",
}
"""Instructions that every libc has somewhere, each with a return after it; the last is __restore_rt."""

SYS_TKILL, SYS_PROCESS_VM_WRITEV, SYS_FUTEX, SYS_RESTART = 200, 311, 202, 219
FUTEX_WAKE_OP_PRIVATE = 5 | 128
"""With a last argument of 0 it sets the second word to 0, then wakes one who waits for the first."""

RED_ZONE = 128
ROOM = 32 << 10
"""What malloc_trim and its callees may use below: some hundreds of bytes."""
WORD = 8
FLAGS = 0x202
# ucontext of x86-64 (asm/ucontext.h, asm/sigcontext.h)
UC_FP_XSTATE, UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS = 1, 2, 4
NO_CHANGE = 0x10
"""ss_flags that sigaltstack refuses, and rt_sigreturn does not mind: the thread's other stack stays."""
_ORDER = "r8 r9 r10 r11 r12 r13 r14 r15 rdi rsi rbp rbx rdx rax rcx rsp rip eflags"
UCONTEXT_BYTES = 304
# the legacy area of XSAVE has room for software's notes (struct _fpx_sw_bytes)
SW_NOTES, XSAVE_LEAST, MAGIC1, MAGIC2 = 464, 576, 0x46505853, 0x46505845
TILES = 18
"""The feature of AMX's tile data: the kernel does not count it in a signal frame until a thread asks for it."""
WITH_TILES, WITHOUT_TILES = 11008, 2816
RESTARTS = (-512, -513, -514, -516)
"""-ERESTARTSYS and its like: what the kernel leaves in rax where it will make the system call again."""
ARGUMENTS = ("rdi", "rsi", "rdx", "rcx", "r8", "r9")
SYSTEM_ARGUMENTS = ("rdi", "rsi", "rdx", "r10", "r8", "r9")


class Thread(NamedTuple):
    """A thread as it stood, and must stand again."""

    registers: Mapping[str, int]
    vectors: bytes
    """NT_X86_XSTATE."""
    mask: int
    """Its blocked signals."""
    inner_tid: int
    """As it calls itself, in its own pid namespace."""
    inner_pid: int
    errno_at: int
    errno: int


class Step(NamedTuple):
    """One function, or one system call."""

    address: int
    arguments: Sequence[int]
    number: Optional[int] = None
    """A system call's; its `address` is nowhere."""
    unlocks: Optional[int] = None
    """The lock that is held after it, and has to be given back should nobody come."""


class Prepared(NamedTuple):
    """What a tracer needs for it: bytes, and no knowledge."""

    block: tuple[int, bytes]
    """Written first, below the thread's stack."""
    entries: Sequence[Mapping[str, int]]
    """Registers with which each step begins; in between the tracer has the thread."""
    stops: Sequence[tuple[int, int]]
    """Where it stands when the tracer gets it: program counter and stack pointer."""
    mask: int


class Order(NamedTuple):
    """What the guard is told: to make a thread go through prepared steps, then to put it back."""

    tid: int
    general: bytes
    """Its registers, as they are and shall be again."""
    vectors: bytes
    mask: int
    meanwhile: int
    """The signal mask while it goes through the steps."""
    block: tuple[int, bytes]
    room: int
    """How many bytes below the block are used, too."""
    entries: Sequence[bytes]
    stops: Sequence[tuple[int, int]]
    errno: tuple[int, bytes]
    at_end: int
    """The signal at which it stops after each step."""
    seconds: float


def signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def interrupted_call(registers: Mapping[str, int]) -> Optional[int]:
    """The number of the system call that the thread will make again; None: it is in none."""
    number = signed(registers["orig_rax"])
    return number if number >= 0 and signed(registers["rax"]) in RESTARTS else None


def going_on(registers: Mapping[str, int]) -> dict[str, int]:
    """Registers that do by themselves what the kernel would have done: make the interrupted system call again.

    restart_syscall itself is lost by any rt_sigreturn: such a call, which waits for a time that was given as a length,
    begins anew.
    """
    anew = dict(registers)
    number = interrupted_call(registers)
    if number is not None:
        anew["rax"], anew["rip"] = number, registers["rip"] - 2
    return anew


def usable(vectors: bytes) -> Optional[int]:
    """How many bytes of an NT_X86_XSTATE a signal frame may have; None where that cannot be told."""
    if len(vectors) < XSAVE_LEAST:
        return None
    features, in_use = (int.from_bytes(vectors[at : at + 8], "little") for at in (SW_NOTES, 512))
    if not features >> TILES & 1:
        return len(vectors)
    return WITHOUT_TILES if len(vectors) == WITH_TILES and not in_use >> TILES & 1 else None


class Layout:
    """Where things lie, below a thread's stack."""

    def __init__(self, thread: Thread, gadgets: Mapping[str, int], steps: Sequence[Step], signal: int) -> None:
        self.thread, self.gadgets, self.steps, self.signal = thread, gadgets, steps, signal
        size = usable(thread.vectors)
        assert size is not None
        self.vector_bytes = size
        stop_bytes = WORD * 8 + UCONTEXT_BYTES
        tail = 2 * (WORD + UCONTEXT_BYTES)
        entry = UCONTEXT_BYTES + WORD
        total = len(steps) * stop_bytes + 2 * tail + entry + 256 + size
        self.base = (thread.registers["rsp"] - RED_ZONE - total) & -64
        self.end = thread.registers["rsp"] - RED_ZONE
        # what is needed later lies higher: functions, and signal handlers before the mask is closed, write below
        self.first = at = self.base
        at += UCONTEXT_BYTES + WORD
        # a function begins with its stack pointer 8 past a multiple of 16
        at += (8 - at) % 16
        self.stops = []
        for _ in steps:
            self.stops.append(at)
            at += stop_bytes
        self.errno, at = at, at + WORD + UCONTEXT_BYTES
        self.back, at = at, at + WORD + UCONTEXT_BYTES
        self.words, at = at, at + 64
        self.vectors = -(-at // 64) * 64
        assert self.vectors + size + 4 <= self.end

    def prepared(self) -> Prepared:
        memory = bytearray(self.end - self.base)

        def put(at: int, data: bytes) -> None:
            memory[at - self.base : at - self.base + len(data)] = data

        put(self.vectors, self._vector_frame())
        # struct iovec: errno's value here, and where it belongs
        errno, local, remote = self.words, self.words + 16, self.words + 32
        put(errno, struct.pack("<Q", self.thread.errno & 0xFFFFFFFF))
        put(local, struct.pack("<4Q", errno, 4, self.thread.errno_at, 4))
        back = self._ucontext(going_on(self.thread.registers), self.thread.mask, self.vectors)
        put(self.back, self._word("sigreturn") + back)
        arguments = (self.thread.inner_pid, local, 1, remote, 1, 0)
        put(self.errno, self._word("sigreturn") + self._system_call(SYS_PROCESS_VM_WRITEV, arguments, self.back))
        for step, at in zip(self.steps, self.stops):
            put(at, self._stop(step))
        first = {**self._plain(), **self._begin(0)}
        put(self.first, self._ucontext(first, self.mask, 0))
        entries = [{**self._plain(), **self._begin(index)} for index in range(len(self.steps))]
        if signed(self.thread.registers["rax"]) != -516 or interrupted_call(self.thread.registers) is None:
            # the mask is closed by the same instruction that begins
            entries[0] = {**self._plain(), "rip": self.gadgets["sigreturn"], "rsp": self.first}
        stand = self.gadgets["syscall"] + 2
        return Prepared((self.base, bytes(memory)), entries, [(stand, at + 7 * WORD) for at in self.stops], self.mask)

    @property
    def mask(self) -> int:
        """All but the signal that we wait for, and those that a fault of its own would raise."""
        return ~(1 << (self.signal - 1) | FATAL) & ((1 << 64) - 1)

    def _word(self, gadget: str) -> bytes:
        return struct.pack("<Q", self.gadgets[gadget])

    def _stop(self, step: Step) -> bytes:
        """Where a step returns to: the system call at which the tracer gets the thread; then, alone, how to go on."""
        gadgets, thread = self.gadgets, self.thread
        words = (gadgets["pop rdi"], thread.inner_tid, gadgets["pop rsi"], self.signal, gadgets["pop rax"], SYS_TKILL)
        alone = self._alone(step)
        return struct.pack("<8Q", *words, gadgets["syscall"], gadgets["sigreturn"]) + alone

    def _alone(self, step: Step) -> bytes:
        if step.unlocks is not None:
            return self._system_call(SYS_FUTEX, unlocking(step.unlocks), self.errno)
        arguments = (self.thread.inner_pid, self.words + 16, 1, self.words + 32, 1, 0)
        return self._system_call(SYS_PROCESS_VM_WRITEV, arguments, self.back)

    def _system_call(self, number: int, arguments: Sequence[int], then: int) -> bytes:
        registers = {**self._plain(), **dict(zip(SYSTEM_ARGUMENTS, arguments))}
        return self._ucontext({**registers, "rax": number, "rip": self.gadgets["syscall"], "rsp": then}, self.mask, 0)

    def _begin(self, index: int) -> dict[str, int]:
        step = self.steps[index]
        if step.number is not None:
            values = dict(zip(SYSTEM_ARGUMENTS, step.arguments))
            return {**values, "rax": step.number, "rip": self.gadgets["syscall"], "rsp": self.stops[index]}
        return {**dict(zip(ARGUMENTS, step.arguments)), "rip": step.address, "rsp": self.stops[index]}

    def _plain(self) -> dict[str, int]:
        """The thread's own, with flags as a function expects them and no system call under way."""
        return {**self.thread.registers, "eflags": FLAGS, "rax": 0, "orig_rax": (1 << 64) - 1}

    def _ucontext(self, registers: Mapping[str, int], mask: int, vectors: int) -> bytes:
        flags = UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS | (UC_FP_XSTATE if vectors else 0)
        values = struct.pack("<18Q", *(registers[name] & ((1 << 64) - 1) for name in _ORDER.split()))
        segments = struct.pack("<4H", registers["cs"], 0, 0, registers["ss"])
        rest = struct.pack("<4Q", 0, 0, 0, 0) + struct.pack("<Q", vectors) + bytes(64)
        other_stack = struct.pack("<QiiQ", 0, NO_CHANGE, 0, 0)
        context = struct.pack("<QQ", flags, 0) + other_stack + values + segments + rest + struct.pack("<Q", mask)
        assert len(context) == UCONTEXT_BYTES
        return context

    def _vector_frame(self) -> bytes:
        """An NT_X86_XSTATE as rt_sigreturn wants it: the kernel's own notes in it, and a mark after them."""
        size, vectors = self.vector_bytes, bytearray(self.thread.vectors[: self.vector_bytes])
        features = int.from_bytes(vectors[SW_NOTES : SW_NOTES + 8], "little")
        if size < len(self.thread.vectors):
            features &= ~(1 << TILES)
        vectors[SW_NOTES : SW_NOTES + 48] = struct.pack("<IIQI28x", MAGIC1, size + 4, features, size)
        return bytes(vectors) + struct.pack("<I", MAGIC2)


FATAL = sum(1 << (number - 1) for number in (4, 5, 6, 7, 8, 11, 31))
"""SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS: blocked, the kernel would forget their handlers."""


def unlocking(mutex: int) -> Sequence[int]:
    """The arguments of the futex call that gives a lock of libc's back (lll_unlock)."""
    return (mutex, FUTEX_WAKE_OP_PRIVATE, 1, 0, mutex, 0)
