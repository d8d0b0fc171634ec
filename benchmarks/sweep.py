"""What a sweep of all chunks costs, held against the least that any tool could do: follow.c, on the same cores.

    make bench                                  two heaps, of 1 GB and 5 GB: the ratio must not grow with the heap
    python3 benchmarks/sweep.py --megabytes 1000 --rounds 5

Processor time, the least of several rounds in turns: what else the machine does counts little there. The C program and
the shell's door are timed as whole processes, "own" is a command's share inside the debugger.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Iterator, Sequence

ROOT = Path(__file__).resolve().parents[1]
HERE = Path(__file__).resolve().parent
WITH_US = {**os.environ, "PYTHONPATH": str(ROOT / "common")}
SUMMARY = "chunks --summary"
COMMANDS = (SUMMARY, "arenas", "bins", "trim")
IN_GDB = """
import json, time
import gdb
spent = {{}}
for name in {commands!r}:
    started = time.process_time()
    gdb.execute("heap " + name, to_string=True)
    spent[name] = time.process_time() - started
with open({path!r}, "w") as file:
    json.dump(spent, file)
"""
IN_LLDB = """
import json, time
import lldb
def __lldb_init_module(debugger, names):
    spent = {{}}
    for name in {commands!r}:
        result = lldb.SBCommandReturnObject()
        started = time.process_time()
        debugger.GetCommandInterpreter().HandleCommand("heap " + name, result)
        spent[name] = time.process_time() - started
        assert result.Succeeded(), result.GetError()
    with open({path!r}, "w") as file:
        json.dump(spent, file)
"""
PLACES = """
import sys
from arenascope.glibc.sweep import first_chunk
from arenascope.session import Session
from arenascope.sources.shell_target import CoreTarget
target = CoreTarget(sys.argv[1])
session = Session(target)
for header in session.headers:
    for heap in session.heaps[header.index]:
        segment = target.core.segment_at(heap.address)
        end = header.top if heap.address <= header.top < heap.end else heap.end
        print(segment.offset - segment.address & (1 << 64) - 1, first_chunk(session.layout, header, heap), end)
"""


def run(command: Sequence[str]) -> tuple[float, int]:
    """(processor seconds, most memory in bytes) of a command that must succeed."""
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet, env=WITH_US)
    _, status, use = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)[:200]} failed")
    return use.ru_utime + use.ru_stime, use.ru_maxrss * 1024


class Subject:
    """A core with a heap of so many megabytes, and the ways to go through it."""

    def __init__(self, folder: Path, megabytes: int) -> None:
        self.folder = folder
        self.program = ROOT / "fixtures" / "build" / "big"
        process = subprocess.Popen([str(self.program), str(folder), str(megabytes)], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True)  # fmt: skip
        try:
            assert process.stdout is not None
            if not process.stdout.readline().startswith("ready"):
                raise SystemExit("the fixture did not get ready")
            self.notes = json.loads((folder / "truth.json").read_text())["notes"]
            subprocess.run(["gcore", "-o", str(folder / "core"), str(process.pid)], check=True,
                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        finally:
            process.kill()
            process.wait()
        self.core = folder / f"core.{process.pid}"
        self.follow = folder / "follow"
        subprocess.run(["cc", "-O2", "-o", str(self.follow), str(HERE / "follow.c")], check=True)
        found = subprocess.run([sys.executable, "-c", PLACES, str(self.core)], check=True, text=True, env=WITH_US,
                               stdout=subprocess.PIPE)  # fmt: skip
        self.places = found.stdout.split()

    def least(self) -> tuple[float, int]:
        return run([str(self.follow), str(self.core), *self.places])

    def shell(self) -> tuple[float, int]:
        return run([sys.executable, "-m", "arenascope", *SUMMARY.split(), str(self.core)])

    def gdb(self) -> tuple[dict[str, float], int]:
        script = self._script("in_gdb.py", IN_GDB)
        return self._own(["gdb", "-nx", "-q", "-batch", "-iex", "set debuginfod enabled off", str(self.program),
                          str(self.core), "-ex", f"source {ROOT / 'gdb' / 'arena.py'}", "-x", script])  # fmt: skip

    def lldb(self) -> tuple[dict[str, float], int]:
        script = self._script("in_lldb.py", IN_LLDB)
        return self._own(["lldb-19", "-x", "-b", "-c", str(self.core), str(self.program), "-o",
                          f"command script import {ROOT / 'lldb' / 'arena.py'}", "-o",
                          f"command script import {script}"])  # fmt: skip

    def _script(self, name: str, text: str) -> str:
        path = self.folder / name
        path.write_text(text.format(commands=COMMANDS, path=str(self.folder / "spent.json")))
        return str(path)

    def _own(self, command: Sequence[str]) -> tuple[dict[str, float], int]:
        _, memory = run(command)
        return json.loads((self.folder / "spent.json").read_text()), memory


Row = tuple[str, float, int]


def measure(subject: Subject, rounds: int) -> Iterator[Row]:
    """(what, least processor seconds, most memory: 0 where it is not the command's own)."""
    best: dict[str, tuple[float, int]] = {}

    def note(what: str, seconds: float, memory: int) -> None:
        before = best.get(what, (seconds, memory))
        best[what] = min(before[0], seconds), max(before[1], memory)

    for _ in range(rounds):
        note("C: follow size headers", *subject.least())
        note(f"shell, arenascope {SUMMARY}", *subject.shell())
        doors = {"GDB": subject.gdb, **({"LLDB 19": subject.lldb} if shutil.which("lldb-19") else {})}
        for door, spend in doors.items():
            spent, _ = spend()
            for name, seconds in spent.items():
                note(f"{door}, own: heap {name}", seconds, 0)
    for what, (seconds, memory) in best.items():
        yield what, seconds, memory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, action="append", help="may be given again (1000 and 5000)")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print("\n| heap | blocks | what | processor seconds | ratio to C | memory |\n| --- | --- | --- | --- | --- | --- |")
    for megabytes in options.megabytes or [1000, 5000]:
        with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as name:
            subject = Subject(Path(name), megabytes)
            rows = list(measure(subject, options.rounds))
        for what, seconds, memory in rows:
            ratio = seconds / rows[0][1]
            heap = f"{megabytes} MB | {subject.notes['blocks_made']:,}"
            print(f"| {heap} | {what} | {seconds:.2f} | {ratio:.1f} | {f'{memory >> 20} MiB' if memory else ''} |")


if __name__ == "__main__":
    main()
