"""The order of top's processes where some of them were not followed to their ends."""

from __future__ import annotations

from typing import Optional

import pytest

from arenascope.analysis.top_order import Order, figures
from arenascope.base.model import Tally
from arenascope.present.json_documents.process_records import RunningProcess, WholeLook
from arenascope.present.json_documents.record import chunk_tally


def process(pid: int, free: int, more: int = 0, exact: Optional[int] = None) -> RunningProcess:
    """It has this much free, and up to so much more where it was not followed to its end."""
    whole = None
    if exact is not None:
        whole = WholeLook(
            time=1.0,
            held_seconds=0.1,
            rss_bytes=1 << 20,
            used_bytes=0,
            free_bytes=exact,
            trim_bytes=0,
            tops_bytes=0,
            stranded_bytes=exact,
        )
    return RunningProcess(
        pid=pid,
        user="somebody",
        name="name",
        rss_bytes=1 << 20,
        allocators=[],
        arenas=1,
        system_bytes=free + (more or 1 << 20),
        mmapped=chunk_tally(Tally(0, 0)),
        tops_bytes=0,
        bins_bytes=free,
        free_bytes=free,
        free_resident_bytes=free,
        stranded_bytes=free,
        free_whole=not more,
        exact=whole,
        figures=figures(whole, not more),
    )


def pids(rows: list[RunningProcess]) -> list[int]:
    return [row.pid for row in rows]


@pytest.mark.parametrize("sort", ["free", "stranded"])
def test_one_that_may_have_more_is_told(sort: str) -> None:
    order = Order([process(1, 50), process(2, 70), process(3, 10, more=45), process(4, 5, more=4)], sort, 0)
    assert pids(order.shown) == [2, 1, 3, 4]
    assert pids(order.uncertain) == [3]
    assert pids(order.to_follow) == [3, 4]


def test_the_first_is_first_however_much_more_it_has() -> None:
    order = Order([process(1, 50, more=1000), process(2, 40)], "free", 0)
    assert pids(order.shown) == [1, 2]
    assert order.uncertain == []


def test_what_may_be_the_largest_is_shown() -> None:
    rows = [process(1, 50), process(2, 40), process(3, 30), process(4, 1, more=60), process(5, 2, more=45)]
    order = Order(rows, "free", 3)
    assert pids(order.shown) == [1, 2, 4]
    assert pids(order.uncertain) == [5, 4]
    assert pids(order.to_follow) == [4, 5]
    assert pids(Order(rows, "free", 1).shown) == [1]
    assert pids(Order([*rows[:3], process(5, 2, more=20)], "free", 3).to_follow) == []


@pytest.mark.parametrize(("sort", "expected"), [("system", [2, 1]), ("rss", [1, 2])])
def test_these_are_always_known(sort: str, expected: list[int]) -> None:
    order = Order([process(1, 1, more=10), process(2, 2, more=20)], sort, 0)
    assert pids(order.shown) == expected
    assert order.uncertain == []


def test_what_a_whole_look_found_has_its_place_among_the_others() -> None:
    """And is shown beyond the limit, too: the first rows are the largest in any case."""
    rows = [process(1, 500), process(2, 9, more=90, exact=10), process(3, 1, more=900, exact=80), process(4, 20)]
    order = Order(rows, "free", 3)
    assert [(row.pid, row.figures) for row in order.shown] == [
        (1, "estimate"),
        (3, "exact"),
        (4, "estimate"),
        (2, "exact"),
    ]
    assert order.uncertain == []
    assert order.to_follow == []
    assert pids(Order(rows, "free", 1).shown) == [1, 3, 2]


def test_one_that_may_have_more_than_a_whole_look_found_elsewhere_is_told() -> None:
    order = Order([process(1, 1, more=900, exact=40), process(2, 30, more=20)], "free", 0)
    assert pids(order.shown) == [1, 2]
    assert pids(order.uncertain) == [2]
    assert pids(order.to_follow) == [2]


def test_a_whole_look_that_did_not_tell_leaves_bounds() -> None:
    unknown = process(1, 5, more=90, exact=1).exact
    assert unknown is not None
    unknown.free_bytes = None
    assert [figures(unknown, whole) for whole in (True, False, None)] == ["estimate", "at-least", None]
