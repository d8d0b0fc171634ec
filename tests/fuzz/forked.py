"""Many runs by chance in few processes: each forked from one that has loaded all, and bounded as it runs.

A run that ends in an exception, takes too long, wants too much memory or takes its process with it is a failure.
ARENASCOPE_FUZZ_RUNS says how many `make fuzz` does; ARENASCOPE_FUZZ_SEED=SEED does a series again, SEED:INDEX a single
run.
"""

from __future__ import annotations

import contextlib
import datetime
import multiprocessing
import os
import resource
import signal
import time
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any, Callable, Iterator, NamedTuple, Optional, Sequence

import pytest

FORK = multiprocessing.get_context("fork")
SECONDS = 10
BYTES = 500 << 20
GRACE = 120
"""Seconds after which a process that does not heed its timer is ended."""


LONG, MAX_SHOWN, BATCH = 30_000, 20, 250


class Endless(BaseException):
    """No handler of the door's takes it for its own."""


class Failure(AssertionError):
    """What must hold of every answer does not."""


class Run(NamedTuple):
    """What one run is: what it says of itself, and what it does."""

    words: str
    act: Callable[[], None]


class Ended(NamedTuple):
    """A run, what went wrong in it ("" where nothing did), and how long it took."""

    words: str
    wrong: str
    seconds: float


def _stop(number: int, frame: Optional[FrameType]) -> None:
    raise Endless(f"more than {SECONDS} s of processor time")


def run_all(make: Callable[[int], Run], count: int) -> Iterator[Ended]:
    """The runs 0 to count - 1, so many in each process; where one takes its process with it, the next goes on."""
    following = 0
    while following < count:
        results, theirs = FORK.Pipe(duplex=False)
        child = FORK.Process(target=_run_each, args=(make, range(following, min(count, following + BATCH)), theirs))
        child.start()
        theirs.close()
        unfinished = ""
        with contextlib.suppress(EOFError):
            while results.poll(SECONDS + GRACE):
                told = results.recv()
                if isinstance(told, Ended):
                    yield told
                    unfinished, following = "", following + 1
                else:
                    unfinished = told
        child.kill()
        child.join()
        if unfinished:
            yield Ended(unfinished, f"its process ended, exit code {child.exitcode}", 0.0)
            following += 1


def _run_each(make: Callable[[int], Run], indices: Sequence[int], results: Connection) -> None:
    # what is mapped of a file does not count, what is allocated does
    held = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_DATA, (held + BYTES, resource.RLIM_INFINITY))
    signal.signal(signal.SIGPROF, _stop)
    os.environ["ARENASCOPE_DEBUG"] = "1"
    for index in indices:
        results.send(f"number {index}")
        run = make(index)
        results.send(run.words)
        start, wrong = time.monotonic(), ""
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            run.act()
        except BaseException as error:
            wrong = f"{type(error).__name__}: {error}"[-3000:]
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        results.send(Ended(run.words, wrong, time.monotonic() - start))


def fuzz(make: Callable[[str, int], Run], count: int, seed: str) -> None:
    """The runs that `make` makes of a seed and a number."""
    seed = os.environ.get("ARENASCOPE_FUZZ_SEED", seed)
    first = 0
    if ":" in seed:
        seed, _, index = seed.rpartition(":")
        first, count = int(index), 1
    print(f"fuzz: seed {seed}, {count} runs", flush=True)
    failures, longest = [], 0.0
    for ended in run_all(lambda index: make(seed, first + index), count):
        longest = max(longest, ended.seconds)
        if ended.wrong:
            failures.append(f"run {ended.words}: {ended.wrong}")
            if len(failures) >= MAX_SHOWN:
                break
    print(f"fuzz: the longest run took {longest:.1f} s", flush=True)
    assert not failures, "\n\n".join(failures)


def fuzz_many(make: Callable[[str, int], Run], share: int = 1) -> None:
    """Others each time."""
    runs = int(os.environ.get("ARENASCOPE_FUZZ_RUNS", LONG)) // share
    fuzz(make, runs, f"{datetime.date.today().isoformat()} {os.getpid()}")


def seeds(few: int, more: int) -> Any:
    """Always the same, as a test may not depend on the day: what is new is for `make fuzz`."""
    rest = [pytest.param(each, more, marks=pytest.mark.full) for each in ("once more", "again", "more")]
    return pytest.mark.parametrize(("seed", "runs"), [("always", few), *rest], ids=lambda each: str(each))
