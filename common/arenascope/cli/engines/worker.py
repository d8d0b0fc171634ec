"""What a worker does with one core; it crosses to another process, or another machine."""

from __future__ import annotations

import os
import socket
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
from .engine_errors import last_line
from .which_cores import Core

TRIES = 3
"""How many workers may die of one core."""


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
    return Result(None, f"the worker was lost: {last_line(error)}", True)


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
