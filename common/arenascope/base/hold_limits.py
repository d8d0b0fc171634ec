"""Limits on how long a process may be held."""

from __future__ import annotations

import math
from typing import Mapping, Optional

from .model import HOLD_OVER, Statement

HOLD = 20.0
"""The default limit in seconds: a health check that asks three times, 10 s apart, gets its third answer. The free lists
of a heap of 50 GB take a quarter of it."""
HOLD_AT_MOST = 120.0
"""The longest limit that can be asked for, and the limit of a call (trim --apply), which cannot be cut short."""


def allows_more(than: float) -> str:
    """Returns the option to type where `than` seconds were too few."""
    if than >= HOLD_AT_MOST:
        return f"{HOLD_AT_MOST:g} s are the most"
    return f"--hold-at-most {min(HOLD_AT_MOST, math.ceil(2 * than)):g}s allows more"


def hold_over(at_most: float, names: Optional[Mapping[str, str]] = None) -> Statement:
    """States that the answer holds only what was read in `at_most` seconds."""
    limit = round(at_most * 1000, 3)
    return Statement(HOLD_OVER, {"milliseconds": int(limit) if limit % 1 == 0 else limit}, names or {})
