"""The small rows of types are one row together, which has what they sum to."""

from __future__ import annotations

import re
from argparse import Namespace
from types import SimpleNamespace
from typing import Sequence, cast

import pytest

from arenascope.analysis.pinning_blocks import Totals, TypeRow
from arenascope.base.heap_model import Kind
from arenascope.commands.framework.command import Context
from arenascope.commands.types import lines
from arenascope.present.shared_text.lines_and_tables import FEW_ROWS, Style

LARGE, SMALL = 12, 30


def told(
    style: Style, rows: Sequence[TypeRow], totals: Totals, limit: int, *, fold: bool, by: str = "bytes"
) -> list[str]:
    """The table of types, of which nothing is known but these."""
    options = Namespace(by=by, limit=limit, name=None, match=None, min=None if fold else "1")
    context = cast("Context", SimpleNamespace(style=style, options=options))
    return list(
        lines(
            context,
            rows,
            totals,
            every=(),
            notes=(),
            held_by={},
            retained={},
            owners=False,
            matching=None,
            python=(),
        )
    )


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
