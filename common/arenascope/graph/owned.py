"""Who holds what, and what would go back with it: asked once, kept in a graph's file."""

from __future__ import annotations

import json
from typing import Optional, Sequence

from ..records import NamedTuple
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
    """ValueError, TypeError where it was not written so."""
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
    blocks = [step.block for each in holdings for step in each.way]
    if not all(0 <= each < count for each in blocks) or (pages is not None and last >= len(pages)):
        raise ValueError("no such block")
    if any(each.number < 0 for each in holdings):
        raise ValueError("no such owner")
    return Owned(Owners(holdings, whose, above, jointly), pages)


def _owner(kind: object, name: object, tid: object) -> Owner:
    return Owner(str(kind), None if name is None else str(name), int(tid) if isinstance(tid, int) else None)
