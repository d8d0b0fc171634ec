"""Runs work in another thread: while the kernel is busy with it, Python is free."""

from __future__ import annotations

import _thread
import os
import signal
from collections import deque
from functools import partial
from queue import SimpleQueue
from typing import Callable, Generic, Optional, Sequence, TypeVar, cast

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


class Work(Generic[T]):
    """A piece of work and its result. Its lock is released once it is finished."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self.got: Optional[T] = None
        self._failed: Optional[Exception] = None
        self.is_finished = False
        self._going = _thread.allocate_lock()
        self._going.acquire()

    def do(self) -> None:
        try:
            self.got = self._work()
        except (ArenascopeError, OSError, ValueError) as error:
            # a ValueError: the look has ended, and closed the copy or core that this read ahead of it
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


class BackgroundWork(Work[T]):
    """Work done by a thread of its own; where threads cannot be had, at once."""

    def __init__(self, work: Callable[[], T]) -> None:
        super().__init__(work)
        try:
            start(self.do)
        except RuntimeError:
            self.do()


class Worker:
    """A thread that does one piece of work after another."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Optional[_Block]] = SimpleQueue()
        start(partial(_work_off, self._queue))

    def __del__(self) -> None:
        self._queue.put(None)

    def begin(self, work: _Block) -> None:
        self._queue.put(work)


def _work_off(queue: SimpleQueue[Optional[_Block]]) -> None:
    while (work := queue.get()) is not None:
        work.do()


Fill = Callable[[int, memoryview], int]

BLOCK = 4 << 20
"""Large enough that handing over costs nothing, small enough for a processor's outer cache."""
DEPTH = 2
"""The number of blocks read ahead: the thread finds its next job without waiting for the interpreter."""
LONG = 4 * BLOCK
"""Shorter reads are not worth a thread."""


class _Block(Work[memoryview]):
    """A read of memory into one of the buffers; its result is the words that could be read."""

    def __init__(self, fill: Fill, address: int, buffer: memoryview, size: int) -> None:
        super().__init__(partial(_read, fill, address, buffer, size=size))
        self.address, self.buffer = address, buffer

    def index_of(self, address: int) -> Optional[int]:
        """Returns the index among the words that could be read."""
        index = (address - self.address) // self.buffer.itemsize
        return index if 0 <= index < len(self.got or ()) else None


def _read(fill: Fill, address: int, buffer: memoryview, size: int) -> memoryview:
    return buffer[: fill(address, buffer.cast("B")[:size]) // buffer.itemsize]


class ReadAhead:
    """Reads ahead through stretches of memory.

    Ctrl-C may come between any two lines: each step is one assignment, and doing it twice does no harm.
    """

    def __init__(self, fill: Fill, word: int) -> None:
        self._fill, self._worker = fill, Worker()
        self._buffers = [memoryview(bytearray(BLOCK)).cast("Q" if word == 8 else "I") for _ in range(DEPTH + 1)]
        self._pending: deque[_Block] = deque()
        self._now: Optional[_Block] = None
        self._end = self._next = 0

    def begin(self, end: int) -> None:
        """Drops what was read before: the process may have run on since, or this is another stretch."""
        while self._pending:
            self._take()
        self._now = None
        self._end = end

    def words_from(self, address: int) -> Sequence[int]:
        """Returns the words from an address on that have been read; empty if they cannot be read."""
        job = self._now
        index = job.index_of(address) if job else None
        if job is None or index is None:
            job = self._move_to(address)
            index = job.index_of(address) if job else None
        return job.got[index:] if job and job.got and index is not None else ()

    def _move_to(self, address: int) -> Optional[_Block]:
        job: Optional[_Block] = None
        while self._pending and (job is None or job.index_of(address) is None):
            job = self._take()
        if job is None or job.index_of(address) is None:
            # not where it was expected
            self._next = address
            job = self._take() if self._ask() else None
        while len(self._pending) < DEPTH and self._ask():
            pass
        return job

    def _ask(self) -> bool:
        word = self._buffers[0].itemsize
        size = min(BLOCK, self._end - self._next) // word * word
        if size <= 0:
            return False
        used = [id(job.buffer) for job in (*self._pending, self._now) if job]
        spare = [buffer for buffer in self._buffers if id(buffer) not in used]
        block = _Block(self._fill, self._next, spare[0], size)
        self._next += size
        self._worker.begin(block)
        self._pending.append(block)
        return True

    def _take(self) -> _Block:
        """Waits for the oldest request and returns it."""
        job = self._pending[0]
        job.wait()
        self._now = job
        self._pending.popleft()
        return job
