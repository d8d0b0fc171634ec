"""The pins that hold back the most: however many there are, only those shown are kept."""

from __future__ import annotations

import heapq
from typing import NamedTuple, Optional, Sequence

from ..base.model import Range

WORTH = 65536
"""A block that keeps this much besides itself is a pin, however large it is."""

LARGE = 1 << 20
"""What a single block must keep for nobody to ask what else there is."""


class Step(NamedTuple):
    """A system call that gives memory back."""

    how: str
    """"munmap", "madvise" or "brk"."""
    range: Range


def bytes_of(steps: Sequence[Step]) -> int:
    return sum(step.range.bytes for step in steps)


class Gain(NamedTuple):
    """What freeing something brings, beyond what comes back without it."""

    bytes: int
    """Of what is freed itself."""
    gone: tuple[Step, ...]
    already: tuple[Step, ...]
    """What of that goes back without it: at the next malloc_trim, or at any other free() of 64 KiB."""

    @property
    def releases(self) -> int:
        return bytes_of(self.gone) - bytes_of(self.already)

    @property
    def kept(self) -> int:
        """What it keeps of what is free already."""
        return self.releases - self.bytes


class Pin(NamedTuple):
    """A live block, and what its free() would bring."""

    address: int
    arena: int
    reason: str
    """"top": it ends where a top begins, or would; "between": it lies between free pieces."""
    by: str
    """"free": free() itself gives it back; "trim": malloc_trim(0) after it."""
    gain: Gain


class Together(NamedTuple):
    """The last blocks below an arena's top, all freed, the lowest first."""

    lowest: int
    arena: int
    blocks: int
    gain: Gain


class Ranking:
    """The best `limit` (None: all), how many there were, and the best of each arena: those can be added up."""

    def __init__(self, limit: Optional[int], own: bool = False) -> None:
        self.limit = limit
        self.own = own
        """Include blocks that would mainly give back their own pages."""
        self.count = 0
        self.in_all = 0
        """What they would release, one by one: what two of them keep together is in neither."""
        self.own_left_out = 0
        self.best: dict[int, Pin] = {}
        self.together: list[Together] = []
        self._kept: list[tuple[int, int, int, Pin]] = []

    def absorb(self, other: Ranking) -> None:
        """What another was offered later."""
        self.count += other.count
        self.in_all += other.in_all
        self.own_left_out += other.own_left_out
        for entry in other._kept:
            self._keep(entry)
        for pin in other.best.values():
            self._compare(pin)

    def offer(self, pin: Pin) -> None:
        gain = pin.gain
        if not self.own and gain.kept < min(gain.bytes, WORTH):
            self.own_left_out += 1
            return
        self.count += 1
        self.in_all += gain.releases
        self._keep((gain.releases, -gain.bytes, -pin.address, pin))
        self._compare(pin)

    def _keep(self, entry: tuple[int, int, int, Pin]) -> None:
        if self.limit is None or len(self._kept) < self.limit:
            heapq.heappush(self._kept, entry)
        elif self._kept and entry > self._kept[0]:
            heapq.heapreplace(self._kept, entry)

    def _compare(self, pin: Pin) -> None:
        best = self.best.get(pin.arena)
        if best is None or pin.gain.releases > best.gain.releases:
            self.best[pin.arena] = pin

    @property
    def one_tells(self) -> bool:
        """Whether a single block explains much of what is kept; else it is many small ones, which have something in
        common."""
        largest = max((pin.gain.releases for pin in self.best.values()), default=0)
        return largest >= LARGE and 4 * largest >= self.in_all

    @property
    def pins(self) -> Sequence[Pin]:
        return [entry[3] for entry in sorted(self._kept, reverse=True)]
