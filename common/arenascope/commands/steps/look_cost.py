"""What a look for types and owners will take, told before it begins."""

from __future__ import annotations

from contextlib import suppress

from ...base.records import NamedTuple
from ...session.parallel_sweeps import likely_chunks
from ...session.session import Session
from ...sources.live.foretold_hold import IN_A_SECOND, time_to_copy
from ...sources.live.process import ProcessImage
from .live_copy import tells_types

START, EACH_BLOCK, EACH_BYTE = 0.3, 45e-6, 5e-9
"""Seconds, measured: for its beginning, each block, and each byte that is copied."""
GDB = 1.0
"""And for a GDB that reads debug information, without what it has much of."""
SMALL_BLOCK = 64
"""Bytes, where nothing tells how large blocks are."""
MOST = 10_000_000
"""Nobody needs to know how many more blocks there are."""


class LookCost(NamedTuple):
    """In seconds."""

    whole: float
    held: float


def foretold_cost(session: Session, image: ProcessImage) -> LookCost:
    """Of a process that runs on under the reader, which may end in any error."""
    size = image.status.rss or 0
    blocks = size // SMALL_BLOCK
    with suppress(Exception):
        blocks = likely_chunks(session, MOST) if session.started else 0
    whole = START + GDB * tells_types(session.target) + EACH_BLOCK * blocks + EACH_BYTE * size
    hold = time_to_copy(image, size)
    return LookCost(whole, hold.seconds if hold is not None else size / IN_A_SECOND)
