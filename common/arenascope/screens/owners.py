"""Whose memory it is, in words."""

from __future__ import annotations

from typing import Iterator, Mapping, Optional, Sequence

from ..gather.types import live_kinds
from ..graph.held import placed
from ..graph.kept import Kept
from ..graph.leak_rows import types_of
from ..graph.owners import SHARED, UNREACHED, Holding, Owner, Owners
from ..graph.refs import Search
from ..render.json import address
from ..render.text import NO_HEAP, UNKNOWN, Style, count, cut, left_out, next_lines, table
from .refs import of_thread
from .types import name_of

HEADERS = ("whose", "holds", "resident", "goes back", "blocks", "spreads at")


class Shown:
    def __init__(self, search: Search, owners: Owners, kept: Optional[Sequence[Kept]]) -> None:
        self.search, self.owners, self.kept = search, owners, kept
        self._types = types_of(search, [step.block for each in owners.holdings for step in each.way])

    def kept_by(self, holding: Holding) -> Optional[Kept]:
        return self.kept[holding.number] if self.kept is not None else None

    def type_of(self, holding: Holding) -> Optional[str]:
        """What the block is that most hangs on."""
        return self._types[holding.way[-1].block] if holding.way else None

    def json(self, holding: Holding) -> dict[str, object]:
        kept = self.kept_by(holding)
        starts = self.search.blocks.starts
        return {
            "kind": holding.owner.kind,
            "name": holding.owner.name,
            "tid": holding.owner.tid,
            "type": self.type_of(holding),
            "retained_bytes": holding.bytes,
            "retained_resident_bytes": kept.resident if kept is not None else None,
            "returns_bytes": kept.returns if kept is not None else None,
            "blocks": holding.blocks,
            "path": [
                {
                    "block": address(starts[each.block]),
                    "type": self._types[each.block],
                    "retained_bytes": each.bytes,
                    "blocks": each.blocks,
                }
                for each in holding.way
            ],
        }


def whose(search: Search, owner: Owner) -> str:
    if owner.kind == SHARED:
        return f"several together: {owner.name or 'others'}"
    if owner.kind == UNREACHED:
        return "nobody: leaks tells more"
    thread = of_thread(search, owner.tid)
    if owner.kind == "stack":
        return f"stack{thread}"
    if owner.kind == "register":
        return f"registers{thread}"
    if owner.kind == "mapping":
        return f"mapping {owner.name}"
    if owner.kind == "tls":
        return f"{owner.name or 'variables'}{thread}"
    return owner.name or "a variable"


def kinds_of_all(search: Search) -> list[str]:
    """What each live block is."""
    live = live_kinds(search.session)
    names = [name_of(each) for each in live.kinds]
    types = [UNKNOWN] * len(search.blocks)
    for kind, number in placed(search, live):
        types[number] = names[kind]
    return types


def summary(style: Style, shown: Shown) -> str:
    """The answer in a sentence."""
    if not shown.search.session.started:
        return NO_HEAP
    blocks, largest = shown.search.blocks, _largest(shown)
    said = f"{style.size(blocks.bytes)} in use in {count(len(blocks), 'block')}"
    if largest is not None:
        said += f"; {whose(shown.search, largest.owner)} holds most, {style.size(largest.bytes)}"
    return said


def _largest(shown: Shown) -> Optional[Holding]:
    return next((each for each in shown.owners.holdings if each.owner.kind not in (SHARED, UNREACHED)), None)


def lines(style: Style, shown: Shown, limit: int, written: Sequence[Mapping[str, object]]) -> Iterator[str]:
    """`written`: the files that were."""
    if not shown.search.session.started:
        yield NO_HEAP
        return
    blocks, holdings, largest = shown.search.blocks, shown.owners.holdings, _largest(shown)
    lost = next((each for each in holdings if each.owner.kind == UNREACHED), None)
    yield style.bold(summary(style, shown))
    for each in written:
        size = each["bytes"]
        assert isinstance(size, int)
        yield f"{each['file']}: {style.size(size)} written"
    yield ""
    rows, more = cut([_cells(style, shown, each) for each in holdings], limit)
    yield from table(HEADERS, rows, left=(0, 5), width=style.width, expendable=("resident",), form=style.form)
    yield from left_out(style, more, "owner")
    yield ""
    way = largest.way[-1:] if largest is not None else ()
    typed = [style.typed(f"refs {blocks.starts[each.block]:#x}") for each in way]
    typed += [style.typed("leaks")] if lost is not None else []
    yield from next_lines(style, *typed, style.typed("types"))


def _cells(style: Style, shown: Shown, holding: Holding) -> list[str]:
    kept = shown.kept_by(holding)
    step = holding.way[-1] if holding.way else None
    spreads = f"{shown.type_of(holding)} {shown.search.blocks.starts[step.block]:#x}" if step is not None else ""
    return [
        whose(shown.search, holding.owner),
        style.size(holding.bytes),
        style.size(kept.resident if kept is not None else None),
        style.size(kept.returns if kept is not None else None),
        f"{holding.blocks:,}",
        spreads,
    ]
