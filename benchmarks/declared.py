"""What it costs to name blocks by debug information, against the same look without it, on a million blocks each of the
C and the C++ server of the tests.

    make bench
    python3 benchmarks/declared.py --blocks 1000 --rounds 3
    python3 benchmarks/declared.py --check            exit status 1 where a limit is passed

What the processors did counts, the least of several rounds in turns; what the shell's GDB does is in it. "More" is what
names by debug information add to the same look without them. Memory is that of the largest process.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Iterator, NamedTuple, Sequence

from subject import ARENASCOPE, PROGRAMS, QUIET, parked
from sweep import Cost, own_memory, run

NO_NUMPY = "import sys\nsys.modules['numpy'] = None\n"
"""As where it is not installed."""
WITHOUT = (sys.executable, "-c", f"{NO_NUMPY}import runpy\nrunpy.run_path(sys.argv.pop(1), run_name='__main__')")
FLAGS = ("--no-declared", "--declared")
LIMITS = {"plain Python": 6.0, "numpy": 2.0}
"""Microseconds more for each block."""
MEMORY = 200
"""Bytes more for each block."""


class Program(NamedTuple):
    language: str
    name: str
    mode: str
    each: int
    """Blocks that one session has, on an average."""


SERVERS = (Program("C", "daemon.O2", "closed", 24), Program("C++", "server.O2", "0", 10))


class Measured(NamedTuple):
    """Without names by debug information, and with them."""

    without: Cost
    declared: Cost
    blocks: int

    @property
    def more(self) -> float:
        """Microseconds for each block."""
        return (self.declared.processor - self.without.processor) / self.blocks * 1e6

    @property
    def memory(self) -> float:
        """Bytes for each block."""
        return (self.declared.memory - self.without.memory) / self.blocks


def measured(server: Program, blocks: int, rounds: int) -> Iterator[tuple[str, Measured]]:
    """In the shell: without numpy and with it."""
    with tempfile.TemporaryDirectory(prefix="arenascope-bench-") as name:
        folder, program = Path(name), PROGRAMS / "declared" / server.name
        with parked([str(program), str(blocks * 1000 // server.each), server.mode]) as process:
            subprocess.run(["gcore", "-o", str(folder / "core"), str(process.pid)], check=True, **QUIET)
            core = folder / f"core.{process.pid}"
        counted = subprocess.run(
            [*ARENASCOPE, "types", "--json", str(core)], check=True, stdout=subprocess.PIPE, text=True
        )
        count = json.loads(counted.stdout)["totals"]["blocks"]
        for way, words in (("plain Python", WITHOUT), ("numpy", ARENASCOPE[:1])):
            commands = [[*words, ARENASCOPE[1], "types", each, "--jobs", "1", str(core)] for each in FLAGS]
            costs = [_least([run(each) for _ in range(rounds)]) for each in commands]
            costs = [cost._replace(memory=own_memory(each)) for cost, each in zip(costs, commands)]
            yield way, Measured(*costs, count)


def _least(costs: Sequence[Cost]) -> Cost:
    best = costs[0]
    for cost in costs[1:]:
        best = best.better(cost)
    return best


def table(blocks: int, rounds: int) -> Iterator[str]:
    """Of so many thousand blocks. What passes a limit has a `!`."""
    yield "| types by debug information | blocks | without | with | more, each block | memory more, each block |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for server in SERVERS:
        for way, found in measured(server, blocks, rounds):
            costs = [f"{cost.processor:.2f} s" for cost in (found.without, found.declared)]
            cells = [f"{found.more:.2f} µs{'!' * (found.more > LIMITS[way])}"]
            cells.append(f"{found.memory:.0f} bytes{'!' * (found.memory > MEMORY)}")
            yield f"| {server.language}, {way} | {found.blocks:,} | {' | '.join((*costs, *cells))} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=1000, help="thousands")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    passed = False
    for line in table(options.blocks, options.rounds):
        print(line, flush=True)
        passed |= "!" in line
    sys.exit(passed and options.check)


if __name__ == "__main__":
    main()
