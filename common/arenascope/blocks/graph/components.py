"""Blocks that hang together: cycles folded into one, and what hangs on each that nothing else leads to."""

from __future__ import annotations

from array import array
from itertools import filterfalse
from typing import Iterator, NamedTuple, Sequence

from .blocks import FLAGS, INSIDE
from .dominators import Targets
from .edges import AT_ONCE, Graph, edges_of, fast


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
