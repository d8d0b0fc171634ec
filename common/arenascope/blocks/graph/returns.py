"""What would leave memory with what an owner holds: pages on which nothing else is, once free chunks have joined.

malloc_trim(0) keeps the page in which a free chunk's links lie: what is in use in front of it reaches so much further.
analysis/pinning_blocks.py asks what of that is more than goes back now.
"""

from __future__ import annotations

from array import array
from typing import NamedTuple, Optional, Sequence

from ...engine import Buffer, Join, chosen, places_of
from ...session.resident import pages_of
from ...sources.target import joined
from .blocks import NOBODY, OwnerPages
from .edges import build
from .main_holders import JOINTLY, UNREACHED, Owners, find_owners
from .pointers_to import ImageSearch


class HeldPages(NamedTuple):
    """What owners hold, and what would leave memory with it."""

    owners: Owners
    kept: Optional[Sequence[OwnerPages]]
    """What each alone holds, by the holdings' numbers; None where it is not known what is in memory."""


def owned(search: ImageSearch) -> HeldPages:
    """Returns what owners hold, which is computed once."""
    if search.owned is None:
        search.owned = _owned(search)
    return search.owned


def _owned(search: ImageSearch) -> HeldPages:
    owners = find_owners(search)
    numbers = 1 + max((each.number for each in owners.holdings), default=0)
    # what several hold goes back with none of them
    several = array("i", [numbers]) * (JOINTLY + len(owners.jointly))
    whose = chosen(owners.whose, owners.sharing, array("i", range(numbers)), several)
    kept = returns(search, whose, numbers + 1)
    return HeldPages(owners, kept[:-1] if kept is not None else None)


def returns(search: ImageSearch, whose: Buffer, owners: int, join: Join = "nobody") -> Optional[list[OwnerPages]]:
    """Returns the memory of each owner, by its number: `whose` has the owner of each block. None where it is not known
    what is in memory."""
    session, blocks = search.session, search.blocks
    residency = session.residency
    if residency is None or not session.started:
        return None
    heaps = session.heap_ranges
    present = joined(part for heap in heaps for part in residency.resident_ranges(*heap) or ())
    rules = (session.target.page_size, session.layout.chunk_struct, session.layout.header)
    found = blocks.engine.pages(heaps, present, blocks.besides, whose, owners, rules, join)
    kept = [*map(OwnerPages, *found)]
    for block, pages in zip(session.mmapped, pages_of(session, session.mmapped)):
        number = blocks.find(block.chunk + session.layout.header)
        if number >= 0 and pages is not None and whose[number] != NOBODY:
            before = kept[whose[number]]
            kept[whose[number]] = OwnerPages(before.resident + pages.resident, before.returns + pages.resident)
    return kept


def costs_of_each(search: ImageSearch, kinds: Buffer) -> memoryview:
    """Returns the bytes of each block with what hangs on it, down to the next one of its kind, which has its own;
    `kinds` has the number of each block's kind."""
    return build(search).table.costs(above_all(search), kinds, search.blocks.sizes)


def above_all(search: ImageSearch) -> array[int]:
    """Returns the block that alone leads to each block; for what nobody leads to, the first block of its group."""
    owners = find_owners(search)
    above = array("i", owners.above)
    nobodys = {each.number for each in owners.holdings if each.owner.kind == UNREACHED}
    if nobodys:
        unreached = places_of(nobodys.pop(), owners.whose)
        for head, others in build(search).table.lumps(unreached).hanging():
            for each in others:
                above[each] = head
    return above
