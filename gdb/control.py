"""GDB as a Controller: lets single threads run, and calls functions in the process while all others are held."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager
from typing import Callable, Iterator, Optional, Sequence

import gdb

from arenascope.apply import StackFrame
from arenascope.errors import RefusedError
from arenascope.target import ThreadInfo

PATIENCE = 3
"""How often a call that was interrupted and is at work, not in a lock, is let run on."""


class GdbController:
    """Drives the selected inferior; settings and the selected thread are as they were when it is done."""

    def frames(self, thread: ThreadInfo, most: int) -> Sequence[StackFrame]:
        with _selected(thread):
            return [StackFrame(frame.pc(), frame.name()) for frame in _stack(most)]

    def step_out(self, thread: ThreadInfo, depth: int, seconds: float) -> bool:
        with _selected(thread), _settings(("scheduler-locking", "on"), ("pagination", "off")):
            frames = _stack(depth + 2)
            if len(frames) < depth + 2:
                return False
            out = _Out(frames[depth])
            try:
                with _watchdog(seconds):
                    gdb.execute("continue", to_string=True)
            except (gdb.error, KeyboardInterrupt):
                pass
            finally:
                if out.is_valid():
                    out.delete()
            return out.reached

    def call(self, address: int, arguments: Sequence[int], seconds: float, is_lock_wait: Callable[[str], bool]) -> int:
        types = ", ".join("unsigned long" for _ in arguments)
        values = ", ".join(f"{value}UL" for value in arguments)
        expression = f"((long (*) ({types})) {address:#x}) ({values})"
        # with `unwindonsignal on` an interrupted call would be torn out of the middle of malloc
        with _settings(
            ("scheduler-locking", "on"), ("unwindonsignal", "off"), ("language", "c"), ("pagination", "off")
        ):
            try:
                with _watchdog(seconds):
                    return int(gdb.parse_and_eval(expression))
            except (gdb.error, KeyboardInterrupt) as error:
                return self._recover(str(error), seconds, is_lock_wait)

    def _recover(self, error: str, seconds: float, is_lock_wait: Callable[[str], bool]) -> int:
        """A call that did not come back: unwound where it waits for a lock, else let go on to its end."""
        if not _in_call():
            raise RefusedError(f"the call failed: {error}")
        for _ in range(PATIENCE):
            if any(is_lock_wait(frame.name() or "") for frame in _stack(3)):
                _unwind()
                raise RefusedError("the call waited for a lock that nobody gave back, and was taken back",
                                   "let the process run for a moment, then try again")  # fmt: skip
            try:
                with _watchdog(seconds):
                    gdb.execute("continue", to_string=True)
            except (gdb.error, KeyboardInterrupt):
                pass
            if not _in_call():
                return 0
        raise RefusedError("the call is still at work and must not be torn off", "`continue` lets it finish")


class _Out(gdb.FinishBreakpoint):
    """Stops when a frame has returned, and says so."""

    def __init__(self, frame: gdb.Frame) -> None:
        super().__init__(frame, internal=True)
        self.silent = True
        self.reached = False

    def stop(self) -> bool:
        self.reached = True
        return True


def _stack(most: int) -> list[gdb.Frame]:
    frames: list[gdb.Frame] = []
    try:
        frame: Optional[gdb.Frame] = gdb.newest_frame()
        while frame is not None and len(frames) < most:
            frames.append(frame)
            frame = frame.older()
    except gdb.error:
        pass  # a stack that cannot be unwound further ends here
    return frames


def _in_call() -> bool:
    return any(frame.type() == gdb.DUMMY_FRAME for frame in _stack(64))


def _unwind() -> None:
    """Pops everything down to the caller of the function that was called."""
    dummy = next(frame for frame in _stack(64) if frame.type() == gdb.DUMMY_FRAME)
    dummy.select()
    with _settings(("confirm", "off")):
        gdb.execute("return", to_string=True)


@contextmanager
def _selected(thread: ThreadInfo) -> Iterator[None]:
    before = gdb.selected_thread()
    for each in gdb.selected_inferior().threads():
        if (each.ptid[1] or each.ptid[0]) == thread.tid:
            each.switch()
            break
    else:
        raise RefusedError(f"thread {thread.tid} is gone", "try again")
    try:
        yield
    finally:
        if before is not None and before.is_valid():
            before.switch()


@contextmanager
def _settings(*wanted: tuple[str, str]) -> Iterator[None]:
    """GDB settings for a while."""
    before = [(name, _shown(gdb.parameter(name))) for name, _ in wanted]
    try:
        for name, value in wanted:
            gdb.execute(f"set {name} {value}", to_string=True)
        yield
    finally:
        for name, value in reversed(before):
            gdb.execute(f"set {name} {value}", to_string=True)


def _shown(value: object) -> str:
    return {True: "on", False: "off"}.get(value, value) if isinstance(value, bool) else str(value)


@contextmanager
def _watchdog(seconds: float) -> Iterator[None]:
    """Interrupts GDB, as Ctrl-C does, when the process is not back in time."""
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
