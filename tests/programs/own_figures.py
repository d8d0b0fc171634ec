"""Programs by what they say themselves of their memory: which figures there are, and what several of them need."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Iterator

from partial import look
from running import Running

Owner = dict[str, Any]
REST, MOST_REST = 0.5, 6.0
"""Seconds."""
PAGES = 2 * 4096
"""More than a block's size, at most: one by mmap is of whole pages."""


@contextmanager
def started(start: Callable[[Path], Running]) -> Iterator[Running]:
    with tempfile.TemporaryDirectory(prefix="arenascope-program-") as folder:
        running = start(Path(folder))
        try:
            yield running
        finally:
            running.end()


@contextmanager
def spoken_to(path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        yield connection


def rested(pid: int) -> None:
    """Once it uses no more of the processor: what it has answered need not be all that it does. Some never rest."""
    until, before, since = time.monotonic() + MOST_REST, -1, 0.0
    while time.monotonic() < until:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        used = int(fields[11]) + int(fields[12])
        if used != before:
            before, since = used, time.monotonic()
        elif time.monotonic() - since > REST:
            return
        time.sleep(0.05)


def owners_of(pid: int) -> list[Owner]:
    rested(pid)
    os.kill(pid, signal.SIGSTOP)
    try:
        status, out, complained = look(Path(str(pid)), "owners --json --limit 0")
    finally:
        os.kill(pid, signal.SIGCONT)
    assert status == 0, complained
    owners: list[Owner] = json.loads(out)["owners"]
    return owners


def held_by(owners: list[Owner], name: str) -> int:
    return sum(each["held_bytes"] for each in owners if name in (each["name"] or ""))


Figures = Callable[[list[Owner]], set[str]]
"""Holds owners of a program against its own figures; the names of those that these prove. It is given those of the
program as other tests run it, and may run it otherwise."""
FIGURES: dict[str, list[Figures]] = {}
"""By program."""


def figures_of(program: str) -> Callable[[Figures], Figures]:
    def noted(figures: Figures) -> Figures:
        FIGURES.setdefault(program, []).append(figures)
        return figures

    return noted


def called(owner: Owner) -> str:
    """Its name, where that is the same in each run."""
    return owner["kind"] if owner["kind"] in ("kernel", "mapping", "stack") else owner["name"] or owner["kind"]


def size_said_by(running: Running) -> int:
    """In the first line that has one."""
    assert running.process.stdout is not None
    line = b""
    while not (found := re.match(rb"(?:Memory Used:\s*)?(\d{4,}).*\n", line)):
        piece = os.read(running.process.stdout.fileno(), 1)
        assert piece, running.said()
        line = piece if line.endswith(b"\n") else line + piece
    return int(found[1])
