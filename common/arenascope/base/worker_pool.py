"""Shares work out among processes: Python parses headers on one processor at a time, and heaps are independent.

Each worker is forked after the lists were walked, and inherits all of them without a copy; only sums come back, through
a pipe. A worker that is free takes the next jobs. The parent does what a worker that died has left undone.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import select
import signal
import struct
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from typing import Callable, Generator, Iterable, Iterator, Optional, Protocol, Sequence, TypeVar


class Meter(Protocol):
    """Reports the progress of a long walk, to be shown or not."""

    def advance(self, amount: int) -> None:
        """Counts so many more bytes as done."""


MakeMeter = Callable[[str, int], "AbstractContextManager[Meter]"]
"""Makes a meter from (what is done, how many bytes in all)."""


class Unseen:
    def advance(self, amount: int) -> None:
        pass


def unseen(what: str, total: int) -> AbstractContextManager[Meter]:
    return nullcontext(Unseen())


class HasBytes(Protocol):
    @property
    def bytes(self) -> int: ...


Part = TypeVar("Part", bound=HasBytes)


def metered(parts: Iterable[Part], meter: Meter) -> Iterator[Part]:
    """Yields the same pieces; each counts once its consumer is done with it."""
    for part in parts:
        yield part
        meter.advance(part.bytes)


WORTH = 64 << 20
"""A smaller heap is swept in the time that a fork takes."""
SHARES = 8
"""The number of shares for each process into which jobs are grouped: at the end, others wait for one share."""
REPORT_EVERY = 16 << 20
"""How many bytes a worker processes before it reports progress."""
MOST_SHARES = 4096
"""The most shares: their numbers lie in a pipe from the start, which holds 64 KiB."""
PIPE_BYTES = 1 << 20
F_SETPIPE_SZ = 1031
_NUMBER = struct.Struct("=I")
_HEAD = struct.Struct("=cQ")
_PROGRESS, _DONE = b"p", b"d"


Job = TypeVar("Job")
Result = TypeVar("Result")


def processors() -> int:
    """Returns the number of processors that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def how_many(asked: int, size: int) -> int:
    """Returns how many processes work on so many bytes of heap; `asked` is 0 if the user did not say."""
    return asked or max(1, min(processors(), size // WORTH))


def share_out(
    jobs: Sequence[Job], sizes: Sequence[int], do: Callable[[Job, Meter], Result], processes: int, meter: Meter
) -> AbstractContextManager[Generator[Result, None, None]]:
    """Yields the results in the order of the jobs. On Ctrl-C or an error, it ends all processes at once.

    `sizes`: the relative cost of each job.
    """
    if processes < 2 or len(jobs) < 2:
        return closing(do(job, meter) for job in jobs)
    return closing(_shared(_shares(jobs, sizes, processes), do, processes, meter))


def _shared(
    shares: Sequence[Sequence[Job]], do: Callable[[Job, Meter], Result], processes: int, meter: Meter
) -> Generator[Result, None, None]:
    def work(number: int, telling: Meter) -> bytes:
        return pickle.dumps([do(job, telling) for job in shares[number]], pickle.HIGHEST_PROTOCOL)

    with _Crew(len(shares), work, min(processes, len(shares)), meter) as crew:
        for number, share in enumerate(shares):
            made = crew.wait_for(number)
            if made is None:
                # an error is raised here as it would be without workers
                for job in share:
                    yield do(job, Unseen())
                continue
            results: list[Result] = pickle.loads(made)
            yield from results


def _shares(jobs: Sequence[Job], sizes: Sequence[int], processes: int) -> list[list[Job]]:
    """Groups consecutive jobs: not each of 65,000 small heaps is worth a message."""
    enough = max(1, sum(sizes) // (SHARES * processes))
    least = -(-len(jobs) // MOST_SHARES)
    shares: list[list[Job]] = []
    size = enough
    for job, each in zip(jobs, sizes):
        if size >= enough and (not shares or len(shares[-1]) >= least):
            shares.append([])
            size = 0
        shares[-1].append(job)
        size += each
    return shares


class _Worker:
    """A worker process, and the pipe that it writes its results to."""

    def __init__(self, pid: int, pipe: int) -> None:
        self.pid = pid
        self.pipe = pipe
        self.unread = bytearray()


class _Crew:
    def __init__(self, shares: int, work: Callable[[int, Meter], bytes], processes: int, meter: Meter) -> None:
        self._work = work
        self._meter = meter
        self._made: dict[int, bytes] = {}
        self._workers: list[_Worker] = []
        self._poll = select.poll()
        self._processes = processes
        self._shares = shares

    def __enter__(self) -> _Crew:
        numbers, mouth = os.pipe()
        try:
            os.write(mouth, b"".join(map(_NUMBER.pack, range(self._shares))))
        finally:
            os.close(mouth)
        try:
            # the parent handles Ctrl-C, and ends the workers
            before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
            try:
                for _ in range(self._processes):
                    self._start(numbers)
            except OSError:
                pass  # out of processes or files: go on with the workers there are, or without any
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
        except BaseException:
            # a Ctrl-C that was blocked until now: no caller has this pool yet to end it by __exit__
            self._end()
            raise
        finally:
            os.close(numbers)
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _start(self, numbers: int) -> None:
        reading, writing = os.pipe()
        # a larger pipe, so that neither side waits for the other; a user may have only so much of that
        with suppress(OSError):
            fcntl.fcntl(writing, F_SETPIPE_SZ, PIPE_BYTES)
        try:
            pid = os.fork()
        except OSError:
            os.close(reading)
            os.close(writing)
            raise
        if not pid:
            # the child must run none of the parent's cleanup, and print nothing
            try:
                os.close(reading)
                for each in self._workers:
                    os.close(each.pipe)
                _work_off(numbers, writing, self._work)
            finally:
                os._exit(0)
        os.close(writing)
        self._workers.append(_Worker(pid, reading))
        self._poll.register(reading, select.POLLIN | select.POLLHUP)

    def wait_for(self, number: int) -> Optional[bytes]:
        """Returns the result of this share; None if its worker has ended without one."""
        while number not in self._made and self._open:
            for pipe, _ in self._poll.poll():
                worker = next(each for each in self._workers if each.pipe == pipe)
                data = os.read(pipe, PIPE_BYTES)
                if data:
                    worker.unread += data
                    self._hear(worker)
                else:
                    self._close(worker)
        return self._made.pop(number, None)

    @property
    def _open(self) -> bool:
        return any(each.pipe >= 0 for each in self._workers)

    def _hear(self, worker: _Worker) -> None:
        """Reads the complete messages."""
        unread, at = worker.unread, 0
        while len(unread) - at >= _HEAD.size:
            kind, value = _HEAD.unpack_from(unread, at)
            if kind == _PROGRESS:
                self._meter.advance(value)
                at += _HEAD.size
                continue
            start = at + _HEAD.size + _NUMBER.size
            if len(unread) - start < value:
                break
            (number,) = _NUMBER.unpack_from(unread, at + _HEAD.size)
            self._made[number] = bytes(unread[start : start + value])
            at = start + value
        del unread[:at]

    def _close(self, worker: _Worker) -> None:
        pipe, worker.pipe = worker.pipe, -1
        self._poll.unregister(pipe)
        os.close(pipe)

    def _end(self) -> None:
        """Ends the worker at once, and frees its resources."""
        # a second Ctrl-C must not leave one behind
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            for worker in self._workers:
                with suppress(ProcessLookupError):
                    os.kill(worker.pid, signal.SIGKILL)
            for worker in self._workers:
                with suppress(ChildProcessError):
                    os.waitpid(worker.pid, 0)
                if worker.pipe >= 0:
                    self._close(worker)
            self._workers.clear()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


# in the worker


class _Telling:
    """A meter in a worker, which reports through the pipe."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._untold = 0

    def advance(self, amount: int) -> None:
        self._untold += amount
        if self._untold >= REPORT_EVERY:
            told, self._untold = self._untold, 0
            os.write(self._pipe, _HEAD.pack(_PROGRESS, told))


def _work_off(numbers: int, pipe: int, work: Callable[[int, Meter], bytes]) -> None:
    """Works until no share is left, or an error ends it: the parent then does that share again, and meets the error."""
    telling = _Telling(pipe)
    while True:
        # a pipe hands out each number to one reader
        taken = os.read(numbers, _NUMBER.size)
        if len(taken) < _NUMBER.size:
            return
        (number,) = _NUMBER.unpack(taken)
        made = work(number, telling)
        message = memoryview(_HEAD.pack(_DONE, len(made)) + taken + made)
        while message:
            message = message[os.write(pipe, message) :]
