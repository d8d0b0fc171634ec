"""Who holds what, and what would go back with it: asked once, kept in a graph's file."""

from __future__ import annotations

import json
from typing import Any, Optional, Sequence

from ...base.records import NamedTuple
from .kept import Kept
from .owners import Holding, Jointly, Leading, Owner, Owners, Step, find_owners
from .refs import Search
from .returns import returns


class Owned(NamedTuple):
    owners: Owners
    kept: Optional[Sequence[Kept]]
    """By the holdings' numbers; None where it is not known what is in memory."""


def owned(search: Search) -> Owned:
    found: Owned = search.owned or _owned(search)
    search.owned = found
    return found


def _owned(search: Search) -> Owned:
    owners = find_owners(search)
    numbers = 1 + max((each.number for each in owners.holdings), default=0)
    return Owned(owners, returns(search, owners.whose, numbers))


def written(found: Owned) -> bytes:
    """The rows; what each block belongs to are arrays of their own."""
    return json.dumps([found.owners.holdings, found.kept, found.owners.jointly]).encode()


def read(data: bytes, whose: Sequence[int], above: Sequence[int]) -> Owned:
    """One of filed.py's WRONG where it was not written so."""
    rows, kept, together = json.loads(data)
    holdings = []
    for owner, number, blocks, size, way, leading in rows:
        steps = [Step(*map(int, each)) for each in way]
        led = Leading([_owner(*each) for each in leading[0]], bool(leading[1])) if leading is not None else None
        holding = Holding(_owner(*owner), int(number), blocks=int(blocks), bytes=int(size), way=steps, leading=led)
        holdings.append(holding)
    jointly = [Jointly([_owner(*each) for each in owners], int(size)) for owners, size in together]
    pages = [Kept(*map(int, each)) for each in kept] if kept is not None else None
    count, last = len(whose), max((each.number for each in holdings), default=-1)
    steps = [step for each in holdings for step in each.way]
    if not all(0 <= each.block < count for each in steps) or (pages is not None and last >= len(pages)):
        raise ValueError("no such block")
    figures = [each[at] for each in steps for at in (1, 2)] + [each.bytes for each in jointly]
    if min(figures + [figure for each in pages or () for figure in each], default=0) < 0:
        raise ValueError("less than none")
    return Owned(Owners(holdings, whose, above, jointly), pages)


def adds_up(found: Owned, sizes: Sequence[int], numpy: Any) -> bool:
    """Whether each block is one holding's, and these say so."""
    whose, told = found.owners.whose, {each.number: (each.blocks, each.bytes) for each in found.owners.holdings}
    if numpy is not None:
        blocks = numpy.bincount(whose).tolist()
        held = [int(each) for each in numpy.bincount(whose, weights=sizes).tolist()]
    else:
        blocks = [0] * (1 + max(whose, default=-1))
        held = blocks.copy()
        for number, size in zip(whose, sizes):
            blocks[number] += 1
            held[number] += size
    theirs = {number: each for number, each in enumerate(zip(blocks, held)) if each[0]}
    return len(told) == len(found.owners.holdings) and told == theirs


def _owner(kind: object, name: object, tid: object) -> Owner:
    return Owner(str(kind), None if name is None else str(name), int(tid) if isinstance(tid, int) else None)
