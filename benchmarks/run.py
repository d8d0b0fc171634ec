"""What README says about speed, measured again: every figure as a ratio to the bare debugger in the same run.

    make bench                         a heap of 1 GB with some 200,000 free chunks, live and as a core
    python3 benchmarks/run.py --megabytes 5000

Whole commands are timed from outside, in turns, and the median counts. "own" is the command's share, taken inside the
debugger.
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

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = ("arenas", "bins", "trim", "threads", "info", "report")
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
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - started


class Bench:
    """One process, its core, and the commands that are timed on both."""

    def __init__(self, pid: int, program: Path, folder: Path) -> None:
        self.pid = pid
        self.folder = folder
        subprocess.run(["gcore", "-o", str(folder / "core"), str(pid)], check=True, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        core = folder / f"core.{pid}"
        quiet = ["gdb", "-nx", "-q", "-batch", "-iex", "set debuginfod enabled off"]
        self.opens = {"live": [*quiet, "-p", str(pid)], "core": [*quiet, str(program), str(core)]}
        lldb = ["lldb-19", "-x", "-b"]
        self.lldb_opens = {"live": [*lldb, "-p", str(pid)], "core": [*lldb, "-c", str(core), str(program)]}
        self.core = core

    def own(self, kind: str) -> dict[str, float]:
        script, result = self.folder / "timed.py", self.folder / "timed.json"
        script.write_text(TIMED.format(commands=COMMANDS, path=str(result)))
        seconds([*self.opens[kind], "-ex", f"source {DOOR}", "-x", str(script)])
        spent: dict[str, float] = json.loads(result.read_text())
        return spent

    def whole(self, kind: str) -> dict[str, list[str]]:
        """What is timed from outside: the bare debugger, with one field of main_arena printed, and the doors."""
        subject = str(self.pid) if kind == "live" else str(self.core)
        shell = [sys.executable, "-m", "arenascope", "arenas", subject]
        found = {
            "bare GDB": [*self.opens[kind], "-ex", "print main_arena.system_mem"],
            "GDB, heap arenas": [*self.opens[kind], "-ex", f"source {DOOR}", "-ex", "heap arenas"],
            "shell, arenascope arenas": ["env", f"PYTHONPATH={ROOT / 'common'}", *shell],
        }
        if shutil.which("lldb-19"):
            door = f"command script import {ROOT / 'lldb' / 'arena.py'}"
            found["bare LLDB 19"] = [*self.lldb_opens[kind], "-o", "target variable main_arena.system_mem"]
            found["LLDB 19, heap arenas"] = [*self.lldb_opens[kind], "-o", door, "-o", "heap arenas"]
        return found


def measure(bench: Bench, rounds: int) -> list[tuple[str, str, float, float]]:
    """(image, what, median seconds, ratio to the bare debugger)."""
    rows = []
    for kind in ("live", "core"):
        whole = bench.whole(kind)
        taken: dict[str, list[float]] = {name: [] for name in whole}
        spent: dict[str, list[float]] = {name: [] for name in COMMANDS}
        for _ in range(rounds):
            for name, command in whole.items():
                taken[name].append(seconds(command))
            for name, value in bench.own(kind).items():
                spent[name].append(value)
        bare = statistics.median(taken["bare GDB"])
        named = [*taken.items(), *((f"own: heap {name}", times) for name, times in spent.items())]
        rows += [(kind, name, statistics.median(times), statistics.median(times) / bare) for name, times in named]
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    program = ROOT / "fixtures" / "build" / "big"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        process = subprocess.Popen([str(program), str(folder), str(options.megabytes)], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True)  # fmt: skip
        try:
            assert process.stdout is not None
            if not process.stdout.readline().startswith("ready"):
                raise SystemExit("the fixture did not get ready")
            notes = json.loads((folder / "truth.json").read_text())["notes"]
            rows = measure(Bench(process.pid, program, folder), options.rounds)
        finally:
            process.kill()
            process.wait()
    print(f"{options.megabytes} MB in {notes['blocks_made']:,} blocks, {notes['blocks_freed']:,} of them freed; "
          f"{os.cpu_count()} processors, Python {sys.version.split()[0]}; medians of {options.rounds}")  # fmt: skip
    print("\n| image | what | seconds | ratio to bare GDB |\n| --- | --- | --- | --- |")
    for kind, what, median, ratio in rows:
        print(f"| {kind} | {what} | {median:.2f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
