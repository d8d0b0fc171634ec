"""What a sweep of all chunks costs, checked against the least that any tool could do: follow.c, on the same cores.

    make bench                                  two heaps, of 1 GB and 5 GB: the ratio must not grow with the heap
    python3 benchmarks/sweep.py --megabytes 1000 --rounds 5

The least of several rounds in turns, in seconds by the clock. The C program and the shell's door are timed as whole
processes, "alone" is a command's share inside the debugger. Memory is that of the largest process, with one: what it
has mapped of the core's file counts, too.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Iterable, Iterator, Mapping, NamedTuple, Optional, Sequence

from subject import ARENASCOPE, PROGRAM, QUIET, ROOT, WITH_US, Big, big

SUMMARY = "chunks --summary"
LEAST = "C, size headers followed"
SHARED = (SUMMARY, "check", "pins", "map", "types")
"""What several processes share in the shell."""
COMMANDS = (SUMMARY, "arenas", "bins", "trim")
IN_GDB = """
import json, time
import gdb
spent = {{}}
for name in {commands!r}:
    clock, processor = time.perf_counter(), time.process_time()
    gdb.execute("heap " + name, to_string=True)
    spent[name] = time.perf_counter() - clock, time.process_time() - processor
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
        clock, processor = time.perf_counter(), time.process_time()
        debugger.GetCommandInterpreter().HandleCommand("heap " + name, result)
        spent[name] = time.perf_counter() - clock, time.process_time() - processor
        assert result.Succeeded(), result.GetError()
    with open({path!r}, "w") as file:
        json.dump(spent, file)
"""
PLACES = """
import sys
from arenascope.glibc.sweep import first_chunk
from arenascope.session.session import Session
from arenascope.sources.core.core_image import CoreImage
from arenascope.sources.shell_target import ShellTarget
core = CoreImage(sys.argv[1])
session = Session(ShellTarget(core))
for header in session.headers:
    for heap in session.heaps[header.index]:
        segment = core.segment_at(heap.address)
        end = header.top if heap.address <= header.top < heap.end else heap.end
        print(segment.offset - segment.address & (1 << 64) - 1, first_chunk(session.layout, header, heap), end)
"""


class Cost(NamedTuple):
    seconds: float
    processor: float
    memory: int
    """The most of it in bytes; 0 where it is not the command's own."""

    def better(self, other: Cost) -> Cost:
        return Cost(
            min(self.seconds, other.seconds), min(self.processor, other.processor), max(self.memory, other.memory)
        )


def run(command: Sequence[str], fine: Sequence[int] = (0,)) -> Cost:
    """Of a command that must end with one of these."""
    started = time.perf_counter()
    process = subprocess.Popen(command, env=WITH_US, **QUIET)
    _, status, use = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in fine:
        raise SystemExit(f"{' '.join(command)[:200]} failed")
    return Cost(time.perf_counter() - started, use.ru_utime + use.ru_stime, 0)


def own_memory(command: Sequence[str]) -> int:
    """The most memory that it had for itself; 0 where the kernel does not say. getrusage() would tell of ours: what
    starts a program counts as that program's, too."""
    process = subprocess.Popen(command, env=WITH_US, **QUIET)
    most, ended = 0, threading.Event()

    def watch() -> None:
        nonlocal most
        while not ended.wait(0.05):
            try:
                lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
            except OSError:
                return
            most = max(most, *(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon")), 0)

    watcher = threading.Thread(target=watch)
    watcher.start()
    process.wait()
    ended.set()
    watcher.join()
    return most


class Subject:
    """A core with a heap of so many megabytes, and the ways to go through it."""

    def __init__(self, folder: Path, subject: Big, megabytes: int) -> None:
        self.folder, self.megabytes = folder, megabytes
        self.core, self.notes = subject.core, subject.notes
        self.follow = folder / "follow"
        subprocess.run(["cc", "-O2", "-o", str(self.follow), str(ROOT / "benchmarks" / "follow.c")], check=True)
        found = subprocess.run(
            [sys.executable, "-c", PLACES, str(self.core)], check=True, text=True, env=WITH_US, stdout=subprocess.PIPE
        )
        self.places = found.stdout.split()

    def least(self) -> Cost:
        return run([str(self.follow), str(self.core), *self.places])

    def shell(self, command: str, processes: int) -> Cost:
        return run([*ARENASCOPE, *command.split(), "--jobs", str(processes), str(self.core)])

    def memory(self, command: str) -> int:
        return own_memory([*ARENASCOPE, *command.split(), "--jobs", "1", str(self.core)])

    def gdb(self) -> dict[str, Cost]:
        script = self._script("in_gdb.py", IN_GDB)
        return self._own(
            [
                "gdb",
                "-nx",
                "-q",
                "-batch",
                "-iex",
                "set debuginfod enabled off",
                str(PROGRAM),
                str(self.core),
                "-ex",
                f"source {ROOT / 'gdb' / 'arena.py'}",
                "-x",
                script,
            ]
        )

    def lldb(self) -> dict[str, Cost]:
        script = self._script("in_lldb.py", IN_LLDB)
        return self._own(
            [
                "lldb-19",
                "-x",
                "-b",
                "-c",
                str(self.core),
                str(PROGRAM),
                "-o",
                f"command script import {ROOT / 'lldb' / 'arena.py'}",
                "-o",
                f"command script import {script}",
            ]
        )

    def _script(self, name: str, text: str) -> str:
        path = self.folder / name
        path.write_text(text.format(commands=COMMANDS, path=str(self.folder / "spent.json")))
        return str(path)

    def _own(self, command: Sequence[str]) -> dict[str, Cost]:
        run(command)
        spent = json.loads((self.folder / "spent.json").read_text())
        return {name: Cost(*times, 0) for name, times in spent.items()}


def measure(subject: Subject, rounds: int) -> Mapping[str, Cost]:
    best: dict[str, Cost] = {}

    def note(what: str, cost: Cost) -> None:
        best[what] = best[what].better(cost) if what in best else cost

    for _ in range(rounds):
        note(LEAST, subject.least())
        for command in SHARED:
            for processes in (1, 2):
                note(f"shell, arenascope {command} --jobs {processes}", subject.shell(command, processes))
        doors = {"GDB": subject.gdb, **({"LLDB 19": subject.lldb} if shutil.which("lldb-19") else {})}
        for door, spend in doors.items():
            for name, cost in spend().items():
                note(f"{door}, own: heap {name}", cost)
    return best


def table(subjects: Iterable[Subject], rounds: int) -> Iterator[str]:
    """Of each in its turn; its core is gone afterwards."""
    yield "| core | command | --jobs 1 | --jobs 2 | gain | memory | in GDB, alone | in LLDB 19, alone |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for subject in subjects:
        best = measure(subject, rounds)
        memory = {command: subject.memory(command) for command in SHARED}
        subject.core.unlink()
        least = best[LEAST].seconds
        yield f"| {subject.megabytes:,} MB, {subject.notes['blocks_made']:,} blocks | {LEAST} | {least:.2f} | | | | | |"
        for command in dict.fromkeys((*SHARED, *COMMANDS)):
            one, two = (best.get(f"shell, arenascope {command} --jobs {processes}") for processes in (1, 2))
            own = (best.get(f"{door}, own: heap {command}") for door in ("GDB", "LLDB 19"))
            cells = [_cell(cost, least) for cost in (one, two)]
            cells += [f"{one.seconds / two.seconds:.2f}", f"{memory[command] >> 20} MiB"] if one and two else ["", ""]
            cells += [_cell(cost, least) for cost in own]
            yield f"| | {command} | " + " | ".join(cells) + " |"


def _cell(cost: Optional[Cost], least: float) -> str:
    return f"{cost.seconds:.2f} ({cost.seconds / least:.1f}x)" if cost else ""


def _made(folder: Path, megabytes: int) -> Subject:
    with big(folder, megabytes) as subject:
        return Subject(folder, subject, megabytes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, action="append", help="may be given again (1000 and 5000)")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as name:
        subjects = (_made(Path(name), each) for each in options.megabytes or [1000, 5000])
        print("", *table(subjects, options.rounds), sep="\n")


if __name__ == "__main__":
    main()
