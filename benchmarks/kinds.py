"""What it costs to tell what the blocks are and whose, against the sweep alone, on blocks as C++ programs have them.

    make bench
    python3 benchmarks/kinds.py --blocks 2500 --megabytes 5000

The least of several rounds in turns, by the clock, followed by what the processors did in it: on a machine that has
other work, the latter counts. A block's microseconds, of one processor, stand beside the goal for them. Memory is that
of the largest process, without what it has mapped of the core's file.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Iterator, Sequence

from subject import ARENASCOPE, PROGRAMS, QUIET, ROOT, running
from sweep import IN_GDB, IN_LLDB, Cost, own_memory, run

FIXTURE = "many_kinds"
ALONE = "chunks --summary"
UNDECLARED = "types --no-declared"
"""Which only the shell has."""
COMMANDS = (ALONE, "types --quick", UNDECLARED, "types", "owners", "leaks")
GOALS = {UNDECLARED: 1.0, "types": 3.0, "owners": 2.0, "leaks": 0.6}
"""Microseconds for each block."""
LOST = 1
"""What leaks ends with where something is lost."""


def table(blocks: int, megabytes: int, rounds: int) -> Iterator[str]:
    """Of so many thousand blocks; `megabytes`: as large as they happen to be, where it is 0."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as name:
        folder = Path(name)
        with running(FIXTURE, folder, str(blocks), str(megabytes)) as process:
            subprocess.run(["gcore", "-o", str(folder / "core"), str(process.pid)], check=True, **QUIET)
            core = folder / f"core.{process.pid}"
        found = [_of(core, command, rounds) for command in COMMANDS]
        doors = {"GDB": _gdb(core, folder, rounds)}
        if shutil.which("lldb-19"):
            doors["LLDB 19"] = _lldb(core, folder, rounds)
        size = core.stat().st_size
    columns = ["--jobs 1", "--jobs 2", "a block", "goal", "memory", *(f"in {door}, alone" for door in doors)]
    yield f"| types: {blocks:,},000 blocks, {size // 10**6:,} MB | {' | '.join(columns)} |"
    yield f"|{' --- |' * (len(columns) + 1)}"
    for command, costs in zip(COMMANDS, found):
        cells = [_cell(each, found[0][0]) for each in costs]
        cells.append(f"{costs[0].processor / blocks * 1000:.2f} µs")
        cells.append(f"{GOALS[command]} µs" if command in GOALS else "")
        cells.append(f"{costs[0].memory >> 20} MiB")
        cells += [_cell(own[command], own[ALONE]) if command in own else "" for own in doors.values()]
        yield f"| {command} | {' | '.join(cells)} |"


def _of(core: Path, command: str, rounds: int) -> list[Cost]:
    """With one process, and with two."""
    best: list[Cost] = []
    for _ in range(rounds):
        for at, processes in enumerate((1, 2)):
            words = [*ARENASCOPE, *command.split(), "--jobs", str(processes), str(core)]
            cost = run(words, (0, LOST) if command == "leaks" else (0,))
            best[at:] = [best[at].better(cost) if at < len(best) else cost, *best[at + 1 :]]
    own = own_memory([*ARENASCOPE, *command.split(), "--jobs", "1", str(core)])
    return [cost._replace(memory=own) for cost in best]


def _gdb(core: Path, folder: Path, rounds: int) -> dict[str, Cost]:
    script = folder / "in_gdb.py"
    quiet = ["gdb", "-nx", "-q", "-batch", "-iex", "set debuginfod enabled off", str(PROGRAMS / FIXTURE), str(core)]
    door = ["-ex", f"source {ROOT / 'gdb' / 'arena.py'}", "-x", str(script)]
    return _own([*quiet, *door], script, IN_GDB, rounds)


def _lldb(core: Path, folder: Path, rounds: int) -> dict[str, Cost]:
    script = folder / "in_lldb.py"
    quiet = ["lldb-19", "-x", "-b", "-c", str(core), str(PROGRAMS / FIXTURE)]
    doors = (ROOT / "lldb" / "arena.py", script)
    words = [word for each in doors for word in ("-o", f"command script import {each}")]
    return _own([*quiet, *words], script, IN_LLDB, rounds)


def _own(words: Sequence[str], script: Path, text: str, rounds: int) -> dict[str, Cost]:
    """What the commands are, inside a debugger that runs this script."""
    result = script.with_suffix(".json")
    script.write_text(text.format(commands=[each for each in COMMANDS if each != UNDECLARED], path=str(result)))
    best: dict[str, Cost] = {}
    for _ in range(rounds):
        run(words)
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
