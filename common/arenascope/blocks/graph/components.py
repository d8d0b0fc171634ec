"""Blocks that hang together: cycles folded into one, and what hangs on each that nothing else leads to."""

from __future__ import annotations

from array import array
from itertools import chain
from typing import Iterator, Sequence

from ...base.records import NamedTuple
from .dominators import Targets


class Lump(NamedTuple):
    """A block that nothing of the others leads to, or the first of a cycle of which that is so."""

    head: int
    others: Sequence[int]
    """All that hangs on it, and on no head before it; of a cycle the rest as well."""


class Lumps:
    """Some of them, in order of their heads. A program that leaks loses millions of blocks: they take 16 bytes each."""

    def __init__(self) -> None:
        self.heads, self._others, self._ends = array("q"), array("q"), array("q")

    def add(self, head: int, others: Sequence[int]) -> None:
        self.heads.append(head)
        self._others.extend(others)
        self._ends.append(len(self._others))

    def __len__(self) -> int:
        return len(self.heads)

    def __iter__(self) -> Iterator[Lump]:
        begin = 0
        for head, end in zip(self.heads, self._ends):
            yield Lump(head, self._others[begin:end])
            begin = end

    def blocks(self) -> Iterator[int]:
        return chain(self.heads, self._others)


def lumps(nodes: Sequence[int], targets: Targets) -> Lumps:
    """Every node once; they are in order. `targets` may lead out of the nodes: that does not count."""
    beyond = nodes[-1] + 1 if len(nodes) else 0
    asked, led_to, seen = bytearray(beyond), bytearray(beyond), bytearray(beyond)
    for node in nodes:
        asked[node] = 1
    leads: dict[int, list[int]] = {}
    """Only of those that lead to others: where all is lost these may be few."""
    for node in nodes:
        others = [to for to in targets(node) if to < beyond and asked[to] and to != node]
        if others:
            leads[node] = others
    of: dict[int, int] = {}
    components = strongly_connected([*leads], leads.__getitem__)
    for members in components:
        first = min(members)
        for node in members:
            of[node] = first
    for node, others in leads.items():
        for to in others:
            # of a cycle its first node stands for all
            head = of.get(to, to)
            led_to[head] |= head != of[node]
    found = Lumps()
    for head in nodes:
        if led_to[head] or of.get(head, head) != head:
            continue
        seen[head] = 1
        hanging: list[int] = []
        todo = [head] if head in leads else []
        while todo:
            for to in leads.get(todo.pop(), ()):
                if not seen[to]:
                    seen[to] = 1
                    hanging.append(to)
                    todo.append(to)
        found.add(head, hanging)
    return found


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
