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
from .sources.elf.naming import modules_of
from .sources.elf.symbols import dynamic_symbols
from .sources.elf.unwind import UnwindTables
from .sources.live import injection, procfiles
from .sources.live.freeze import Freeze
from .sources.live.injection_aarch64 import Aarch64
from .sources.live.injection_x86_64 import X8664
from .sources.live.pagekinds import last_guard
from .sources.live.target import ProcessTarget
from .target import Region, Span, ThreadInfo

PROCESSORS: Sequence[injection.Processor] = (X8664(), Aarch64())
SLICES = (0.0002, 0.001, 0.005, 0.02)
"""For how long a thread is let run until it is looked at again."""
DOUBTS = 5
"""So often each of them for one that may be inside malloc: on aarch64 no table tells of a PLT's stubs, where one that
calls in a loop is often met."""
MAIN, VDSO = "[stack]", "[vdso]"
LARGEST_STACK = 1 << 28
"""Further down no guard of a stack's is looked for."""
AT_END = (signal.SIGURG, signal.SIGWINCH, signal.SIGCHLD)
"""Signals that mean nothing to a process without a handler for them."""
LOCK = "__lll_lock_wait_private"
ELSEWHERE = "use --apply from GDB or LLDB"


class Stand(NamedTuple):
    """A thread as the guard has it."""

    tid: int
    general: bytes
    sets: injection.Sets
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
        machine = os.uname().machine
        processor = next((each for each in PROCESSORS if each.machine == target.machine == machine), None)
        if processor is None or target.pointer_size != 8:
            names = " and ".join(each.machine.replace("_", "-") for each in PROCESSORS)
            other = "" if target.machine == machine else f", from Python for {machine}"
            raise RefusedError(
                f"the shell calls into {names} processes alone, and this is {target.machine}{other}", ELSEWHERE
            )
        why = processor.refusal(target.image.pid)
        if why is not None:
            raise RefusedError(why, ELSEWHERE)
        self.target, self.freeze, self.processor = target, freeze, processor
        self._moment: Optional[_Moment] = None

    @property
    def _now(self) -> _Moment:
        if self._moment is None:
            self._moment = _Moment(self.target, self.freeze, self.processor)
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

    def let_run(self, thread: ThreadInfo, times: int) -> bool:
        if times >= len(SLICES) * DOUBTS:
            return False
        # one whose handlers run one after the other, on a slow machine, needs long until all have returned
        self._obey("run", thread.tid, SLICES[times // DOUBTS])
        self._moved()
        return True

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
            give = injection.Step(0, injection.unlocking(lock), system_call="futex")
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

    def _is_timed(self, stand: Stand) -> bool:
        return self.processor.is_timed(stand.registers)

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
            stack_pointer = stand.registers[self.processor.stack]
            frames = self.processor.frames(thread, gadgets)
            layout = injection.Layout(frames, thread, stack_pointer, steps, signal=at_end)
            if layout.base - injection.ROOM < stack.start:
                why = f"has too little room left on the stack of thread {stand.tid}"
                continue
            ready = layout.prepared()
            order = injection.Order(
                tid=stand.tid,
                general=stand.general,
                # what the kernel alone remembers goes on by what it left there
                back=stand.general if self._is_timed(stand) else self.processor.packed(thread.registers),
                sets=list(self.processor.put_back(stand.sets) or ()),
                mask=stand.mask,
                meanwhile=ready.mask,
                block=ready.block,
                room=injection.ROOM,
                entries=[self.processor.packed(each) for each in ready.entries],
                stops=list(ready.stops),
                stands_in=self.processor.stands_in,
                errno=(thread.errno_at, struct.pack("<I", thread.errno)),
                at_end=at_end,
                seconds=seconds,
            )
            reply = self._obey("call", order._asdict(), seconds=seconds + 30.0)
            return str(reply[0]), int(reply[1])
        raise RefusedError(f"no thread can be made to call and put back as it was: the process {why}", ELSEWHERE)


class _Moment:
    """The process as it is held now."""

    def __init__(self, target: ProcessTarget, freeze: Freeze, processor: injection.Processor) -> None:
        self.target, self.freeze, self.processor = target, freeze, processor
        self.session = Session(target)
        self.regions = self.session.regions
        self._unwinder = Unwinder(self.session.memory, UnwindTables(self.session.memory, self.regions), target.machine)
        self._stands: Optional[dict[int, Stand]] = None
        self._waits: Optional[Span] = None

    @property
    def stands(self) -> dict[int, Stand]:
        if self._stands is None:
            states = self.freeze.obey(("states", self.processor.general_bytes, tuple(self.processor.sets)), 30.0)
            if isinstance(states, str):
                raise RefusedError(states)
            self._stands = {
                tid: Stand(tid, general, sets, mask, free=free, registers=self.processor.unpacked(general, sets))
                for tid, general, sets, mask, free in states
            }
        return self._stands

    def stand(self, tid: int) -> Stand:
        if tid not in self.stands:
            raise gone(ThreadInfo(tid))
        return self.stands[tid]

    def frames(self, tid: int, limit: int) -> Iterator[StackFrame]:
        registers = self.stand(tid).registers
        numbered = by_number(self.target.machine, registers)
        for frame in self._unwinder.frames(numbered, registers[self.processor.counter], limit):
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
        module = next(module for module in modules_of(self.regions) if module[0].start == base)
        kernels = [region for region in self.regions if region.path == VDSO]
        for region in (*module, *kernels):
            if not region.executable:
                continue
            code = self.session.memory.try_read(region.start, region.size) or b""
            for name, instructions in self.processor.gadgets.items():
                at = code.find(instructions)
                if at >= 0:
                    places.setdefault(name, region.start + at)
        if len(places) < len(self.processor.gadgets):
            raise RefusedError("libc lacks the instructions that a call from outside needs", ELSEWHERE)
        return places

    def candidates(self) -> list[tuple[Stand, Region]]:
        """Threads that stand where they can be made to call, the fittest first, with their stacks."""
        fit = []
        for stand in self.stands.values():
            stack = self._stack(stand)
            plain = stand.free and self.processor.is_plain(stand.registers)
            if stack is not None and plain and self._may_be_left(stand):
                fit.append((stand, stack))
        pid = self.target.image.pid
        # a timed wait can be made again exactly only as long as we live
        return sorted(fit, key=lambda each: (self.processor.is_timed(each[0].registers), each[0].tid != pid))

    def _stack(self, stand: Stand) -> Optional[Region]:
        """The mapping that is this thread's stack and nothing else below its stack pointer."""
        pointer = stand.registers[self.processor.stack]
        at = next((at for at, region in enumerate(self.regions) if region.contains(pointer)), None)
        if at is None or not self.regions[at].writable:
            return None
        region = self.regions[at]
        if region.path == MAIN:
            return region
        below = self.regions[at - 1] if at else None
        guarded = below is not None and below.end == region.start and not (below.readable or below.writable)
        if not guarded:
            # since glibc 2.42 guards are no mappings of their own, and what lies below them may be another's
            low = max(region.start, pointer - LARGEST_STACK)
            start = last_guard(self.target.image.memory_tid, low, pointer, self.target.page_size)
            guarded, region = start is not None, region._replace(start=start or region.start)
        name = self.processor.thread
        thread = stand.registers[name]
        others = [each.registers[name] for each in self.stands.values() if each.tid != stand.tid]
        alone = not any(region.start <= pointer_of < pointer for pointer_of in others)
        heaps = [part for parts in self.session.heaps.values() for part in parts]
        is_heap = any(region.start < part.end and part.address < region.end for part in heaps)
        fits = region.contains(thread) and pointer < thread
        return region if guarded and alone and fits and not is_heap and not region.path else None

    def _may_be_left(self, stand: Stand) -> bool:
        """Whether what it waits in can be begun anew by registers alone."""
        registers, processor = stand.registers, self.processor
        number = processor.call_under_way(registers, self.session.memory)
        if number is None:
            return True
        if number in processor.never:
            return False
        if number not in processor.with_masks:
            return processor.begins_anew(number, registers)
        register, indirect = processor.with_masks[number]
        pointer: Optional[int] = registers[register]
        if indirect and pointer:
            pointer = self.session.memory.try_word(pointer)
        return pointer == 0

    def thread(self, stand: Stand, base: int) -> tuple[Optional[injection.Thread], str]:
        """All that is to be put back; else why that cannot be had."""
        registers = dict(stand.registers)
        number = self.processor.call_under_way(registers, self.session.memory)
        if number == injection.UNKNOWN:
            return None, f"waits in a system call that is not known, in thread {stand.tid}"
        if number is not None:
            registers = self.processor.making(registers, number)
        if self.processor.put_back(stand.sets) is None:
            return None, f"uses registers that cannot be put back, in thread {stand.tid}"
        errno_at = self._errno(registers[self.processor.thread], base)
        errno = self.session.memory.try_read(errno_at, 4) if errno_at is not None else None
        if errno_at is None or errno is None:
            return None, "does not show where errno lies"
        task = f"/proc/{self.target.image.pid}/task/{stand.tid}"
        tid, pid = (procfiles.inner_number(task, row) for row in ("NSpid", "NStgid"))
        value = int.from_bytes(errno, "little")
        thread = injection.Thread(
            registers,
            stand.sets,
            stand.mask,
            inner_tid=tid,
            inner_pid=pid,
            errno_at=errno_at,
            errno=value,
        )
        return thread, ""

    def _errno(self, thread: int, base: int) -> Optional[int]:
        at = self.exported("__errno_location", base)
        return self.processor.find_errno(thread, at.value, self.session.memory) if at is not None else None


def _at_end(pid: int, stand: Stand) -> Optional[int]:
    """A signal that this process has no handler for and this thread does not keep back."""
    caught = int(procfiles.status_row(pid, "SigCgt") or "0", 16)
    taken = caught | stand.mask
    return next((int(each) for each in AT_END if not taken >> (each - 1) & 1), None)
