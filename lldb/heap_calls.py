"""LLDB as a Controller: runs single threads, and calls functions in the process while all other threads are held."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import Callable, Iterator, Optional, Sequence

import lldb

from arenascope.base.errors import EndedError, RefusedError
from arenascope.commands.framework.command import FunctionCall
from arenascope.commands.trim import FATAL_SIGNALS, DebuggerController, gone, locked_out, still_at_work, taken_back
from arenascope.glibc.find.inside_malloc import StackFrame
from arenascope.sources.target import ThreadInfo

PATIENCE = 3
"""How often a call that was interrupted outside a lock is resumed."""
UNWINDS = 10
"""How many times to try unwinding a call."""
WARM_UP_SECONDS = 5.0
WHERE_LOCKS_SHOW = 3
"""How many frames from the innermost one to search for a function that waits for a lock."""


INLINED = 32
"""The most functions that may be inlined into one."""


class LldbController(DebuggerController):
    """Controls the selected process. Afterwards held threads, mode and the selected thread are as before."""

    def __init__(self, debugger: lldb.SBDebugger, target: lldb.SBTarget) -> None:
        self.debugger = debugger
        self.target = target
        self.process = target.GetProcess()
        self._is_warm = False

    def frames(self, thread: ThreadInfo, limit: int) -> Sequence[StackFrame]:
        self._warm_up()
        return [
            StackFrame(frame.GetPC(), frame.GetFunctionName(), frame.GetSP())
            for frame in _stack(self._thread(thread), limit)
        ]

    def step_out(self, thread: ThreadInfo, depth: int, seconds: float) -> bool:
        chosen = self._thread(thread)
        frames = _stack(chosen, depth + INLINED)
        # an inlined function returns where the function returns that contains it
        while depth < len(frames) and frames[depth].IsInlined():
            depth += 1
        if depth + 1 >= len(frames):
            return False
        with self._alone(chosen):
            return self._run_to(chosen, frames[depth + 1], seconds)

    def _run_to(self, thread: lldb.SBThread, caller: lldb.SBFrame, seconds: float) -> bool:
        """Runs the thread until it is back in `caller`."""
        address, stack = caller.GetPC(), caller.GetCFA()
        stop = self.target.BreakpointCreateByAddress(address)
        stop.SetThreadID(thread.GetThreadID())
        end = time.monotonic() + seconds
        try:
            while time.monotonic() < end:
                with self._watchdog(end - time.monotonic()):
                    if self.process.Continue().Fail():
                        return False
                self._check_alive()
                frame = thread.GetFrameAtIndex(0)
                # the breakpoint may also be hit in a deeper call of the same function
                if frame.GetPC() == address and frame.GetCFA() >= stack:
                    return True
            return False
        finally:
            self.target.BreakpointDelete(stop.GetID())

    def call(self, what: FunctionCall, seconds: float, is_lock_wait: Callable[[str], bool]) -> int:
        thread = self.process.GetSelectedThread()
        before = _place(thread)
        with self._alone(thread):
            value = thread.GetFrameAtIndex(0).EvaluateExpression(what.expression, _call_options(seconds))
            if value.GetError().Success():
                return value.GetValueAsSigned()
            self._check_alive()
            if _place(thread) == before:
                reason = " ".join((value.GetError().GetCString() or "").split())
                raise RefusedError("call-failed", f"the call failed: {reason or 'interrupted'}")
            return self._recover(thread, before, seconds, is_lock_wait)

    def _recover(
        self, thread: lldb.SBThread, before: tuple[int, int], seconds: float, is_lock_wait: Callable[[str], bool]
    ) -> int:
        """Handles a call that did not return: unwinds it if it waits for a lock or is about to die, else resumes it."""
        for _ in range(PATIENCE):
            name = self._signal_of(thread)
            if name in FATAL_SIGNALS:
                self._take_back(thread, before)
                raise taken_back(name)
            if any(is_lock_wait(frame.GetFunctionName() or "") for frame in _stack(thread, WHERE_LOCKS_SHOW)):
                self._take_back(thread, before)
                raise locked_out()
            with self._watchdog(seconds):
                self.process.Continue()
            self._check_alive()
            if _place(thread) == before:
                return 0
        raise still_at_work()

    def _take_back(self, thread: lldb.SBThread, before: tuple[int, int]) -> None:
        for _ in range(UNWINDS):
            failed = thread.UnwindInnermostExpression().GetCString()
            if _place(thread) == before:
                return
            # On a busy machine LLDB's event thread may have read the registers just before they were restored, and LLDB
            # caches them. After another call it reads them again.
            getpid = self._getpid()
            if getpid is not None:
                thread.GetFrameAtIndex(0).EvaluateExpression(getpid.expression, _call_options(WARM_UP_SECONDS))
                if _place(thread) == before:
                    return
            time.sleep(0.1)
        raise RefusedError(
            "thread-still-in-call",
            f"thread {thread.GetThreadID()} still stands in the call" + (f": {failed}" if failed else ""),
            "thread return -x takes it back, before anything else runs the process",
        )

    def _check_alive(self) -> None:
        """Raises EndedError with the cause of death if the process has ended."""
        if self.process.GetState() != lldb.eStateExited:
            return
        status, reason = self.process.GetExitStatus(), self.process.GetExitDescription()
        # lldb-server reports exit status and signal as one number
        signal = self.process.GetUnixSignals().GetSignalAsCString(status)
        raise EndedError(reason or f"with status {status}" + (f", or of {signal}" if signal else ""))

    def _signal_of(self, thread: lldb.SBThread) -> str:
        if thread.GetStopReason() != lldb.eStopReasonSignal:
            return ""
        return self.process.GetUnixSignals().GetSignalAsCString(thread.GetStopReasonDataAtIndex(0)) or ""

    def _warm_up(self) -> None:
        """Makes LLDB map memory for its code in the process now: at the first call it would do so while RSS is
        measured."""
        if self._is_warm:
            return
        self._is_warm = True
        getpid = self._getpid()
        if getpid is not None:
            self.call(getpid, WARM_UP_SECONDS, lambda name: False)

    def _getpid(self) -> Optional[FunctionCall]:
        """A call of getpid(), which changes nothing."""
        for context in self.target.FindSymbols("getpid"):
            address = context.GetSymbol().GetStartAddress().GetLoadAddress(self.target)
            if address != lldb.LLDB_INVALID_ADDRESS:
                return FunctionCall(address, [0])
        return None

    def _thread(self, thread: ThreadInfo) -> lldb.SBThread:
        own = self.process.GetThreadByID(thread.tid)
        if not own.IsValid():
            raise gone(thread)
        return own

    @contextmanager
    def _alone(self, thread: lldb.SBThread) -> Iterator[None]:
        """Suspends all other threads, and makes commands wait for the process."""
        others = [
            each for each in self.process if each.GetThreadID() != thread.GetThreadID() and not each.IsSuspended()
        ]
        was_async = self.debugger.GetAsync()
        selected = self.process.GetSelectedThread().GetThreadID()
        self.debugger.SetAsync(False)
        for each in others:
            each.Suspend()
        try:
            yield
        finally:
            for each in others:
                each.Resume()
            self.process.SetSelectedThreadByID(selected)
            self.debugger.SetAsync(was_async)

    @contextmanager
    def _watchdog(self, seconds: float) -> Iterator[None]:
        """Interrupts the process if it is not back in time."""
        timer = threading.Timer(seconds, self.process.SendAsyncInterrupt)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


def _call_options(seconds: float) -> lldb.SBExpressionOptions:
    options = lldb.SBExpressionOptions()
    options.SetLanguage(lldb.eLanguageTypeC99)
    options.SetTimeoutInMicroSeconds(int(seconds * 1e6))
    options.SetStopOthers(True)
    # by default LLDB would resume all threads after a while
    options.SetTryAllThreads(False)
    # unwinding would tear an interrupted call out of the middle of malloc
    options.SetUnwindOnError(False)
    options.SetIgnoreBreakpoints(True)
    options.SetTrapExceptions(False)
    options.SetAutoApplyFixIts(False)
    options.SetSuppressPersistentResult(True)
    return options


def _stack(thread: lldb.SBThread, limit: int) -> list[lldb.SBFrame]:
    frames: list[lldb.SBFrame] = []
    while len(frames) < limit:
        frame: Optional[lldb.SBFrame] = thread.GetFrameAtIndex(len(frames))
        if frame is None or not frame.IsValid():
            break
        frames.append(frame)
    return frames


def _place(thread: lldb.SBThread) -> tuple[int, int]:
    """Where the thread stands (pc, sp). It is the same after a call: LLDB restores the registers."""
    frame = thread.GetFrameAtIndex(0)
    # read the registers: the frame itself keeps the values that LLDB read first
    pc, sp = (frame.FindRegister(name).GetValueAsUnsigned() for name in ("pc", "sp"))
    return pc, sp
