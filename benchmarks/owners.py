"""What it costs to tell whose memory it is, against the sweep alone, on a heap that is nothing but pointers.

    make bench
    python3 benchmarks/owners.py --pieces 2500         5 GB, 3 million blocks, 75 million pointers; as much on disk

The least of several rounds, by the clock, followed by what the processors did in it: on a machine that has other work,
the latter counts. Memory is the process's own, without what it has mapped of the core's file.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Iterator

from subject import ARENASCOPE, QUIET, WITH_US, running
from sweep import Cost, own_memory, run

FIXTURE = "web"
ALONE = "chunks --summary"
LOST = 1


def table(pieces: int, rounds: int) -> Iterator[str]:
    """Of so many thousand blocks, 2,000 bytes and 30 pointers each."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as name:
        folder = Path(name)
        core = folder / "web.core"
        with running(FIXTURE, folder, str(1000 * pieces)) as process:
            subprocess.run([*ARENASCOPE, "save", str(core), str(process.pid)], check=True, **QUIET)
        blocks = sum(int(line.split()[0]) for line in (folder / "web.txt").read_text().splitlines())
        lost = subprocess.run(
            [*ARENASCOPE, "leaks", "--json", "--limit", "1", str(core)],
            env=WITH_US,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        assert lost.returncode == LOST
        somewhere = json.loads(lost.stdout)["leaks"][0]["samples"][0]
        words = [ALONE, f"refs {somewhere}", "leaks", "owners"]
        costs = {each: _of(core, each, rounds) for each in words}
        size = core.stat().st_size
    yield f"| whose: {blocks:,} blocks that lead to each other, {size // 10**6:,} MB | seconds | memory |"
    yield "| --- | --- | --- |"
    for each, cost in costs.items():
        said = each.replace(somewhere, "ADDRESS")
        ratio = cost.processor / costs[ALONE].processor
        yield f"| {said} | {cost.seconds:.2f} s ({cost.processor:.2f} s of processors, {ratio:.1f}x) | {_mib(cost)} |"


def _of(core: Path, command: str, rounds: int) -> Cost:
    # of these only the sweep alone can be shared
    words = [*ARENASCOPE, *command.split(), *(("--jobs", "1") if command == ALONE else ()), str(core)]
    fine = (0, LOST) if command.startswith("leaks") else (0,)
    best = run(words, fine)
    for _ in range(rounds - 1):
        best = best.better(run(words, fine))
    return best._replace(memory=own_memory(words))


def _mib(cost: Cost) -> str:
    return f"{cost.memory >> 20} MiB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pieces", type=int, default=250, help="thousands")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print("", *table(options.pieces, options.rounds), sep="\n")


if __name__ == "__main__":
    main()
