"""Subjects that live for real: compiled here, run, dumped by the kernel and by gcore."""

from __future__ import annotations

import re
import subprocess
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, Sequence

import pytest
import subjects
from looks import needs
from waiting import mappings

HERE = Path(__file__).parent
ENVIRONMENT = {"LANG": "C", "GLIBC_TUNABLES": "glibc.malloc.arena_max=3:glibc.malloc.tcache_count=5", "EMPTY": ""}
ARGUMENTS = ["--not=environment", "x=y"]
Build = Callable[..., Path]


class Subject(subjects.Subject):
    """A running program and what it said of itself: "name hexnumber" lines up to "ready"."""

    def __init__(self, program: Path, *arguments: str, environment: Mapping[str, str], **how: Any) -> None:
        super().__init__(str(program), *arguments, **how)
        self.exactly = [f"{name}={value}" for name, value in environment.items()]
        self.facts: dict[str, int] = {}

    def command(self) -> Sequence[object]:
        return ["env", "-i", *self.exactly, self.program, *self.arguments]

    def await_start(self) -> None:
        while "ready" not in self.facts:
            name, value = self.line().split()
            self.facts[name] = int(value, 16)
        subjects.await_parked(self.pid, 2)

    def status(self, key: str) -> str:
        rows = Path(f"/proc/{self.pid}/status").read_text()
        return re.search(rf"^{key}:\s*(.*)$", rows, re.MULTILINE)[1]

    def memory(self, address: int, size: int) -> bytes:
        with open(f"/proc/{self.pid}/mem", "rb", buffering=0) as file:
            file.seek(address)
            return file.read(size)


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """build(source, *flags): the program of this C text."""
    needs("gcc")

    def compile(text: str, *flags: str, name: str = "program") -> Path:
        folder = tmp_path_factory.mktemp("build")
        (folder / "source.c").write_text(text)
        words = ["gcc", "-O1", "-g", "-pthread", folder / "source.c", "-o", folder / name, *flags]
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"gcc {' '.join(flags)} does not work here: {done.stderr.strip()[:200]}")
        return folder / name

    return compile


@pytest.fixture(scope="session")
def start() -> Iterator[Callable[..., Subject]]:
    """start(program): runs it until it has printed "ready", in this environment and no other."""
    with ExitStack() as stack:

        def run(program: Path, *arguments: str, environment: Mapping[str, str] = ENVIRONMENT, **how: Any) -> Subject:
            return stack.enter_context(Subject(program, *arguments, environment=environment, **how))

        yield run


@pytest.fixture(scope="session")
def program(build: Build) -> Path:
    return build((HERE / "subject.c").read_text(), name="subject")


@pytest.fixture(scope="session")
def subject(program: Path, start: Callable[..., Subject]) -> Subject:
    """Lives until the session ends; tests must not change it."""
    return start(program, *ARGUMENTS)


@pytest.fixture
def without_anonymous(program: Path, start: Callable[..., Subject]) -> Subject:
    """Its kernel core will hold no anonymous memory."""
    return start(program, coredump_filter=0x10)


@dataclass
class Dumped:
    """One process, both kinds of core of it, and what /proc said before."""

    kernel: Path
    gdb: Path
    facts: dict[str, int]
    pid: int
    smaps: dict[int, dict[str, int]]
    maps: list[tuple[int, int, str, str]]
    auxv: bytes
    block: bytes


@pytest.fixture(scope="session")
def dumped(program: Path, start: Callable[..., Subject]) -> Dumped:
    subject = start(program, *ARGUMENTS)
    smaps = subject.counters()
    maps = [(each.start, each.end, each.flags, each.path) for each in mappings(subject.pid)]
    auxv = Path(f"/proc/{subject.pid}/auxv").read_bytes()
    block = subject.memory(subject.facts["block"] - 16, 100016)
    gdb = subject.gcore()
    return Dumped(subject.kernel_core(), gdb, subject.facts, subject.pid, smaps, maps, auxv, block)
