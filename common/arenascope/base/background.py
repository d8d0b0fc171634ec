"""Runs work in another thread: while the kernel is busy with it, Python is free."""

from __future__ import annotations

import _thread
import os
import signal
from typing import Callable, Generic, Optional, TypeVar, cast

from .errors import ArenascopeError

T = TypeVar("T")


def processors() -> int:
    """Returns the number of processors that this process may run on."""
    return len(os.sched_getaffinity(0))


def start(work: Callable[[], None]) -> None:
    """Starts a thread; RuntimeError if there can be none."""
    # a debugger's signals, and a waiting program's, are for its own thread: one that is made now inherits that they are
    # blocked
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        _thread.start_new_thread(work, ())
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class BackgroundWork(Generic[T]):
    """Work done by a thread of its own, or at once where threads cannot be had. Its lock is released once it is
    finished."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self.got: Optional[T] = None
        self._failed: Optional[Exception] = None
        self.is_finished = False
        self._going = _thread.allocate_lock()
        self._going.acquire()
        try:
            start(self._do)
        except RuntimeError:
            self._do()

    def _do(self) -> None:
        try:
            self.got = self._work()
        except (ArenascopeError, OSError, ValueError) as error:
            # a ValueError: the look has ended, and closed the copy or core that this read
            self._failed = error
        finally:
            # release waiting threads, whatever the error
            self.is_finished = True
            self._going.release()

    def wait(self, seconds: float = -1) -> None:
        """Waits until it is done, or for so long."""
        if not self.is_finished:
            self._going.acquire(timeout=seconds)

    def result(self) -> T:
        """Returns the result, or raises the error that ended the work."""
        self.wait()
        if self._failed is not None:
            raise self._failed
        return cast("T", self.got)
