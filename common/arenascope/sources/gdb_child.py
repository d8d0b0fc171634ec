"""Runs gdb/heap_files.py in a GDB: in an environment of its own, without the user's settings and the network."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from contextlib import suppress
from io import FileIO
from typing import NamedTuple, Optional, Sequence

from ..base.optional_libraries import find_program
from ..base.process_limits import can_confine
from .module_files import Files

PACKAGE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
SCRIPT = "heap_files.py"
ANSWERS, CORE, FOLDER = "ARENASCOPE_ANSWERS", "ARENASCOPE_CORE", "ARENASCOPE_PACKAGE"
SECONDS = 180.0
"""The timeout for an answer: the first one needs all files to be read."""
STUCK_SECONDS = 10.0
"""The longest sleep without work: nothing that it waits for, such as a FIFO in a file's place, may take longer. Reading
a slow disk does not count as sleep, nor does waiting for a processor."""
CPU_SECONDS, CPU_SECONDS_PER_MIB, CPU_SECONDS_PER_QUESTION = 6.0, 2.0, 0.001
"""The limit of processor time, by the amount of debug information and the number of questions: a small file that takes
long was made to do so. GDB 13 takes 0.02 to 0.2 s for each MiB."""
TICKS = os.sysconf("SC_CLK_TCK")
LONGEST_ANSWER = 64 << 20
SETTINGS = (
    "set auto-load no",
    "set auto-load safe-path /nonexistent",
    "set debuginfod enabled off",
    # a core names files: those that are proven to be its modules' are loaded one by one
    "set sysroot /nonexistent",
    "set auto-solib-add off",
    "set libthread-db-search-path /nonexistent",
    "set python print-stack none",
    "set width 0",
)


def start(folders: Sequence[str], files: Files, size: int) -> Optional[GdbChild]:
    """Starts GDB with separate debug files in these folders, and `size` bytes of debug information in all."""
    program, script = find_program("gdb"), _script()
    if program is None or script is None or not can_be_read(files):
        return None
    settings = [*SETTINGS, f"set debug-file-directory {os.pathsep.join(folders)}"]
    with suppress(OSError):
        return GdbChild(
            [program, "-nx", "-q", "-batch", *(word for each in settings for word in ("-iex", each)), "-x", script],
            json.dumps(files),
            CPU_SECONDS + size / (1 << 20) * CPU_SECONDS_PER_MIB,
        )
    return None


def can_be_read(files: Files) -> bool:
    """Tells whether GDB may read these files: no, if nothing could keep it from opening others that they name."""
    return files.may_open is None or can_confine()


def lacking() -> str:
    """Returns what it needs and is missing here."""
    return "one-file" if _script() is None else "not-found" if find_program("gdb") is None else ""


def _script() -> Optional[str]:
    """Returns the script's path, in the installed package or in the checkout; a zipapp has none."""
    for folder in (os.path.join(PACKAGE, "doors", "gdb"), os.path.join(PACKAGE, "..", "..", "gdb")):
        path = os.path.realpath(os.path.join(folder, SCRIPT))
        if os.path.isfile(path):
            return path
    return None


def _nameless() -> FileIO:
    """Creates a file in no folder, which goes when the last descriptor is closed."""
    with suppress(OSError, AttributeError):
        return FileIO(os.memfd_create("arenascope"), "r+")
    # no core: without it there are no frames
    return FileIO(os.devnull, "r+")


class _Work(NamedTuple):
    """The work of a process until now, as the kernel counts it."""

    seconds: float
    """Processor time of all its threads."""
    is_under_way: bool
    """Whether it runs, waits for a processor, or waits for a disk."""


class GdbChild:
    """A GDB that answers questions. The kernel ends it with this program."""

    def __init__(self, words: Sequence[str], files: str, cpu_seconds: float) -> None:
        self._cpu_seconds = cpu_seconds
        """The limit of processor time for all questions until now."""
        read, write = os.pipe()
        self._answers = FileIO(read)
        self.core = _nameless()
        """The file that it opens as a core, once something is in it."""
        try:
            self._process = subprocess.Popen(
                words,
                cwd="/",
                env={
                    "PATH": os.defpath,
                    "LC_ALL": "C.UTF-8",
                    ANSWERS: str(write),
                    CORE: str(self.core.fileno()),
                    FOLDER: os.path.dirname(PACKAGE),
                },
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(write, self.core.fileno()),
                # this program handles Ctrl-C
                start_new_session=True,
            )
        except OSError:
            self._answers.close()
            self.core.close()
            raise
        finally:
            os.close(write)
        self._rest = b""
        self._say(files)

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()

    def ask(self, kind: str, about: object) -> object:
        addresses = about if kind == "variables" and isinstance(about, list) else [about]
        self._cpu_seconds += len(addresses) * CPU_SECONDS_PER_QUESTION
        self._say(json.dumps([kind, about]))
        answer = json.loads(self._line())
        if not isinstance(answer, list) or not answer:
            raise ValueError("this is no answer")
        return answer[0]

    def _line(self) -> bytes:
        began = moved = time.monotonic()
        used = self._work().seconds
        if used > self._cpu_seconds:
            raise ValueError("there is no answer")
        waiting = select.poll()
        waiting.register(self._answers, select.POLLIN)
        parts = [self._rest]
        length = len(self._rest)
        while b"\n" not in parts[-1]:
            if not waiting.poll(200):
                now, work = time.monotonic(), self._work()
                if work.is_under_way or work.seconds > used:
                    moved, used = now, work.seconds
                if now - began > SECONDS or now - moved > STUCK_SECONDS or used > self._cpu_seconds:
                    raise ValueError("there is no answer")
                continue
            part = self._answers.read(1 << 20)
            length += len(part)
            if not part or length > LONGEST_ANSWER:
                raise ValueError("this is no answer")
            parts.append(part)
        line, _, self._rest = b"".join(parts).partition(b"\n")
        return line

    def _work(self) -> _Work:
        with open(f"/proc/{self._process.pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return _Work((int(fields[11]) + int(fields[12])) / TICKS, fields[0] in (b"R", b"D"))

    def end(self) -> None:
        self._process.kill()
        self._answers.close()
        self.core.close()
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
        self._process.wait()
