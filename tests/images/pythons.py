"""A Python at rest, as a subject."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from typing import Iterator, NamedTuple, Sequence

from lifetimes import dies_with_us
from subjects import await_parked


class Resting(NamedTuple):
    pid: int
    said: str


@contextmanager
def resting(code: str, python: Sequence[str] = (sys.executable,), **environment: str) -> Iterator[Resting]:
    """Runs code that prints a line and then reads on, until it is let go."""
    with subprocess.Popen(
        [*python, "-S", "-c", code],
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **environment},
        preexec_fn=dies_with_us(),
    ) as process:
        assert process.stdout
        said = process.stdout.readline()
        await_parked(process.pid)
        yield Resting(process.pid, said)
