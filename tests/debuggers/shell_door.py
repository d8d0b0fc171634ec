"""The shell door beside the debuggers, and the command line as tests type it."""

from __future__ import annotations

import contextlib
import io
import json
import shlex
import subprocess
import sys
import time
from typing import Any, NamedTuple, Optional, Sequence

from looks import BREAKDOWNS, ROOT, Asked, Door, Image, Live, Outcome, completed, plain_environment
from platforms import libc_of
from schemas import valid

from arenascope.cli import main as cli

ARENASCOPE = (sys.executable, str(ROOT / "bin" / "arenascope"))


def arenascope(
    *words: object, status: Optional[int] = 0, code: str = "", variables: Optional[dict[str, str]] = None, **how: Any
) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own; instead of it, some Python code that has the package. Any status is
    right where none is named. `how` is subprocess.run's."""
    if code:
        variables = {"PYTHONPATH": str(ROOT / "common"), **(variables or {})}
    program = (sys.executable, "-c", code) if code else ARENASCOPE
    how = {"timeout": 120, "env": plain_environment(variables), **how}
    return completed(*program, *words, status=status, **how)


def begin(*words: object, **how: Any) -> subprocess.Popen[str]:
    """The same, while it runs."""
    how = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": plain_environment(), **how}
    return subprocess.Popen([*ARENASCOPE, *map(str, words)], **how)


class Said(NamedTuple):
    status: int
    out: str
    complaint: str


def typed(words: Sequence[str]) -> Said:
    """The command line in this process."""
    out, complaint = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(complaint):
        sys.__stderr__, before = complaint, sys.__stderr__
        try:
            status = cli.main(list(words))
        finally:
            sys.__stderr__ = before
    return Said(status, out.getvalue(), complaint.getvalue())


def look(image: object, words: str, *options: object) -> Said:
    """A command on a process or a core, in this process."""
    name, *more = words.split()
    return typed([name, str(image), *more, *map(str, options)])


def ask(image: object, words: str, *options: object, status: Sequence[int] = (0,)) -> dict[str, Any]:
    """The document of a command, as its schema says."""
    said = look(image, words, "--json", *options)
    assert said.status in status, said.complaint
    return valid(json.loads(said.out))


def ask_whole(image: object, words: str, *options: object, status: Sequence[int] = (0,)) -> dict[str, Any]:
    """The document of a command that lacks nothing."""
    document = ask(image, words, *options, status=status)
    assert document["complete"], document["problems"]
    return document


class Shell(Door):
    """arenascope COMMAND PID|CORE, in this process."""

    name = "shell"

    def run_each(self, asked: Sequence[Asked], symbols: bool = True) -> list[list[Outcome]]:
        libc = libc_of(asked[0][0].program)
        where = ["--debug-dir", str(libc.debug)] if libc else []
        options = where if symbols else ["--no-symbols"]
        return [[self._outcome(image, command, options) for command in commands] for image, commands in asked]

    def _outcome(self, image: Image, command: str, options: Sequence[str]) -> Outcome:
        subject = str(image.pid if isinstance(image, Live) else image.path)
        name, *words = shlex.split(command)
        # a command that writes a file takes that first
        words = [*words, subject] if name in ("save", "snapshot") else [subject, *words]
        start = time.monotonic()
        said = typed([name, *words, *options])
        error = said.complaint.strip() if said.status == 2 else None
        outcome = Outcome(command, said.out, error, said.status, time.monotonic() - start)
        assert not any(word in said.out + said.complaint for word in BREAKDOWNS), outcome
        return outcome


SHELL = Shell()
