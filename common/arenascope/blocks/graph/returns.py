"""What would leave memory with what an owner holds: pages on which nothing else is, once free chunks have joined.

malloc_trim(0) keeps the page in which a free chunk's links lie: what is in use in front of it reaches so much further.
analysis/pinning_blocks.py asks what of that is more than goes back now.
"""

from __future__ import annotations

from array import array
from typing import Mapping, NamedTuple, Optional, Sequence

from ...engine import Buffer, Join, chosen, places_of
from ...session.resident import pages_of
from ...session.session import Session
from ...sources.target import Span, joined
from .blocks import NOBODY, LiveBlocks, OwnerPages
from .edges import build, lumps
from .main_holders import JOINTLY, UNREACHED, Owners, find_owners
from .pointers_to import ImageSearch


class HeldPages(NamedTuple):
    """Who holds what, and what would leave memory with it."""

    owners: Owners
    kept: Optional[Sequence[OwnerPages]]
    """What each alone holds, by the holdings' numbers; None where it is not known what is in memory."""


def owned(search: ImageSearch) -> HeldPages:
    """Computed once for all who ask."""
    if search.owned is None:
        search.owned = _owned(search)
    return search.owned


def _owned(search: ImageSearch) -> HeldPages:
    owners = find_owners(search)
    numbers = 1 + max((each.number for each in owners.holdings), default=0)
    # what several hold goes back with none of them
    several = array("i", [numbers]) * (JOINTLY + len(owners.jointly))
    whose = chosen(owners.whose, owners.lead, array("i", range(numbers)), several)
    kept = returns(search, whose, numbers + 1)
    return HeldPages(owners, kept[:-1] if kept is not None else None)


def returns(search: ImageSearch, whose: Buffer, owners: int, join: Join = "nobody") -> Optional[list[OwnerPages]]:
    """By the owners' numbers; None where it is not known what is in memory."""
    session, blocks = search.session, search.blocks
    residency = session.residency
    if residency is None or not session.started:
        return None
    heaps = sorted(Span(heap.address, heap.end) for parts in session.heaps.values() for heap in parts)
    present = joined(part for heap in heaps for part in residency.resident_ranges(*heap) or ())
    kept = pages_of_owners(session, blocks, heaps, present, whose, owners, join)
    for block, pages in zip(session.mmapped, pages_of(session, session.mmapped)):
        number = blocks.find(block.chunk + session.layout.header)
        if number >= 0 and pages is not None and whose[number] != NOBODY:
            before = kept[whose[number]]
            kept[whose[number]] = OwnerPages(before.resident + pages.resident, before.returns + pages.resident)
    return kept


def pages_of_owners(
    session: Session,
    blocks: LiveBlocks,
    heaps: Sequence[Span],
    present: Sequence[Span],
    whose: Buffer,
    owners: int,
    join: Join,
) -> list[OwnerPages]:
    """Of heaps alone, of which `present` is in memory."""
    rules = (session.target.page_size, session.layout.chunk_struct, session.layout.header)
    found = blocks.engine.pages(heaps, present, blocks.besides, whose, owners, rules, join)
    return [*map(OwnerPages, *found)]


MOST_MEMBERS = 1 << 20
"""So many members all sets of kinds may have together: where each block is of another kind it is not told."""


def retained(search: ImageSearch, kinds: Sequence[int]) -> Optional[Mapping[int, int]]:
    """By kind, in bytes; `kinds` has that of each block."""
    return by_kind(above_all(search), kinds, search.blocks.sizes)


def by_kind(above: Sequence[int], kinds: Sequence[int], sizes: Sequence[int]) -> Optional[Mapping[int, int]]:
    """Of blocks that hang on others of their kind all is counted once, and what hangs on several kinds, one below the
    other, with each of them."""
    ways = _Ways()
    told = array("i", [NOBODY]) * len(sizes)
    for block in range(len(sizes)):
        up, at = [], block
        while at != NOBODY and told[at] == NOBODY:
            up.append(at)
            at = above[at]
        way = told[at] if at != NOBODY else 0
        for each in reversed(up):
            told[each] = way = ways.below(way, kinds[each])
        if ways.members > MOST_MEMBERS:
            return None
    sums = [0] * len(ways.sets)
    for way, size in zip(told, sizes):
        sums[way] += size
    kept: dict[int, int] = {}
    for met, size in zip(ways.sets, sums):
        for kind in met:
            kept[kind] = kept.get(kind, 0) + size
    return kept


def above_all(search: ImageSearch) -> array[int]:
    """Of each block the one that alone leads to it; of what nobody leads to, the first of what hangs together."""
    owners = find_owners(search)
    above = array("q", owners.above)
    nobodys = {each.number for each in owners.holdings if each.owner.kind == UNREACHED}
    if nobodys:
        unreached = places_of(nobodys.pop(), owners.whose)
        for head, others in lumps(build(search), unreached).hanging():
            for each in others:
                above[each] = head
    return above


class _Ways:
    """The kinds on the ways down to blocks, as sets: few are different."""

    def __init__(self) -> None:
        self.sets: list[frozenset[int]] = [frozenset()]
        self.members = 0
        self._numbers: dict[frozenset[int], int] = {self.sets[0]: 0}
        self._below: dict[tuple[int, int], int] = {}

    def below(self, way: int, kind: int) -> int:
        """The number of that set with one more kind."""
        number = self._below.get((way, kind))
        if number is None:
            met = self.sets[way] | {kind}
            number = self._numbers.setdefault(met, len(self.sets))
            if number == len(self.sets):
                self.sets.append(met)
                self.members += len(met)
            self._below[way, kind] = number
        return number
