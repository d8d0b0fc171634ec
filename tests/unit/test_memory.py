"""Spans of memory, put together."""

from __future__ import annotations

from arenascope.sources.target import joined


def test_spans_that_touch_or_overlap_become_one() -> None:
    """Also where one lies within another, or stands there twice."""
    spans = [(40, 60), (0, 10), (45, 50), (10, 12), (70, 80), (11, 20), (70, 80)]
    covered = {address for start, end in spans for address in range(start, end)}
    apart = joined(sorted(spans))
    assert [(each.start, each.end) for each in apart] == [(0, 20), (40, 60), (70, 80)]
    assert {address for each in apart for address in range(each.start, each.end)} == covered
    assert joined([]) == []
