"""Who holds what something else shows: single blocks, and all blocks of a kind."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from typing import Iterator, Mapping, NamedTuple, Optional

from ...base.model import Kind
from ..live_blocks import NamedLiveBlocks
from ..name_all_blocks import live_kinds
from ..recognise.all_recognisers import NONE
from .blocks import NOBODY
from .leads import Owner
from .leaks import doubts
from .owners import UNREACHED, held
from .refs import ImageSearch
from .returns import retained


class Most(NamedTuple):
    """Who holds most of some blocks, and how much."""

    owner: Owner
    blocks: int
    bytes: int
    of: int
    """All blocks of the kind, whoever holds them."""


class Holders:
    """Of every live block its main holder."""

    def __init__(self, search: ImageSearch, lost: int) -> None:
        """`lost`: bytes of a process that could not be copied."""
        self.search = search
        doubted = doubts(search.session, search.roots, search.blocks, lost)
        found = held(search)
        self._whose, self._ties = found.main.whose, found.main.ties
        self._owners = dict(enumerate(found.owners))
        if not doubted:
            self._owners[NOBODY] = Owner(UNREACHED, None)

    def of(self, user: int) -> Optional[Owner]:
        """By what malloc returned; None: it is malloc's own, or that is not known."""
        number = self.search.blocks.find(user)
        return self._owners.get(self._whose[number]) if number >= 0 else None

    def tied_with(self, user: int) -> Optional[Owner]:
        """Another one who leads to it equally well."""
        number = self.search.blocks.find(user)
        at = self._ties[number] if number >= 0 else NOBODY
        return self._owners.get(at) if at != NOBODY else None

    def of_kinds(self, live: NamedLiveBlocks) -> Mapping[int, Most]:
        """By the kind's number, of the blocks that were swept."""
        blocks: dict[int, Counter[Optional[Owner]]] = {}
        sizes: dict[int, Counter[Optional[Owner]]] = {}
        for kind, number in placed(self.search, live):
            owner = self._owners.get(self._whose[number])
            blocks.setdefault(kind, Counter())[owner] += 1
            sizes.setdefault(kind, Counter())[owner] += self.search.blocks.sizes[number]
        most_of = {}
        for kind, owners in sizes.items():
            owner, size = max(owners.items(), key=lambda each: each[1])
            if owner is not None:
                most_of[kind] = Most(owner, blocks=blocks[kind][owner], bytes=size, of=sum(blocks[kind].values()))
        return most_of

    def retained(self, live: NamedLiveBlocks) -> Mapping[int, int]:
        """By the kind's number: what its blocks take with all that they alone lead to; empty where that is not told."""
        kinds = array("i", [NONE]) * len(self.search.blocks)
        for kind, number in placed(self.search, live):
            kinds[number] = kind
        return retained(self.search, kinds) or {}


def kinds_of_all(search: ImageSearch) -> list[Optional[Kind]]:
    """What each live block is."""
    live = live_kinds(search.session)
    kinds: list[Optional[Kind]] = [None] * len(search.blocks)
    for kind, number in placed(search, live):
        kinds[number] = live.kinds[kind]
    return kinds


def placed(search: ImageSearch, live: NamedLiveBlocks) -> Iterator[tuple[int, int]]:
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
