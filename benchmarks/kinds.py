"""What it costs to tell what the blocks are, against the sweep alone, on blocks as C++ programs have them.

    make bench
    python3 benchmarks/kinds.py --blocks 2500 --megabytes 5000

The least of several rounds in turns, by the clock, followed by what the processors did in it: on a machine that has
other work, the latter counts. Memory is that of the largest process, without what it has mapped of the core's file.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Iterator

from subject import ARENASCOPE, PROGRAMS, QUIET, ROOT, running
from sweep import IN_GDB, Cost, own_memory, run

FIXTURE = "many_kinds"
ALONE = "chunks --summary"
COMMANDS = (ALONE, "types --quick", "types")


def table(blocks: int, megabytes: int, rounds: int) -> Iterator[str]:
    """Of so many thousand blocks; `megabytes`: as large as they happen to be, where it is 0."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as name:
        folder = Path(name)
        with running(FIXTURE, folder, str(blocks), str(megabytes)) as process:
            subprocess.run(["gcore", "-o", str(folder / "core"), str(process.pid)], check=True, **QUIET)
            core = folder / f"core.{process.pid}"
        found = [_of(core, command, rounds) for command in COMMANDS]
        own = _gdb(core, folder, rounds)
        size = core.stat().st_size
    yield f"| types: {blocks:,},000 blocks, {size // 10**6:,} MB | --jobs 1 | --jobs 2 | memory | in GDB, alone |"
    yield "| --- | --- | --- | --- | --- |"
    for command, costs in zip(COMMANDS, found):
        cells = [_cell(costs[0], found[0][0]), _cell(costs[1], found[0][0]), f"{costs[0].memory >> 20} MiB"]
        yield f"| {command} | {' | '.join(cells)} | {_cell(own[command], own[ALONE])} |"


def _of(core: Path, command: str, rounds: int) -> list[Cost]:
    """With one process, and with two."""
    best: list[Cost] = []
    for _ in range(rounds):
        for at, processes in enumerate((1, 2)):
            words = [*ARENASCOPE, *command.split(), "--jobs", str(processes), str(core)]
            cost = run(words)
            best[at:] = [best[at].better(cost) if at < len(best) else cost, *best[at + 1 :]]
    own = own_memory([*ARENASCOPE, *command.split(), "--jobs", "1", str(core)])
    return [cost._replace(memory=own) for cost in best]


def _gdb(core: Path, folder: Path, rounds: int) -> dict[str, Cost]:
    script, result = folder / "in_gdb.py", folder / "spent.json"
    script.write_text(IN_GDB.format(commands=COMMANDS, path=str(result)))
    quiet = ["gdb", "-nx", "-q", "-batch", "-iex", "set debuginfod enabled off"]
    door = ["-ex", f"source {ROOT / 'gdb' / 'arena.py'}", "-x", str(script)]
    best: dict[str, Cost] = {}
    for _ in range(rounds):
        run([*quiet, str(PROGRAMS / FIXTURE), str(core), *door])
        for name, times in json.loads(result.read_text()).items():
            cost = Cost(*times, 0)
            best[name] = best[name].better(cost) if name in best else cost
    return best


def _cell(cost: Cost, least: Cost) -> str:
    ratio = cost.processor / least.processor
    return f"{cost.seconds:.2f} s ({cost.processor:.2f} s of processors, {ratio:.1f}x)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=2500, help="thousands")
    parser.add_argument("--megabytes", type=int, default=0, help="of the heap, at least; buffers make it up")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print("", *table(options.blocks, options.megabytes, options.rounds), sep="\n")


if __name__ == "__main__":
    main()
