"""What an engine has its workers do, and what becomes of errors: a document of the core, or one line."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import Iterator, NamedTuple

from ...analysis.diff import Document
from ...base.errors import ArenascopeError, TargetError
from ...base.printable import one_line
from ...present.formats.json import failure

TRIES = 3
"""How many workers may die of one core."""
LONGEST = 300
"""Characters of an error that others raise or write."""
ERRORS = (OSError, RuntimeError, ValueError, asyncio.TimeoutError)
"""What dask.distributed and Ray raise, beside classes of their own."""


class Task(NamedTuple):
    command: str
    program: str
    """What next steps name: the command that was typed, not the engine's own."""


def failed(subject: str, command: str, why: str) -> Document:
    """The document of a subject that could not be looked at."""
    return {"subject": subject, **failure(command, TargetError.id, why).to_dict()}


def lost(core: str, command: str, error: BaseException) -> Document:
    """The document of a core of which a worker died, and those that took its place."""
    return failed(core, command, f"the worker was lost: {last_line(error)}")


@contextmanager
def engine_errors(task: str, *own: type[BaseException]) -> Iterator[None]:
    """Makes one line of what an engine raises during `task`; `own`: classes of its own."""
    expected: tuple[type[BaseException], ...] = (*ERRORS, *own)
    try:
        yield
    except expected as error:
        raise ArenascopeError(f"{task}: {last_line(error)}") from error


def last_line(error: BaseException) -> str:
    """The last line of an error's text, which may be a whole traceback."""
    why = (str(error).strip().splitlines() or [""])[-1]
    return one_line(f"{type(error).__name__}: {why}" if why else type(error).__name__)[:LONGEST]
