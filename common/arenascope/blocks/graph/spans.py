"""Ranges of addresses laid over each other."""

from __future__ import annotations

from bisect import bisect_right
from typing import Iterable, Iterator, NamedTuple, Optional

from ...sources.target import Span


class SpanMark(NamedTuple):
    """What part of a mapping is; None: nothing that counts."""

    start: int
    end: int
    kind: Optional[str]
    tid: Optional[int] = None


class Marks:
    """Ranges that are something, in order. Where two lie over each other, the one that was named first counts."""

    def __init__(self, marks: Iterable[SpanMark]) -> None:
        self._marks: list[SpanMark] = []
        self._starts: list[int] = []
        for each in marks:
            for part, before in list(self.over(each.start, each.end)):
                if before is None:
                    at = bisect_right(self._starts, part.start)
                    self._starts.insert(at, part.start)
                    self._marks.insert(at, each._replace(start=part.start, end=part.end))

    def over(self, start: int, end: int) -> Iterator[tuple[Span, Optional[SpanMark]]]:
        """The parts of a range, each with the mark that it bears."""
        at = start
        index = max(0, bisect_right(self._starts, start) - 1)
        while index < len(self._marks) and self._marks[index].start < end:
            mark = self._marks[index]
            low, high = max(mark.start, at), min(mark.end, end)
            if low < high:
                if at < low:
                    yield Span(at, low), None
                yield Span(low, high), mark
                at = high
            index += 1
        if at < end:
            yield Span(at, end), None
