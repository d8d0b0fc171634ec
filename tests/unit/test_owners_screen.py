"""heap owners: the sentence that answers."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any, Sequence

import pytest

from arenascope.blocks.graph.owned import Owned
from arenascope.blocks.graph.owners import UNREACHED, Holding, Owner, Owners
from arenascope.present.render.text import Style
from arenascope.present.screens.owners import Shown, summary

ONE = Holding(Owner("global", "g_one"), 0, 1, 100, 1, 100)
PARTLY = ONE._replace(alone_bytes=40)
LOST = Holding(Owner(UNREACHED, None), 1, 1, 500, 1, 500)


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ([ONE], ["`g_one`", "100 B"]),
        ([PARTLY], ["`g_one`", "100 B", "40 B"]),
        ([LOST, ONE], ["`g_one`", "100 B"]),
        ([LOST], []),
    ],
)
def test_whoever_holds_most_is_named(held: Sequence[Holding], said: Sequence[str]) -> None:
    search: Any = SimpleNamespace(blocks=_Blocks(sum(each.bytes for each in held)), names={})
    told = summary(Style(), Shown(search, Owned(Owners(held, (), (), ()), None), {}))
    assert re.findall(r"`\w+`|\d+ B", told) == [f"{search.blocks.bytes} B", *said]


class _Blocks:
    def __init__(self, size: int) -> None:
        self.bytes = size

    def __len__(self) -> int:
        return 9
