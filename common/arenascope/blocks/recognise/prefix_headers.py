"""What programs put in front of all their blocks, of which one process has one kind."""

from __future__ import annotations

from typing import NamedTuple, Optional, Protocol, Sequence


class Front(NamedTuple):
    """What stands in front of a block's own words."""

    words: int
    bytes: int
    """That were asked for after it."""
    of: str


class Fronts(Protocol):
    """Of one process."""

    runs: bool
    sizes: Sequence[int]
    """How many bytes may stand in front."""

    def front_of(self, words: Sequence[int], at: int, count: int, usable: int) -> Optional[Front]:
        """Of a block of so many bytes, of which `count` words are known, from `at` on."""

    def holds(self, front: Front, words: Sequence[int], user: int) -> Optional[str]:
        """What a block is that is known by no more than its front."""
