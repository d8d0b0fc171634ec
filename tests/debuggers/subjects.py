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
import time
from array import array
from bisect import bisect_left
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Iterable, Iterator, Mapping, Optional, Sequence

import pytest
from guards import refuse_guard_regions
from lifetimes import dies_with_us
from looks import give_up
from platforms import HOST, Platform
from waiting import state

START_SECONDS = 60
DUMP_SECONDS = 120
PAGE = os.sysconf("SC_PAGE_SIZE")


def fixture_program(name: str, platform: Platform = HOST) -> Path:
    if platform.missing:
        give_up(platform.missing)
    program = platform.programs / name
    if not program.exists():
        pytest.skip(f"fixtures/build/{name} is not built: make fixtures")
    return program


def await_parked(pid: int, seconds: float = START_SECONDS) -> None:
    """Until its main thread sleeps: having said something it is on its way to wait for what it is told next, and uses
    another page of its stack for that. One that never sleeps is let be."""
    limit = time.monotonic() + seconds
    while state(pid) in ("R", "D") and time.monotonic() < limit:
        time.sleep(0.001)


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
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            [*map(str, words)], stdin=pipe, stdout=pipe, text=True, preexec_fn=dies_with_us(), **how
        )
        self.pid = self.process.pid
        self.said = self.hear()
        """Its first line."""

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def hear(self) -> str:
        """Its next line, once it sleeps after that."""
        line = self.process.stdout.readline().rstrip("\n")
        await_parked(self.pid)
        return line

    def ask(self, line: str) -> str:
        """What it answers to a line."""
        print(line, file=self.process.stdin, flush=True)
        return self.hear()

    def end(self) -> None:
        with self.process:
            self.process.kill()


def compiled(source: str, folder: Path, *flags: str, compiler: str = "gcc") -> Path:
    """The program of this text: C, or C++ with g++."""
    if not shutil.which(compiler):
        give_up(f"{compiler} is not installed")
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


class Subject:
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
        self._start([str(self.program), str(self.folder / "truth"), *self.arguments])
        with self._ended_if_it_fails():
            self.wait_until_ready()
            await_parked(self.pid)
        return self

    def _start(self, command: Sequence[str], *without: str) -> None:
        """In an environment without what changes malloc, nor anything that begins with one of `without`."""
        apart = ("MALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD", *without)
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(apart)}
        with (self.folder / "stderr.txt").open("wb") as messages:
            self.process = subprocess.Popen(
                command,
                cwd=self.folder,
                env={**inherited, **self.env},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=messages,
                bufsize=0,
                start_new_session=True,
                preexec_fn=self._prepare,
            )

    @contextmanager
    def _ended_if_it_fails(self) -> Iterator[None]:
        with ExitStack() as stack:
            stack.callback(self.end)
            yield
            stack.pop_all()

    @cached_property
    def folder(self) -> Path:
        return Path(tempfile.mkdtemp(prefix="arenascope-subject-"))

    def wait_until_ready(self) -> None:
        reply = self._read_line(START_SECONDS)
        assert reply == f"ready {self.pid}", f"{self.program.name} said {reply!r}: {self._said()}"

    def __exit__(self, *_: object) -> None:
        self.end()

    def _prepare(self) -> None:
        self.dies_with_us()
        hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
        resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
        if self.coredump_filter is not None:
            Path("/proc/self/coredump_filter").write_text(f"{self.coredump_filter:#x}")
        if not self.guard_regions:
            refuse_guard_regions()

    def _said(self) -> str:
        return (self.folder / "stderr.txt").read_text(errors="replace").strip()

    def _read_line(self, seconds: float) -> str:
        """Byte by byte, so that nothing is left in a buffer that select() does not see."""
        line = b""
        while True:
            if not select.select([self.process.stdout], [], [], seconds)[0]:
                raise TimeoutError(f"{self.program.name} said nothing for {seconds} seconds")
            byte = os.read(self.process.stdout.fileno(), 1)
            if byte in (b"", b"\n"):
                return line.decode()
            line += byte

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            stream.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def send(self, command: str, seconds: float = 60) -> str:
        """A command of the protocol; its reply."""
        self.process.stdin.write(command.encode() + b"\n")
        reply = self._read_line(seconds)
        await_parked(self.pid)
        return reply

    def hear(self, seconds: float = 60) -> str:
        """The reply to a command that was given before, or by somebody else."""
        return self._read_line(seconds)

    def quit(self, seconds: float = 60) -> int:
        """Lets it check and free every block, and end; its exit status."""
        self.process.stdin.write(b"quit\n")
        return self.process.wait(seconds)

    # what it says of itself

    @property
    def pid(self) -> int:
        return self.process.pid

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

    def smaps(self) -> dict[tuple[int, int], int]:
        """(start, end) of each mapping: its Rss in bytes."""
        return self._smaps("Rss")

    def anonymous(self) -> dict[tuple[int, int], int]:
        """(start, end) of each mapping: the bytes of its own that are in memory."""
        return self._smaps("Anonymous")

    def _smaps(self, counter: str) -> dict[tuple[int, int], int]:
        text = Path(f"/proc/{self.pid}/smaps").read_text()
        found = re.findall(rf"^([0-9a-f]+)-([0-9a-f]+) .*?^{counter}: +(\d+) kB", text, re.MULTILINE | re.DOTALL)
        return {(int(start, 16), int(end, 16)): int(size) * 1024 for start, end, size in found}

    def curbrk(self) -> int:
        """The break, in whole pages; 0 where it has not been moved."""
        text = Path(f"/proc/{self.pid}/maps").read_text()
        return max(
            (int(end, 16) for end in re.findall(r"^[0-9a-f]+-([0-9a-f]+) .* \[heap\]$", text, re.MULTILINE)), default=0
        )

    def present(self) -> Present:
        return Present(self.pid, (place for place, rss in self.smaps().items() if rss))

    def rollup(self, counter: str) -> int:
        """A counter of smaps_rollup, in bytes."""
        text = Path(f"/proc/{self.pid}/smaps_rollup").read_text()
        return int(re.search(rf"^{counter}: +(\d+) kB", text, re.MULTILINE).group(1)) * 1024

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
        if not shutil.which("gcore"):
            pytest.skip("gcore is not installed")
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
