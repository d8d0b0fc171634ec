"""What threads do and what is mapped, by the kernel, and how to wait for it."""

from __future__ import annotations

import os
import signal
import socket
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Callable, Iterator, NamedTuple

SECONDS = 120
"""On a busy machine much takes a while."""


class Mapping(NamedTuple):
    start: int
    end: int
    flags: str
    offset: int
    path: str


def mappings(pid: int) -> Iterator[Mapping]:
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        span, flags, offset, _, _, *path = line.split(maxsplit=5)
        start, end = (int(each, 16) for each in span.split("-"))
        yield Mapping(start, end, flags, int(offset, 16), path[0] if path else "")


def state(pid: int) -> str:
    """The letter of a process's first thread; none once it is gone."""
    with suppress(OSError):
        # its name may be no UTF-8
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2][:1].decode()
    return ""


def states(pid: int) -> list[str]:
    """Of each thread."""
    return [state(int(task.name)) for task in Path(f"/proc/{pid}/task").iterdir()]


def await_that(happened: Callable[[], object], seconds: float = SECONDS) -> None:
    limit = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < limit
        time.sleep(0.002)


def stop(pid: int) -> None:
    """Each thread has seen the signal."""
    os.kill(pid, signal.SIGSTOP)
    await_that(lambda: set(states(pid)) <= {*"TXZ", ""})


@contextmanager
def standing(pid: int) -> Iterator[None]:
    """It stands still meanwhile."""
    try:
        stop(pid)
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
