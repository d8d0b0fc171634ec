"""Which pages of a process were in memory, kept from while it was held: see short_hold.py."""

from __future__ import annotations

from bisect import bisect_right
from typing import Callable, Optional, Sequence

from ..target import Pages, Span
from .pagemap import PagemapResidency, Stretch


class KeptResidency:
    """Which pages were in memory: a stretch that was asked about is kept, and answers for whatever lies in it."""

    def __init__(self, pages: PagemapResidency, ask: Callable[[int, int], Stretch]) -> None:
        self._pages, self._ask = pages, ask
        self._starts: list[int] = []
        self._stretches: list[Stretch] = []
        """In order; none lies within another, as what does is not asked for."""

    @property
    def exact(self) -> bool:
        return self._pages.exact

    def _around(self, start: int, end: int) -> Optional[Stretch]:
        """None where the process is no more."""
        start, end = self._pages.whole_pages(start, end)
        place = bisect_right(self._starts, start)
        if place and end <= self._stretches[place - 1].end:
            return self._stretches[place - 1]
        try:
            stretch = self._ask(start, end)
        except (OSError, ValueError):
            return None
        self._starts.insert(place, start)
        self._stretches.insert(place, stretch)
        return stretch

    def count(self, start: int, end: int) -> Optional[Pages]:
        around = self._around(start, end)
        return around.count(*self._pages.whole_pages(start, end)) if around is not None else None

    def resident_ranges(self, start: int, end: int) -> Optional[Sequence[Span]]:
        around = self._around(start, end)
        return around.resident(*self._pages.whole_pages(start, end)) if around is not None else None
