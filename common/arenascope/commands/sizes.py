"""Sizes as users type them."""

from __future__ import annotations

import re
from typing import Optional

from . import Context

UNITS = "KMGT"


def parse_size(context: Context, text: Optional[str]) -> Optional[int]:
    """4096, 64K, 1.5MiB; anything else is the debugger's own expression."""
    if text is None:
        return None
    plain = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT])i?B?", text, re.IGNORECASE)
    if plain is None:
        return context.target.evaluate(text)
    return int(float(plain[1]) * (1 << 10 * (1 + UNITS.index(plain[2].upper()))))
