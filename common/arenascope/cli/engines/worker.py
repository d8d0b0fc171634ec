"""What a worker does with one core; it crosses to another process, or another machine."""

from __future__ import annotations

import os
import signal
import socket
import sys
import tempfile
import time
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Iterator, Optional

from ...analysis.figure_names import Document
from ...base.errors import ArenascopeError
from ...base.internal_error import fault_line
from ...base.printable import one_line
from ...base.records import NamedTuple
from ..several_subjects import document
from .which_cores import Core

TRIES = 3
"""How many workers may die of one core."""


LONGEST = 300
"""Of what an engine says."""


class Task(NamedTuple):
    command: str
    program: str
    """What next steps name: the command that was typed, not the engine's own."""


class Result(NamedTuple):
    document: Optional[Document]
    error: Optional[str]
    lost: bool = False
    """It is not the core's fault, as far as anybody knows: whoever goes on tries it again."""
    seconds: float = 0.0
    host: str = ""


def look_at(task: Task, core: Core) -> Result:
    """Whatever happens is a result."""
    start, host = time.monotonic(), socket.gethostname()

    def result(answer: Optional[Document], error: Optional[str], lost: bool = False) -> Result:
        return Result(answer, error, lost, time.monotonic() - start, host=host)

    try:
        with _here(core) as path:
            answer = document(path, task.command, task.program)
    except (OSError, ArenascopeError) as error:
        return result(None, one_line(str(error)), lost=True)
    except Exception as error:
        return result(None, fault_line(error, task.command, "shell"))
    return result({**answer, "subject": core.url}, answer.get("error"))


def lost(error: BaseException) -> Result:
    """Of a worker that died, and of those that took its place."""
    return Result(None, f"the worker was lost: {_last_line(error)}", True)


@contextmanager
def engine_errors(task: str) -> Iterator[None]:
    """What an engine's library raises while it does `task` is an error of one line, and no fault of arenascope's."""
    try:
        yield
    except Exception as error:
        raise ArenascopeError(f"{task}: {_last_line(error)}") from error


@contextmanager
def starting() -> Iterator[None]:
    """While an engine starts its processes, Ctrl-C waits: its libraries may swallow it then.

    A terminal sends it to these processes, too, and each would print a traceback beside our line: they have no standard
    error.
    """
    sys.stderr.flush()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _last_line(error: BaseException) -> str:
    # the last line of what may be a whole traceback
    why = (str(error).strip().splitlines() or [""])[-1]
    return one_line(f"{type(error).__name__}: {why}" if why else type(error).__name__)[:LONGEST]


@contextmanager
def _here(core: Core) -> Iterator[str]:
    """A path where it can be read; what had to be copied is removed."""
    if "://" not in core.url:
        yield core.url
        return
    fsspec: Any = import_module("fsspec")
    system, path = fsspec.url_to_fs(core.url)
    with tempfile.TemporaryDirectory(prefix="arenascope-fleet-") as folder:
        copy = os.path.join(folder, os.path.basename(path) or "core")
        system.get_file(path, copy)
        yield copy
