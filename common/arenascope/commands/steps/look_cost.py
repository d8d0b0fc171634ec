"""Predicts how long finding types and owners will take. If it is too long, they are left out."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Callable, NamedTuple, Optional

from ...base.errors import ArenascopeError
from ...base.model import Statement
from ...present.shared_text.text import duration
from ...session.parallel_sweeps import likely_chunks
from ...session.session import Session
from ...sources.live.predicted_hold import IN_A_SECOND, time_to_copy
from ...sources.live.process import ProcessImage
from .live_copy import tells_types

START, EACH_BLOCK, EACH_BYTE = 0.3, 20e-6, 5e-9
"""Seconds, measured: to start, for each block, and for each byte that is copied."""
GDB = 1.0
"""Seconds for a GDB that reads debug information of ordinary size."""
SMALL_BLOCK = 64
"""The assumed size of a block if it is not known."""
MOST = 10_000_000
"""Counting stops here: more blocks do not matter."""


LONG = 5.0
"""From so many seconds on the user is told beforehand."""
ROOM = 1.25
"""Advice allows so much more time than predicted."""


class LookCost(NamedTuple):
    """Seconds: in all, and of them those for which the process is held."""

    whole: float
    held: float


class LookLimit:
    """A limit in seconds for types and owners; 0: none. It is checked before a process is held."""

    def __init__(self, seconds: float, notice: Callable[[str], None]) -> None:
        self._seconds, self._notice = seconds, notice
        self._found: Optional[float] = None
        """The predicted seconds, once asked for."""

    def is_exceeded(self, session: Session) -> bool:
        if self._found is None:
            self._found = predict_cost(session).whole
            if self._found >= LONG and not self.problems:
                self._notice(f"to tell types and owners takes about {duration(self._found)}")
        return bool(self.problems)

    @property
    def problems(self) -> list[Statement]:
        if not self._seconds or self._found is None or self._found <= self._seconds:
            return []
        enough = math.ceil(self._found * ROOM)
        figures = {"seconds": round(self._found, 1), "at_most": self._seconds, "enough": enough}
        return [Statement("types-take-too-long", figures)]


def predict_cost(session: Session) -> LookCost:
    """Predicts the cost. The process may be running: what cannot be read is not counted."""
    process = session.target.image if isinstance(session.target.image, ProcessImage) else None
    size = (process.status.rss or 0) if process is not None else 0
    blocks = size // SMALL_BLOCK
    with suppress(ArenascopeError, OSError):
        blocks = likely_chunks(session, MOST) if session.started else 0
    whole = START + GDB * tells_types(session.target) + EACH_BLOCK * blocks + EACH_BYTE * size
    hold = time_to_copy(process, size) if process is not None else None
    return LookCost(whole, hold.seconds if hold is not None else size / IN_A_SECOND)
