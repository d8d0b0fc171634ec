"""Every command on a large process and on its core, beside C programs that only read what must be read.

    python3 benchmarks/looks.py --megabytes 5000

What must be read of lists are three words of each free chunk (read_places.c); what must be read for a copy is all of
it (copy_pages.c), into room that is there beforehand. Memory is a command's own, beside the copy of a live process.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from array import array
from pathlib import Path
from typing import Iterator, NamedTuple, Sequence

from cost import LIMIT, Cost, least
from subject import ARENASCOPE, ROOT, WITH_US, running

LISTS = ("arenas", "bins", "trim", "report --quick")
SWEEPS = ("chunks --summary", "check", "map", "pins")
GRAPHS = ("types", "waste", "leaks", "owners")
COMMANDS = (*LISTS, *SWEEPS, *GRAPHS)


class Goal(NamedTuple):
    """Seconds for a process of 5 GB; `times`: what it may be held for, as a multiple of C's copy."""

    whole: float
    held: float = 0.0
    times: float = 1.2


WASTE = 1.5
"""So many times what types takes waste may take."""
GOALS = {
    **dict.fromkeys(LISTS, Goal(1.2, held=0.5)),
    **dict.fromkeys(SWEEPS, Goal(2.5)),
    **dict.fromkeys(("leaks", "owners"), Goal(5.0)),
}


class LeastHold:
    """What a C program needs to read the same of a process that stands still by itself."""

    def __init__(self, pid: int, folder: Path) -> None:
        self._pid, self._folder = str(pid), folder
        for name in ("read_places", "copy_pages"):
            source = str(ROOT / "benchmarks" / f"{name}.c")
            subprocess.run(["cc", "-O2", "-pthread", "-o", str(folder / name), source], check=True)
        chunks = _json("chunks", str(pid), "--free", "--limit", "0")["chunks"]
        self.free = len(chunks)
        (folder / "places").write_bytes(array("Q", [int(each["address"], 16) + 8 for each in chunks]).tobytes())
        (folder / "spans").write_bytes(array("Q", [word for span in _writable(pid) for word in span]).tobytes())

    def lists(self) -> float:
        return self._run("read_places", "places")[0]

    def copy(self) -> float:
        # at first a virtual machine may have to get its memory from the host, which takes ten times as long
        return min(self._run("copy_pages", "spans")[1] for _ in range(2))

    def _run(self, program: str, file: str) -> list[float]:
        words = [str(self._folder / program), self._pid, str(self._folder / file)]
        return [float(word) for word in subprocess.check_output(words).split()]


def _json(*words: str) -> dict:  # type: ignore[type-arg]
    command = [*ARENASCOPE, *words, *LIMIT, "--json"]
    return json.loads(subprocess.check_output(command, env=WITH_US, stderr=subprocess.DEVNULL))  # type: ignore[no-any-return]


def _writable(pid: int) -> Iterator[tuple[int, int]]:
    """(address, bytes) of what the process can write to, of its own."""
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        ends, rights = line.split()[:2]
        if rights == "rw-p":
            start, end = (int(each, 16) for each in ends.split("-"))
            yield start, end - start


def looks(pid: int, folder: Path, rounds: int, commands: Sequence[str] = COMMANDS) -> Iterator[str]:
    """A table of these."""
    core, limit = folder / "core", LeastHold(pid, folder)
    summary = _json("chunks", str(pid), "--summary")["summary"]
    blocks = sum(each["chunks"] for each in summary.values() if isinstance(each, dict))
    size = sum(span for _, span in _writable(pid))
    save = [*ARENASCOPE, "save", str(pid), str(core), *LIMIT]
    subprocess.run(save, check=True, env=WITH_US, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    yield (
        f"| {size >> 20:,} MiB, {blocks:,} blocks, {limit.free:,} free | held | goal | reading alone, in C "
        "| whole command | goal | on its core | bytes a block |"
    )
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    of_types = 0.0
    for command in commands:
        lists = command in LISTS
        in_c = min(limit.lists() if lists else limit.copy() for _ in range(rounds))
        live, saved = least(str(pid), command, rounds), least(str(core), command, rounds)
        goal = GOALS.get(command)
        held = f"{goal.held or goal.times * in_c:.2f} s" if goal else ""
        whole = f"{goal.whole} s" if goal else ""
        if command == "types":
            of_types = live.seconds
        elif command == "waste" and of_types:
            whole = f"{WASTE * of_types:.1f} s"
        yield (
            f"| {command} | {live.held or 0:.2f} s | {held} | {in_c:.2f} s | {live.seconds:.1f} s "
            f"| {whole} | {saved.seconds:.1f} s | {_beside(live, size, lists, blocks)} |"
        )
    core.unlink()


def _beside(live: Cost, size: int, lists: bool, blocks: int) -> str:
    return f"{max(0, live.memory - (0 if lists else size)) / blocks:.0f}"


def table(megabytes: int, rounds: int) -> Iterator[str]:
    place = os.environ.get("TMPDIR", "/var/tmp")
    with tempfile.TemporaryDirectory(dir=place) as name, running("big", Path(name), str(megabytes)) as process:
        yield from looks(process.pid, Path(name), rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    for line in table(options.megabytes, options.rounds):
        print(line, flush=True)


if __name__ == "__main__":
    main()
