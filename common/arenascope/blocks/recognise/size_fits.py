"""Whether a size that a struct tells is that of the block in which it would lie."""

from __future__ import annotations

SLACK = 32
"""A block has less than that to use besides what was asked for: it is rounded up, and a rest too small for another
block goes with it."""
PAGE_SLACK, MAPPED = 4096, 128 << 10
"""The same of one that malloc may have mapped by itself."""
LARGEST_PAGE = 64 << 10
"""That is a page, which some machines have as large: for structs of which the size is not all the proof."""


def fits(asked: int, usable: int, page: int = PAGE_SLACK) -> bool:
    return 0 < asked <= usable < asked + (page if usable >= MAPPED else SLACK)
