"""What the blocks of each kind keep: they, and all that they alone lead to."""

from __future__ import annotations

from array import array
from typing import Mapping, Optional, Sequence

from .components import lumps
from .edges import build
from .owner_pages import NOBODY
from .owners import UNREACHED, find_owners
from .refs import ImageSearch

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
        unreached = array("I", (block for block, owner in enumerate(owners.whose) if owner in nobodys))
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
