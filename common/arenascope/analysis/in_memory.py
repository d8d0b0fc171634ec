"""How much of any range of a heap is in memory."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from types import ModuleType
from typing import TYPE_CHECKING, Optional, Sequence

from ..sources.target import Span

if TYPE_CHECKING:
    from ..base.array_types import Numbers


class Present:
    """How much of any range is in memory, for a heap of which that is known."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self._spans = spans
        self._starts = [span.start for span in spans]
        self._arrays: Optional[tuple[Numbers, Numbers, Numbers]] = None
        self._before = [0, *accumulate(span.end - span.start for span in spans)]

    def within(self, start: int, end: int) -> int:
        return self._below(end) - self._below(start)

    def _below(self, address: int) -> int:
        at = bisect_right(self._starts, address)
        if not at:
            return 0
        span = self._spans[at - 1]
        return self._before[at - 1] + min(address, span.end) - span.start

    def at_once(self, numpy: ModuleType, starts: Numbers, ends: Numbers) -> Numbers:
        """The same of many ranges, as arrays."""
        if not self._spans:
            none: Numbers = numpy.zeros(len(starts), dtype=numpy.int64)
            return none
        if self._arrays is None:
            spans = numpy.array(self._spans, dtype=numpy.int64)
            self._arrays = spans[:, 0].copy(), spans[:, 1].copy(), numpy.array(self._before, dtype=numpy.int64)
        lows, highs, before = self._arrays

        def below(addresses: Numbers) -> Numbers:
            at = numpy.searchsorted(lows, addresses, side="right")
            # before the first there is nothing: its own start stands for what lies there
            last = numpy.maximum(at - 1, 0)
            places = numpy.maximum(numpy.minimum(addresses, highs[last]), lows[last])
            sums: Numbers = before[last] + places - lows[last]
            return sums

        return below(ends) - below(starts)
