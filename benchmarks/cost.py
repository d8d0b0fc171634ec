"""What a command takes: by the clock, of processors and of memory, and for how long it held a process."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import IO, NamedTuple, Optional, Sequence, Union

from subject import ARENASCOPE, WITH_US

LIMIT = ("--hold-at-most", "120000")
FINE = (0, 1)
"""A command ends with 1 where it found something."""


class Cost(NamedTuple):
    seconds: float
    processor: float
    memory: int
    """Bytes that were its own, at the most; the pages of a file that it has mapped do not count."""
    held: Optional[float]

    def better(self, other: Cost) -> Cost:
        held = [each for each in (self.held, other.held) if each is not None]
        return Cost(
            min(self.seconds, other.seconds),
            min(self.processor, other.processor),
            max(self.memory, other.memory),
            min(held) if held else None,
        )


def cost(subject: str, command: str) -> Cost:
    """Of a command with its options on a process or a core."""
    name, *rest = command.split()
    live = LIMIT if subject.isdigit() else ()
    with tempfile.TemporaryFile() as output:
        found = cost_of([*ARENASCOPE, name, subject, *rest, *live, "--json"], output)
        output.seek(0)
        return found._replace(held=json.loads(output.read()).get("held_seconds"))


def cost_of(words: Sequence[str], output: Union[int, IO[bytes]] = subprocess.DEVNULL) -> Cost:
    """Of any program that ends by itself."""
    begun = time.perf_counter()
    quiet = {"stdin": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(words, stdout=output, env=WITH_US, **quiet)
    most, ended = 0, threading.Event()

    def watch() -> None:
        nonlocal most
        while not ended.wait(0.02):
            most = max(most, own_memory(process.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begun
    ended.set()
    watcher.join()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in FINE:
        raise SystemExit(f"{' '.join(words)} ended with {process.returncode}")
    return Cost(seconds, usage.ru_utime + usage.ru_stime, most, None)


def least(subject: str, command: str, rounds: int) -> Cost:
    """The least of some rounds."""
    found = cost(subject, command)
    for _ in range(rounds - 1):
        found = found.better(cost(subject, command))
    return found


def own_memory(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(("RssAnon", "RssShmem")))
