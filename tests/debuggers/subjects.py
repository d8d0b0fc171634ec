"""Subjects: fixture programs that run for real, parked, with what they said about their own heap."""

from __future__ import annotations

import json
import os
import re
import resource
import select
import shutil
import signal
import subprocess
import tempfile
from array import array
from bisect import bisect_left
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Iterable, Mapping, Optional, Sequence

import pytest
from guards import refuse_guard_regions
from lifetimes import dies_with_us
from looks import give_up, needs
from platforms import HOST, Platform
from waiting import await_that, mappings, state

SECONDS = 300
"""In which one says what it has to say. On a busy machine much takes a while."""
DUMP_SECONDS = 120
PAGE = os.sysconf("SC_PAGE_SIZE")


def fixture_program(name: str, platform: Platform = HOST) -> Path:
    if platform.missing:
        give_up(platform.missing)
    program = platform.programs / name
    if not program.exists():
        pytest.skip(f"fixtures/build/{name} is not built: make fixtures")
    return program


def await_parked(pid: int, seconds: float = 60) -> None:
    """Until its main thread sleeps: having said something it is on its way to wait for what it is told next, and uses
    another page of its stack for that. One that never sleeps is let be."""
    with suppress(AssertionError):
        await_that(lambda: state(pid) not in ("R", "D"), seconds)


LEFT_OUT = ("MALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD", "PYTHON", "NODE_", "JAVA_", "QEMU_")
"""As variables begin that change malloc, or a runtime."""


def may_look_into_shared_memory() -> bool:
    """CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN."""
    try:
        return next(Path("/proc/self/map_files").iterdir()).stat().st_size >= 0
    except OSError:
        return False


class Started:
    """`with Started(program) as process`: a program that has printed a line and waits, until it is killed. `how` is
    Popen's."""

    def __init__(self, *words: object, **how: Any) -> None:
        self.start(words, **how)
        self.said = self.hear()
        """Its first line."""

    def start(self, words: Sequence[object], **how: Any) -> None:
        # unbuffered, so that select() sees all that was not read
        how = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "preexec_fn": dies_with_us(), **how}
        self.process = subprocess.Popen([*map(str, words)], bufsize=0, **how)
        self.pid = self.process.pid

    def start_in_folder(self, words: Sequence[object], env: Mapping[str, str], **how: Any) -> None:
        """In its own folder, and in this environment, but for what changes malloc or a runtime."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(LEFT_OUT)}
        with (self.folder / "stderr.txt").open("wb") as complaints:
            how = {"cwd": self.folder, "env": {**inherited, **env}, "stderr": complaints, **how}
            self.start(words, start_new_session=True, **how)

    def complaints(self) -> str:
        return (self.folder / "stderr.txt").read_text(errors="replace")[-2000:]

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def line(self, seconds: float = SECONDS) -> str:
        """The next one that it says; "" once it has ended."""
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            raise TimeoutError(f"{self.process.args} said nothing for {seconds} seconds")
        return self.process.stdout.readline().decode().rstrip("\n")

    def hear(self, seconds: float = SECONDS) -> str:
        """Its next line, once it sleeps after that."""
        line = self.line(seconds)
        await_parked(self.pid)
        return line

    def send(self, line: str, seconds: float = SECONDS) -> str:
        """What it answers to a line."""
        self.process.stdin.write(line.encode() + b"\n")
        return self.hear(seconds)

    def end(self) -> None:
        with self.process:
            self.process.kill()


def compiled(source: str, folder: Path, *flags: str, compiler: str = "gcc") -> Path:
    """The program of this text: C, or C++ with g++."""
    needs(compiler)
    program = folder / "program"
    language = "c" if compiler == "gcc" else "c++"
    subprocess.run([compiler, "-x", language, "-", "-o", program, *flags], input=source, text=True, check=True)
    return program


class Present:
    """Which pages a process has in memory, by /proc/PID/pagemap; to be taken before anybody reads them: where nothing
    was written yet, reading maps the page of zeros, which counts as present there."""

    def __init__(self, pid: int, mappings: Iterable[tuple[int, int]]) -> None:
        self.pages = array("Q")
        with open(f"/proc/{pid}/pagemap", "rb") as file:
            for start, end in sorted(mappings):
                file.seek(start // PAGE * 8)
                entries = array("Q", file.read((end - start) // PAGE * 8))
                self.pages.extend(page for page, entry in enumerate(entries, start // PAGE) if entry >> 63)

    def within(self, start: int, end: int) -> int:
        """Bytes."""
        return PAGE * (bisect_left(self.pages, end // PAGE) - bisect_left(self.pages, start // PAGE))


class Subject(Started):
    """`with Subject("pinned", "thread") as subject`: runs that fixture until it is ready; ends it at the end."""

    def __init__(
        self,
        fixture: str,
        *arguments: str,
        env: Optional[Mapping[str, str]] = None,
        coredump_filter: Optional[int] = None,
        platform: Platform = HOST,
        guard_regions: bool = True,
    ) -> None:
        """Without `guard_regions` GDB can dump the threads' stacks (guards.py)."""
        self.program = fixture_program(fixture, platform)
        self.arguments = arguments
        self.env = env or {}
        self.coredump_filter = coredump_filter
        self.guard_regions = guard_regions
        self.left_out = False
        self.dies_with_us = dies_with_us()

    def __enter__(self) -> Subject:
        self.start_in_folder(self.command(), self.env, preexec_fn=self._prepare)
        try:
            self.await_start()
        except BaseException:
            self.end()
            raise
        return self

    @cached_property
    def folder(self) -> Path:
        return Path(tempfile.mkdtemp(prefix="arenascope-subject-"))

    def command(self) -> Sequence[object]:
        return [self.program, self.folder / "truth", *self.arguments]

    def await_start(self) -> None:
        reply = self.hear()
        assert reply == f"ready {self.pid}", f"{self.program.name} said {reply!r}: {self.complaints()}"

    def _prepare(self) -> None:
        self.dies_with_us()
        hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
        resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
        if self.coredump_filter is not None:
            Path("/proc/self/coredump_filter").write_text(f"{self.coredump_filter:#x}")
        if not self.guard_regions:
            refuse_guard_regions()

    def end(self) -> None:
        super().end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def quit(self) -> int:
        """Lets it check and free every block, and end; its exit status."""
        self.process.stdin.write(b"quit\n")
        return self.process.wait(SECONDS)

    # what it says of itself

    @property
    def truth(self) -> dict[str, Any]:
        return json.loads(self._file("truth.json"))

    @property
    def info_xml(self) -> str:
        return self._file("info.xml")

    @property
    def stats_text(self) -> str:
        return self._file("stats.txt")

    @property
    def live_blocks(self) -> dict[int, int]:
        """Every block that the program holds: user pointer and malloc_usable_size."""
        rows = [line.split() for line in self._file("live.txt").splitlines()]
        return {int(row[0], 16): int(row[1]) for row in rows}

    def _file(self, name: str) -> str:
        path = self.folder / "truth" / name
        return path.read_text() if path.exists() else ""

    # what the kernel says of it

    def counters(self, text: str = "") -> dict[int, dict[str, int]]:
        """Of each mapping in smaps, by its start: its counters, in bytes."""
        text = text or Path(f"/proc/{self.pid}/smaps").read_text()
        entries = re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", text, flags=re.MULTILINE)[1:]
        return {
            int(entry.split("-")[0], 16): {
                key: int(size) * 1024 for key, size in re.findall(r"^(\w+): +(\d+) kB", entry, re.MULTILINE)
            }
            for entry in entries
        }

    def smaps(self, counter: str = "Rss") -> dict[tuple[int, int], int]:
        """(start, end) of each mapping: one of its counters."""
        return {(start, start + each["Size"]): each[counter] for start, each in self.counters().items()}

    def rollup(self, counter: str) -> int:
        """Of all mappings."""
        return sum(self.smaps(counter).values())

    def curbrk(self) -> int:
        """The break, in whole pages; 0 where it has not been moved."""
        return max((each.end for each in mappings(self.pid) if each.path == "[heap]"), default=0)

    def present(self) -> Present:
        return Present(self.pid, (place for place, rss in self.smaps().items() if rss))

    def thread_names(self) -> dict[int, str]:
        # libc has joined a thread a moment before the kernel forgets it
        ended = {str(each["tid"]) for each in self.truth["threads"] if each["exited"]}
        tasks = (task for task in Path(f"/proc/{self.pid}/task").iterdir() if task.name not in ended)
        return {int(task.name): (task / "comm").read_text().rstrip("\n") for task in tasks}

    # cores

    def gcore(self, whole: bool = True, tid: Optional[int] = None) -> Path:
        """A core by GDB, of one thread alone where that is named and the process's first has exited; the process goes
        on. Where GDB left something out, as `left_out` then says, none, unless `whole` is false."""
        number = str(self.pid if tid is None else tid)
        needs("gcore")
        done = subprocess.run(
            ["gcore", "-o", str(self.folder / "gcore"), number],
            check=True,
            text=True,
            capture_output=True,
            timeout=DUMP_SECONDS,
        )
        failed = re.findall(r"Memory read failed for corefile section, \d+ bytes at 0x(?!f{8})", done.stderr)
        self.left_out = bool(failed)
        if self.left_out and whole:
            # from glibc 2.42 on, and Linux 6.13: MADV_GUARD_INSTALL, of which GDB 13 knows nothing
            pytest.skip("GDB left out the threads' stacks, as their guard pages are in the same mapping")
        return self.folder / f"gcore.{number}"

    def kernel_core(self) -> Path:
        """A core by the kernel; the process is gone afterwards."""
        pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()
        if not re.fullmatch(r"[\w.-]+", pattern):
            pytest.skip(f"the kernel hands cores elsewhere: core_pattern is {pattern!r}, not a plain name")
        if resource.getrlimit(resource.RLIMIT_CORE)[1] != resource.RLIM_INFINITY:
            pytest.skip("the hard limit on core files is not unlimited")
        os.kill(self.pid, signal.SIGABRT)
        self.process.wait(DUMP_SECONDS)
        found = sorted(self.folder.glob(f"{pattern}*"))
        assert found, "the kernel wrote no core"
        return found[0]
