"""Whose memory it is, in words."""

from __future__ import annotations

from typing import Iterator, Mapping, Optional, Sequence

from ...analysis.figure_names import NAMELESS
from ...analysis.held import Holder
from ...base.kinds import Kind
from ...blocks.graph.edges import SecondLook
from ...blocks.graph.kept import Kept
from ...blocks.graph.owned import Owned
from ...blocks.graph.owners import SHARED, UNREACHED, Holding, Leading, Owner
from ...blocks.graph.refs import Search
from ...blocks.recognise.holders import POOL
from ..documents import owner_records as records
from ..render.json import hexadecimal
from ..render.marks import marked, unmarked
from ..render.text import Style, count, cut, left_out, next_lines, table
from .refs import of_thread

SEVERAL, NOBODY, NOTHING = "several together", "nobody", "no plain pointer"
"""The last: where pointers that are written otherwise were not looked for."""
NO_SUM = (
    "goes back: with one owner alone; pages that blocks of two share go back with neither, so that rows do not add up"
)
HEADERS = ("whose", "holds", "resident", "goes back", "blocks", "spreads at")
MUCH = 10
"""What several hold together is told where it is such a part of all."""
FEW, NAMED = 3, 2
"""Of those who lead to something together so many are named; of more than that these."""


class Shown:
    def __init__(self, search: Search, owned: Owned, types: Mapping[int, Kind]) -> None:
        """`types`: what the blocks are on which most hangs."""
        self.search, self._types = search, types
        self.owners, self.kept = owned

    def kept_by(self, holding: Holding) -> Optional[Kept]:
        return self.kept[holding.number] if self.kept is not None else None

    def words(self, holding: Holding) -> str:
        return whose(self.search, holding.owner, holding.leading)

    def plain_words(self, holding: Holding) -> str:
        """For other programs, and for where a name stands by itself."""
        return unmarked(self.words(holding))

    def type_of(self, holding: Holding) -> Optional[str]:
        """What the block is that most hangs on."""
        return self._types[holding.way[-1].block].name if holding.way else None

    def record(self, holding: Holding) -> records.Held:
        kept, owner = self.kept_by(holding), holding.owner
        leading, starts = holding.leading, self.search.blocks.starts
        return records.Held(
            kind=owner.kind,
            name=owner.name,
            tid=owner.tid,
            type=self.type_of(holding),
            retained_bytes=holding.bytes,
            retained_resident_bytes=kept.resident if kept is not None else None,
            returns_bytes=kept.returns if kept is not None else None,
            blocks=holding.blocks,
            leading=None
            if leading is None
            else records.Leading(
                owners=[records.Root(kind=each.kind, name=each.name, tid=each.tid) for each in leading.owners],
                whole=leading.whole,
            ),
            path=[
                records.Step(
                    block=hexadecimal(starts[each.block]),
                    type=self._types[each.block].name,
                    retained_bytes=each.bytes,
                    blocks=each.blocks,
                )
                for each in holding.way
            ],
        )


def owner_record(owner: Holder) -> records.Owner:
    return records.Owner(kind=owner.kind, name=owner.name, tid=owner.tid)


def owner_json(owner: Holder) -> dict[str, object]:
    return owner_record(owner).to_dict()


def whose(search: Search, owner: Owner, leading: Optional[Leading] = None) -> str:
    """`leading`: of what several lead to, who does."""
    if owner.kind == SHARED:
        if owner.name == POOL:
            return POOL
        who = those_of(search, leading)
        if owner.name is None:
            return who if who != SEVERAL else f"{who}: others"
        return f"{who}: {owner.name}"
    if owner.kind == UNREACHED:
        return f"{nobody(search)} (see leaks)"
    thread = of_thread(search.names, owner.tid)
    if owner.kind == "stack":
        return f"stack{thread}"
    if owner.kind == "register":
        return f"registers{thread}"
    if owner.kind == "mapping":
        return f"mapping {owner.name}"
    if owner.kind == "tls":
        return f"{marked(owner.name) if owner.name else 'variables'}{thread}"
    return marked(owner.name) if owner.name else NAMELESS


def nobody(search: Search) -> str:
    """Who holds what nothing was found to lead to."""
    return NOBODY if search.memo.get(SecondLook) is not None else NOTHING


def those_of(search: Search, leading: Optional[Leading]) -> str:
    """All who lead to what no one alone does."""
    return f"{together(search, leading)} together" if leading is not None and leading.owners else SEVERAL


def together(search: Search, leading: Leading) -> str:
    """The first of those who lead there, and how many more."""
    names = [whose(search, each) for each in leading.owners]
    if leading.whole and len(names) <= FEW:
        return listed(names)
    more = f"{len(names) - NAMED} more" if leading.whole else "others"
    return listed([*names[:NAMED], more])


def listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def summary(style: Style, shown: Shown) -> str:
    """The answer in a sentence."""
    blocks, largest = shown.search.blocks, _largest(shown)
    said = f"{style.size(blocks.bytes)} in use in {count(len(blocks), 'block')}"
    shared = sum(each.bytes for each in shown.owners.holdings if _is_shared(each.owner))
    if largest is None:
        return f"{said}; several together hold {style.size(shared)}" if shared else said
    who, alone = whose(shown.search, largest.owner), style.size(largest.bytes)
    if shared > largest.bytes:
        # what one holds alone can be next to nothing of it
        return f"{said}; several together hold {style.size(shared)}, nobody alone more than {alone} ({who})"
    return f"{said}; {who} holds most, {alone}{_most_jointly(style, shown)}"


def _most_jointly(style: Style, shown: Shown) -> str:
    most = next(iter(shown.owners.jointly), None)
    if most is None or MUCH * most.bytes < shown.search.blocks.bytes:
        return ""
    names = together(shown.search, Leading(most.owners, whole=True))
    return f"; {names} hold {style.size(most.bytes)} together"


def _is_shared(owner: Owner) -> bool:
    return owner.kind == SHARED and owner.name != POOL


def _largest(shown: Shown) -> Optional[Holding]:
    return next((each for each in shown.owners.holdings if each.owner.kind not in (SHARED, UNREACHED)), None)


def lines(style: Style, shown: Shown, limit: int, written: Sequence[records.Written]) -> Iterator[str]:
    """`written`: the files that were."""
    blocks, holdings, largest = shown.search.blocks, shown.owners.holdings, _largest(shown)
    lost = next((each for each in holdings if each.owner.kind == UNREACHED), None)
    yield style.bold(summary(style, shown))
    for each in written:
        yield f"{each.file}: {style.size(each.bytes)} written"
    yield ""
    rows, more = cut([_cells(style, shown, each) for each in holdings], limit)
    yield from table(HEADERS, rows, left=(0, 5), width=style.width, expendable=("resident",), form=style.form)
    yield from left_out(style, more, "owner")
    if len(holdings) > 1:
        yield style.dim(NO_SUM)
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
        shown.words(holding),
        style.size(holding.bytes),
        style.size(kept.resident if kept is not None else None),
        style.size(kept.returns if kept is not None else None),
        f"{holding.blocks:,}",
        spreads,
    ]
