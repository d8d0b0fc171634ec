"""Dominators of large graphs: what numpy tells of many blocks at once, and the rest one by one.

Most blocks are told in a few passes over all edges, of two kinds:

- From above. In any tree of ways from node 0 a node's dominators are above it. Where edges lead into a branch from
  outside only to its uppermost node, that one dominates the branch. Where an edge leads from one branch to another,
  what it leads to hangs on the node above both. So each pass settles a level of the dominators' tree.
- From below. What only one block leads to hangs on that one. Where it leads nowhere, or only back to that one, it can
  be left out, and without it others become so.

What is left is searched by dominators.py.
"""

from __future__ import annotations

from array import array
from types import ModuleType
from typing import TYPE_CHECKING, Iterator, Optional, Sequence

from .blocks import FLAGS
from .dominators import Dominators, dominators
from .edges import AT_ONCE, Graph, fast

if TYPE_CHECKING:
    from ...base.array_types import Flags, Numbers

WORTH, PATIENCE = 50, 8
"""A pass pays that settles one in so many of the edges that are left; so many that do not are borne in a row."""
KEPT = 4
"""As soon as one in so many edges is left they are copied, 8 bytes for each."""


class _Edges:
    """Edges between nodes: parallel arrays."""

    def __init__(self, sources: Numbers, targets: Numbers) -> None:
        self.sources, self.targets = sources, targets

    def __len__(self) -> int:
        return len(self.sources)

    def only(self, which: Flags) -> _Edges:
        return _Edges(self.sources[which], self.targets[which])


def dominators_at_once(
    numpy: ModuleType,
    graph: Graph,
    held: Sequence[Sequence[int]],
    parents: array[int],
    *,
    worth: int = WORTH,
    patience: int = PATIENCE,
) -> Dominators:
    """As of dominators.py, of node 0, after it one for each of `held`, which are the blocks that these lead to, and
    then all blocks. `parents` are a tree of ways: of each block the one by which it was met, if any."""
    tree = _Above(numpy, graph, held, parents)
    levels = tree.settle(worth, patience)
    return _Below(tree, levels).all(worth)


class _Above:
    """What is told from above."""

    def __init__(self, numpy: ModuleType, graph: Graph, held: Sequence[Sequence[int]], parents: array[int]) -> None:
        self.numpy, self._graph = numpy, graph
        self._first = 1 + len(held)
        self.count = self._first + len(graph.blocks)
        counts = numpy.array([len(each) for each in held], dtype=numpy.int64)
        targets = array("i")
        for each in held:
            targets.extend(each)
        self._held = _Edges(
            numpy.repeat(numpy.arange(1, self._first, dtype=numpy.int32), counts),
            numpy.asarray(targets, dtype=numpy.int32) + self._first,
        )
        self._left: Optional[_Edges] = None
        met = numpy.frombuffer(parents, dtype=numpy.int32)
        self._parents = numpy.zeros(self.count, dtype=numpy.int32)
        self._parents[self._first :] = numpy.where(met >= 0, met + self._first, -1)
        self._parents[self._held.targets] = self._held.sources
        self.above = numpy.full(self.count, -1, dtype=numpy.int32)
        """Of each node the one that dominates it, as soon as that is settled."""
        self.above[0] = 0

    def settle(self, worth: int, patience: int) -> list[Numbers]:
        """The nodes that were settled, by levels."""
        numpy = self.numpy
        branches = numpy.zeros(self.count, dtype=numpy.int32)
        levels: list[Numbers] = []
        known = self.above >= 0
        kept, left = -1, patience
        while kept and left:
            # nothing leads into a branch from outside: what hangs on its uppermost node does so for good
            first = numpy.flatnonzero((self.above < 0) & (self._parents >= 0))
            first = first[known[self._parents[first]]]
            self.above[first] = self._parents[first]
            settled = -1
            while settled and left:
                labels = self._labels()
                before = kept
                kept, settled = self._pass(labels, branches)
                left = left - 1 if before < 0 or (before - kept) * worth < before else patience
            levels.append(numpy.flatnonzero((self.above >= 0) & ~known))
            known[levels[-1]] = True
            branches = labels
        return levels

    def _labels(self) -> Numbers:
        """Of each node the one that is settled above it, or itself."""
        numpy = self.numpy
        own = numpy.arange(self.count, dtype=numpy.int32)
        tops: Numbers = numpy.where((self.above >= 0) | (self._parents < 0), own, self._parents)
        while True:
            further = tops[tops]
            if numpy.array_equal(further, tops):
                return tops
            tops = further

    def _pass(self, labels: Numbers, branches: Numbers) -> tuple[int, int]:
        """Settles what edges lead to from elsewhere in its branch: (edges that were left, such edges)."""
        kept = settled = 0
        for edges in self._edges():
            targets = edges.targets[labels[edges.sources] != labels[edges.targets]]
            self.above[targets] = branches[targets]
            kept += len(edges)
            settled += len(targets)
        if kept * KEPT <= len(self._graph.edges):
            self.left()
        return kept, settled

    def left(self) -> _Edges:
        """The edges to what is not settled."""
        if self._left is not None:
            self._left = self._useful(self._left)
        else:
            numpy, parts = self.numpy, list(self._edges())
            self._left = _Edges(
                numpy.concatenate([each.sources for each in parts]), numpy.concatenate([each.targets for each in parts])
            )
        return self._left

    def _edges(self) -> Iterator[_Edges]:
        """The same, some at a time."""
        if self._left is not None:
            yield self._useful(self._left)
            return
        numpy, first = self.numpy, self._first
        yield self._useful(self._held)
        offsets, edges = fast(numpy, self._graph)
        low, last = 0, len(offsets) - 1
        while low < last:
            high = max(low + 1, int(numpy.searchsorted(offsets, offsets[low] + AT_ONCE, side="right")) - 1)
            sources = numpy.arange(low + first, high + first, dtype=numpy.int32)
            targets = (edges[offsets[low] : offsets[high]] >> FLAGS).astype(numpy.int32) + first
            some = _Edges(numpy.repeat(sources, numpy.diff(offsets[low : high + 1])), targets)
            yield self._useful(some.only(self._parents[some.sources] >= 0))
            low = high

    def _useful(self, edges: _Edges) -> _Edges:
        return edges.only((self.above[edges.targets] < 0) & (edges.sources != edges.targets))


class _Below:
    """The rest."""

    def __init__(self, tree: _Above, levels: Sequence[Numbers]) -> None:
        self._numpy, self._count, self._above = tree.numpy, tree.count, tree.above
        self._left = tree.left()
        self._levels = levels

    def all(self, worth: int) -> Dominators:
        numpy = self._numpy
        layers: list[Numbers] = []
        before = -1
        while len(self._left) and (before < 0 or (before - len(self._left)) * worth >= before):
            before = len(self._left)
            layers.append(self._peeled())
        # whoever dominates comes first: levels from above, what is left as it was met, what was left out last
        nodes = [numpy.zeros(1, dtype=numpy.int64), *self._levels, self._core(), *layers[::-1]]
        order = numpy.concatenate(nodes)
        place = numpy.zeros(self._count, dtype=numpy.int64)
        place[order] = numpy.arange(len(order))
        return Dominators(_array(order), _array(place[self._above[order]]))

    def _peeled(self) -> Numbers:
        """Settles what one alone leads to and leads nowhere else."""
        numpy, edges = self._numpy, self._left
        one = numpy.full(self._count, -1, dtype=numpy.int32)
        one[edges.targets] = edges.sources
        several = edges.targets[one[edges.targets] != edges.sources]
        one[several] = -1
        # whoever dominates a node may be led back to: no way gets shorter by that
        edges = edges.only(one[edges.sources] != edges.targets)
        leads = numpy.zeros(self._count, dtype=bool)
        leads[edges.sources] = True
        layer: Numbers = numpy.flatnonzero((one >= 0) & ~leads)
        self._above[layer] = one[layer]
        self._left = edges.only(self._above[edges.targets] < 0)
        return layer

    def _core(self) -> Numbers:
        """Settles the rest; in the order in which it was met."""
        numpy, edges, above = self._numpy, self._left, self._above
        # what is settled and leads there hangs on another: in its branch that one is above all
        settled = numpy.unique(edges.sources[above[edges.sources] >= 0])
        over = above[settled]
        sources, targets = numpy.concatenate([over, edges.sources]), numpy.concatenate([settled, edges.targets])
        nodes = numpy.unique(numpy.concatenate([sources, targets]))
        nodes = numpy.concatenate([[0], nodes[nodes > 0]])
        number = numpy.zeros(self._count, dtype=numpy.int64)
        number[nodes] = numpy.arange(len(nodes))
        order = numpy.argsort(sources, kind="stable")
        offsets = [0, *numpy.cumsum(numpy.bincount(number[sources], minlength=len(nodes))).tolist()]
        to = number[targets[order]].tolist()
        tops = [*to[: offsets[1]], *number[over[over > 0]].tolist()]
        tree = dominators(len(nodes), lambda node: to[offsets[node] : offsets[node + 1]] if node else tops)
        # by their own numbers again
        met = nodes[numpy.asarray(tree.nodes)]
        new = above[met] < 0
        above[met[new]] = met[numpy.asarray(tree.above)[new]]
        rest: Numbers = met[new]
        return rest


def _array(numbers: Numbers) -> array[int]:
    made = array("q")
    made.frombytes(numbers.data.cast("B"))
    return made
