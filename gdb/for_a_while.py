"""What GDB is made to be for the length of a call: its settings, breakpoints, thread and frame, and back."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import Iterator, Optional

import gdb

from arenascope.errors import RefusedError
from arenascope.target import ThreadInfo


@contextmanager
def selected(thread: Optional[ThreadInfo]) -> Iterator[None]:
    """Selects a thread (None: leaves it) for a while; the frame that the user had selected comes back, if it exists."""
    before, frame = gdb.selected_thread(), gdb.selected_frame()
    with ExitStack() as stack:
        if gdb.parameter("backtrace limit") is not None:
            stack.enter_context(settings(("backtrace limit", "unlimited")))
        # main has callers, and where they end tells whether all of a stack is known
        stack.enter_context(settings(("backtrace past-main", "on")))
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
    raise RefusedError(f"thread {thread.tid} is gone", "try again")


@contextmanager
def settings(*wanted: tuple[str, str]) -> Iterator[None]:
    """GDB settings for a while."""
    before = [(name, _shown(gdb.parameter(name))) for name, _ in wanted]
    try:
        try:
            for name, value in wanted:
                gdb.execute(f"set {name} {value}", to_string=True)
        except gdb.error as error:
            raise RefusedError(f"threads of this target cannot be held: {error}") from None
        yield
    finally:
        for name, value in reversed(before):
            try:
                gdb.execute(f"set {name} {value}", to_string=True)
            except gdb.error:
                # scheduler-locking is turned off where no process is left that can be locked
                if gdb.selected_inferior().pid:
                    raise


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "unlimited" if value is None else str(value)


@contextmanager
def without_breakpoints() -> Iterator[None]:
    """The user's own breakpoints, in malloc perhaps, are off for a while."""
    enabled = [each for each in gdb.breakpoints() if each.enabled]
    for each in enabled:
        each.enabled = False
    try:
        yield
    finally:
        for each in enabled:
            if each.is_valid():
                each.enabled = True
