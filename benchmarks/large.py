"""Every command on large processes: how long they stand still, and what time and memory grow with.

    python3 benchmarks/large.py                        1, 4 and 15 GB, and 200 GB of addresses: half an hour, 17 GB free
    python3 benchmarks/large.py --megabytes 250 500 --addresses 8

Commands that copy are asked of no more than --copied megabytes. Memory is that of the largest process, beside the copy.
Goals for holds are of 5.3 GB, and grow with what has to be read. What 50 GB would take is told by the slope between the
two largest heaps. What of a whole command is reading is measured by C programs that do no more than that: they read the
same free chunks twice, in the order of lists and in that of addresses, or make room for a copy and make it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Iterable, Iterator, Mapping, NamedTuple, Optional, Sequence

from least_hold import Least, LeastHold
from subject import ARENASCOPE, WITH_US, running

LISTS = ("arenas", "bins", "trim", "report")
SWEEPS = ("chunks --summary", "check", "map", "pins")
GRAPHS = ("types", "leaks", "owners")
COMMANDS = (*LISTS, *SWEEPS, *GRAPHS)
LIMIT = ("--hold-at-most", "120000")
BLOCKS = (20e6, 200e6)
GOAL_MEGABYTES = 5300
SWEPT, COPIED, LISTED, EACH = 0.6, 0.8, 0.02, 0.15e-6
"""Seconds that a process may be held: for sweeps, for what copies, for lists, and besides for each free chunk."""


class Cost(NamedTuple):
    seconds: float
    megabytes: float
    """The largest part of it that was in memory."""
    held: Optional[float]


def cost(words: Sequence[str]) -> Cost:
    with tempfile.TemporaryFile() as output:
        begun = time.perf_counter()
        process = subprocess.Popen(
            [*ARENASCOPE, *words, "--json"], stdout=output, stderr=subprocess.DEVNULL, env=WITH_US
        )
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in (0, 1):
            raise SystemExit(f"{' '.join(words)} ended with {process.returncode}")
        output.seek(0)
        held = json.loads(output.read()).get("held_seconds")
    return Cost(seconds, usage.ru_maxrss / 1024, held)


def resident(pid: int) -> float:
    """Megabytes."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields["VmRSS"].split()[0]) / 1024


class Row(NamedTuple):
    command: str
    live: Cost
    core: Cost
    beside: float
    """Megabytes of memory beside a copy of the process."""
    least: Least
    """What C needs for the same places, or for a copy."""

    @property
    def in_c(self) -> float:
        """Seconds that it takes in C to read it, before the hold and in it."""
        return self.least.before + self.least.held


def looks(pid: int, folder: Path, commands: Sequence[str] = COMMANDS) -> Iterator[Row]:
    size = resident(pid)
    core, limit = folder / "core", LeastHold(pid, folder)
    subprocess.run(
        [*ARENASCOPE, "save", str(pid), str(core), *LIMIT], check=True, env=WITH_US, stdout=subprocess.DEVNULL
    )
    try:
        for command in commands:
            name, *rest = command.split()
            least = limit.lists() if command in LISTS else limit.copy()
            live, saved = cost([name, str(pid), *rest, *LIMIT]), cost([name, str(core), *rest])
            beside = live.megabytes - size if live.megabytes > size else live.megabytes
            yield Row(command, live, saved, beside, least)
    finally:
        core.unlink()


class Heap(NamedTuple):
    megabytes: float
    """In memory."""
    blocks: int
    free: int

    def goal(self, command: str) -> float:
        """For how long the process may be held."""
        if command in LISTS:
            return LISTED + EACH * self.free
        return (SWEPT if command in SWEEPS else COPIED) * max(1, self.megabytes / GOAL_MEGABYTES)


def heap_of(pid: int) -> Heap:
    words = [*ARENASCOPE, "chunks", str(pid), "--summary", "--json", *LIMIT]
    summary = json.loads(subprocess.check_output(words, env=WITH_US, stderr=subprocess.DEVNULL))["summary"]
    chunks = {state: each["chunks"] for state, each in summary.items() if isinstance(each, dict)}
    return Heap(resident(pid), sum(chunks.values()), chunks["free"] + chunks["fast"])


def looked(fixture: str, folder: Path, arguments: Sequence[str], commands: Sequence[str]) -> tuple[Heap, list[Row]]:
    with running(fixture, folder, *arguments) as process:
        return heap_of(process.pid), list(looks(process.pid, folder, commands))


def lines(title: str, heap: Heap, rows: Iterable[Row]) -> Iterator[str]:
    yield (
        f"| {title}, {heap.blocks:,} blocks, {heap.free:,} free | held | goal | C limit "
        "| whole command | on its core | ratio | of it, reading in C | the others' ratio | memory beside a copy |"
    )
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    for each in rows:
        held = f"{each.live.held:.2f} s" if each.live.held is not None else ""
        yield (
            f"| {each.command} | {held} | {heap.goal(each.command):.2f} s | {each.least.held:.2f} s "
            f"| {each.live.seconds:.1f} s | {each.core.seconds:.1f} s | {each.live.seconds / each.core.seconds:.1f} "
            f"| {each.in_c:.1f} s | {(each.live.seconds - each.in_c) / each.core.seconds:.1f} "
            f"| {each.beside:,.0f} MiB |"
        )


def slopes(found: Mapping[int, tuple[Heap, Sequence[Row]]]) -> Iterator[str]:
    """By the two largest heaps that each command was asked of."""
    heads = " | ".join(f"50 GB, {each / 1e6:.0f} M blocks" for each in BLOCKS)
    yield f"| held, whole command | µs a block | {heads} |"
    yield "| --- | --- | --- | --- |"
    sizes = sorted(found)
    for command in COMMANDS:
        known = [(found[size][0].blocks, row) for size in sizes for row in found[size][1] if row.command == command][
            -2:
        ]
        if len(known) < 2:
            continue
        (few, small), (many, large) = known
        whole = (large.live.seconds - small.live.seconds) / (many - few)
        held = ((large.live.held or 0.0) - (small.live.held or 0.0)) / (many - few)
        likely = " | ".join(f"{held * each:.1f} s, {whole * each:.0f} s" for each in BLOCKS)
        yield f"| {command} | {held * 1e6:.2f}, {whole * 1e6:.2f} | {likely} |"


def table(megabytes: Sequence[int], copied: int, addresses: int) -> Iterator[str]:
    found: dict[int, tuple[Heap, Sequence[Row]]] = {}
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as name:
        folder = Path(name)
        for size in megabytes:
            commands = COMMANDS if size <= copied else LISTS
            found[size] = looked("big", folder, [str(size)], commands)
            yield from ("", *lines(f"{size:,} MB", *found[size]))
        if len(found) > 1:
            yield from ("", *slopes(found))
        if addresses:
            wide = looked("wide", folder, [str(addresses)], COMMANDS)
            yield from ("", *lines(f"{addresses} GB of addresses", *wide))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, nargs="*", default=[1000, 4000, 15000])
    parser.add_argument("--copied", type=int, default=8000)
    parser.add_argument("--addresses", type=int, default=200)
    options = parser.parse_args()
    for line in table(options.megabytes, options.copied, options.addresses):
        print(line, flush=True)


if __name__ == "__main__":
    main()
