"""heap owners: the sentence that answers, and the rows."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any, Sequence

import pytest

from arenascope.base.model import Kind
from arenascope.base.printable import NOWHERE
from arenascope.blocks.graph.holders import Paths
from arenascope.blocks.graph.leads import Owner
from arenascope.blocks.graph.owners import UNREACHED, HeldStep, Holding, OtherHolders, Owners
from arenascope.blocks.graph.returns import HeldPages
from arenascope.present.screens.owners import OwnersScreen, lines, summary
from arenascope.present.shared_text.text import Style

ONE = Holding(Owner("global", "g_one"), 0, 1, 100, 1, 100)
PARTLY = ONE._replace(alone_bytes=40)
SIZES = (1_000_000, *[100] * 16)
"""Ten have a row."""
LOST = Holding(Owner(UNREACHED, None), 1, 1, 500, 1, 500)


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ([ONE], ["`g_one`", "100 B"]),
        ([PARTLY], ["`g_one`", "100 B", "40 B"]),
        ([LOST, ONE], ["500 B", "`g_one`", "100 B"]),
        ([ONE, LOST._replace(bytes=90)], ["`g_one`", "100 B"]),
        ([LOST], []),
    ],
)
def test_whoever_holds_most_is_named(held: Sequence[Holding], said: Sequence[str]) -> None:
    search: Any = SimpleNamespace(blocks=_Blocks(sum(each.bytes for each in held)), names={}, second_look=None)
    told = summary(Style(), OwnersScreen(search, HeldPages(Owners(held, (), (), ()), None), {}, Paths(search, NOWHERE)))
    assert re.findall(r"`\w+`|\d+ B", told) == [f"{search.blocks.bytes} B", *said]


def screen(held: Sequence[Holding], limit: int) -> list[str]:
    kinds = {at: Kind(f"kind{at}", "c++") for at in range(9)}
    session = SimpleNamespace(target=SimpleNamespace(types=None))
    blocks = _Blocks(sum(each.bytes for each in held))
    search: Any = SimpleNamespace(blocks=blocks, names={}, second_look=None, session=session)
    return list(
        lines(
            Style()._replace(width=0),
            OwnersScreen(search, HeldPages(Owners(held, (), (), ()), None), kinds, Paths(search, NOWHERE)),
            limit,
            (),
            resident=None,
        )
    )


def test_the_last_steps_down_and_what_is_as_near() -> None:
    way = [HeldStep(at, blocks=9, bytes=90) for at in range(5)]
    near = ONE._replace(way=way, tied_bytes=10, leading=OtherHolders([Owner("global", "g_other")], whole=True))
    (row,) = (line for line in screen([near], 20) if line.startswith("`g_one` "))
    assert re.findall(r"kind\d|0x\w+|`\w+`|\d+ B", row) == [
        *("`g_one`", "100 B", "100 B"),
        *("0x4", "kind2", "kind3", "kind4", "10 B", "`g_other`"),
    ]
    (row,) = (line for line in screen([near._replace(tied_bytes=9)], 20) if line.startswith("`g_one` "))
    assert row.endswith("`g_other`")


def test_small_ones_are_told_of_once() -> None:
    held = [ONE._replace(owner=Owner("global", f"g_{at}"), number=at, bytes=size) for at, size in enumerate(SIZES)]
    told = [line for line in screen(held, 20) if "--limit 0" in line]
    assert [line.split()[0] for line in told] == ["7"]
    assert not [line for line in screen(held, 0) if "--limit 0" in line]
    assert sum(line.startswith("`g_") for line in screen(held[:5], 3)) == 3


class _Blocks:
    starts = range(9)

    def __init__(self, size: int) -> None:
        self.bytes = size

    def __len__(self) -> int:
        return 9
