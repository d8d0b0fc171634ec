"""heap owners: the sentence that answers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from arenascope.blocks.graph.owned import Owned
from arenascope.blocks.graph.owners import SHARED, UNREACHED, Holding, Owner, Owners
from arenascope.blocks.recognise.holders import POOL
from arenascope.present.render.text import Style
from arenascope.present.screens.owners import Shown, summary

ONE = Owner("global", "g_one"), 100
KEPT = Owner(SHARED, "list node"), 70


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ([ONE, KEPT], "`g_one` holds most, 100 B"),
        ([(Owner(SHARED, POOL), 700), ONE], "`g_one` holds most, 100 B"),
        ([ONE, KEPT, (Owner(SHARED, None), 31)], "several together hold 101 B, nobody alone more than 100 B (`g_one`)"),
        ([KEPT, (Owner(UNREACHED, None), 50)], "several together hold 70 B"),
        ([(Owner(UNREACHED, None), 50)], None),
    ],
)
def test_who_holds_most_is_not_who_holds_next_to_nothing(held: Any, said: str) -> None:
    search: Any = SimpleNamespace(blocks=_Blocks(sum(size for _, size in held)), names={})
    holdings = [Holding(owner, number, 1, size) for number, (owner, size) in enumerate(held)]
    shown = Shown(search, Owned(Owners(holdings, (), ()), None), {})
    start = f"{search.blocks.bytes} B in use in 9 blocks"
    assert summary(Style(), shown) == (start if said is None else f"{start}; {said}")


class _Blocks:
    def __init__(self, size: int) -> None:
        self.bytes = size

    def __len__(self) -> int:
        return 9
