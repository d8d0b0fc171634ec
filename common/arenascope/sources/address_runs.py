"""Where something is, among addresses or in a file, and how much of it lies in any stretch."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from functools import cached_property
from itertools import accumulate, chain
from operator import sub
from typing import Iterable, Iterator, Sequence

from .target import Span, joined


class Runs:
    """Runs of bytes, in order, none over another. Arrays: a trimmed heap may have a million holes."""

    def __init__(self, spans: Iterable[tuple[int, int]] = ()) -> None:
        bounds = array("Q", chain.from_iterable(spans))
        self.starts, self.ends = bounds[::2], bounds[1::2]

    def __iter__(self) -> Iterator[Span]:
        return map(Span, self.starts, self.ends)

    @cached_property
    def _sums(self) -> Sequence[int]:
        """The bytes in front of each."""
        return array("Q", accumulate(map(sub, self.ends, self.starts), initial=0))

    def _within(self, low: int, high: int) -> tuple[int, int]:
        return bisect_right(self.ends, low), bisect_left(self.starts, high)

    def bytes_in(self, low: int, high: int) -> int:
        first, end = self._within(low, high)
        if first >= end:
            return 0
        outside = max(low - self.starts[first], 0) + max(self.ends[end - 1] - high, 0)
        return self._sums[end] - self._sums[first] - outside

    def parts_in(self, low: int, high: int) -> Iterator[Span]:
        first, end = self._within(low, high)
        for start, stop in zip(self.starts[first:end], self.ends[first:end]):
            if start < stop:
                yield Span(max(start, low), min(stop, high))

    def spans_in(self, low: int, high: int) -> list[Span]:
        """Neighbours as one."""
        return joined(self.parts_in(low, high))
