"""For how long a process may be held."""

from __future__ import annotations

import math
from typing import Mapping, NamedTuple, Optional

from .model import HOLD_OVER, Statement

HOLD = 20.0
"""Seconds for which a process is held where nobody said: whoever asks it three times, 10 s apart, hears the third
answer. The free lists of a heap of 50 GB take a quarter of it."""
HOLD_AT_MOST = 120.0
"""And for a call (trim --apply), which is not broken off by half. Nobody may ask for more."""


def allows_more(than: float, needed: float = 0.0) -> str:
    """What to type where `than` seconds were too few; `needed`: so many are foretold."""
    if than >= HOLD_AT_MOST:
        return f"{HOLD_AT_MOST:g} s are the most"
    return f"--hold-at-most {min(HOLD_AT_MOST, math.ceil(max(2 * than, 2 * needed))):g}s allows more"


def hold_over(at_most: float, foretold: float = 0.0, names: Optional[Mapping[str, str]] = None) -> Statement:
    """For the reader of what was read in `at_most` seconds; `foretold`: so many it would have taken."""
    limit = round(at_most * 1000, 3)
    figures = {"milliseconds": int(limit) if limit % 1 == 0 else limit}
    return Statement(
        HOLD_OVER, {**figures, "foretold_milliseconds": round(foretold * 1000)} if foretold else figures, names or {}
    )


COPIED, WRITTEN, SWEPT, LISTED = "copied", "written", "swept", "listed"
"""What is done meanwhile: all memory is copied, or written to a disk, every heap read from end to end, or the words of
each free chunk."""


class HoldTime(NamedTuple):
    """What will be done, to how much of it, and for how long that takes."""

    what: str
    amount: int
    """Bytes; of what is listed, chunks."""
    seconds: float
    least: float
    """However fast the machine is; 0: nobody knows."""
