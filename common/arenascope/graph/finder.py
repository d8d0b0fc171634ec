"""Which words of a window lead into some ranges: by bytes that such words must have, then by the word itself.

A list comprehension over all words costs 75 ns each; a regular expression over bytes finds the few that can matter in a
fraction of that. Where numpy is found, numbers.py does the same.
"""

from __future__ import annotations

import re
import sys
from array import array
from bisect import bisect_right
from typing import Callable, Iterable, Iterator, Optional, Sequence

from ..target import Span

MOST_PREFIXES = 16


class Finder:
    """`starts` and `ends` (both included) are the ranges, in order."""

    def __init__(self, starts: Sequence[int], ends: Sequence[int], extents: Iterable[Span], word: int) -> None:
        """`extents` cover them all, roughly."""
        self.start = starts[0] if len(starts) else 0
        self._starts, self._ends = starts, ends
        self._low, self._high = (starts[0], max(ends)) if len(starts) else (1, 0)
        self._search = _searcher(list(extents), word)

    def hits(self, words: Sequence[int]) -> Iterator[tuple[int, int]]:
        """(index of the word, which of the ranges)."""
        low, high, starts, ends = self._low, self._high, self._starts, self._ends
        found = self._search(words) if self._search is not None else None
        values = (
            [(index, value) for index, value in enumerate(words) if low <= value <= high]
            if found is None
            else [(index, words[index]) for index in found]
        )
        for index, value in values:
            which = bisect_right(starts, value) - 1
            if which >= 0 and value <= ends[which]:
                yield index, which


Search = Callable[[Sequence[int]], Optional[Sequence[int]]]


def _searcher(extents: Sequence[Span], word: int) -> Optional[Search]:
    """Finds the words with one of a few beginnings; its None: look at each word."""
    if word != 8 or sys.byteorder != "little":
        return None
    for shift in (16, 24, 32):
        prefixes = _prefixes(extents, shift)
        if prefixes is not None:
            size = 8 - shift // 8
            needles = [re.escape(each.to_bytes(size, "little")) for each in sorted(prefixes)]
            pattern = re.compile(b"|".join(needles), re.DOTALL)
            return _in_halves(pattern) if shift == 32 else _in_bytes(pattern, shift // 8)
    return None


def _prefixes(extents: Sequence[Span], shift: int) -> Optional[set[int]]:
    found: set[int] = set()
    for start, end in extents:
        first, last = start >> shift, end >> shift
        if last - first >= MOST_PREFIXES:
            return None
        found.update(range(first, last + 1))
        if len(found) > MOST_PREFIXES:
            return None
    return found


def _in_bytes(pattern: re.Pattern[bytes], offset: int) -> Search:
    def search(words: Sequence[int]) -> Optional[Sequence[int]]:
        found = [match.start() - offset for match in pattern.finditer(_bytes(words))]
        # one that lies askew may hide a right one
        return None if any(at & 7 for at in found) else [at >> 3 for at in found]

    return search


def _in_halves(pattern: re.Pattern[bytes]) -> Search:
    def search(words: Sequence[int]) -> Optional[Sequence[int]]:
        halves = _bytes(words).cast("I")[1::2].tobytes()
        found = [match.start() for match in pattern.finditer(halves)]
        return None if any(at & 3 for at in found) else [at >> 2 for at in found]

    return search


def _bytes(words: Sequence[int]) -> memoryview:
    assert isinstance(words, (memoryview, array))
    return memoryview(words).cast("B")
