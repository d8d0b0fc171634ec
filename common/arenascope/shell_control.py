"""The shell as a Controller: no debugger, but a guard that holds every thread (sources/live/running.py)."""

from __future__ import annotations

import os
import signal
import struct
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence

from .apply import LOCK_WAITS, Call, gone, taken_back
from .errors import EndedError, RefusedError
from .glibc.find.code import StackFrame
from .records import NamedTuple
from .session import Session
from .sources.elf.frames import Unwinder, by_number
from .sources.elf.machines import EM_X86_64
from .sources.elf.naming import modules_of
from .sources.elf.registers import GENERAL
from .sources.elf.symbols import dynamic_symbols
from .sources.elf.unwind import UnwindTables
from .sources.live import injection, procfiles
from .sources.live.freeze import Freeze
from .sources.live.target import ProcessTarget
from .target import Region, Span, ThreadInfo

SLICES = (0.0002, 0.001, 0.005, 0.02)
"""For how long a thread is let run until it is looked at again."""
MAIN = "[stack]"
AT_END = (signal.SIGURG, signal.SIGWINCH, signal.SIGCHLD)
"""Signals that mean nothing to a process without a handler for them."""
ERRNO = bytes.fromhex("64480304250000 0000c3".replace(" ", ""))
"""add %fs:0, %rax; ret: how __errno_location ends; in front of it rax is loaded with the variable's offset."""
LOAD = b"\x48\x8b\x05"
ENTRY_MARK = b"\xf3\x0f\x1e\xfa"
LOCK = "__lll_lock_wait_private"
WITH_MASKS: Mapping[int, tuple[str, bool]] = {
    271: ("r10", False),  # ppoll
    281: ("r8", False),  # epoll_pwait
    441: ("r8", False),  # epoll_pwait2
    270: ("r9", True),  # pselect6: a pointer to a pointer
    333: ("r9", True),  # io_pgetevents
}
"""System calls that change the signal mask for as long as they wait, and the register that leads to that mask."""
NEVER = (130, 426)
"""rt_sigsuspend and io_uring_enter, which cannot do without or hide it."""
ELSEWHERE = "use --apply from GDB or LLDB"


class Stand(NamedTuple):
    """A thread as the guard has it."""

    tid: int
    general: bytes
    vectors: bytes
    mask: int
    free: bool
    registers: Mapping[str, int]


class ShellController:
    """Lets threads of a held process run one at a time, and calls functions on one that finds back by itself."""

    rounds = 500
    """Nobody can stop a thread just where it leaves malloc: it runs for a moment, and is looked at again."""

    def __init__(self, target: ProcessTarget, freeze: Freeze) -> None:
        if freeze.how != "ptrace":
            raise RefusedError("a process that is held by a signal cannot be made to call anything", "--stop ptrace")
        if target.machine != "x86_64" or target.pointer_size != 8 or os.uname().machine != "x86_64":
            raise RefusedError(f"the shell calls into x86-64 processes alone, and this is {target.machine}", ELSEWHERE)
        features = procfiles.status_row(target.image.pid, "x86_Thread_features")
        if "shstk" in features.split():
            raise RefusedError("the process has a shadow stack, which forbids calls from outside", ELSEWHERE)
        self.target, self.freeze = target, freeze
        self._moment: Optional[_Moment] = None

    @property
    def _now(self) -> _Moment:
        if self._moment is None:
            self._moment = _Moment(self.target, self.freeze)
        return self._moment

    def _moved(self) -> None:
        self._moment = None
        self.target.moved()

    def frames(self, thread: ThreadInfo, limit: int) -> Sequence[StackFrame]:
        return list(self._now.frames(thread.tid, limit))

    def step_out(self, thread: ThreadInfo, depth: int, seconds: float) -> bool:
        """Whether it went anywhere: the caller looks again, and again."""
        before = self._now.stand(thread.tid).registers
        spent = 0.0
        for piece in SLICES:
            alive = self._obey("run", thread.tid, piece)
            self._moved()
            if not alive or self._now.stand(thread.tid).registers != before:
                return True
            spent += piece
        # it waits: all that a longer time can bring is that what it waits for comes from outside
        self._obey("run", thread.tid, max(seconds - spent, 0.0))
        self._moved()
        return self._now.stand(thread.tid).registers != before

    def _obey(self, *order: object, seconds: float = 30.0) -> Any:
        said = self.freeze.obey(order, seconds)
        if isinstance(said, str):
            raise RefusedError(said)
        return said

    def call(self, what: Call, seconds: float, is_lock_wait: Callable[[str], bool]) -> int:
        """0: what it returned cannot be had, only what came of it."""
        lock = what.lock
        steps = [injection.Step(what.address, what.arguments, unlocks=lock)]
        if lock is not None:
            take = self._now.exported(LOCK, self._now.base_of(what.address))
            if take is None:
                raise RefusedError(f"{LOCK} was not found in this process", ELSEWHERE)
            give = injection.Step(0, injection.unlocking(lock), number=injection.SYS_FUTEX)
            # alone, it goes from having the lock straight to giving it back
            steps = [injection.Step(take.value, [lock], unlocks=lock), *steps, give]
        became, number = self._make(what.address, steps, seconds)
        if became == "returned":
            return 0
        if became == "at signal":
            raise taken_back(signal.Signals(number).name)
        if became == "ended":
            raise EndedError(f"of {signal.Signals(number & 127).name}" if number & 127 else f"status {number >> 8}")
        if became == "at work":
            raise RefusedError("the call is still at work; the process was let go and finishes it by itself")
        raise RefusedError("no thread could be made to call", "try again")

    def _make(self, function: int, steps: Sequence[injection.Step], seconds: float) -> tuple[str, int]:
        now = self._now
        base = now.base_of(function)
        gadgets = now.gadgets(base)
        why = "has none that stands on the stack it was started with, in nothing that cannot be left"
        for stand, stack in now.candidates():
            thread, reason = now.thread(stand, base)
            at_end = _at_end(self.target.image.pid, stand)
            if at_end is None:
                reason = "handles or blocks every signal that could tell of the call's end"
            if thread is None or at_end is None:
                why = reason
                continue
            layout = injection.Layout(thread, gadgets, steps, at_end)
            if layout.base - injection.ROOM < stack.start:
                why = f"has too little room left on the stack of thread {stand.tid}"
                continue
            ready = layout.prepared()
            order = injection.Order(
                tid=stand.tid,
                general=stand.general,
                vectors=stand.vectors,
                mask=stand.mask,
                meanwhile=ready.mask,
                block=ready.block,
                room=injection.ROOM,
                entries=[_packed(each) for each in ready.entries],
                stops=list(ready.stops),
                errno=(thread.errno_at, struct.pack("<I", thread.errno)),
                at_end=at_end,
                seconds=seconds,
            )
            reply = self._obey("call", order._asdict(), seconds=seconds + 30.0)
            return str(reply[0]), int(reply[1])
        raise RefusedError(f"no thread can be made to call and put back as it was: the process {why}", ELSEWHERE)


class _Moment:
    """The process as it is held now."""

    def __init__(self, target: ProcessTarget, freeze: Freeze) -> None:
        self.target, self.freeze = target, freeze
        self.session = Session(target)
        self.regions = self.session.regions
        self._unwinder = Unwinder(self.session.memory, UnwindTables(self.session.memory, self.regions), target.machine)
        self._stands: Optional[dict[int, Stand]] = None
        self._waits: Optional[Span] = None

    @property
    def stands(self) -> dict[int, Stand]:
        if self._stands is None:
            states = self.freeze.obey(("states",), 30.0)
            if isinstance(states, str):
                raise RefusedError(states)
            self._stands = {
                tid: Stand(tid, general, vectors, mask, free, _unpacked(general))
                for tid, general, vectors, mask, free in states
            }
        return self._stands

    def stand(self, tid: int) -> Stand:
        if tid not in self.stands:
            raise gone(ThreadInfo(tid))
        return self.stands[tid]

    def frames(self, tid: int, limit: int) -> Iterator[StackFrame]:
        registers = self.stand(tid).registers
        numbered = by_number(self.target.machine, registers)
        for frame in self._unwinder.frames(numbered, registers["rip"], limit):
            yield StackFrame(frame.pc, self._name(frame.pc), frame.stack_pointer)

    def _name(self, pc: int) -> Optional[str]:
        if self._waits is None:
            lock = self.exported(LOCK, self.session.located.libc.base)
            self._waits = Span(lock.value, lock.value + lock.size) if lock is not None else Span(0, 0)
        return LOCK_WAITS[0] if self._waits.start <= pc < self._waits.end else None

    def exported(self, name: str, base: Optional[int]) -> Any:
        return dynamic_symbols(self.session.memory.read, base, [name]).get(name) if base is not None else None

    def base_of(self, function: int) -> int:
        """Of the libc that is called into: a process may have several."""
        for module in modules_of(self.regions):
            if any(region.contains(function) for region in module):
                return module[0].start
        raise RefusedError("what would be called lies in no file", ELSEWHERE)

    def gadgets(self, base: int) -> dict[str, int]:
        places: dict[str, int] = {}
        for region in next(module for module in modules_of(self.regions) if module[0].start == base):
            if not region.executable:
                continue
            code = self.session.memory.try_read(region.start, region.size) or b""
            for name, instructions in injection.GADGETS.items():
                at = code.find(instructions)
                if at >= 0:
                    places.setdefault(name, region.start + at)
        if len(places) < len(injection.GADGETS):
            raise RefusedError("libc has not the instructions that a call from outside needs", ELSEWHERE)
        return places

    def candidates(self) -> list[tuple[Stand, Region]]:
        """Threads that stand where they can be made to call, the fittest first, with their stacks."""
        fit = []
        for stand in self.stands.values():
            stack = self._stack(stand)
            if stack is not None and stand.free and stand.registers["cs"] == 0x33 and self._may_be_left(stand):
                fit.append((stand, stack))
        pid = self.target.image.pid
        # a timed wait can be made again exactly only as long as we live
        return sorted(fit, key=lambda each: (_is_timed(each[0]), each[0].tid != pid))

    def _stack(self, stand: Stand) -> Optional[Region]:
        """The mapping that is this thread's stack and nothing else below its stack pointer."""
        pointer = stand.registers["rsp"]
        at = next((at for at, region in enumerate(self.regions) if region.contains(pointer)), None)
        if at is None or not self.regions[at].writable:
            return None
        region = self.regions[at]
        if region.path == MAIN:
            return region
        below = self.regions[at - 1] if at else None
        guarded = below is not None and below.end == region.start and not (below.readable or below.writable)
        thread = stand.registers["fs_base"]
        others = [each.registers["fs_base"] for each in self.stands.values() if each.tid != stand.tid]
        alone = not any(region.start <= pointer_of < pointer for pointer_of in others)
        heaps = [part for parts in self.session.heaps.values() for part in parts]
        is_heap = any(region.start < part.end and part.address < region.end for part in heaps)
        fits = region.contains(thread) and pointer < thread
        return region if guarded and alone and fits and not is_heap and not region.path else None

    def _may_be_left(self, stand: Stand) -> bool:
        """Whether what it waits in can be begun anew by registers alone."""
        number = injection.interrupted_call(stand.registers)
        if number is None:
            return True
        if number in NEVER:
            return False
        if number not in WITH_MASKS:
            return True
        register, indirect = WITH_MASKS[number]
        pointer: Optional[int] = stand.registers[register]
        if indirect and pointer:
            pointer = self.session.memory.try_word(pointer)
        return pointer == 0

    def thread(self, stand: Stand, base: int) -> tuple[Optional[injection.Thread], str]:
        """All that is to be put back; else why that cannot be had."""
        registers = dict(stand.registers)
        if injection.interrupted_call(registers) == injection.SYS_RESTART:
            # it was interrupted before: which call it is says the instruction in front: mov $N, %eax; syscall
            code = self.session.memory.try_read(registers["rip"] - 7, 7) or b""
            if code[:1] != b"\xb8" or code[5:] != b"\x0f\x05":
                return None, f"waits in a system call that is not known, in thread {stand.tid}"
            registers["orig_rax"] = int.from_bytes(code[1:5], "little")
        if injection.usable(stand.vectors) is None:
            return None, f"uses registers that cannot be put back, in thread {stand.tid}"
        errno_at = self._errno(registers["fs_base"], base)
        errno = self.session.memory.try_read(errno_at, 4) if errno_at is not None else None
        if errno_at is None or errno is None:
            return None, "does not show where errno lies"
        task = f"/proc/{self.target.image.pid}/task/{stand.tid}"
        tid, pid = (procfiles.inner_number(task, row) for row in ("NSpid", "NStgid"))
        value = int.from_bytes(errno, "little")
        thread = injection.Thread(
            registers,
            stand.vectors,
            stand.mask,
            inner_tid=tid,
            inner_pid=pid,
            errno_at=errno_at,
            errno=value,
        )
        return thread, ""

    def _errno(self, thread: int, base: int) -> Optional[int]:
        """By the code of __errno_location: mov errno@gottpoff(%rip), %rax; add %fs:0, %rax; ret."""
        at = self.exported("__errno_location", base)
        if at is None:
            return None
        memory, place = self.session.memory, at.value
        code = memory.try_read(place, 32) or b""
        if code.startswith(ENTRY_MARK):
            code, place = code[4:], place + 4
        if not code.startswith(LOAD) or code[7 : 7 + len(ERRNO)] != ERRNO:
            return None
        offset = memory.try_word(place + 7 + int.from_bytes(code[3:7], "little", signed=True))
        return (thread + offset) & memory.top if offset is not None else None


def _is_timed(stand: Stand) -> bool:
    return injection.interrupted_call(stand.registers) is not None and injection.signed(stand.registers["rax"]) == -516


def _at_end(pid: int, stand: Stand) -> Optional[int]:
    """A signal that this process has no handler for and this thread does not keep back."""
    caught = int(procfiles.status_row(pid, "SigCgt") or "0", 16)
    taken = caught | stand.mask
    return next((int(each) for each in AT_END if not taken >> (each - 1) & 1), None)


def _unpacked(general: bytes) -> dict[str, int]:
    return dict(zip(GENERAL[EM_X86_64], struct.unpack("<27Q", general)))


def _packed(registers: Mapping[str, int]) -> bytes:
    return struct.pack("<27Q", *(registers[name] & ((1 << 64) - 1) for name in GENERAL[EM_X86_64]))
