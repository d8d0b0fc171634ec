"""For how long a live process is held, and what of that each free chunk costs: found beforehand, and held to the end.

    make bench
    python3 benchmarks/holds.py --megabytes 5000 --rounds 5

Both ways in turns in one process of Python, the least of some rounds. The goal: 0.15 microseconds
a free chunk and 20 ms. Beside it stands what a C program needs to read the same places on all processors: where that
is more than the goal, the goal cannot be reached on that machine.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Callable, Iterator, Sequence

from large import EACH, LISTED
from least_hold import LeastHold
from subject import ROOT, running

sys.path.append(str(ROOT / "common"))
from arenascope.cli import several_subjects
from arenascope.commands.all_commands import find_command
from arenascope.commands.steps import live_copy
from arenascope.sources.live.procfiles import read_status

COMMANDS = ("arenas", "bins", "trim", "report", "info")
COPYING = ("chunks --summary", "check", "map", "pins")
ALWAYS_COPYING = ("types", "leaks", "owners")
GIB = 1 << 30


def held(pid: int, words: str, early: bool) -> float:
    name, *rest = words.split()
    options = find_command(name).parser("arenascope").parse_args([*rest, "--json"])
    options.hold_at_most = 120.0
    seen = several_subjects._look(several_subjects.SubjectRequest(str(pid), name, options), early)
    seconds: float = json.loads(seen.text)["held_seconds"]
    return seconds


def table(pid: int, rounds: int, folder: Path) -> Iterator[str]:
    limit = LeastHold(pid, folder)
    quick = min(held(pid, "arenas --quick", False) for _ in range(rounds))
    yield (
        f"| held for ({limit.chunks:,} free chunks) | | a free chunk | goal | C limit | ratio to C "
        "| held to the end | ratio |"
    )
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    yield f"| arenas --quick | {quick * 1000:.0f} ms | | | | | | |"
    for name in COMMANDS:
        ways = [(held(pid, name, True), limit.seconds(), held(pid, name, False)) for _ in range(rounds)]
        early, least, late = (min(each) for each in zip(*ways))
        goal = LISTED + EACH * limit.chunks
        yield (
            f"| {name} | {early * 1000:.0f} ms | {early / limit.chunks * 1e6:.2f} µs | {goal * 1000:.0f} ms "
            f"| {least * 1000:.0f} ms | {early / least:.1f} | {late * 1000:.0f} ms | 1 : {late / early:.1f} |"
        )


def copying(pid: int, rounds: int) -> Iterator[str]:
    """Of what is held only while it is copied: against the sweep for which it would be held otherwise."""
    yield from _against(pid, rounds, COPYING, "held to the end", without=("is_sooner_apart", lambda *_: False))


def on_disk(pid: int, rounds: int) -> Iterator[str]:
    """Of what is never looked at without a copy: one in memory that is there beforehand, against one in a file."""
    yield from _against(pid, rounds, ALWAYS_COPYING, "copied into a file", without=("_memory_for_copy", lambda size: 0))


def _against(
    pid: int, rounds: int, commands: Sequence[str], otherwise: str, without: tuple[str, Callable[..., object]]
) -> Iterator[str]:
    """Both ways in turns. `without`: what live_copy.py asks, and an answer that leads the other way."""
    memory = read_status(pid).rss or 0
    yield f"| held for ({memory / GIB:.1f} GiB) | | a second | {otherwise} | ratio |"
    yield "| --- | --- | --- | --- | --- |"
    name, answer = without
    asked = getattr(live_copy, name)
    for command in commands:
        ways = []
        for _ in range(rounds):
            copied = held(pid, command, True)
            setattr(live_copy, name, answer)
            ways.append((copied, held(pid, command, True)))
            setattr(live_copy, name, asked)
        copied, other = (min(each) for each in zip(*ways))
        yield (
            f"| {command} | {copied * 1000:.0f} ms | {memory / GIB / copied:.1f} GiB | {other * 1000:.0f} ms "
            f"| 1 : {other / copied:.1f} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, running("big", Path(folder), str(options.megabytes)) as process:
        print("", *table(process.pid, options.rounds, Path(folder)), sep="\n")
        print("", *copying(process.pid, options.rounds), sep="\n")
        print("", *on_disk(process.pid, options.rounds), sep="\n")


if __name__ == "__main__":
    main()
