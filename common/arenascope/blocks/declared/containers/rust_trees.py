"""Rust's BTreeMap and BTreeSet: nodes with up to eleven keys and values each, and with edges to further ones."""

from __future__ import annotations

from typing import Iterator, NamedTuple, Optional, Sequence

from ....sources.debug_info_types import TypeFacts
from ..claims import CONTAINER, Claim, Container, Reader, Types
from .parts import find, inside, known, words_at

MAP = "alloc::collections::btree::map::BTreeMap"
REFERENCE, LEAF, INTERNAL = (
    f"alloc::collections::btree::node::{each}" for each in ("NodeRef", "LeafNode", "InternalNode")
)
INDEX = 2
"""Bytes of a node's length, and of its number among its parent's edges."""
HIGHEST = 32


class Node(NamedTuple):
    """A kind of node: its type, its size, and where members lie."""

    type: int
    size: int
    parent: int
    rank: int
    length: int
    keys: int
    values: int


class Tree:
    def __init__(self, places: Sequence[int], leaf: Node, internal: Optional[Node], edges: int) -> None:
        """`places`: of the root's pointer, its height, how many entries there are."""
        self._places, self._leaf, self._internal, self._edges = places, leaf, internal, edges
        self.key = self.value = Element(0, 0)

    def _claims(self, reader: Reader, address: int) -> Optional[list[Claim]]:
        words = words_at(reader, address, self._places)
        if words is None:
            return None
        root, height, length = words
        if not root or not length:
            return [] if not length else None
        claims: list[Claim] = []
        left, count = [(root, height, 0, 0)], 0
        while left:
            at, level, above, index = left.pop()
            node = self._internal if level else self._leaf
            if node is None or level > HIGHEST or not reader.holds(at, node.size):
                return None
            used = reader.number(at + node.length, INDEX)
            if not used or reader.word(at + node.parent) != above:
                return None
            if above and reader.number(at + node.rank, INDEX) != index:
                return None
            claims.append(Claim(at, node.type, CONTAINER, " (node)", words=False))
            claims += self._entries(at, node, used)
            count += used
            if count > length:
                return None
            for number in range(used + 1 if level else 0):
                child = reader.word(at + self._edges + number * reader.word_size)
                if not child:
                    return None
                left.append((child, level - 1, at, number))
        return claims if count == length else None

    def _entries(self, at: int, node: Node, used: int) -> Iterator[Claim]:
        for number in range(used):
            for element, place in ((self.key, node.keys), (self.value, node.values)):
                if element.size:
                    yield Claim(at + place + number * element.size, element.type, CONTAINER, "", inline=True)

    def claims(self, reader: Reader, address: int) -> Optional[Sequence[Claim]]:
        return self._claims(reader, address)

    def elements(self, reader: Reader, address: int) -> Optional[int]:
        return reader.word(address + self._places[2]) if self._claims(reader, address) is not None else None


class Element(NamedTuple):
    """A key or a value."""

    type: int
    size: int


def tree(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    reference, length = inside(types, type, REFERENCE), find(types, type, "length")
    pointer = find(types, reference.type, "node.pointer") if reference is not None else None
    height = find(types, reference.type, "height") if reference is not None else None
    if reference is None or pointer is None or height is None or length is None or len(facts.arguments) < 2:
        return None
    target = types.facts(pointer.type).target
    key, value = facts.arguments[0].type, facts.arguments[1].type
    leaf = _node(types, target, 0) if target is not None else None
    if target is None or leaf is None or key is None or value is None:
        return None
    inner = types.by_name(types.facts(target).name.replace(LEAF, INTERNAL, 1))
    data, edges = (find(types, inner, "data"), find(types, inner, "edges")) if inner is not None else (None, None)
    internal = _node(types, target, data.offset) if data is not None else None
    if inner is not None and internal is not None:
        internal = internal._replace(type=inner, size=types.facts(inner).size)
    places = [reference.offset + pointer.offset, reference.offset + height.offset, length.offset]
    made = Tree(places, leaf, internal, edges.offset if edges is not None else 0)
    made.key, made.value = (Element(each, types.facts(each).size) for each in (key, value))
    return made


def _node(types: Types, type: int, front: int) -> Optional[Node]:
    """`front`: where in the whole it begins."""
    facts = types.facts(type)
    found = known(*(find(types, type, name) for name in ("parent", "parent_idx", "len", "keys", "vals")))
    if not facts.name.startswith(LEAF) or not found:
        return None
    parent, rank, length, keys, values = (front + each for each in found)
    return Node(type, facts.size, parent, rank, length=length, keys=keys, values=values)
