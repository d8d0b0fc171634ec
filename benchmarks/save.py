"""What it costs to save a process as a core, against gcore, and against cp of the same bytes.

    make bench
    python3 benchmarks/save.py --megabytes 5000

The least of some rounds in turns, in seconds of whole commands. Held: for how long the process stood still, which with
gcore is all of it.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import tempfile
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Iterator, Sequence

from subject import ARENASCOPE, QUIET, WITH_US, running

BLOCK = 1 << 20


def timed(command: Sequence[str], made: Path) -> float:
    """Of a command that must make that file, which is gone afterwards."""
    started = time.perf_counter()
    subprocess.run(command, check=True, env=WITH_US, **QUIET)
    seconds = time.perf_counter() - started
    made.unlink()
    return seconds


def save(pid: int, path: Path, *words: str) -> tuple[float, float]:
    """Seconds in all, and for how long the process was held."""
    started = time.perf_counter()
    done = subprocess.run(
        [*ARENASCOPE, "save", str(pid), str(path), "--json", *words],
        check=True,
        env=WITH_US,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    seconds = time.perf_counter() - started
    path.unlink()
    return seconds, json.loads(done.stdout)["held_seconds"]


def read_alone(pid: int) -> tuple[int, float]:
    """All anonymous memory read by two threads, in blocks that stay in the processor's cache, written nowhere: bytes
    and seconds. No copy can be faster."""
    call = ctypes.CDLL(None).process_vm_readv
    call.argtypes = [ctypes.c_int, *[ctypes.c_void_p, ctypes.c_ulong] * 2, ctypes.c_ulong]
    call.restype = ctypes.c_ssize_t
    rows = (line.split() for line in Path(f"/proc/{pid}/maps").read_text().splitlines())
    spans = [[int(end, 16) for end in row[0].split("-")] for row in rows if row[1].startswith("rw") and row[4] == "0"]
    blocks = deque((at, min(BLOCK, end - at)) for start, end in spans for at in range(start, end, BLOCK))
    done: list[int] = []

    def work() -> None:
        buffer = ctypes.create_string_buffer(BLOCK)
        ours, theirs = (ctypes.c_ulong * 2)(ctypes.addressof(buffer)), (ctypes.c_ulong * 2)()
        with suppress(IndexError):
            while True:
                theirs[0], theirs[1] = blocks.popleft()
                ours[1] = theirs[1]
                done.append(max(0, call(pid, ours, 1, theirs, 1, 0)))

    threads = [Thread(target=work) for _ in range(2)]
    started = time.perf_counter()
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return sum(done), time.perf_counter() - started


def table(pid: int, folder: Path, rounds: int) -> Iterator[str]:
    whole, copy = folder / "whole", folder / "copy"
    subprocess.run([*ARENASCOPE, "save", str(pid), str(whole)], check=True, env=WITH_US, **QUIET)
    size = whole.stat().st_blocks * 512
    saves, redacts, gcores, copies, reads = [], [], [], [], []
    for _ in range(rounds):
        saves.append(save(pid, folder / "saved"))
        redacts.append(save(pid, folder / "saved", "--redact"))
        gcores.append(timed(["gcore", "-o", str(folder / "again"), str(pid)], folder / f"again.{pid}"))
        reads.append(read_alone(pid))
        copies.append(timed(["cp", "--sparse=never", str(whole), str(copy)], copy))
    whole.unlink()
    (saved, held), (redacted, held_for_it), gcore, cp = min(saves), min(redacts), min(gcores), min(copies)
    yield f"| {size / 1e9:.1f} GB in memory | seconds | held | GB/s | ratio to gcore | ratio to cp |"
    yield "| --- | --- | --- | --- | --- | --- |"

    def row(what: str, seconds: float, stood: float) -> str:
        return (
            f"| {what} | {seconds:.2f} | {stood:.2f} | {size / stood / 1e9:.1f} "
            f"| {seconds / gcore:.2f} | {seconds / cp:.1f} |"
        )

    yield row("arenascope save", saved, held)
    yield row("arenascope save --redact", redacted, held_for_it)
    yield row("gcore", gcore, gcore)
    yield f"| cp | {cp:.2f} | | {size / cp / 1e9:.1f} | {cp / gcore:.2f} | 1.0 |"
    read, least = min(reads, key=lambda each: each[1])
    yield f"| reading alone, two threads | {least:.2f} | | {read / least / 1e9:.1f} | | {least / cp:.1f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    large = os.environ.get("TMPDIR", "/var/tmp")
    with tempfile.TemporaryDirectory(dir=large) as name, running("big", Path(name), str(options.megabytes)) as process:
        print("", *table(process.pid, Path(name), options.rounds), sep="\n")


if __name__ == "__main__":
    main()
