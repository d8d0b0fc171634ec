"""How long malloc_trim(0) takes, by the process's own clock and ours, and what `heap trim` says of it beforehand.

    make bench
    python3 benchmarks/trim.py --rounds 5

Two heaps: `hoard` gives back long ranges (each a freed job's blocks, merged), `big` single pages out of a million small
blocks. What counts is how much goes back and in how many madvise calls. The least of some rounds, each on a new
process.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Iterator, Mapping, NamedTuple, Sequence

from subject import ARENASCOPE, ROOT, WITH_US, running

sys.path.append(str(ROOT / "common"))
from arenascope.analysis.trim_prediction import trim_seconds


def heaps_of(megabytes: int) -> Mapping[str, Sequence[str]]:
    return {"hoard": ("16", str(max(2, megabytes * 15 // 100))), "big": (str(megabytes),)}


class Trimmed(NamedTuple):
    seconds: float
    said: float
    returned: int
    calls: int


def anonymous(pid: int) -> int:
    rows = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(row.split()[1]) * 1024 for row in rows if row.startswith("RssAnon"))


def trim(fixture: str, words: Sequence[str], folder: Path) -> Trimmed:
    with running(fixture, folder, *words) as process:
        looked = subprocess.run(
            [*ARENASCOPE, "trim", str(process.pid), "--json", "--ranges"],
            check=True,
            env=WITH_US,
            text=True,
            capture_output=True,
        )
        document = json.loads(looked.stdout)
        calls = sum(len(arena["madvise_ranges"]) for arena in document["arenas"])
        assert process.stdin is not None
        assert process.stdout is not None
        before, started = anonymous(process.pid), time.perf_counter()
        process.stdin.write("trim\n")
        process.stdin.flush()
        process.stdout.readline()
        seconds = time.perf_counter() - started
        returned = before - anonymous(process.pid)
        return Trimmed(seconds, trim_seconds(document["totals"]["resident_bytes"], calls), returned, calls)


def table(rounds: int, megabytes: int = 1000) -> Iterator[str]:
    yield "| heap | returned | madvise calls | seconds | heap trim said | ms for each GB |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for fixture, words in heaps_of(megabytes).items():
        with tempfile.TemporaryDirectory() as name:
            best = min(trim(fixture, words, Path(name)) for _ in range(rounds))
        yield (
            f"| {fixture} | {best.returned >> 20} MiB | {best.calls:,} | {best.seconds:.3f} | {best.said:.3f} "
            f"| {best.seconds * 1e12 / max(best.returned, 1):.0f} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print("", *table(options.rounds), sep="\n")


if __name__ == "__main__":
    main()
