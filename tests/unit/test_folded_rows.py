"""The small rows of types are one row together, which has what they sum to."""

from __future__ import annotations

import re
from typing import Sequence

import pytest

from arenascope.analysis.pins import Totals, TypeRow
from arenascope.base.model import Kind
from arenascope.present.screens.types import lines
from arenascope.present.shared_text.text import FEW_ROWS, Style, worth_a_row

LARGE, SMALL = 12, 30


def told(
    style: Style, rows: Sequence[TypeRow], totals: Totals, limit: int, *, fold: bool, by: str = "bytes"
) -> list[str]:
    """The table of types, of which nothing is known but these."""
    return list(
        lines(
            style,
            rows,
            totals,
            limit,
            named=0,
            resident=None,
            notes=(),
            held_by={},
            retained={},
            owners=False,
            by=by,
            fold=fold,
        )
    )


@pytest.mark.parametrize(
    ("sizes", "limit", "shown"),
    [
        ([100] * LARGE + [1] * SMALL, 40, LARGE),
        ([100] * LARGE + [1] * SMALL, 11, 11),
        ([100] * LARGE + [1] * SMALL, 0, LARGE + SMALL),
        ([1000, *[1] * SMALL], 40, FEW_ROWS),
        ([1] * FEW_ROWS, 40, FEW_ROWS),
    ],
)
def test_rows_below_a_hundredth_are_not_shown(sizes: list[int], limit: int, shown: int) -> None:
    assert worth_a_row(sizes, sum(sizes), limit) == shown


@pytest.mark.parametrize(("limit", "fold"), [(40, True), (0, True), (40, False)])
def test_the_blocks_of_all_rows_sum_up(limit: int, fold: bool) -> None:
    sizes = [100] * LARGE + [1] * SMALL
    rows = [
        TypeRow(Kind(f"t{at}", "c++"), at, blocks=at + 1, bytes=size, resident=None, holds_back=None, samples=[16])
        for at, size in enumerate(sizes)
    ]
    blocks = sum(row.blocks for row in rows)
    totals = Totals(blocks, sum(sizes), used=0, mmapped=0, bookkeeping=0, foreign=0, damaged=0)
    said = told(Style(), rows, totals, limit, fold=fold)
    counted = [re.split(r"  +", line)[1] for line in said if re.match(r"t\d+  |\d+ other", line)]
    assert sum(int(each) for each in counted) == blocks


@pytest.mark.parametrize(
    ("width", "bars", "share"), [(0, True, True), (63, True, True), (62, False, True), (36, False, False)]
)
def test_bars_go_before_any_figure(width: int, bars: bool, share: bool) -> None:
    rows = [
        TypeRow(Kind(name, "c++"), at, blocks=1, bytes=size, resident=size, holds_back=None, samples=[16])
        for at, (name, size) in enumerate((("much", 900), ("little", 100)))
    ]
    totals = Totals(2, 1000, used=0, mmapped=0, bookkeeping=0, foreign=0, damaged=0)
    said = "\n".join(told(Style(width=width), rows, totals, limit=0, fold=False))
    assert ("█" * 5 in said) is bars
    assert ("90.0%" in said) is share


@pytest.mark.parametrize(("by", "first"), [("bytes", 12), ("blocks", FEW_ROWS), ("holds-back", 14)])
def test_rows_are_folded_by_what_they_are_in_order_of(by: str, first: int) -> None:
    """12 types have a hundredth of the bytes or more, 3 of the blocks, 14 hold as much back."""
    rows = [
        TypeRow(
            Kind(f"t{at}", "c++"),
            at,
            blocks=1000 if at < 3 else 1,
            bytes=1000 if at < 12 else 1,
            resident=None,
            holds_back=1000 if at < 14 else 0,
            samples=[16],
        )
        for at in range(42)
    ]
    totals = Totals(3039, 12030, used=0, mmapped=0, bookkeeping=0, foreign=0, damaged=0)
    said = told(Style(), rows, totals, 40, fold=True, by=by)
    assert [line.split()[0] for line in said if re.match(r"t\d+  ", line)] == [f"t{at}" for at in range(first)]
    assert [line.split()[0] for line in said if " other types " in line] == [str(len(rows) - first)]


@pytest.mark.parametrize(("by", "kept"), [("holds-back", "holds back"), ("bytes", "blocks")])
def test_what_rows_are_in_order_of_stays_on_a_narrow_terminal(by: str, kept: str) -> None:
    rows = [TypeRow(Kind("name" * 9, "c++"), 0, blocks=1, bytes=1 << 20, resident=1, holds_back=1 << 19, samples=[16])]
    totals = Totals(1, 1 << 20, used=0, mmapped=0, bookkeeping=0, foreign=0, damaged=0)
    headers = told(Style(width=68), rows, totals, 40, fold=True, by=by)[2]
    assert [title for title in ("holds back", "blocks") if title in headers] == [kept]
