"""What the shell takes before it looks at anything, against the same Python without us: processor time, which a busy
machine disturbs least.

    python3 benchmarks/start.py --rounds 20
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Iterator

from subject import ARENASCOPE, QUIET, WITH_US, big

SMALL = 2
"""Megabytes of a heap that takes no time to speak of."""
GOAL = 0.040


def spent() -> float:
    """By all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def seconds(command: list[str]) -> float:
    before = spent()
    subprocess.run(command, check=True, env=WITH_US, **QUIET)
    return spent() - before


def table(rounds: int) -> Iterator[str]:
    """The least of some rounds in turns."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as name:
        with big(Path(name), SMALL) as subject:
            core = str(subject.core)
        looks = ("--version", "arenas --help", "help", f"arenas {core}")
        bare = [sys.executable, "-E", "-c", "pass"]
        commands = [bare, *([*ARENASCOPE[:1], "-E", *ARENASCOPE[1:], *look.split()] for look in looks)]
        times = [[seconds(command) for command in commands] for _ in range(rounds)]
    alone, *least = (min(column) for column in zip(*times))
    yield f"| start | processor ms over plain Python's {alone * 1000:.0f} | times plain Python | goal |"
    yield "| --- | --- | --- | --- |"
    for look, took in zip(looks, least):
        goal = f"{GOAL * 1000:.0f} ms" if look == looks[0] else ""
        yield f"| `{look.replace(core, 'CORE')}` | {(took - alone) * 1000:.0f} | {took / alone:.1f} | {goal} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    for line in table(parser.parse_args().rounds):
        print(line)


if __name__ == "__main__":
    main()
