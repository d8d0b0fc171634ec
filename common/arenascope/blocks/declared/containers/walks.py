"""Walks along nodes that prove the links as they go, and end: no node has two before it."""

from __future__ import annotations

from typing import NamedTuple, Optional, Sequence

from ..claims import Reader

TALLEST = 128
"""A balanced tree of as many nodes as memory can hold is not higher."""


class Links(NamedTuple):
    """Which words of a tree's node lead to others."""

    parent: int
    left: int
    right: int


def in_order(reader: Reader, root: int, above: int, links: Links, size: int, count: int) -> Optional[list[int]]:
    """The nodes of a binary tree below its header, `above`.
    None unless each child leads back to its parent and each node is a block of this size, as many as are counted.
    As no node has two parents, none is seen twice."""
    parent, left, right = links
    words, holds = reader.words, reader.holds
    span = max(links) + 1
    order: list[int] = []
    waiting: list[tuple[int, int]] = []
    node = root
    while node or waiting:
        while node:
            own = words(node, span)
            if own is None or own[parent] != above or not holds(node, size) or len(waiting) > TALLEST:
                return None
            if own[left] and own[left] == own[right]:
                return None
            waiting.append((node, own[right]))
            above, node = node, own[left]
        above, node = waiting.pop()
        order.append(above)
        if len(order) > count:
            return None
    return order if len(order) == count else None


def both_ways(reader: Reader, header: int, first: int, size: int, count: Optional[int]) -> Optional[list[int]]:
    """The nodes of a ring whose first two words are next and previous. None unless each leads back and is a block of
    this size, as many as are counted (None: nobody counts them). As no node has two before it, none is seen twice."""
    words, holds = reader.words, reader.holds
    nodes: list[int] = []
    before, node = header, first
    while True:
        own = words(node, 2)
        if own is None or own[1] != before:
            return None
        if node == header:
            break
        if len(nodes) == count or not holds(node, size):
            return None
        nodes.append(node)
        before, node = node, own[0]
    return nodes if count is None or len(nodes) == count else None


def one_way(
    reader: Reader, first: int, size: int, count: Optional[int], span: int = 1
) -> Optional[list[Sequence[int]]]:
    """The nodes of a chain that ends in 0, each the first words of the node with its address before them. None unless
    each is a block of this size, as many as are counted."""
    words, holds = reader.words, reader.holds
    nodes: list[Sequence[int]] = []
    node, met, until = first, 0, 2
    while node:
        if len(nodes) == count or node == met or not holds(node, size):
            return None
        own = words(node, span)
        if own is None:
            return None
        nodes.append((node, *own))
        if len(nodes) == until:
            # a node that comes again is met once the distance is as long as its cycle
            met, until = node, 2 * until
        node = own[0]
    return nodes if count is None or len(nodes) == count else None
