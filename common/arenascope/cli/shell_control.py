"""The shell as a Controller: a guard process holds every thread, without a debugger (sources/live/thread_calls.py)."""

from __future__ import annotations

import os
import signal
import struct
from typing import Callable, Optional, Sequence

from ..base.errors import EndedError, RefusedError
from ..base.hold_limits import allows_more
from ..commands.framework.apply_trim import ELSEWHERE, FunctionCall, taken_back
from ..glibc.find.inside_malloc import StackFrame
from ..sources.live import injection, messages
from ..sources.live.injection_aarch64 import Aarch64
from ..sources.live.injection_x86_64 import X8664
from ..sources.live.live_target import ProcessTarget
from ..sources.live.process_hold import Freeze
from ..sources.target import ThreadInfo
from .shell_callers import LOCK, MOVES_IN, HeldProcess

PROCESSORS: Sequence[injection.Processor] = (X8664(), Aarch64())
SLICES = (0.0002, 0.001, 0.005, 0.02)
"""Seconds for which a thread runs before it is examined again."""
CALLERS = 10
"""How often each of these times is tried if no thread can make a call just now."""
DOUBTS = 5
"""How often each of these times is tried for a thread that may be inside malloc. On aarch64 PLT stubs have no unwind
table, and a thread that calls in a loop is often found in one."""


class ShellController:
    """Runs single threads of a held process, and makes one of them call a function and return to where it was."""

    rounds = 500
    """Many: the guard cannot stop a thread exactly where it leaves malloc. It lets it run for a moment and looks
    again."""

    def __init__(self, target: ProcessTarget, freeze: Freeze) -> None:
        if freeze.how != "ptrace":
            raise RefusedError(
                "held-by-signal", "a process that is held by a signal cannot be made to call anything", "--stop ptrace"
            )
        machine = os.uname().machine
        processor = next((each for each in PROCESSORS if each.machine == target.machine == machine), None)
        if processor is None or target.pointer_size != 8:
            names = " and ".join(each.machine.replace("_", "-") for each in PROCESSORS)
            other = "" if target.machine == machine else f", from Python for {machine}"
            raise RefusedError(
                "other-processor",
                f"the shell calls into {names} processes alone, and this is {target.machine}{other}",
                ELSEWHERE,
            )
        why = processor.refusal(target.image.pid)
        if why is not None:
            raise RefusedError("calls-forbidden", why, ELSEWHERE)
        self.target, self.freeze, self.processor = target, freeze, processor
        self._moment: Optional[HeldProcess] = None

    @property
    def _now(self) -> HeldProcess:
        if self._moment is None:
            self._moment = HeldProcess(self.target, self.freeze, self.processor)
        return self._moment

    def _run(self, tid: int, *pieces: float) -> bool:
        """Runs this thread alone; returns whether it moved. What is known of all other threads stays valid, unless
        threads have come or gone."""
        ran = self.freeze.obey(messages.RunAlone(tid, pieces), messages.Ran, MOVES_IN)
        self.target.moved(tid if ran.same else None)
        self._moment = self._now.after(tid) if ran.same else None
        return ran.moved

    def frames(self, thread: ThreadInfo, limit: int) -> Sequence[StackFrame]:
        return list(self._now.frames(thread.tid, limit))

    def step_out(self, thread: ThreadInfo, depth: int, seconds: float) -> bool:
        """Whether the thread moved; the caller then examines it again."""
        # for a thread that waits, more time only helps if the event comes from outside
        return self._run(thread.tid, *SLICES, max(seconds - sum(SLICES), 0.0))

    def let_run(self, thread: ThreadInfo, times: int) -> bool:
        if times >= len(SLICES) * DOUBTS:
            return False
        # on a slow machine, a thread in a chain of signal handlers needs long to return from all
        self._run(thread.tid, SLICES[times // DOUBTS])
        return True

    def can_call(self, times: int) -> bool:
        now = self._now
        base = now.session.located.libc.base
        if base is None or times >= len(SLICES) * CALLERS or next(now.callers(base), None) is not None:
            return True
        passing = now.passing()
        if not passing:
            return True
        # the first thread is tried every other time, as it often creates threads; the others take turns
        chosen = passing[times // 2 % len(passing) if times % 2 else 0]
        self._run(chosen, SLICES[times // CALLERS])
        return False

    def call(self, what: FunctionCall, seconds: float, is_lock_wait: Callable[[str], bool]) -> int:
        """Calls the function. Returns 0: the result is not available, only its effect."""
        lock = what.lock
        steps = [injection.InjectedCall(what.address, what.arguments, unlocks=lock)]
        if lock is not None:
            take = self._now.exported(LOCK, self._now.base_of(what.address))
            if take is None:
                raise RefusedError("lock-not-found", f"{LOCK} was not found in this process", ELSEWHERE)
            give = injection.InjectedCall(0, injection.unlocking(lock), system_call="futex")
            # run alone, the thread releases the lock before any other can run
            steps = [injection.InjectedCall(take.value, [lock], unlocks=lock), *steps, give]
        became, number = self._make(what.address, steps, seconds)
        if became == "returned":
            return 0
        if became == "at signal":
            raise taken_back(signal.Signals(number).name)
        if became == "ended":
            raise EndedError(f"of {signal.Signals(number & 127).name}" if number & 127 else f"status {number >> 8}")
        if became == "at work":
            raise RefusedError(
                "call-at-work", "the call is still at work; the process was let go and finishes it by itself"
            )
        raise RefusedError("no-thread-can-call", "no thread could be made to call", "try again")

    def _make(self, function: int, steps: Sequence[injection.InjectedCall], seconds: float) -> messages.CallEnded:
        now = self._now
        base = now.base_of(function)
        gadgets = now.gadgets(base)
        # part of the hold limit is needed for the answer; a call that has not returned by then ends by itself
        seconds = min(seconds, self.freeze.left)
        if seconds <= 0:
            raise RefusedError(
                "no-time-for-a-call",
                "no time is left for a call, as the process has stood still for long",
                allows_more(self.freeze.at_most),
            )
        for caller in now.callers(base):
            stand, thread, at_end = caller.stand, caller.thread, caller.at_end
            stack_pointer = stand.registers[self.processor.stack]
            frames = self.processor.frames(thread, gadgets)
            layout = injection.StackLayout(frames, thread, stack_pointer, steps, signal=at_end)
            if layout.base - injection.ROOM < caller.stack.start:
                now.why_none = f"has too little room left on the stack of thread {stand.tid}"
                continue
            ready = layout.prepared()
            order = messages.MakeCall(
                tid=stand.tid,
                general=stand.general,
                # a timed wait must be resumed by the kernel itself, from the registers that it left
                back=stand.general
                if self.processor.is_timed(stand.registers)
                else self.processor.packed(thread.registers),
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
            return self.freeze.obey(order, messages.CallEnded, seconds + MOVES_IN)
        raise RefusedError(
            "no-thread-can-call",
            f"no thread can be made to call and put back as it was: the process {now.why_none}",
            ELSEWHERE,
        )
