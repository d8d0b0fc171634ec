"""Calls a function in a thread of another process, so that the thread recovers by itself whatever happens to us.

A tracer that changes registers, and stops the thread again afterwards, loses the thread if it is killed in between. So
everything that the thread needs to go on alone is laid out beforehand below its stack: the function returns into a
system call (tkill, with a signal that means nothing), where a tracer, if there still is one, gets the thread back.
After it lies a signal frame as the kernel makes them: rt_sigreturn loads all registers, the signal mask and the
floating point registers from it at once. From the moment at which the kernel has taken the changed registers, in one
call, the thread needs no tracer. What differs by machine is its Processor: injection_x86_64.py, injection_aarch64.py.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Mapping, NamedTuple, Optional, Sequence, Union

if TYPE_CHECKING:
    from .injection_aarch64 import Aarch64, Aarch64Frames
    from .injection_x86_64 import X8664, X8664Frames

FUTEX_WAKE_OP_PRIVATE = 5 | 128
"""With a last argument of 0 it sets the second word to 0, then wakes one waiter for the first."""
ROOM = 32 << 10
"""Stack space for malloc_trim and its callees, which need some hundreds of bytes."""
WORD = 8
ALL = (1 << 64) - 1
WORDS = 64
NO_CHANGE = 0x10
"""ss_flags that sigaltstack refuses and rt_sigreturn ignores: the thread's alternate stack stays."""
OTHER_STACK = struct.pack("<QiiQ", 0, NO_CHANGE, 0, 0)
FATAL = sum(1 << (number - 1) for number in (4, 5, 6, 7, 8, 11, 31))
"""SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS: blocked, the kernel would forget their handlers."""
UNKNOWN = -1
"""The number of a system call that is made again, if it cannot be told which it is."""

Registers = Mapping[str, int]
Sets = Mapping[int, bytes]
"""Registers besides the general ones, by the kernel's number of the set (NT_…)."""


class Thread(NamedTuple):
    """A thread's state before the call, to be restored after it."""

    registers: Registers
    sets: Sets
    mask: int
    """Its blocked signals."""
    inner_tid: int
    """Its own number in its own pid namespace."""
    inner_pid: int
    errno_at: int
    errno: int


class InjectedCall(NamedTuple):
    """A call of one function, or of one system call."""

    address: int
    arguments: Sequence[int]
    system_call: Optional[str] = None
    """The name of a system call, which has no `address`."""
    unlocks: Optional[int] = None
    """The lock that the call leaves held, to be released if no tracer comes."""


class Prepared(NamedTuple):
    """All data that a tracer needs for the call, ready to be written."""

    block: tuple[int, bytes]
    """Written first, below the thread's stack."""
    entries: Sequence[Registers]
    """The registers at the start of each step; between steps the tracer has the thread."""
    stops: Sequence[tuple[int, int]]
    """Where the tracer gets the thread: program counter and stack pointer."""
    mask: int


if TYPE_CHECKING:
    Frames = Union[X8664Frames, Aarch64Frames]
    """Builds the bytes that lead a thread on, each where the stack pointer is when it gets there."""
    Processor = Union[X8664, Aarch64]
    """Everything that differs by machine."""


def signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


class StackLayout:
    """The addresses of everything below a thread's stack."""

    def __init__(self, frames: Frames, thread: Thread, stack: int, steps: Sequence[InjectedCall], signal: int) -> None:
        """`stack`: the thread's stack pointer."""
        self.frames, self.thread, self.steps, self.signal = frames, thread, steps, signal
        stop_bytes = frames.halt_bytes + frames.frame_bytes
        total = len(steps) * stop_bytes + 2 * frames.frame_bytes + frames.back_bytes + WORDS + frames.state_bytes
        self.end = stack - frames.red_zone
        self.base = (self.end - total - 256) & -64
        # what is needed later lies higher: functions, and signal handlers before the mask is closed, write below
        self.first = at = self.base
        at += frames.frame_bytes
        at += (frames.entry - at) % 16
        self.stops = []
        for _ in steps:
            self.stops.append(at)
            at += stop_bytes
        self.errno, at = at, at + frames.frame_bytes
        self.back, at = at, at + frames.back_bytes
        self.words, at = at, at + WORDS
        self.state = -(-at // 64) * 64
        assert self.state + frames.state_bytes <= self.end

    def prepared(self) -> Prepared:
        memory, frames = bytearray(self.end - self.base), self.frames

        def put(at: int, data: bytes) -> None:
            memory[at - self.base : at - self.base + len(data)] = data

        put(self.state, frames.state())
        # struct iovec: errno's value here, and where it belongs
        errno = struct.pack("<Q", self.thread.errno & 0xFFFFFFFF) + bytes(WORD)
        put(self.words, errno + struct.pack("<4Q", self.words, 4, self.thread.errno_at, 4))
        put(self.back, frames.back(self.state))
        put(self.errno, self._frame(self._errno_step, self.back))
        for step, at in zip(self.steps, self.stops):
            alone = at + frames.halt_bytes
            put(at, frames.halt(self.thread.inner_tid, self.signal, alone, self.mask) + self._alone(step))
        put(self.first, self._frame(self.steps[0], self.stops[0]))
        entries = [frames.begin(step, at) for step, at in zip(self.steps, self.stops)]
        # the mask is closed by the same instruction that begins
        entries[0] = frames.through_frame(self.first) or entries[0]
        stand = frames.halted()
        stops = [(stand, at + frames.halt_bytes) for at in self.stops]
        return Prepared((self.base, bytes(memory)), entries, stops, self.mask)

    @property
    def mask(self) -> int:
        """Blocks all signals but the one that we wait for, and those that a fault of its own would raise."""
        return ~(1 << (self.signal - 1) | FATAL) & ((1 << 64) - 1)

    @property
    def _errno_step(self) -> InjectedCall:
        arguments = (self.thread.inner_pid, self.words + 2 * WORD, 1, self.words + 4 * WORD, 1, 0)
        return InjectedCall(0, arguments, system_call="process_vm_writev")

    def _alone(self, step: InjectedCall) -> bytes:
        """Returns how it goes on after a stop at which no tracer came."""
        if step.unlocks is not None:
            return self._frame(InjectedCall(0, unlocking(step.unlocks), system_call="futex"), self.errno)
        return self._frame(self._errno_step, self.back)

    def _frame(self, step: InjectedCall, then: int) -> bytes:
        return self.frames.frame(self.frames.begin(step, then), self.mask)


def unlocking(mutex: int) -> Sequence[int]:
    """Returns the arguments of the futex call that releases a lock of libc's (lll_unlock)."""
    return (mutex, FUTEX_WAKE_OP_PRIVATE, 1, 0, mutex, 0)
