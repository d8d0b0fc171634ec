"""Subjects that live for real: compiled here, run, dumped by the kernel and by gcore."""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Iterator

import pytest
from lifetimes import dies_with_us
from subjects import await_parked

HERE = Path(__file__).parent
ENVIRONMENT = {"LANG": "C", "GLIBC_TUNABLES": "glibc.malloc.arena_max=3:glibc.malloc.tcache_count=5", "EMPTY": ""}
ARGUMENTS = ["--not=environment", "x=y"]
Build = Callable[..., Path]


@dataclass
class Subject:
    """A running program and what it said of itself: "name hexnumber" lines up to "ready"."""

    process: subprocess.Popen[str]
    folder: Path
    facts: dict[str, int] = field(default_factory=dict)

    @property
    def pid(self) -> int:
        return self.process.pid

    def smaps(self, text: str | None = None) -> dict[int, dict[str, int]]:
        """Start of mapping: its counters, in bytes. By a parser that is not the one under test."""
        text = text or Path(f"/proc/{self.pid}/smaps").read_text()
        entries = re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", text, flags=re.MULTILINE)[1:]
        return {
            int(entry.split("-")[0], 16): {
                key: int(size) * 1024 for key, size in re.findall(r"^(\w+): +(\d+) kB", entry, re.MULTILINE)
            }
            for entry in entries
        }

    def status(self, key: str) -> str:
        rows = Path(f"/proc/{self.pid}/status").read_text()
        return re.search(rf"^{key}:\s*(.*)$", rows, re.MULTILINE)[1]

    def memory(self, address: int, size: int) -> bytes:
        with open(f"/proc/{self.pid}/mem", "rb", buffering=0) as file:
            file.seek(address)
            return file.read(size)

    def kernel_core(self) -> Path:
        pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()
        if pattern != "core":
            pytest.skip(f"core_pattern is {pattern!r}, not 'core'")
        if resource.getrlimit(resource.RLIMIT_CORE)[1] != resource.RLIM_INFINITY:
            pytest.skip("the hard limit on core files is not unlimited")
        os.kill(self.pid, signal.SIGABRT)
        self.process.wait(30)
        found = [path for path in (self.folder / "core", self.folder / f"core.{self.pid}") if path.exists()]
        assert found, "the kernel wrote no core"
        return found[0]

    def gdb_core(self) -> Path:
        if not shutil.which("gcore"):
            pytest.skip("gcore is not installed")
        subprocess.run(["gcore", "-o", str(self.folder / "gdb"), str(self.pid)], check=True, capture_output=True)
        return self.folder / f"gdb.{self.pid}"

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """build(source, *flags): the program; `source` is a path or C text."""
    if not shutil.which("gcc"):
        pytest.skip("gcc is not installed")

    def compile(source: str | Path, *flags: str, name: str = "program") -> Path:
        folder = tmp_path_factory.mktemp("build")
        if isinstance(source, str):
            (folder / "source.c").write_text(source)
            source = folder / "source.c"
        done = subprocess.run(
            ["gcc", "-O1", "-g", "-pthread", str(source), "-o", str(folder / name), *flags],
            capture_output=True,
            text=True,
        )
        if done.returncode:
            pytest.skip(f"gcc {' '.join(flags)} does not work here: {done.stderr.strip()[:200]}")
        return folder / name

    return compile


@pytest.fixture(scope="session")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Subject]]:
    """start(program): runs it until it has printed "ready"."""
    subjects = []

    def run(program: Path, *arguments: str, environment: dict[str, str] | None = None) -> Subject:
        folder = tmp_path_factory.mktemp("run")
        hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
        with_us = dies_with_us()

        def prepare() -> None:
            with_us()
            resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))

        process = subprocess.Popen(
            [str(program), *arguments],
            cwd=folder,
            env=ENVIRONMENT if environment is None else environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=prepare,
        )
        subject = Subject(process, folder)
        subjects.append(subject)
        for line in process.stdout:
            name, value = line.split()
            subject.facts[name] = int(value, 16)
            if name == "ready":
                break
        assert "ready" in subject.facts, f"{program} ended early"
        await_parked(subject.pid, 2)
        return subject

    yield run
    for subject in subjects:
        subject.end()


@pytest.fixture(scope="session")
def program(build: Build) -> Path:
    return build(HERE / "subject.c", name="subject")


@pytest.fixture(scope="session")
def subject(program: Path, start: Callable[..., Subject]) -> Subject:
    """Lives until the session ends; tests must not change it."""
    return start(program, *ARGUMENTS)


@pytest.fixture
def without_anonymous(program: Path, start: Callable[..., Subject], build: Build) -> Subject:
    """Its kernel core will hold no anonymous memory: coredump_filter is 0x10."""
    wrapper = build(r"""
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv) {
    FILE *f = fopen("/proc/self/coredump_filter", "w"); fprintf(f, "0x10"); fclose(f);
    execv(argv[1], argv + 1); return 1;
}""")
    return start(wrapper, str(program))


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
    smaps = subject.smaps()
    maps = []
    for line in Path(f"/proc/{subject.pid}/maps").read_text().splitlines():
        words = line.split(None, 5)
        low, high = (int(word, 16) for word in words[0].split("-"))
        maps.append((low, high, words[1], words[5] if len(words) > 5 else ""))
    auxv = Path(f"/proc/{subject.pid}/auxv").read_bytes()
    block = subject.memory(subject.facts["block"] - 16, 100016)
    gdb = subject.gdb_core()
    return Dumped(subject.kernel_core(), gdb, subject.facts, subject.pid, smaps, maps, auxv, block)
