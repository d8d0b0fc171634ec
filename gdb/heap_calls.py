"""GDB as a Controller: runs single threads, and calls functions in the process while all other threads are held."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import ExitStack, contextmanager
from typing import Callable, Iterator, Optional, Sequence

import gdb

from arenascope.base.errors import EndedError, RefusedError
from arenascope.commands.framework.command import FunctionCall
from arenascope.commands.trim import FATAL_SIGNALS, DebuggerController, gone, locked_out, still_at_work, taken_back
from arenascope.glibc.find.inside_malloc import StackFrame
from arenascope.sources.live.proc_tables import exit_code, is_dead
from arenascope.sources.target import ThreadInfo

RETURNED = "arenascope_returned"
QUIET = (("scheduler-locking", "on"), ("pagination", "off"), ("follow-fork-mode", "parent"), ("detach-on-fork", "on"))
"""Only the chosen thread may run, and GDB must not follow a child that it forks."""
DYING_SECONDS = 0.3
"""How long the kernel may take from the first thread's end to the last one's."""
FRAME_POINTERS = {"i386": ("ebp",), "i386:x86-64": ("rbp",), "i386:x64-32": ("rbp",)}
VECTOR_WORD = "$xmm0.v4_int32[0]"
FRAMES_BEYOND = 16
"""How many more frames to read: inlined functions may lie between a frame and its real caller."""


class GdbController(DebuggerController):
    """Controls the selected inferior. Afterwards settings, breakpoints, thread and frame are as before."""

    def frames(self, thread: ThreadInfo, limit: int) -> Sequence[StackFrame]:
        with _selected(thread):
            return [StackFrame(frame.pc(), frame.name(), _stack_pointer(frame)) for frame in _stack(limit)]

    def step_out(self, thread: ThreadInfo, depth: int, seconds: float) -> bool:
        with _selected(thread), _settings(*QUIET), _without_breakpoints():
            frames = _stack(depth + FRAMES_BEYOND)
            # a function inlined into its caller returns where the caller returns
            while depth < len(frames) and frames[depth].type() == gdb.INLINE_FRAME:
                depth += 1
            if len(frames) < depth + 2:
                return False
            out = _Return(frames[depth + 1])
            try:
                _resume(seconds)
                if not out.reached:
                    _check_alive()
            finally:
                if out.is_valid():
                    out.delete()
            return out.reached

    def call(self, what: FunctionCall, seconds: float, is_lock_wait: Callable[[str], bool]) -> int:
        # `unwindonsignal on` would tear an interrupted call out of the middle of malloc
        chosen = (*QUIET, ("unwindonsignal", "off"), ("language", "c"))
        with _selected(None), _settings(*chosen), _without_breakpoints(), _last_signal() as last:
            try:
                # not parse_and_eval(): it would print GDB's message about an interrupted call
                expression = f"${RETURNED} = {what.expression}"
                with _limit(seconds):
                    gdb.execute(f"set variable {expression}", to_string=True)
                value = gdb.convenience_variable(RETURNED)
                gdb.set_convenience_variable(RETURNED, None)
                return 0 if value is None else int(value)
            except (gdb.error, KeyboardInterrupt) as error:
                return self._recover(str(error).split("\n")[0] or "interrupted", seconds, is_lock_wait, last)

    def _recover(self, error: str, seconds: float, is_lock_wait: Callable[[str], bool], last: list[str]) -> int:
        """Handles a call that did not return: unwinds it if it waits for a lock or is about to die, else resumes it."""
        end = time.monotonic() + seconds
        _check_alive()
        if not _in_call():
            raise RefusedError("call-failed", f"the call failed: {error}")
        while not any(is_lock_wait(frame.name() or "") for frame in _stack(3)):
            if last and last[-1] in FATAL_SIGNALS:
                _unwind()
                gdb.execute("queue-signal 0", to_string=True)
                raise taken_back(last[-1])
            if time.monotonic() > end:
                raise still_at_work()
            _resume(max(end - time.monotonic(), 1.0))
            _check_alive()
            if not _in_call():
                return 0
        _unwind()
        raise locked_out()


def check_registers() -> None:
    """RefusedError where GDB could not put back what a call changes.

    Before GDB 14 it cannot write vector registers on a processor with AMX, and finds that out after the call only.
    """
    with _selected(None), _settings(("language", "c")):
        newest = gdb.newest_frame()
        newest.select()
        if not newest.architecture().name().startswith("i386"):
            return
        word = gdb.parse_and_eval(VECTOR_WORD)
        if word.type.code == gdb.TYPE_CODE_VOID:
            return
        try:
            try:
                gdb.execute(f"set variable {VECTOR_WORD} = {int(word) ^ 1}", to_string=True)
            finally:
                gdb.execute(f"set variable {VECTOR_WORD} = {int(word)}", to_string=True)
        except gdb.error as error:
            reason = str(error).split("\n")[0].rstrip(".")
            raise RefusedError(
                "registers-not-put-back",
                f"GDB {gdb.VERSION} cannot put vector registers back after a call here: {reason}",
                "GDB 14 can, and `arenascope trim PID --apply` in the shell does without GDB",
            ) from None


class _Return(gdb.Breakpoint):
    """A breakpoint at the address that a frame returns to. A FinishBreakpoint never stops where the caller was
    inlined."""

    def __init__(self, caller: gdb.Frame) -> None:
        super().__init__(f"*{caller.pc():#x}", internal=True)
        self.silent = True
        self.thread = gdb.selected_thread().global_num
        self.stack_pointer = _stack_pointer(caller)
        self.reached = False

    def stop(self) -> bool:
        # a signal handler may run the same code meanwhile: its frame lies deeper
        self.reached = _stack_pointer(gdb.newest_frame()) >= self.stack_pointer
        return self.reached


def _stack_pointer(frame: gdb.Frame) -> int:
    value = frame.read_register("sp")
    return int(value) & ((1 << (8 * value.type.sizeof)) - 1)


def _resume(seconds: float) -> None:
    """Runs `continue` for at most so many seconds."""
    try:
        with _limit(seconds):
            gdb.execute("continue", to_string=True)
    except (gdb.error, KeyboardInterrupt):
        pass


@contextmanager
def _limit(seconds: float) -> Iterator[None]:
    """Stops the process with SIGSTOP if it is not back in time.

    GDB's own interrupt sends SIGINT, which a thread may block: GDB would then wait forever, and the pending SIGINT
    would end the process later.
    """
    pid = gdb.selected_inferior().pid
    stops: list[bool] = []
    fired = threading.Event()

    def fire() -> None:
        fired.set()
        os.kill(pid, signal.SIGSTOP)

    def note(event: gdb.StopEvent) -> None:
        stops.append(isinstance(event, gdb.SignalEvent) and event.stop_signal == "SIGSTOP")

    timer = threading.Timer(seconds, fire)
    timer.daemon = True
    gdb.events.stop.connect(note)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        if fired.is_set() and gdb.selected_inferior().pid == pid:
            if not any(stops):
                # it stopped by itself at the same moment: let the pending SIGSTOP arrive, before the next instruction
                gdb.execute("continue", to_string=True)
            gdb.execute("queue-signal 0", to_string=True)
        gdb.events.stop.disconnect(note)


def _stack(limit: int) -> list[gdb.Frame]:
    frames: list[gdb.Frame] = []
    try:
        frame: Optional[gdb.Frame] = gdb.newest_frame()
        while frame is not None and len(frames) < limit:
            frames.append(frame)
            frame = frame.older()
    except gdb.error:
        pass  # a stack that cannot be unwound further ends here
    return frames


@contextmanager
def _last_signal() -> Iterator[list[str]]:
    """Collects the name of the signal that stopped the process last; stays empty if no signal did."""
    last: list[str] = []

    def note(event: gdb.StopEvent) -> None:
        last[:] = [event.stop_signal] if isinstance(event, gdb.SignalEvent) else []

    gdb.events.stop.connect(note)
    try:
        yield last
    finally:
        gdb.events.stop.disconnect(note)


def _in_call() -> bool:
    return any(frame.type() == gdb.DUMMY_FRAME for frame in _stack(64))


def _unwind() -> None:
    """Pops everything down to the caller of the function that was called."""
    frames = _stack(64)
    dummy = next(frame for frame in frames if frame.type() == gdb.DUMMY_FRAME)
    if frames[0].type() == gdb.INLINE_FRAME:
        _leave_to(dummy)
    else:
        dummy.select()
    with _settings(("confirm", "off")):
        gdb.execute("return", to_string=True)


def _leave_to(dummy: gdb.Frame) -> None:
    """Makes `dummy` the innermost frame: `return` refuses if the innermost frame is inlined, whichever is selected."""
    # the registers that identify a frame for GDB; on x86 the frame pointer is one of them
    names = ["sp", "pc", *FRAME_POINTERS.get(dummy.architecture().name(), ())]
    values = [(name, int(dummy.read_register(name))) for name in names]
    gdb.newest_frame().select()
    for name, value in values:
        gdb.execute(f"set var ${name} = {value:#x}", to_string=True)


def _check_alive() -> None:
    """Raises EndedError with the cause of death if the process has ended: GDB has forgotten all else about it."""
    pid = gdb.selected_inferior().pid
    if pid and (_in_call() or not _dies(pid)):
        return
    if pid:
        # GDB has seen only one thread end: without `kill` it would fail at the others when it detaches
        code = exit_code(pid)
        with _settings(("confirm", "off")):
            gdb.execute("kill", to_string=True)
        if code is not None:
            raise EndedError(f"of {signal.Signals(code & 127).name}" if code & 127 else f"with status {code >> 8}")
    number, status = gdb.convenience_variable("_exitsignal"), gdb.convenience_variable("_exitcode")
    if number is None:
        raise EndedError("how is not known" if status is None else f"with status {int(status)}")
    raise EndedError(f"of {signal.Signals(int(number)).name}")


def _dies(pid: int) -> bool:
    """Whether all threads are dead or will be in a moment: the kernel ends them one after the other."""
    end = time.monotonic() + DYING_SECONDS
    while not is_dead(pid):
        if time.monotonic() > end:
            return False
        time.sleep(DYING_SECONDS / 10)
    return True


# temporary changes to GDB's state


@contextmanager
def _selected(thread: Optional[ThreadInfo]) -> Iterator[None]:
    """Selects a thread for a while (None: keeps the selected one), then restores the user's thread, and frame if it
    still exists."""
    before, frame = gdb.selected_thread(), gdb.selected_frame()
    with ExitStack() as stack:
        if gdb.parameter("backtrace limit") is not None:
            stack.enter_context(_settings(("backtrace limit", "unlimited")))
        # show the callers of main: they tell whether the stack is complete
        stack.enter_context(_settings(("backtrace past-main", "on")))
        if thread is not None:
            _find(thread).switch()
        try:
            yield
        finally:
            if before is not None and before.is_valid():
                before.switch()
                if frame.is_valid():
                    frame.select()


def _find(thread: ThreadInfo) -> gdb.InferiorThread:
    for each in gdb.selected_inferior().threads():
        if (each.ptid[1] or each.ptid[0]) == thread.tid:
            return each
    raise gone(thread)


@contextmanager
def _settings(*wanted: tuple[str, str]) -> Iterator[None]:
    """Changes GDB settings for a while."""
    before = [(name, _shown(gdb.parameter(name))) for name, _ in wanted]
    try:
        try:
            for name, value in wanted:
                gdb.execute(f"set {name} {value}", to_string=True)
        except gdb.error as error:
            raise RefusedError("threads-not-held", f"threads of this target cannot be held: {error}") from None
        yield
    finally:
        for name, value in reversed(before):
            try:
                gdb.execute(f"set {name} {value}", to_string=True)
            except gdb.error:
                # without a process GDB has turned scheduler-locking off by itself
                if gdb.selected_inferior().pid:
                    raise


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "unlimited" if value is None else str(value)


@contextmanager
def _without_breakpoints() -> Iterator[None]:
    """Disables the user's breakpoints for a while: one may be in malloc."""
    enabled = [each for each in gdb.breakpoints() if each.enabled]
    for each in enabled:
        each.enabled = False
    try:
        yield
    finally:
        for each in enabled:
            if each.is_valid():
                each.enabled = True
