"""Reading ahead: while one block of a long stretch is gone through, a thread reads the next ones.

The processor copies memory about as fast as Python follows the headers in it, so that a sweep takes a third less time,
and a process that is held for it stands still the shorter.
"""

from __future__ import annotations

import signal
from collections import deque
from typing import TYPE_CHECKING, Callable, Optional, Sequence

from .errors import MemoryReadError

if TYPE_CHECKING:
    from queue import SimpleQueue
    from threading import Lock

    Fill = Callable[[int, memoryview], int]

BLOCK = 2 << 20
"""Large enough that handing over does not count, small enough for a processor's outer cache."""
DEPTH = 2
"""The thread finds its next job without waiting for the interpreter, which is busy with this one."""
LONG = 8 * BLOCK
"""Less than this is not worth a thread."""


class _Job:
    """A block to be read. Its lock is free once `count` says how many bytes there are."""

    def __init__(self, address: int, buffer: memoryview, size: int, lock: Lock) -> None:
        self.address = address
        self.buffer = buffer
        self.size = size
        self.count = 0
        self.lock = lock
        lock.acquire()


class ReadAhead:
    """Goes forward through stretches of memory."""

    def __init__(self, fill: Fill, word: int) -> None:
        from queue import SimpleQueue  # what small heaps do not need
        from threading import Lock

        self._new_lock = Lock
        self._jobs: SimpleQueue[Optional[_Job]] = SimpleQueue()
        self._word = word
        self._free = [memoryview(bytearray(BLOCK)).cast("Q" if word == 8 else "I") for _ in range(DEPTH + 1)]
        self._pending: deque[_Job] = deque()
        self._now: Optional[_Job] = None
        self._end = self._next = self._base = 0
        self._words: memoryview = self._free[0][:0]
        _start(fill, self._jobs)

    def __del__(self) -> None:
        self._jobs.put(None)

    def begin(self, end: int) -> None:
        """What was read before may be of a process that has run on since, or of another stretch."""
        while self._pending:
            self._take()
        self._end, self._words = end, self._words[:0]

    def words_from(self, address: int) -> Sequence[int]:
        """The words from an address on, as far as they are at hand; none where they cannot be read."""
        index = (address - self._base) // self._word
        if not 0 <= index < len(self._words):
            self._move_to(address)
            index = (address - self._base) // self._word
        return self._words[index:]

    def _move_to(self, address: int) -> None:
        while self._pending:
            self._take()
            if self._base <= address < self._base + len(self._words) * self._word:
                break
        else:
            self._next = address
            if self._ask():
                self._take()
            else:
                self._words = self._words[:0]
        while len(self._pending) < DEPTH and self._ask():
            pass

    def _ask(self) -> bool:
        size = min(BLOCK, self._end - self._next) // self._word * self._word
        if size <= 0:
            return False
        job = _Job(self._next, self._free.pop(), size, self._new_lock())
        self._pending.append(job)
        self._jobs.put(job)
        self._next += size
        return True

    def _take(self) -> None:
        """Goes on to what was asked for first."""
        job = self._pending[0]
        with job.lock:
            pass
        if self._now is not None:
            self._free.append(self._now.buffer)
        self._now = self._pending.popleft()
        self._base, self._words = job.address, job.buffer[: job.count // self._word]


def _start(fill: Fill, jobs: SimpleQueue[Optional[_Job]]) -> None:
    from threading import Thread

    # a debugger's signals are for its own thread: one that is made now inherits that they are blocked
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        Thread(target=_work, args=(fill, jobs), name="arenascope-read-ahead", daemon=True).start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(fill: Fill, jobs: SimpleQueue[Optional[_Job]]) -> None:
    while True:
        job = jobs.get()
        if job is None:
            return
        try:
            job.count = fill(job.address, job.buffer.cast("B")[: job.size])
        except (MemoryReadError, OSError):
            pass  # whoever waits reads there again, and hears why
        finally:
            job.lock.release()
