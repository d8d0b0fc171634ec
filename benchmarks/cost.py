"""What a command takes: by the clock, of processors and of memory, and for how long it held a process."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple, Optional

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
    words = [*ARENASCOPE, name, subject, *rest, *live, "--json"]
    with tempfile.TemporaryFile() as output:
        begun = time.perf_counter()
        process = subprocess.Popen(words, stdout=output, stderr=subprocess.DEVNULL, env=WITH_US)
        most, ended = 0, threading.Event()

        def watch() -> None:
            nonlocal most
            while not ended.wait(0.02):
                most = max(most, _own_memory(process.pid))

        watcher = threading.Thread(target=watch)
        watcher.start()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begun
        ended.set()
        watcher.join()
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in FINE:
            raise SystemExit(f"{command} ended with {process.returncode}")
        output.seek(0)
        held = json.loads(output.read()).get("held_seconds")
    return Cost(seconds, usage.ru_utime + usage.ru_stime, most, held)


def least(subject: str, command: str, rounds: int) -> Cost:
    """The least of some rounds."""
    found = cost(subject, command)
    for _ in range(rounds - 1):
        found = found.better(cost(subject, command))
    return found


def _own_memory(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(("RssAnon", "RssShmem")))
