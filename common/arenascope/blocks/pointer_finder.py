"""Which words of a window lead into some ranges: by bytes that such words must have, then by the word itself.

A list comprehension over all words costs 75 ns each; a regular expression over bytes finds the few that can matter in a
fraction of that. Where numpy is found, `blocks/graph/edges_with_numpy.py` does the same.
"""

from __future__ import annotations

import re
import sys
from array import array
from bisect import bisect_right
from types import ModuleType
from typing import TYPE_CHECKING, Callable, Iterable, Iterator, Optional, Sequence, Union

from ..base import optional_libraries
from ..sources.target import Span, joined

if TYPE_CHECKING:
    from ..base.array_types import Flags

MOST_PREFIXES, FEW_PREFIXES = 16, 4
MOST_TOPS = 4
"""More stretches of upper halves are looked for word by word."""
TABLE, GRAIN, FEW_RANGES = 1 << 16, 4, 8
"""A table of so many places stays in the processor's cache; each is for so many low bits."""
WORTH_IT = 32 << 20
"""Bytes that are looked through without numpy in the time that it takes to load."""


def library(size: int) -> Optional[ModuleType]:
    """numpy, where it is found and so many bytes are worth loading it."""
    return optional_libraries.load("numpy") if size >= WORTH_IT else None


class Finder:
    """`starts` and `ends` (both included) are the ranges, in order."""

    tops: None = None
    """FastFinder alone knows them."""

    def __init__(self, starts: Sequence[int], ends: Sequence[int], extents: Iterable[Span], word: int) -> None:
        """`extents` cover them all, roughly."""
        self._starts, self._ends = starts, ends
        self._low, self._high = (starts[0], max(ends)) if len(starts) else (1, 0)
        self._search = _searcher(list(extents), word)

    def hits(self, words: Sequence[int], most: Optional[int] = None) -> Iterator[tuple[int, int]]:
        """(index of the word, which of the ranges); where `most` is given less far than that past its start."""
        low, high, starts, ends = self._low, self._high, self._starts, self._ends
        values = (
            [(index, value) for index, value in enumerate(words) if low <= value <= high]
            if self._search is None
            else [(index, words[index]) for index in self._search(words)]
        )
        for index, value in values:
            which = bisect_right(starts, value) - 1
            if which >= 0 and value <= ends[which] and (most is None or value - starts[which] < most):
                yield index, which


class FastFinder:
    """The same with numpy: by the range of all, then by a search in the few that are left."""

    def __init__(self, numpy: ModuleType, starts: Sequence[int], ends: Sequence[int], word: int) -> None:
        self._numpy = numpy
        self._starts = numpy.asarray(starts, dtype=numpy.uint64)
        self._ends = numpy.asarray(ends, dtype=numpy.uint64)
        number = numpy.uint64 if word == 8 else numpy.uint32
        low, high = (starts[0], max(ends)) if len(starts) else (1, 0)
        self._low, self._bytes = number(low), number(max(0, high - low))
        self.tops = self._tops(word)
        self._table = self._hashed()
        self._grain, self._key = number(GRAIN), number(TABLE - 1)

    def _tops(self, word: int) -> Optional[Sequence[Span]]:
        """The upper halves of all that leads into the ranges, which are 16 bits; None where these are many, or longer,
        or zero, as half of all words are."""
        if word != 8 or not len(self._starts):
            return None
        numpy, half = self._numpy, self._numpy.uint64(32)
        firsts, lasts = self._starts >> half, self._ends >> half
        new = numpy.ones(len(firsts), dtype=bool)
        new[1:] = (firsts[1:] != firsts[:-1]) | (lasts[1:] != lasts[:-1])
        tops = joined((first, max(first, last) + 1) for first, last in zip(firsts[new].tolist(), lasts[new].tolist()))
        return tops if len(tops) <= MOST_TOPS and tops[0].start and tops[-1].end <= 1 << 16 else None

    def _hashed(self) -> Optional[Flags]:
        """Whether something in the ranges has these bits above the lowest four: a search in thousands of ranges takes
        far longer, and few words pass. None where the ranges are long, or so many that most would."""
        numpy, low = self._numpy, self._numpy.uint64(GRAIN)
        firsts, lasts = self._starts >> low, self._ends >> low
        if not FEW_RANGES <= len(firsts) <= TABLE // 8 or (lasts - firsts).max() > 1:
            return None
        table: Flags = numpy.zeros(TABLE, dtype=bool)
        for each in (firsts, lasts):
            table[(each & numpy.uint64(TABLE - 1)).astype(numpy.int64)] = True
        return table

    def hits(self, words: Sequence[int], most: Optional[int] = None) -> Iterator[tuple[int, int]]:
        numpy = self._numpy
        values = numpy.asarray(words)
        # what is below the first wraps around
        index = numpy.flatnonzero(values - self._low <= self._bytes)
        if self._table is not None and len(index):
            index = index[self._table[values[index] >> self._grain & self._key]]
        if not len(index) or not len(self._starts):
            return
        values = values[index].astype(numpy.uint64)
        which = numpy.searchsorted(self._starts, values, side="right") - 1
        right = (which >= 0) & (values <= self._ends[which])
        if most is not None:
            right &= values - self._starts[which] < numpy.uint64(most)
        yield from zip(index[right].tolist(), which[right].tolist())


def finder_of(
    numpy: Optional[ModuleType], starts: Sequence[int], ends: Sequence[int], extents: Iterable[Span], word: int
) -> Union[Finder, FastFinder]:
    """`numpy` is None where there is none, or too little to look through."""
    if numpy is not None and len(starts):
        return FastFinder(numpy, starts, ends, word)
    return Finder(starts, ends, extents, word)


Search = Callable[[Sequence[int]], Sequence[int]]


def _searcher(extents: Sequence[Span], word: int) -> Optional[Search]:
    """Finds the words with one of a few beginnings; None where there are too many of these."""
    if word != 8 or sys.byteorder != "little":
        return None
    possible = [(shift, prefixes) for shift in (16, 24, 32) if (prefixes := _prefixes(extents, shift)) is not None]
    # a beginning less to look for saves more than some words more to look at cost
    few = [each for each in possible if len(each[1]) <= FEW_PREFIXES]
    for shift, prefixes in [*few, *possible][:1]:
        size = 8 - shift // 8
        needles = [re.escape(each.to_bytes(size, "little")) for each in sorted(prefixes)]
        # the search for a text alone is several times faster than that for one of two
        patterns = [re.compile(each, re.DOTALL) for each in (needles if few else [b"|".join(needles)])]
        return _in_halves(patterns) if shift == 32 else _in_bytes(patterns, shift // 8)
    return None


def _prefixes(extents: Sequence[Span], shift: int) -> Optional[set[int]]:
    prefixes: set[int] = set()
    for start, end in extents:
        first, last = start >> shift, end >> shift
        if last - first >= MOST_PREFIXES:
            return None
        prefixes.update(range(first, last + 1))
        if len(prefixes) > MOST_PREFIXES:
            return None
    return prefixes


def _in_bytes(patterns: Sequence[re.Pattern[bytes]], offset: int) -> Search:
    return lambda words: _places(patterns, _bytes(words), 8, offset, many=len(words))


def _in_halves(patterns: Sequence[re.Pattern[bytes]]) -> Search:
    return lambda words: _places(patterns, _bytes(words).cast("I")[1::2].tobytes(), 4, 0, many=len(words))


def _places(
    patterns: Sequence[re.Pattern[bytes]], data: Union[bytes, memoryview], step: int, offset: int, many: int
) -> Sequence[int]:
    """The indices of words, of which each takes `step` bytes in the data, that may be right."""
    # what lies askew may hide the next word, and counts for that
    places = {-((offset - match.start()) // step) for pattern in patterns for match in pattern.finditer(data)}
    places.discard(many)
    return sorted(places)


def _bytes(words: Sequence[int]) -> memoryview:
    assert isinstance(words, (memoryview, array))
    return memoryview(words).cast("B")
