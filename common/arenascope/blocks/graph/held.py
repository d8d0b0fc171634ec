"""Who holds what something else shows: single blocks, and all blocks of a kind."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from typing import Collection, Hashable, Iterator, Mapping, Optional

from ...base.kinds import Kind
from ...base.records import NamedTuple
from ..live import Live
from ..recognise.catalogue import NONE
from ..recognise.holders import POOL
from ..types import live_kinds
from .leaks import doubts
from .owners import SHARED, UNREACHED, Holding, Owner, find_owners
from .refs import Search
from .retained import retained


class Most(NamedTuple):
    """Who holds most of some blocks, and how much."""

    owner: Owner
    blocks: int
    bytes: int
    of: int
    """All blocks of the kind, whoever holds them."""
    alike: Optional[Holding] = None
    """Where several do: one that tells who they are, if that is the same for all of these."""


class Holders:
    """Of every live block who alone leads to it; what several lead to is theirs together."""

    def __init__(self, search: Search, lost: int) -> None:
        """`lost`: bytes of a process that could not be copied."""
        self.search = search
        doubted = doubts(search.session, search.roots, search.blocks, lost)
        owners = find_owners(search)
        self._whose = owners.whose
        self._shared = {each.number: each for each in owners.holdings if each.owner.kind == SHARED}
        self._owners = {
            each.number: Owner(SHARED, None) if each.owner.kind == SHARED else each.owner
            for each in owners.holdings
            if not (doubted and each.owner.kind == UNREACHED)
        }

    def of(self, user: int) -> Optional[Owner]:
        """By what malloc returned; None: it is malloc's own, or that is not known."""
        number = self.search.blocks.find(user)
        return self._owners.get(self._whose[number]) if number >= 0 else None

    def alike_at(self, user: int) -> Optional[Holding]:
        """Of a block that several lead to: who they are."""
        number = self.search.blocks.find(user)
        return self._alike({self._whose[number]}) if number >= 0 else None

    def _alike(self, numbers: Collection[int]) -> Optional[Holding]:
        found = [self._shared[each] for each in numbers if each in self._shared]
        return found[0] if len({_who_leads(each) for each in found}) == 1 else None

    def of_kinds(self, live: Live) -> Mapping[int, Most]:
        """By the kind's number, of the blocks that were swept."""
        blocks: dict[int, Counter[Optional[Owner]]] = {}
        sizes: dict[int, Counter[Optional[Owner]]] = {}
        shared: dict[int, set[int]] = {}
        for kind, number in placed(self.search, live):
            at = self._whose[number]
            owner = self._owners.get(at)
            if at in self._shared:
                shared.setdefault(kind, set()).add(at)
            blocks.setdefault(kind, Counter())[owner] += 1
            sizes.setdefault(kind, Counter())[owner] += self.search.blocks.sizes[number]
        most_of = {}
        for kind, owners in sizes.items():
            owner, size = max(owners.items(), key=lambda each: each[1])
            if owner is not None:
                alike = self._alike(shared[kind]) if owner.kind == SHARED else None
                of = sum(blocks[kind].values())
                most_of[kind] = Most(owner, blocks=blocks[kind][owner], bytes=size, of=of, alike=alike)
        return most_of

    def retained(self, live: Live) -> Mapping[int, int]:
        """By the kind's number: what its blocks take with all that they alone lead to; empty where that is not told."""
        kinds = array("i", [NONE]) * len(self.search.blocks)
        for kind, number in placed(self.search, live):
            kinds[number] = kind
        return retained(self.search, kinds) or {}


def _who_leads(holding: Holding) -> Hashable:
    if holding.owner.name == POOL or holding.leading is None:
        return holding.owner
    return frozenset(holding.leading.owners), holding.leading.whole


def kinds_of_all(search: Search) -> list[Optional[Kind]]:
    """What each live block is."""
    live = live_kinds(search.session)
    kinds: list[Optional[Kind]] = [None] * len(search.blocks)
    for kind, number in placed(search, live):
        kinds[number] = live.kinds[kind]
    return kinds


def placed(search: Search, live: Live) -> Iterator[tuple[int, int]]:
    """(kind, number) of each block: both sweeps met them in the order of their addresses."""
    starts, header = search.blocks.starts, search.session.layout.header
    for heap in live.heaps:
        number = bisect_left(starts, heap.heap.address)
        for chunk, _, _, kind in live.blocks(heap):
            if kind != NONE and number < len(starts) and starts[number] == chunk + header:
                yield kind, number
                number += 1
    for block, kind in live.mmapped:
        number = search.blocks.find(block.chunk + header)
        if number >= 0:
            yield kind, number
