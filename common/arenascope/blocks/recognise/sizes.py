"""Whether a size that a struct tells is that of the block in which it would lie."""

from __future__ import annotations

SLACK = 32
"""A block has less than that to use besides what was asked for."""
PAGE_SLACK, MAPPED = 4096, 128 << 10
"""The same of one that malloc may have mapped by itself."""


def fits(asked: int, usable: int) -> bool:
    return 0 < asked <= usable < asked + (PAGE_SLACK if usable >= MAPPED else SLACK)
