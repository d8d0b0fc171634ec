"""Each block's main holder: of those who lead to it, the one of the best rank; of these, whoever does so by the fewest
pointers into a block's inside, then by the fewest steps.

A pointer that leads no further than FRONT past a block's start counts as one to the start. Where several do equally
well the one with the lowest number is taken, and another one is told.

Edges that are marked STALE count last: what nothing else leads to is held by such a word, and by all that it leads to.
"""

from __future__ import annotations

from array import array
from types import ModuleType
from typing import TYPE_CHECKING, Callable, Iterable, Iterator, NamedTuple, Sequence

from .blocks import DEEP, FLAGS, NOBODY, STALE
from .edges import MANY, Graph, edges_of, fast

if TYPE_CHECKING:
    from ...base.array_types import Numbers

FIELDS = 3
"""Of a way to a block, in a row of such: the block, the owner, the block before it or NOBODY."""
Ways = array
"""Such rows, one after the other."""


class Lead(NamedTuple):
    """A pointer that an owner has."""

    rank: int
    """0 is the best."""
    owner: int
    edge: int
    parent: int = NOBODY
    """The block that has it, of a stale word's."""


class MainHolders(NamedTuple):
    """Of each block."""

    whose: array[int]
    """The owner's number; NOBODY: nothing leads there."""
    parents: array[int]
    """The block before it on the way from its owner; NOBODY where the owner points to it itself."""
    ties: array[int]
    """Another owner, who leads there equally well; NOBODY: there is none."""
    ranks: bytearray
    """The rank by which it is held."""


def _none(found: MainHolders) -> Sequence[Lead]:
    return ()


def main_holders(
    graph: Graph, leads: Sequence[Lead], stale: Callable[[MainHolders], Sequence[Lead]] = _none, many: int = MANY
) -> MainHolders:
    """`stale` tells those by stale words, of a rank below all others, once the rest is known. `many`: so many ways are
    looked at with numpy, where the graph has it."""
    search = _Search(graph, many)
    found = search.held(leads, STALE)
    return search.held(stale(found), 0)


class _Search:
    """Rank by rank, for each by how many insides, for each step by step."""

    def __init__(self, graph: Graph, many: int) -> None:
        count = len(graph.blocks)
        whose, parents, ties = (array("i", [NOBODY]) * count for _ in range(3))
        self._found = MainHolders(whose, parents, ties, bytearray(count))
        self._small = _OneByOne(graph, self._found)
        self._large = _AtOnce(graph.numpy, graph, self._found) if graph.numpy is not None else self._small
        self._many = many

    def held(self, leads: Sequence[Lead], skipped: int) -> MainHolders:
        """`skipped`: edges with this bit are not followed."""
        for rank in sorted({each.rank for each in leads}):
            plain, deep = array("i"), array("i")
            for each in leads:
                if each.rank == rank:
                    (deep if each.edge & DEEP else plain).extend((each.edge >> FLAGS, each.owner, each.parent))
            waiting, later = {0: plain}, {0: deep}
            while waiting:
                self._follow(waiting, later, rank, skipped)
                waiting, later = later, {}
        return self._found

    def _follow(self, waiting: dict[int, Ways[int]], later: dict[int, Ways[int]], rank: int, skipped: int) -> None:
        """All that is as many insides away, in order of the steps. `waiting` has what begins at each of them, `later`
        gets what is one inside further."""
        for step in sorted(waiting):
            while step in waiting:
                ways = waiting.pop(step)
                by = self._large if len(ways) > FIELDS * self._many else self._small
                new = by.settle(ways, rank)
                step += 1
                for plain, deep in by.beyond(new, skipped):
                    if plain:
                        waiting.setdefault(step, array("i")).extend(plain)
                    if deep:
                        later.setdefault(step, array("i")).extend(deep)


class _OneByOne:
    def __init__(self, graph: Graph, found: MainHolders) -> None:
        self._graph, self._found = graph, found

    def settle(self, ways: Ways[int], rank: int) -> Sequence[int]:
        """The best of these for each block that had none; the blocks."""
        whose, parents, ties, ranks = self._found
        new: list[int] = []
        for block, owner, parent in sorted(zip(ways[::FIELDS], ways[1::FIELDS], ways[2::FIELDS])):
            if whose[block] == NOBODY:
                new.append(block)
                whose[block], parents[block], ranks[block] = owner, parent, rank
            elif not new or new[-1] != block:
                continue
            if ties[block] == NOBODY:
                other = owner if owner != whose[block] else ties[parent] if parent != NOBODY else NOBODY
                ties[block] = other if other != whose[block] else NOBODY
        return new

    def beyond(self, blocks: Iterable[int], skipped: int) -> Iterator[tuple[Ways[int], Ways[int]]]:
        """From these to what is not settled yet: by pointers to starts, and to insides."""
        whose, plain, deep = self._found.whose, array("i"), array("i")
        for block in blocks:
            for edge in self._graph.of(block):
                if whose[edge >> FLAGS] == NOBODY and not edge & skipped:
                    (deep if edge & DEEP else plain).extend((int(edge) >> FLAGS, whose[block], block))
        yield plain, deep


class _AtOnce:
    """The same with numpy."""

    def __init__(self, numpy: ModuleType, graph: Graph, found: MainHolders) -> None:
        self._numpy = numpy
        self._offsets, self._edges = fast(numpy, graph)
        self._whose, self._parents, self._ties = (numpy.frombuffer(each, dtype=numpy.int32) for each in found[:3])
        self._ranks = numpy.frombuffer(found.ranks, dtype=numpy.uint8)

    def settle(self, ways: Ways[int], rank: int) -> Sequence[int]:
        numpy = self._numpy
        rows = numpy.frombuffer(ways, dtype=numpy.int32).reshape(-1, FIELDS)
        rows = rows[self._whose[rows[:, 0]] == NOBODY]
        blocks, owners, parents = rows[numpy.lexsort((rows[:, 2], rows[:, 1], rows[:, 0]))].T
        best = numpy.diff(blocks, prepend=NOBODY) != 0
        new = blocks[best]
        self._whose[new], self._parents[new], self._ranks[new] = owners[best], parents[best], rank
        mine = self._whose[blocks]
        others = numpy.where(owners != mine, owners, numpy.where(parents != NOBODY, self._ties[parents], NOBODY))
        # of several for one block the first is written last
        tied = numpy.flatnonzero((others != NOBODY) & (others != mine))[::-1]
        self._ties[blocks[tied]] = others[tied]
        found: Sequence[int] = new
        return found

    def beyond(self, blocks: Iterable[int], skipped: int) -> Iterator[tuple[Ways[int], Ways[int]]]:
        numpy = self._numpy
        for sources, edges in edges_of(numpy, self._offsets, self._edges, numpy.asarray(blocks, dtype=numpy.int64)):
            targets = edges >> FLAGS
            left = (self._whose[targets] == NOBODY) & (edges & skipped == 0)
            rows = numpy.stack((targets, self._whose[sources], sources), axis=1).astype(numpy.int32)
            deep = edges & DEEP > 0
            yield self._ways(rows[left & ~deep]), self._ways(rows[left & deep])

    def _ways(self, rows: Numbers) -> Ways[int]:
        return array("i", rows.tobytes())
