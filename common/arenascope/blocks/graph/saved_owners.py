"""Who holds what, and what would go back with it: asked once, kept in a graph's file."""

from __future__ import annotations

import json
from typing import Iterator, NamedTuple, Optional, Sequence

from ...base.block_kinds import STALE
from ...session.session import Session
from .blocks import LiveBlocks, heap_spans
from .leads import OWN, VECTORS, Owner
from .owner_pages import NOBODY, Kept
from .owners import (
    ALONE,
    DEEPEST,
    MOST_JOINTLY,
    UNREACHED,
    Holding,
    Jointly,
    Leading,
    Owners,
    Step,
    find_owners,
    in_order,
)
from .refs import Search
from .returns import returns


class Owned(NamedTuple):
    owners: Owners
    kept: Optional[Sequence[Kept]]
    """What each alone holds, by the holdings' numbers; None where it is not known what is in memory."""

    def every_owner(self) -> Iterator[Owner]:
        """That is named anywhere."""
        for holding in self.owners.holdings:
            yield holding.owner
            if holding.leading is not None:
                yield from holding.leading.owners
        for together in self.owners.jointly:
            yield from together.owners


def owned(search: Search) -> Owned:
    return search.memo.get(Owned) or search.memo.keep(_owned(search))


def _owned(search: Search) -> Owned:
    owners = find_owners(search)
    numbers = _numbers(owners.holdings)
    # what several hold goes back with none of them
    whose = [number if lead == ALONE else numbers for number, lead in zip(owners.whose, owners.lead)]
    kept = returns(search, whose, numbers + 1)
    return Owned(owners, kept[:-1] if kept is not None else None)


def _numbers(holdings: Sequence[Holding]) -> int:
    return 1 + max((each.number for each in holdings), default=0)


def written(found: Owned) -> bytes:
    """The rows; what each block belongs to are arrays of their own."""
    return json.dumps([found.owners.holdings, found.kept, found.owners.jointly]).encode()


WRONG = (ValueError, LookupError, TypeError, OverflowError, RecursionError)
"""What is raised by reading JSON that says something else."""


def read(data: bytes, blocks: LiveBlocks, session: Session, found: Owners) -> Owned:
    """One of WRONG where it was not written so. The blocks, and what each belongs to, are known to be sound:
    `found` has these, and no row."""
    rows = _Rows(blocks, found, most=sum(each.bytes for each in heap_spans(session)))
    holdings, kept, jointly = json.loads(data)
    read_holdings = [rows.holding(*rows.items(each)) for each in rows.items(holdings)]
    if read_holdings != in_order(read_holdings):
        raise ValueError("in another order")
    read_kept = None if kept is None else rows.kept(kept, read_holdings)
    read_jointly = [rows.jointly(*rows.items(each)) for each in rows.items(jointly, MOST_JOINTLY)]
    return Owned(found._replace(holdings=read_holdings, jointly=read_jointly), read_kept)


MOST_NUMBER = (1 << 32) - 1
"""By the arrays of the file, and of a thread."""


class _Rows:
    """What `written` writes, and one of WRONG for all else."""

    def __init__(self, blocks: LiveBlocks, found: Owners, most: int) -> None:
        """`most`: all of malloc's memory."""
        self._blocks, self._found, self._most = blocks, found, most

    def items(self, value: object, most: Optional[int] = None) -> list[object]:
        if not isinstance(value, list) or (most is not None and len(value) > most):
            raise ValueError("no such list")
        return value

    def number(self, value: object, least: int, most: int) -> int:
        if type(value) is not int or not least <= value <= most:
            raise ValueError("no such number")
        return value

    def owner(self, kind: object, name: object, tid: object, stale: object) -> Owner:
        """Any; whether it is among the roots has to be asked of these."""
        if not isinstance(kind, str) or kind not in (*OWN, UNREACHED):
            raise ValueError("no such kind")
        if not (name is None or isinstance(name, str)) or (name is None and kind in ("runtime", "mapping")):
            raise ValueError("no name")
        if name is not None and (kind == UNREACHED or (kind == "register" and name != VECTORS)):
            raise ValueError("it has no name")
        if stale is not None and (not isinstance(stale, str) or stale not in STALE):
            raise ValueError("no such reason")
        return Owner(kind, name, None if tid is None else self.number(tid, 0, MOST_NUMBER), stale)

    def roots(self, value: object) -> list[Owner]:
        """Some that lead to something together."""
        owners = [self.owner(*self.items(each)) for each in self.items(value)]
        if not all(each.kind != UNREACHED for each in owners):
            raise ValueError("no root")
        return owners

    def holding(
        self,
        owner: object,
        number: object,
        blocks: object,
        size: object,
        alone_blocks: object,
        alone_bytes: object,
        tied: object,
        way: object,
        leading: object,
    ) -> Holding:
        who = self.owner(*self.items(owner))
        if who.kind == UNREACHED and who.tid is not None:
            raise ValueError("no thread's")
        held = Holding(
            who,
            self.number(number, 0, MOST_NUMBER),
            blocks=self.number(blocks, 1, len(self._blocks)),
            bytes=self.number(size, 1, self._blocks.bytes),
            alone_blocks=self.number(alone_blocks, 0, len(self._blocks)),
            alone_bytes=self.number(alone_bytes, 0, self._blocks.bytes),
            tied_bytes=self.number(tied, 0, self._blocks.bytes),
            leading=self.leading(*self.items(leading)) if leading is not None else None,
        )
        if held.alone_bytes > held.bytes or held.tied_bytes > held.bytes:
            raise ValueError("more than it holds")
        if (held.leading is not None) != (held.alone_blocks < held.blocks):
            raise ValueError("who leads there")
        return held._replace(way=self.way(self.items(way, 0 if who.kind == UNREACHED else DEEPEST), held))

    def leading(self, owners: object, whole: object) -> Leading:
        if not isinstance(whole, bool):
            raise ValueError("neither true nor false")
        return Leading(self.roots(owners), whole)

    def way(self, steps: Sequence[object], held: Holding) -> list[Step]:
        """Each step is to one of the blocks that hang on the one before."""
        way: list[Step] = []
        before = Step(NOBODY, blocks=held.blocks, bytes=held.bytes)
        for block, blocks, size in map(self.items, steps):
            at = self.number(block, 0, len(self._blocks) - 1)
            if self._found.whose[at] != held.number or self._found.above[at] != before.block:
                raise ValueError("it leads elsewhere")
            least = self._blocks.sizes[at]
            before = Step(
                at, blocks=self.number(blocks, 1, before.blocks), bytes=self.number(size, least, before.bytes)
            )
            way.append(before)
        return way

    def kept(self, value: object, holdings: Sequence[Holding]) -> list[Kept]:
        """A number that is no holding's keeps nothing."""
        kept = [
            Kept(*(self.number(figure, 0, self._most) for figure in self.items(each))) for each in self.items(value)
        ]
        held = {each.number: each.alone_bytes for each in holdings}
        if len(kept) != _numbers(holdings) or any(each.resident > held.get(at, 0) for at, each in enumerate(kept)):
            raise ValueError("not what they keep")
        return kept

    def jointly(self, owners: object, size: object) -> Jointly:
        return Jointly(self.roots(owners), self.number(size, 0, self._blocks.bytes))
