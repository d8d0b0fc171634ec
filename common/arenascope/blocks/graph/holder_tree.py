"""What is held as a tree that folds: owners, below them what they alone lead to, by what it is.

Blocks of a type below one of their own type are one node: a list is no deeper than its nodes' bodies. So is what leads
back to a type above it.
"""

from __future__ import annotations

from array import array
from typing import Callable, Iterable, NamedTuple, Optional, Sequence

from .blocks import NOBODY
from .owners import Holding, Owners
from .refs import ImageSearch
from .returns import returns

DEEPEST = 40
MOST_NODES, SHARE = 5000, 5000
"""So many nodes at most, and none below this fraction of all: what is smaller is summed up."""
SMALLER = "smaller ones"


class HolderNode(NamedTuple):
    """What it has itself, and what it retains: with all that is below it."""

    name: str
    kind: str
    """An owner's; "type" or "smaller"."""
    above: int
    """Which node; NOBODY for an owner. It comes before."""
    blocks: int
    bytes: int
    retained_blocks: int
    retained_bytes: int
    resident: Optional[int]
    """What of that is in memory."""
    returns: Optional[int]
    """Pages on which nothing else is."""


def grown(
    search: ImageSearch, owners: Owners, kinds: Sequence[str], words: Callable[[Holding], str]
) -> list[HolderNode]:
    """`kinds` says what each block is, `words` whose something is. Owners come first, the largest before."""
    folded = _Folded(search, owners, kinds, words)
    kept = returns(search, folded.whose, len(folded.names), folded.join)
    return _pruned(folded.nodes([(each.resident, each.returns) for each in kept] if kept is not None else None))


class _Folded:
    """Each block's node."""

    def __init__(
        self, search: ImageSearch, owners: Owners, kinds: Sequence[str], words: Callable[[Holding], str]
    ) -> None:
        self._sizes = search.blocks.sizes
        self.names = [words(each) for each in owners.holdings]
        self._kinds = [each.owner.kind for each in owners.holdings]
        self._above = [NOBODY] * len(self.names)
        self._depth = [0] * len(self.names)
        self._known: dict[tuple[int, str], int] = {}
        self._joined: dict[tuple[int, int], int] = {}
        tops = {each.number: at for at, each in enumerate(owners.holdings)}
        self.whose = array("q", [NOBODY]) * len(self._sizes)
        for block in range(len(self.whose)):
            way = []
            at = block
            while at != NOBODY and self.whose[at] == NOBODY:
                way.append(at)
                at = owners.above[at]
            node = self.whose[at] if at != NOBODY else tops[owners.whose[block]]
            for each in reversed(way):
                node = self.whose[each] = self._below(node, kinds[each])

    def _below(self, node: int, name: str) -> int:
        number = self._known.get((node, name))
        if number is None:
            same = self._same_above(node, name)
            number = self._known[node, name] = self._new(node, name) if same is None else same
        return number

    def _same_above(self, node: int, name: str) -> Optional[int]:
        if self._depth[node] >= DEEPEST:
            return node
        while self._above[node] != NOBODY:
            if self.names[node] == name:
                return node
            node = self._above[node]
        return None

    def _new(self, node: int, name: str) -> int:
        self.names.append(name)
        self._above.append(node)
        self._depth.append(self._depth[node] + 1)
        return len(self.names) - 1

    def join(self, one: int, other: int) -> int:
        """The lowest node that has both below it."""
        if one == NOBODY or other == NOBODY:
            return NOBODY
        node = self._joined.get((one, other))
        if node is None:
            node, second = one, other
            while node != second:
                if self._depth[node] < self._depth[second]:
                    node, second = second, node
                node = self._above[node]
                if node == NOBODY:
                    break
            self._joined[one, other] = node
        return node

    def nodes(self, kept: Optional[Sequence[tuple[int, int]]]) -> list[HolderNode]:
        """`kept`: what each has in memory, and the pages that are its alone."""
        count = len(self.names)
        blocks, sizes = [0] * count, [0] * count
        for node, size in zip(self.whose, self._sizes):
            blocks[node] += 1
            sizes[node] += size
        columns = [blocks, sizes, *(zip(*kept) if kept else ())]
        sums = [_upwards(column, self._above) for column in columns]
        return [
            HolderNode(
                name,
                self._kinds[at] if at < len(self._kinds) else "type",
                above=self._above[at],
                blocks=blocks[at],
                bytes=sizes[at],
                retained_blocks=sums[0][at],
                retained_bytes=sums[1][at],
                resident=sums[2][at] if kept else None,
                returns=sums[3][at] if kept else None,
            )
            for at, name in enumerate(self.names)
        ]


def _upwards(column: Iterable[int], above: Sequence[int]) -> list[int]:
    sums = [*column]
    for at in range(len(sums) - 1, -1, -1):
        if above[at] != NOBODY:
            sums[above[at]] += sums[at]
    return sums


def _pruned(nodes: Sequence[HolderNode]) -> list[HolderNode]:
    """Without what is too small to be seen: beside its likes, one node for all of them."""
    order = sorted((each.retained_bytes for each in nodes), reverse=True)
    least = max(sum(each.bytes for each in nodes) // SHARE, order[MOST_NODES] + 1 if len(order) > MOST_NODES else 0, 1)
    places: list[int] = []
    kept: list[HolderNode] = []
    rest: dict[int, int] = {}
    small: set[int] = set()
    for each in nodes:
        above = places[each.above] if each.above != NOBODY else NOBODY
        if each.retained_bytes >= least:
            places.append(len(kept))
            kept.append(each._replace(above=above))
        elif above in small:
            places.append(above)  # is summed there already
        else:
            if above not in rest:
                rest[above] = len(kept)
                small.add(len(kept))
                kept.append(
                    HolderNode(
                        SMALLER,
                        "smaller",
                        above,
                        blocks=0,
                        bytes=0,
                        retained_blocks=0,
                        retained_bytes=0,
                        resident=0,
                        returns=0,
                    )
                )
            places.append(rest[above])
            kept[rest[above]] = _joined(kept[rest[above]], each)
    return kept


def _joined(sums: HolderNode, node: HolderNode) -> HolderNode:
    return sums._replace(
        blocks=sums.blocks + node.retained_blocks,
        bytes=sums.bytes + node.retained_bytes,
        retained_blocks=sums.retained_blocks + node.retained_blocks,
        retained_bytes=sums.retained_bytes + node.retained_bytes,
        resident=None if node.resident is None else (sums.resident or 0) + node.resident,
        returns=None if node.returns is None else (sums.returns or 0) + node.returns,
    )
