"""Reading ahead: while one block of a long stretch is processed, a thread reads the next ones.

The processor copies memory about as fast as Python follows the headers in it, so that a sweep takes a third less time,
and a process that is held for it stands still for less time.
"""

from __future__ import annotations

import signal
from collections import deque
from typing import TYPE_CHECKING, Callable, Generic, Optional, Sequence, TypeVar, cast

from .errors import ArenascopeError

if TYPE_CHECKING:
    from queue import SimpleQueue
    from threading import Lock

    Fill = Callable[[int, memoryview], int]

BLOCK = 4 << 20
"""Large enough that handing over costs nothing, small enough for a processor's outer cache."""
DEPTH = 2
"""The thread finds its next job without waiting for the interpreter, which is busy with this one."""
LONG = 4 * BLOCK
"""Anything shorter is not worth a thread."""


class _Job:
    """A block to be read; once it is finished its lock is released, and `words` are what could be read of it."""

    def __init__(self, address: int, buffer: memoryview, size: int, lock: Lock) -> None:
        self.address = address
        self.buffer = buffer
        self.size = size
        self.words = buffer[:0]
        self.finished = False
        self.lock = lock
        lock.acquire()

    def index_of(self, address: int) -> Optional[int]:
        index = (address - self.address) // self.buffer.itemsize
        return index if 0 <= index < len(self.words) else None


class ReadAhead:
    """Goes forward through stretches of memory.

    Ctrl-C may come between any two lines: each step is one assignment, and doing it twice does no harm.
    """

    def __init__(self, fill: Fill, word: int) -> None:
        from queue import SimpleQueue  # not needed for small heaps
        from threading import Lock

        self._new_lock = Lock
        self._jobs: SimpleQueue[Optional[_Job]] = SimpleQueue()
        self._buffers = [memoryview(bytearray(BLOCK)).cast("Q" if word == 8 else "I") for _ in range(DEPTH + 1)]
        self._pending: deque[_Job] = deque()
        self._now: Optional[_Job] = None
        self._end = self._next = 0
        _start(_work, fill, self._jobs)

    def __del__(self) -> None:
        self._jobs.put(None)

    def begin(self, end: int) -> None:
        """What was read before may be of a process that has run on since, or of another stretch."""
        while self._pending:
            self._take()
        self._now = None
        self._end = end

    def words_from(self, address: int) -> Sequence[int]:
        """The words from an address on, as far as they have been read; none where they cannot be."""
        job = self._now
        index = job.index_of(address) if job else None
        if job is None or index is None:
            job = self._move_to(address)
            index = job.index_of(address) if job else None
        return job.words[index:] if job and index is not None else ()

    def _move_to(self, address: int) -> Optional[_Job]:
        job: Optional[_Job] = None
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
        job = _Job(self._next, spare[0], size, self._new_lock())
        self._next += size
        self._jobs.put(job)
        self._pending.append(job)
        return True

    def _take(self) -> _Job:
        """Moves on to the oldest request."""
        job = self._pending[0]
        if not job.finished:
            job.lock.acquire()
        self._now = job
        self._pending.popleft()
        return job


Asked = TypeVar("Asked")
Got = TypeVar("Got")


class ReadBeside(Generic[Asked, Got]):
    """A thread that reads one thing after another for whoever has the words of the one before to look through."""

    def __init__(self, read: Callable[[Asked], Got]) -> None:
        from queue import SimpleQueue

        self._jobs: SimpleQueue[Optional[Asked]] = SimpleQueue()
        self._done: SimpleQueue[tuple[Optional[Got], Optional[Exception]]] = SimpleQueue()
        self._read = read

    def __enter__(self) -> ReadBeside[Asked, Got]:
        _start(self._work)
        return self

    def __exit__(self, *_: object) -> None:
        self._jobs.put(None)

    def begin(self, asked: Asked) -> None:
        self._jobs.put(asked)

    def take(self) -> Got:
        """What was begun first, and not taken yet."""
        got, error = self._done.get()
        if error is not None:
            raise error
        return cast("Got", got)

    def _work(self) -> None:
        while True:
            asked = self._jobs.get()
            if asked is None:
                return
            got: Optional[Got] = None
            failed: Optional[Exception] = None
            try:
                got = self._read(asked)
            except (ArenascopeError, OSError) as error:
                failed = error
            finally:
                # whoever waits must not wait for ever, whatever it was
                self._done.put((got, failed))


def _start(work: Callable[..., None], *words: object) -> None:
    from threading import Thread

    # a debugger's signals are for its own thread: one that is made now inherits that they are blocked
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        Thread(target=work, args=words, name="arenascope-read-ahead", daemon=True).start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(fill: Fill, jobs: SimpleQueue[Optional[_Job]]) -> None:
    while True:
        job = jobs.get()
        if job is None:
            return
        try:
            job.words = job.buffer[: fill(job.address, job.buffer.cast("B")[: job.size]) // job.buffer.itemsize]
        except (ArenascopeError, OSError):
            pass  # whoever waits reads there again, and hears why
        finally:
            job.finished = True
            job.lock.release()
