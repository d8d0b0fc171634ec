"""What a look for types and owners will take, told before it begins; and where it takes too long, it is left out."""

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
"""Seconds, measured: for its beginning, each block, and each byte that is copied."""
GDB = 1.0
"""And for a GDB that reads debug information, without what it has much of."""
SMALL_BLOCK = 64
"""Bytes, where nothing tells how large blocks are."""
MOST = 10_000_000
"""Nobody needs to know how many more blocks there are."""


LONG = 5.0
"""Nobody waits so long without being told."""
ROOM = 1.25
"""What is advised is more than foretold by so much."""


class LookCost(NamedTuple):
    """In seconds."""

    whole: float
    held: float


class LookLimit:
    """Whether types and owners take no longer than so many seconds; 0: they may. It is asked before a process is
    held."""

    def __init__(self, seconds: float, notice: Callable[[str], None]) -> None:
        self._seconds, self._notice = seconds, notice
        self._found: Optional[float] = None
        """What they would take, once that was asked."""

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
    """The process may run on under the reader: what cannot be read is not counted."""
    process = session.target.image if isinstance(session.target.image, ProcessImage) else None
    size = (process.status.rss or 0) if process is not None else 0
    blocks = size // SMALL_BLOCK
    with suppress(ArenascopeError, OSError):
        blocks = likely_chunks(session, MOST) if session.started else 0
    whole = START + GDB * tells_types(session.target) + EACH_BLOCK * blocks + EACH_BYTE * size
    hold = time_to_copy(process, size) if process is not None else None
    return LookCost(whole, hold.seconds if hold is not None else size / IN_A_SECOND)
