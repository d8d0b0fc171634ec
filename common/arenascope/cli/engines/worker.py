"""What a worker does with one core; it crosses to another process, or another machine."""

from __future__ import annotations

import socket
import time
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple, Optional

from ...analysis.diff import Document
from ...base.errors import ArenascopeError
from ...base.internal_error import fault_line
from ...base.printable import one_line
from ..several_subjects import document
from ..shell import How
from .engine_errors import last_line
from .remote_core import Here, fetched
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
        with _here(core) as here:
            answer = document(here.path, task.command, task.program, How(held=here.held))
    except (OSError, ArenascopeError) as error:
        return result(None, one_line(str(error)), lost=True)
    except Exception as error:
        return result(None, fault_line(error, task.command, "shell"))
    return result({**answer, "subject": core.url}, answer.get("error"))


def lost(error: BaseException) -> Result:
    """Of a worker that died, and of those that took its place."""
    return Result(None, f"the worker was lost: {last_line(error)}", True)


def _here(core: Core) -> AbstractContextManager[Here]:
    return fetched(core) if "://" in core.url else nullcontext(Here(core.url))
