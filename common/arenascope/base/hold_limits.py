"""Limits on how long a process may be held."""

from __future__ import annotations

import math
from typing import Mapping, NamedTuple, Optional

from .model import HOLD_OVER, Statement

HOLD = 20.0
"""The default limit in seconds: a health check that asks three times, 10 s apart, gets its third answer. The free lists
of a heap of 50 GB take a quarter of it."""
HOLD_AT_MOST = 120.0
"""The longest limit that can be asked for, and the limit of a call (trim --apply), which cannot be cut short."""


def allows_more(than: float, needed: float = 0.0) -> str:
    """Returns the option to type where `than` seconds were too few; `needed`: the predicted hold."""
    if than >= HOLD_AT_MOST:
        return f"{HOLD_AT_MOST:g} s are the most"
    return f"--hold-at-most {min(HOLD_AT_MOST, math.ceil(max(2 * than, 2 * needed))):g}s allows more"


def hold_over(at_most: float, foretold: float = 0.0, names: Optional[Mapping[str, str]] = None) -> Statement:
    """States that the answer holds only what was read in `at_most` seconds; `foretold`: the predicted hold."""
    limit = round(at_most * 1000, 3)
    figures = {"milliseconds": int(limit) if limit % 1 == 0 else limit}
    return Statement(
        HOLD_OVER, {**figures, "foretold_milliseconds": round(foretold * 1000)} if foretold else figures, names or {}
    )


COPIED, WRITTEN, SWEPT, LISTED = "copied", "written", "swept", "listed"
"""The work during a hold: all memory is copied, or written to a disk, every heap is read from end to end, or the words
of each free chunk."""


class HoldTime(NamedTuple):
    """A predicted hold: the work, its amount, and the time that it takes."""

    what: str
    amount: int
    """Bytes; chunks if they are listed."""
    seconds: float
    least: float
    """The time that even the fastest machine takes; 0: not known."""
