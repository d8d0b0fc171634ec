"""Blocks that hang together: cycles folded into one, and what hangs on each that nothing else leads to."""

from __future__ import annotations

from typing import Sequence

from ...base.records import NamedTuple
from .dominators import Targets


class Lump(NamedTuple):
    """A block that nothing of the others leads to, or the first of a cycle of which that is so."""

    head: int
    others: Sequence[int]
    """All that hangs on it, and on no head before it; of a cycle the rest as well."""


def lumps(nodes: Sequence[int], targets: Targets) -> list[Lump]:
    """Every node once. `targets` may lead out of the nodes: that does not count."""
    components = strongly_connected(nodes, targets)
    of = {node: number for number, members in enumerate(components) for node in members}
    led_to = {of[to] for node in nodes for to in targets(node) if to in of and of[to] != of[node]}
    heads = sorted(min(members) for number, members in enumerate(components) if number not in led_to)
    seen: set[int] = set()
    lumps = []
    for head in heads:
        seen.add(head)
        todo, others = [head], []
        while todo:
            for to in targets(todo.pop()):
                if to in of and to not in seen:
                    seen.add(to)
                    others.append(to)
                    todo.append(to)
        lumps.append(Lump(head, others))
    return lumps


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
