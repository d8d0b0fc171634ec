"""Programs with one fault each, which say themselves what they waste: fixtures/waste."""

from __future__ import annotations

import json
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, NamedTuple, Optional

from looks import ROOT, Live, give_up

PROGRAMS = ROOT / "fixtures" / "build" / "waste"
LEVELS = ("O1", "O2")


class Fault(NamedTuple):
    """What a program says that it wastes."""

    reason: str
    number: int
    unused: int
    path: str
    """The end of it: which variable of main a path begins with depends on the compiler."""


class Service(NamedTuple):
    """A service of fixtures/faults, which says what its fault costs."""

    image: Live
    reason: Optional[str]
    bytes: int
    type: Optional[str]


SERVICES = ROOT / "fixtures" / "build" / "faults"


@contextmanager
def serving(name: str, *words: str) -> Iterator[Service]:
    """`words`: "mended" runs it without its fault."""
    program = SERVICES / name
    if not program.exists():
        give_up(f"{program.relative_to(ROOT)} is not built: make -C fixtures faults")
    with subprocess.Popen([program, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            said = json.loads(_line(process))
            yield Service(Live(process.pid, program), said["reason"], said["bytes"], said["type"])
        finally:
            process.kill()


class Faulty(NamedTuple):
    """A program that waits."""

    image: Live
    faults: list[Fault]


@contextmanager
def waiting(name: str) -> Iterator[Faulty]:
    program = PROGRAMS / name
    if not program.exists():
        give_up(f"{program.relative_to(ROOT)} is not built: make fixtures")
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            told = [*iter(lambda: _line(process), "ready")]
            yield Faulty(Live(process.pid, program), [_fault(each) for each in told])
        finally:
            process.kill()


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, "it ended"
    return line.strip()


def _fault(line: str) -> Fault:
    reason, number, unused, path = line.split(" ", 3)
    return Fault(reason, int(number), int(unused), path)


def names(folder: Path = ROOT / "fixtures" / "waste") -> list[str]:
    """All of them, by name."""
    return sorted(each.stem for each in folder.iterdir() if each.suffix in (".c", ".cc", ".rs"))
