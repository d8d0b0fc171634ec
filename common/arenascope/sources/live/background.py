"""Something that a thread of its own does meanwhile: where the kernel is at work, Python is not needed."""

from __future__ import annotations

import _thread
import signal
from typing import Callable, Generic, Optional, TypeVar, cast

from ...base.errors import ArenascopeError

T = TypeVar("T")


def start(work: Callable[[], None]) -> None:
    """RuntimeError where no thread can be had."""
    # signals are for the thread that waits: one that is made now inherits that they are blocked
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        _thread.start_new_thread(work, ())
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Beside(Generic[T]):
    """What some work has led to, once that is asked for; without threads it is done before anything else."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._got: Optional[T] = None
        self._failed: Optional[Exception] = None
        self._going = _thread.allocate_lock()
        self._going.acquire()
        try:
            start(self._do)
        except RuntimeError:
            self._do()

    def _do(self) -> None:
        try:
            self._got = self._work()
        except (ArenascopeError, OSError) as error:
            self._failed = error
        finally:
            # whoever waits must not wait for ever, whatever it was
            self._going.release()

    def wait(self) -> None:
        """Until it is done."""
        with self._going:
            pass

    def result(self) -> T:
        """And whatever went wrong goes wrong here."""
        self.wait()
        if self._failed is not None:
            raise self._failed
        return cast("T", self._got)
