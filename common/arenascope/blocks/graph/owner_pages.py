"""Counts the resident bytes that each owner holds, and those that would be returned if the owner's blocks were
freed."""

from __future__ import annotations

from typing import Callable, NamedTuple

NOBODY = -1


class OwnerPages(NamedTuple):
    """An owner's memory, in bytes."""

    resident: int
    """Resident bytes of its blocks."""
    returns: int
    """Pages that would leave memory with its blocks."""


Join = Callable[[int, int], int]
"""Returns the owner of a page from the owners of two blocks on it."""


def nobodys(one: int, other: int) -> int:
    return one if one == other else NOBODY
