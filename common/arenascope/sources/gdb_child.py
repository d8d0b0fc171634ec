"""A GDB that runs gdb/heap_files.py: in an environment of its own, without the user's settings and the network."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
import weakref
from contextlib import suppress
from io import FileIO
from typing import Optional, Sequence

from ..base.programs import find_program

PACKAGE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
SCRIPT = "heap_files.py"
ANSWERS, CORE, FOLDER = "ARENASCOPE_ANSWERS", "ARENASCOPE_CORE", "ARENASCOPE_PACKAGE"
SECONDS = 180.0
"""For one answer: the first needs that all files are read."""
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


def start(owner: object, folders: Sequence[str], modules: str) -> Optional[GdbChild]:
    """With separate files of debug information in these folders; `modules`: as module_files.py writes them. It ends
    with the object that asks it: a program that uses the API goes on after a look."""
    program, script = find_program("gdb"), _script()
    if program is None or script is None:
        return None
    settings = [*SETTINGS, f"set debug-file-directory {os.pathsep.join(folders)}"]
    with suppress(OSError):
        child = GdbChild(
            [program, "-nx", "-q", "-batch", *(word for each in settings for word in ("-iex", each)), "-x", script],
            modules,
        )
        weakref.finalize(owner, child.end)
        return child
    return None


def lacking() -> str:
    """What it needs, and is not here."""
    return "one-file" if _script() is None else "not-found" if find_program("gdb") is None else ""


def _script() -> Optional[str]:
    """Inside the installed package, or in the checkout; a zipapp has none."""
    for folder in (os.path.join(PACKAGE, "doors", "gdb"), os.path.join(PACKAGE, "..", "..", "gdb")):
        path = os.path.realpath(os.path.join(folder, SCRIPT))
        if os.path.isfile(path):
            return path
    return None


def _nameless() -> FileIO:
    """In no folder, and gone with the last that has it open."""
    with suppress(OSError, AttributeError):
        return FileIO(os.memfd_create("arenascope"), "r+")
    # no core: it costs what frames tell
    return FileIO(os.devnull, "r+")


class GdbChild:
    """A GDB that answers. It sees the end of its standard input if this program ends."""

    def __init__(self, words: Sequence[str], modules: str) -> None:
        read, write = os.pipe()
        self._answers = FileIO(read)
        self.core = _nameless()
        """What it takes for a core, once something is in it."""
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
                # Ctrl-C is this program's to deal with
                start_new_session=True,
            )
        except OSError:
            self._answers.close()
            self.core.close()
            raise
        finally:
            os.close(write)
        self._rest = b""
        self._say(modules)

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()

    def ask(self, kind: str, about: object) -> object:
        self._say(json.dumps([kind, about]))
        answer = json.loads(self._line())
        if not isinstance(answer, list) or not answer:
            raise ValueError("this is no answer")
        return answer[0]

    def _line(self) -> bytes:
        until = time.monotonic() + SECONDS
        waiting = select.poll()
        waiting.register(self._answers, select.POLLIN)
        parts = [self._rest]
        length = len(self._rest)
        while b"\n" not in parts[-1]:
            ready = waiting.poll(max(0.0, until - time.monotonic()) * 1000)
            part = self._answers.read(1 << 20) if ready else b""
            length += len(part)
            if not part or length > LONGEST_ANSWER:
                raise ValueError("this is no answer")
            parts.append(part)
        line, _, self._rest = b"".join(parts).partition(b"\n")
        return line

    def end(self) -> None:
        self._process.kill()
        self._answers.close()
        self.core.close()
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
        self._process.wait()
