"""What the libraries of an engine or a store raise: an error of one line, and no fault of arenascope's."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Iterator

from ...base.errors import ArenascopeError
from ...base.printable import one_line

LONGEST = 300


@contextmanager
def engine_errors(task: str) -> Iterator[None]:
    """Whatever is raised while they do `task`."""
    try:
        yield
    except Exception as error:
        raise ArenascopeError(f"{task}: {last_line(error)}") from error


def last_line(error: BaseException) -> str:
    """Of what may be a whole traceback."""
    why = (str(error).strip().splitlines() or [""])[-1]
    return one_line(f"{type(error).__name__}: {why}" if why else type(error).__name__)[:LONGEST]
