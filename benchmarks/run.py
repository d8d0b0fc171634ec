"""What commands take inside debuggers and in the shell: every figure as a ratio to the bare debugger in the same run.

    make bench                         a heap of 1 GB with some 200,000 free chunks, live and as a core
    python3 benchmarks/run.py --megabytes 5000

Whole commands are timed from outside, in turns, and the median counts. "alone" is the command's share, taken inside
GDB: for so long a live process stands still on its account.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Iterator, Mapping

from subject import ARENASCOPE, PROGRAM, QUIET, ROOT, WITH_US, Big, big

COMMANDS = ("arenas", "arenas --quick", "bins", "trim", "threads", "info", "report --quick")
DOOR = ROOT / "gdb" / "arena.py"
TIMED = """
import json, time
import gdb
spent = {{}}
for name in {commands!r}:
    started = time.perf_counter()
    gdb.execute("heap " + name, to_string=True)
    spent[name] = time.perf_counter() - started
with open({path!r}, "w") as file:
    json.dump(spent, file)
"""


def seconds(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, env=WITH_US, **QUIET)
    return time.perf_counter() - started


class Bench:
    """One process, its core, and the commands that are timed on both."""

    def __init__(self, subject: Big, folder: Path) -> None:
        self.folder = folder
        self.pid, self.core = subject.pid, subject.core
        pid, core = str(subject.pid), str(subject.core)
        quiet = ["gdb", "-nx", "-q", "-batch", "-iex", "set debuginfod enabled off"]
        self.opens = {"live": [*quiet, "-p", pid], "core": [*quiet, str(PROGRAM), core]}
        lldb = ["lldb-19", "-x", "-b"]
        self.lldb_opens = {"live": [*lldb, "-p", pid], "core": [*lldb, "-c", core, str(PROGRAM)]}

    def own(self, kind: str) -> dict[str, float]:
        script, result = self.folder / "timed.py", self.folder / "timed.json"
        script.write_text(TIMED.format(commands=COMMANDS, path=str(result)))
        seconds([*self.opens[kind], "-ex", f"source {DOOR}", "-x", str(script)])
        spent: dict[str, float] = json.loads(result.read_text())
        return spent

    def whole(self, kind: str) -> dict[str, list[str]]:
        """What is timed from outside: the bare debugger, with one field of main_arena printed, and the doors."""
        subject = str(self.pid) if kind == "live" else str(self.core)
        shell = [*ARENASCOPE, "arenas", subject]
        found = {
            "bare GDB": [*self.opens[kind], "-ex", "print main_arena.system_mem"],
            "GDB, heap arenas": [*self.opens[kind], "-ex", f"source {DOOR}", "-ex", "heap arenas"],
            "shell, arenascope arenas": shell,
        }
        if shutil.which("lldb-19"):
            door = f"command script import {ROOT / 'lldb' / 'arena.py'}"
            found["bare LLDB 19"] = [*self.lldb_opens[kind], "-o", "target variable main_arena.system_mem"]
            found["LLDB 19, heap arenas"] = [*self.lldb_opens[kind], "-o", door, "-o", "heap arenas"]
        return found


KINDS = ("live", "core")


def measure(bench: Bench, rounds: int) -> dict[str, dict[str, tuple[float, float]]]:
    """By what was done and on which kind of image: median seconds, and their ratio to the bare debugger's."""
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for kind in KINDS:
        whole = bench.whole(kind)
        taken: dict[str, list[float]] = {name: [] for name in whole}
        spent: dict[str, list[float]] = {name: [] for name in COMMANDS}
        for _ in range(rounds):
            for name, command in whole.items():
                taken[name].append(seconds(command))
            for name, value in bench.own(kind).items():
                spent[name].append(value)
        bare = statistics.median(taken["bare GDB"])
        for name, times in (*taken.items(), *((f"in GDB, heap {name} alone", times) for name, times in spent.items())):
            median = statistics.median(times)
            found.setdefault(name, {})[kind] = median, median / bare
    return found


def table(measured: Mapping[str, Mapping[str, tuple[float, float]]]) -> Iterator[str]:
    yield "| seconds (ratio to bare GDB) | " + " | ".join(KINDS) + " |"
    yield "| --- | --- | --- |"
    for what, by_kind in measured.items():
        yield f"| {what} | " + " | ".join("{:.2f} ({:.1f}x)".format(*by_kind[kind]) for kind in KINDS) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as name:
        folder = Path(name)
        with big(folder, options.megabytes) as subject:
            notes = subject.notes
            measured = measure(Bench(subject, folder), options.rounds)
    print(
        f"{options.megabytes} MB in {notes['blocks_made']:,} blocks, {notes['blocks_freed']:,} of them freed; "
        f"{os.cpu_count()} processors, Python {sys.version.split()[0]}; medians of {options.rounds}"
    )
    print("", *table(measured), sep="\n")


if __name__ == "__main__":
    main()
