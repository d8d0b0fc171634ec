"""heap leaks: its table."""

from __future__ import annotations

from array import array

import pytest
from given_blocks import given_blocks

from arenascope.blocks.graph.edges import Lumps
from arenascope.blocks.graph.leaks import BlockTally, LeakRow, Leaks
from arenascope.commands.leaks import lines
from arenascope.present.shared_text.text import Style

NONE = Lumps((), (), (), ())
BLOCKS = given_blocks(8, array("Q"), array("Q"), array("Q"))


def headings(*rows: LeakRow) -> list[str]:
    """The row of names at 80 columns."""
    leaks = Leaks(NONE, NONE, BlockTally(0, 0), {}, BlockTally(0, 0), ())
    shown = list(lines(Style(width=80), BLOCKS, leaks, rows, limit=9, with_possible=True))
    (above,) = [line for line, rule in zip(shown, shown[1:]) if rule.startswith("--")]
    return [each.strip() for each in above.split("  ") if each]


@pytest.mark.parametrize(
    ("hanging", "strength", "said"),
    [
        (0, "possible", ["what", "blocks", "bytes", "sure", "one of them"]),
        (0, "definite", ["what", "blocks", "bytes", "one of them"]),
        (5, "possible", ["what", "blocks", "bytes", "retained", "sure", "one of them"]),
        (5, "definite", ["what", "blocks", "bytes", "retained", "one of them"]),
    ],
)
def test_one_of_them_is_named_where_there_is_room(hanging: int, strength: str, said: list[str]) -> None:
    rows = [LeakRow("48 bytes", 2, 96, hanging, 48 * hanging, strength, (0x7F00_0000_1000,))]
    assert headings(*rows) == said
