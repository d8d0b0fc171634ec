"""Which mapping holds an address. Of a process that has 60,000 of them none is gone through for each question."""

from __future__ import annotations

from bisect import bisect_right
from typing import Optional, Sequence

from .target import Region


class RegionIndex:
    """Mappings in address order."""

    def __init__(self, regions: Sequence[Region]) -> None:
        self.regions = regions
        self._starts = [each.start for each in regions]

    def place(self, address: int) -> Optional[int]:
        """Which of them it is, counted from 0."""
        at = bisect_right(self._starts, address) - 1
        return at if at >= 0 and address < self.regions[at].end else None

    def find(self, address: Optional[int]) -> Optional[Region]:
        at = self.place(address) if address is not None else None
        return self.regions[at] if at is not None else None
