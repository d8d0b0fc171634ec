"""Who alone leads to what: immediate dominators, by the semi-NCA algorithm of Georgiadis and Tarjan.

Everything is numbered in the order in which a depth-first search meets it, so that parents come before children.
"""

from __future__ import annotations

from array import array
from itertools import accumulate, filterfalse
from types import ModuleType
from typing import TYPE_CHECKING, Callable, Iterable, Iterator, NamedTuple, Optional, Sequence

from .blocks import FLAGS, INSIDE
from .edges import AT_ONCE, Graph, edges_of, fast

if TYPE_CHECKING:
    from ...base.array_types import Flags, Numbers

Targets = Callable[[int], Iterable[int]]
NONE = -1


class Dominators(NamedTuple):
    """Of what can be reached from node 0, by the order in which it was met."""

    nodes: Sequence[int]
    above: Sequence[int]
    """Of each, the place in that order of the last one that every way leads through; the first has none (0)."""


def dominators(count: int, targets: Targets) -> Dominators:
    """`count` nodes, from 0 on; `targets` tells where a node leads."""
    nodes, parents = _search(count, targets)
    place = array("q", [NONE]) * count
    for at, node in enumerate(nodes):
        place[node] = at
    before = _Before(nodes, place, targets)
    semi = array("q", range(len(nodes)))
    label = array("q", range(len(nodes)))
    ancestor = array("q", parents)
    for at in range(len(nodes) - 1, 0, -1):
        least = parents[at]
        for source in before.of(at):
            if source > at:
                if ancestor[source] > at:
                    _shorten(source, at + 1, ancestor, label, semi=semi)
                source = semi[label[source]]
            if source < least:
                least = source
        semi[at] = least
    above = parents
    for at in range(1, len(nodes)):
        over = above[at]
        while over > semi[at]:
            over = above[over]
        above[at] = over
    return Dominators(nodes, above)


def _shorten(node: int, linked: int, ancestor: array[int], label: array[int], semi: array[int]) -> None:
    """Makes `label` the node with the least semidominator on the way to what is not linked yet, and that way short."""
    way = []
    top = node
    while ancestor[top] >= linked:
        way.append(top)
        top = ancestor[top]
    for each in reversed(way):
        if semi[label[top]] < semi[label[each]]:
            label[each] = label[top]
        ancestor[each] = ancestor[top]
        top = each


def _search(count: int, targets: Targets) -> tuple[array[int], array[int]]:
    """The nodes in the order in which they are met, and where in it the parent of each stands."""
    met = bytearray(count)
    nodes, parents = array("q", [0]), array("q", [0])
    met[0] = 1
    way: list[tuple[int, Iterator[int]]] = [(0, iter(targets(0)))]
    while way:
        at, rest = way[-1]
        for to in rest:
            if not met[to]:
                met[to] = 1
                way.append((len(nodes), iter(targets(to))))
                nodes.append(to)
                parents.append(at)
                break
        else:
            way.pop()
    return nodes, parents


class _Before:
    """The places of those that lead to each place."""

    def __init__(self, nodes: Sequence[int], place: Sequence[int], targets: Targets) -> None:
        counts = [0] * len(nodes)
        for node in nodes:
            for to in targets(node):
                counts[place[to]] += 1
        self._offsets = [0, *accumulate(counts)]
        filled = self._offsets[:-1]
        sources = self._sources = array("I", bytes(4 * self._offsets[-1]))
        for at, node in enumerate(nodes):
            for to in targets(node):
                there = place[to]
                sources[filled[there]] = at
                filled[there] += 1

    def of(self, at: int) -> Sequence[int]:
        return self._sources[self._offsets[at] : self._offsets[at + 1]]


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


class Lump(NamedTuple):
    """A block that nothing of the others leads to, or the first of a cycle of which that is so."""

    head: int
    others: Sequence[int]
    """All that hangs on it, and on no head before it; of a cycle the rest as well."""


class Lumps:
    """Some of them, in order of their heads. A program that leaks loses millions of blocks, most of them alone: these
    take four bytes each."""

    def __init__(self, heads: array[int]) -> None:
        self.heads = heads
        self._leading, self._ends, self._others = array("I"), array("I"), array("I")

    def put(self, head: int, others: Sequence[int]) -> None:
        """What hangs on one of the heads; they come in order."""
        self._leading.append(head)
        self._others.extend(others)
        self._ends.append(len(self._others))

    def __len__(self) -> int:
        return len(self.heads)

    def hanging(self) -> Iterator[Lump]:
        """Those of more than one block."""
        begin = 0
        for head, end in zip(self._leading, self._ends):
            yield Lump(head, self._others[begin:end])
            begin = end

    def blocks(self) -> array[int]:
        return self.heads + self._others


def lumps(graph: Graph, nodes: array[int], starts_only: bool = False) -> Lumps:
    """Every node once; they are in order. With `starts_only` pointers to insides do not count."""
    leads = _leads(graph, nodes, INSIDE if starts_only else 0)
    """Only of those that lead to others: where all is lost these may be few."""
    of: dict[int, int] = {}
    is_led_to, is_seen = bytearray(len(graph.blocks)), bytearray(len(graph.blocks))
    for members in strongly_connected([*leads], leads.__getitem__):
        first = min(members)
        for node in members:
            # of a cycle its first node stands for all
            of[node] = first
            is_led_to[node] = node != first
    for node, others in leads.items():
        for to in others:
            head = of.get(to, to)
            is_led_to[head] |= head != of[node]
    found = Lumps(array("I", filterfalse(is_led_to.__getitem__, nodes)))
    for head in leads:
        if is_led_to[head]:
            continue
        is_seen[head] = 1
        hanging: list[int] = []
        todo = [head]
        while todo:
            for to in leads.get(todo.pop(), ()):
                if not is_seen[to]:
                    is_seen[to] = 1
                    hanging.append(to)
                    todo.append(to)
        if hanging:
            found.put(head, hanging)
    return found


def _leads(graph: Graph, nodes: array[int], skipped: int) -> dict[int, list[int]]:
    """Of each node that leads to others of them these; edges with the bit `skipped` do not count."""
    is_asked = bytearray(len(graph.blocks))
    leads: dict[int, list[int]] = {}
    if graph.numpy is None:
        for node in nodes:
            is_asked[node] = 1
        for node in nodes:
            others = [edge >> FLAGS for edge in graph.of(node) if not edge & skipped]
            others = [to for to in others if is_asked[to] and to != node]
            if others:
                leads[node] = others
        return leads
    numpy = graph.numpy
    offsets, all_edges = fast(numpy, graph)
    asked, flags = numpy.asarray(nodes), numpy.frombuffer(is_asked, dtype=bool)
    flags[asked] = True
    for low in range(0, len(asked), AT_ONCE):
        some = asked[low : low + AT_ONCE]
        some = some[offsets[some + 1] > offsets[some]]
        for sources, edges in edges_of(numpy, offsets, all_edges, some):
            targets = edges >> FLAGS
            counts = flags[targets] & (targets != sources) & (edges & skipped == 0)
            for node, to in zip(sources[counts].tolist(), targets[counts].tolist()):
                leads.setdefault(node, []).append(to)
    return leads


def strongly_connected(nodes: Sequence[int], targets: Targets) -> list[list[int]]:
    """Tarjan's components, without recursion: a list of a million nodes is no deeper than memory."""
    inside = set(nodes)
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    open_: list[int] = []
    is_open: set[int] = set()
    closed: list[list[int]] = []
    for first in nodes:
        if first in order:
            continue
        way = [(first, iter(targets(first)))]
        order[first] = low[first] = len(order)
        open_.append(first)
        is_open.add(first)
        while way:
            node, rest = way[-1]
            for to in rest:
                if to not in inside:
                    continue
                if to not in order:
                    order[to] = low[to] = len(order)
                    open_.append(to)
                    is_open.add(to)
                    way.append((to, iter(targets(to))))
                    break
                if to in is_open:
                    low[node] = min(low[node], order[to])
            else:
                way.pop()
                if way:
                    low[way[-1][0]] = min(low[way[-1][0]], low[node])
                if low[node] == order[node]:
                    closed.append(_closed(open_, is_open, node))
    return closed


def _closed(open_: list[int], is_open: set[int], node: int) -> list[int]:
    members: list[int] = []
    while not members or members[-1] != node:
        members.append(open_.pop())
        is_open.discard(members[-1])
    return members
