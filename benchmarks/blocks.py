"""What each block costs, on cores of many small ones, of a program without debug information: time and memory grow
with their number, and no faster.

    python3 benchmarks/blocks.py --thousands 1000 10000 100000      the last: 8 GB of memory, and as much on disk
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Iterator, Sequence

from cost import least
from subject import ARENASCOPE, PROGRAMS, QUIET, WITH_US, parked

COMMANDS = ("chunks --summary", "check", "types", "leaks", "owners")
GOALS = {"leaks": 4.0, "owners": 7.0}
"""Seconds for 10 million blocks."""


def table(thousands: Sequence[int], rounds: int) -> Iterator[str]:
    yield "| command, on a core | blocks of 64 bytes | whole command | processor µs a block | bytes a block | goal |"
    yield "| --- | --- | --- | --- | --- | --- |"
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as name:
        folder = Path(name)
        program, core = folder / "small_blocks", folder / "core"
        subprocess.run(["strip", "-g", "-o", str(program), str(PROGRAMS / "small_blocks")], check=True)
        for each in thousands:
            with parked([str(program), str(folder), str(each)]) as process:
                words = [*ARENASCOPE, "save", str(process.pid), str(core), "--hold-at-most", "120000"]
                subprocess.run(words, check=True, env=WITH_US, **QUIET)
            for command in COMMANDS:
                took = least(str(core), command, rounds)
                goal = f"{GOALS[command]:g} s" if command in GOALS and each == 10_000 else ""
                yield (
                    f"| {command} | {each / 1000:g} M | {took.seconds:.1f} s | {took.processor / each * 1000:.2f} "
                    f"| {took.memory / each / 1000:.0f} | {goal} |"
                )
            core.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--thousands", type=int, nargs="*", default=[1000, 10_000])
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    for line in table(options.thousands, options.rounds):
        print(line, flush=True)


if __name__ == "__main__":
    main()
