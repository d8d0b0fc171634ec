"""Who alone leads to what: immediate dominators, by the semi-NCA algorithm of Georgiadis and Tarjan.

Everything is numbered in the order in which a depth-first search meets it, so that parents come before children.
"""

from __future__ import annotations

from array import array
from itertools import accumulate
from typing import Callable, Iterable, Iterator, NamedTuple, Sequence

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
