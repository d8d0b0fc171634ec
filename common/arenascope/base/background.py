"""Something that another thread does meanwhile: where the kernel is at work, Python is not needed."""

from __future__ import annotations

import _thread
import signal
from functools import partial
from typing import TYPE_CHECKING, Callable, Generic, Optional, Protocol, TypeVar, cast

from .errors import ArenascopeError

if TYPE_CHECKING:
    from queue import SimpleQueue

T = TypeVar("T")


def start(work: Callable[[], None]) -> None:
    """RuntimeError where no thread can be had."""
    # a debugger's signals, and a waiting program's, are for its own thread: one that is made now inherits that they are
    # blocked
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        _thread.start_new_thread(work, ())
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Work(Generic[T]):
    """What some work has led to, once that is asked for. Once it is finished its lock is released."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self.got: Optional[T] = None
        self._failed: Optional[Exception] = None
        self._is_finished = False
        self._going = _thread.allocate_lock()
        self._going.acquire()

    def do(self) -> None:
        try:
            self.got = self._work()
        except (ArenascopeError, OSError) as error:
            self._failed = error
        finally:
            # whoever waits must not wait for ever, whatever it was
            self._is_finished = True
            self._going.release()

    def wait(self) -> None:
        """Until it is done."""
        if not self._is_finished:
            self._going.acquire()

    def result(self) -> T:
        """And whatever went wrong goes wrong here."""
        self.wait()
        if self._failed is not None:
            raise self._failed
        return cast("T", self.got)


class Beside(Work[T]):
    """By a thread of its own; without threads it is done before anything else."""

    def __init__(self, work: Callable[[], T]) -> None:
        super().__init__(work)
        try:
            start(self.do)
        except RuntimeError:
            self.do()


class Doing(Protocol):
    def do(self) -> None: ...


AnyWork = TypeVar("AnyWork", bound=Doing)


class Worker:
    """A thread that does one thing after another for whoever makes something of the one before."""

    def __init__(self) -> None:
        from queue import SimpleQueue  # not needed for small heaps

        self._queue: SimpleQueue[Optional[Doing]] = SimpleQueue()
        start(partial(_work_off, self._queue))

    def __del__(self) -> None:
        self._queue.put(None)

    def begin(self, work: AnyWork) -> AnyWork:
        self._queue.put(work)
        return work


def _work_off(queue: SimpleQueue[Optional[Doing]]) -> None:
    while True:
        work = queue.get()
        if work is None:
            return
        work.do()
