"""What an owner has in memory, and what of that would leave with it."""

from __future__ import annotations

from typing import Callable, NamedTuple

NOBODY = -1


class OwnerPages(NamedTuple):
    """In memory of one owner, in bytes."""

    resident: int
    """Of its blocks themselves."""
    returns: int
    """Pages that would leave with them."""


Join = Callable[[int, int], int]
"""Whose is what two have something on."""


def nobodys(one: int, other: int) -> int:
    return one if one == other else NOBODY
