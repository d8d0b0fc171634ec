"""Matches shell patterns for names: `*`, `?` and `[...]`, as in Python's `fnmatch`; `[]` is literal, as in
`Request[]`."""

from __future__ import annotations

import fnmatch
import re
from typing import Callable

from .errors import UsageError

LONGEST = 1000
"""The most characters in a pattern."""
Matches = Callable[[str], bool]


def shell_pattern(pattern: str) -> Matches:
    """Compiles a pattern, which matches whole names, and its own text: `char[16]` finds the type of that name, too."""
    if len(pattern) > LONGEST:
        raise UsageError(f"a pattern of {len(pattern):,} characters is too long", f"{LONGEST:,} at most")
    # since Python 3.9 no `*` is tried again once the rest has matched: the time grows with the name, not with its power
    match = re.compile(fnmatch.translate(pattern.replace("[]", "[[]]"))).match
    return lambda name: name == pattern or match(name) is not None
