"""What workers run: a command on one core. Errors become a document or one line."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import Iterator, NamedTuple

from ...analysis.diff import Document
from ...base.errors import ArenascopeError, TargetError
from ...base.printable import one_line
from ...present.formats.json import failure

TRIES = 3
"""How many workers a core may kill."""
LONGEST = 300
"""The longest error, in characters, that is passed on."""
ERRORS = (OSError, RuntimeError, ValueError, asyncio.TimeoutError)
"""Errors that dask.distributed and Ray raise, besides classes of their own."""


class Task(NamedTuple):
    command: str
    program: str
    """The command shown in next steps: the user's, not the engine's."""


def failed(subject: str, command: str, why: str) -> Document:
    """The document of a subject that could not be read."""
    return {"subject": subject, **failure(command, TargetError.id, why).to_dict()}


def lost(core: str, command: str, error: BaseException) -> Document:
    """The document of a core that killed its worker and all that replaced it."""
    return failed(core, command, f"the worker was lost: {last_line(error)}")


@contextmanager
def engine_errors(task: str, *own: type[BaseException]) -> Iterator[None]:
    """Turns errors that an engine raises during `task` into one line. `own`: the engine's own classes."""
    expected: tuple[type[BaseException], ...] = (*ERRORS, *own)
    try:
        yield
    except expected as error:
        raise ArenascopeError(f"{task}: {last_line(error)}") from error


def last_line(error: BaseException) -> str:
    """The last line of an error's text, which may be a whole traceback."""
    why = (str(error).strip().splitlines() or [""])[-1]
    return one_line(f"{type(error).__name__}: {why}" if why else type(error).__name__)[:LONGEST]
