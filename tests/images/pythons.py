"""A Python at rest, as a subject."""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager
from typing import Sequence

from subjects import Started, started


def resting(
    code: str, python: Sequence[str] = (sys.executable,), **environment: str
) -> AbstractContextManager[Started]:
    """Runs code that prints a line and then reads on, until it is let go."""
    return started(*python, "-S", "-c", code, env={**os.environ, **environment})
