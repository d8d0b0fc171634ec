"""Which source file a stripped file's functions and variables are of: a linker lays out each object file in one piece.

Functions of one source file stand side by side, and so do its variables in each section, in the same order of files.
Link-time optimization mixes them: then only what a function mentions itself counts.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from itertools import groupby
from typing import Iterable, Mapping, Optional

MOST = 2 / 3
"""Of the votes for a file that can be meant."""
IN_ORDER = 0.8
"""Of the variables that one file alone uses so many at least are in the order of files."""
RUNS = 2
"""So often at most, on average, functions of one file stand together: cold parts lie apart."""


class Code:
    """Functions, by their numbers in the order of addresses."""

    def __init__(self, mentioned: Mapping[int, str]) -> None:
        """The source file that a function mentions, where it mentions one."""
        self.mentioned = mentioned
        self._known = sorted(mentioned)
        places: dict[str, list[int]] = {}
        for number in self._known:
            places.setdefault(mentioned[number], []).append(number)
        # cold parts stand apart: the middle one does not
        order = sorted(places, key=lambda each: places[each][len(places[each]) // 2])
        self.ranks = {source: rank for rank, source in enumerate(order)}
        runs = sum(1 for _ in groupby(self._known, key=lambda each: mentioned[each]))
        self._in_order = runs <= RUNS * len(order)

    def source_of(self, number: int) -> Optional[str]:
        """The file that it mentions, or that the nearest functions on both sides do."""
        at = bisect_left(self._known, number)
        if at < len(self._known) and self._known[at] == number:
            return self.mentioned[number]
        if not self._in_order or not 0 < at < len(self._known):
            return None
        before, after = (self.mentioned[self._known[each]] for each in (at - 1, at))
        return before if before == after else None


class Data:
    """Variables of one section."""

    def __init__(self, code: Code, users: Mapping[int, Iterable[int]]) -> None:
        """By where each begins, the functions that use it."""
        self._ranks = code.ranks
        told = {start: [code.source_of(each) for each in who] for start, who in users.items()}
        self._votes = {start: Counter(each for each in files if each is not None) for start, files in told.items()}
        certain = {
            start: next(iter(votes))
            for start, votes in self._votes.items()
            if len(votes) == 1 and sum(votes.values()) == len(told[start])
        }
        self._known = self._longest(certain)
        self._in_order = len(self._known) >= IN_ORDER * len(certain)
        if not self._in_order:
            self._known = {start: source for start, source in certain.items() if {*users[start]} <= {*code.mentioned}}
        self._starts = sorted(self._known)

    def _longest(self, certain: Mapping[int, str]) -> dict[int, str]:
        """As many as can be in the order of files: without a variable that only another file uses."""
        starts = sorted(certain)
        least: list[int] = []
        ends: list[int] = []
        before: dict[int, Optional[int]] = {}
        for start in starts:
            rank = self._ranks[certain[start]]
            at = bisect_right(least, rank)
            before[start] = ends[at - 1] if at else None
            least[at : at + 1] = [rank]
            ends[at : at + 1] = [start]
        kept: dict[int, str] = {}
        last = ends[-1] if ends else None
        while last is not None:
            kept[last] = certain[last]
            last = before[last]
        return kept

    def source_of(self, start: int) -> Optional[str]:
        """By its place among those that one file alone uses, and by which of the files in question use it."""
        if start in self._known:
            return self._known[start]
        at = bisect_left(self._starts, start)
        if not self._in_order or not 0 < at < len(self._starts):
            return None
        first, last = (self._known[self._starts[each]] for each in (at - 1, at))
        if first == last:
            return first
        low, high = self._ranks[first], self._ranks[last]
        votes = self._votes[start].items()
        inside = Counter({source: count for source, count in votes if low <= self._ranks[source] <= high})
        for source, count in inside.most_common(1):
            if count >= MOST * sum(inside.values()):
                return source
        return None
