"""libstdc++'s containers of nodes: maps, sets, hash tables, lists."""

from __future__ import annotations

from typing import Mapping, NamedTuple, Optional, Sequence

from ....sources.debug_info_types import StructField, TypeFacts
from ..claims import CONTAINER, EXACT, Claim, Container, Reader, Types
from .forms import Form, Node, OfNodes
from .parts import Table, alignment, argument, find, known, links, rounded, table_of_links, words_at
from .walks import Links, both_ways, in_order, one_way

TREE = Links(parent=1, left=2, right=3)
"""Words of `_Rb_tree_node_base`, after its colour."""
MAPS = ("map", "multimap", "set", "multiset")
HASHES = ("unordered_map", "unordered_multimap", "unordered_set", "unordered_multiset")
KEYED, OF_KEYS = ("map", "unordered_map"), ("set", "unordered_set")
"""Each key stands once: in front of its value, or alone."""


class Made(NamedTuple):
    """How a container's node is made."""

    template: str
    """The library's own, which tells where the value is, if debug information has it."""
    names: Sequence[str]
    """Of its links."""
    front: int = 0
    """Bytes before them."""
    tail: bool = False
    """Whether a word follows the value."""

    def node(self, types: Types, owner: str, value: int, word: int) -> Node:
        facts, to = types.facts(value), max(word, alignment(types, value, word))
        place = rounded(self.front + len(self.names) * word, to)
        size = rounded(rounded(place + facts.size, word) + self.tail * word, to)
        own = types.by_name(self.template.format(facts.name))
        storage = find(types, own, "_M_storage") or find(types, own, "_M_value_field") if own is not None else None
        if own is not None and storage is not None and types.facts(own).size >= storage.offset + facts.size:
            place, size = storage.offset, types.facts(own).size
        fields = (*links(types, self.names, word, self.front), StructField("", place, value))
        node = types.made_up(f"{owner} node", size, fields, key_of(types, owner, value, place))
        return Node(node, size, rounded(place + facts.size, word))


def key_of(types: Types, owner: str, value: int, place: int) -> Optional[StructField]:
    template = owner.partition("<")[0].rpartition("::")[2]
    if template in OF_KEYS:
        return StructField("", place, value)
    if template not in KEYED:
        return None
    # libc++ has the pair in a struct
    first = find(types, value, "first") or find(types, value, "__cc_.first") or find(types, value, "__cc.first")
    return StructField("first", place + first.offset, first.type) if first is not None else None


class Tree(OfNodes):
    """map, set, multimap, multiset."""

    def __init__(self, header: int, places: Sequence[int], node: Node, links: Links) -> None:
        """`header`: what the root has as its parent. `places`: of how many there are, of the pointers to the root, to
        the first node, and perhaps to the last one."""
        super().__init__(node)
        self._header, self._places, self._links = header, places, links

    def nodes(self, reader: Reader, address: int) -> Optional[Sequence[int]]:
        words, header = words_at(reader, address, self._places), address + self._header
        if words is None:
            return None
        count, root, *ends = words
        if not count:
            return () if not root and all(each == header for each in ends) else None
        nodes = in_order(reader, root, above=header, links=self._links, size=self.node.size, count=count)
        return nodes if nodes and [nodes[0], nodes[-1]][: len(ends)] == ends else None


def _tree(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    tree = find(types, type, "_M_t")
    value = argument(types, types.facts(tree.type), 1) if tree is not None else None
    header = find(types, type, "_M_t._M_impl._M_header")
    ways = [find(types, type, f"_M_t._M_impl._M_header.{name}") for name in ("_M_parent", "_M_left", "_M_right")]
    places = known(find(types, type, "_M_t._M_impl._M_node_count"), *ways)
    if value is None or header is None or ways[0] is None or not places:
        return None
    word = types.facts(ways[0].type).size
    made = Made("std::_Rb_tree_node<{}>", ("_M_parent", "_M_left", "_M_right"), front=word)
    return Tree(header.offset, places, made.node(types, facts.name, value, word), TREE)


class Ring(OfNodes):
    """list. Without a count before GCC 5."""

    def __init__(self, header: int, count: Optional[int], node: Node, backwards: bool = False) -> None:
        """`backwards`: the pointer to the node before comes first."""
        super().__init__(node)
        self._header, self._count, self._order = header, count, -1 if backwards else 1

    def nodes(self, reader: Reader, address: int) -> Optional[Sequence[int]]:
        header = address + self._header
        first = reader.word(header)
        count = reader.word(address + self._count) if self._count is not None else None
        if first is None or (self._count is not None and count is None):
            return None
        nodes = both_ways(reader, header, first, size=self.node.size, count=count)
        return None if nodes is None else nodes[:: self._order]


def _list(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    header, value = find(types, type, "_M_impl._M_node"), argument(types, facts, 0)
    following = find(types, type, "_M_impl._M_node._M_next")
    if header is None or following is None or value is None:
        return None
    # GCC 5 to 7 keep the count as the value of a list node
    count = find(types, header.type, "_M_size") or find(types, header.type, "_M_storage")
    made = Made("std::_List_node<{}>", ("_M_next", "_M_prev"))
    node = made.node(types, facts.name, value, types.facts(following.type).size)
    return Ring(header.offset, header.offset + count.offset if count is not None else None, node)


class Chain(OfNodes):
    """forward_list. It has neither a count nor links back: all that is known is that each node has the right size."""

    strength = EXACT

    def __init__(self, head: int, node: Node) -> None:
        super().__init__(node)
        self._head = head

    def nodes(self, reader: Reader, address: int) -> Optional[Sequence[int]]:
        first = reader.word(address + self._head)
        nodes = None if first is None else one_way(reader, first, self.node.size, None)
        return None if nodes is None else [node[0] for node in nodes]


def _forward_list(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    head, value = find(types, type, "_M_impl._M_head._M_next"), argument(types, facts, 0)
    if head is None or value is None:
        return None
    made = Made("std::_Fwd_list_node<{}>", ("_M_next",))
    return Chain(head.offset, made.node(types, facts.name, value, types.facts(head.type).size))


class Proved(NamedTuple):
    """What a hash table has proved."""

    nodes: Sequence[Sequence[int]]
    """Each with its first words, its address before them."""
    buckets: int
    room: int
    """So many buckets; 0: the one that lies inside."""


class Hash(OfNodes):
    """unordered_map, unordered_set, and those with several of one key."""

    def __init__(self, places: Mapping[str, int], node: Node, code: Optional[int], buckets: Table) -> None:
        """`code`: where a node keeps its hash; None: nowhere. `buckets`: how they are claimed."""
        super().__init__(node)
        self._places, self._code, self._buckets = places, code, buckets

    def _table(self, reader: Reader, address: int) -> Optional[Proved]:
        places, word = self._places, reader.word_size
        before = address + places["_M_before_begin"]
        count, buckets = reader.word(address + places["_M_element_count"]), reader.word(address + places["_M_buckets"])
        room, first = reader.word(address + places["_M_bucket_count"]), reader.word(before)
        if count is None or not room or first is None or not buckets:
            return None
        alone = buckets == address + places.get("_M_single_bucket", -1)
        if not (room == 1 if alone else reader.holds(buckets, room * word)):
            return None
        table = reader.words(buckets, room)
        span = self._code // word + 1 if self._code is not None else 1
        nodes = one_way(reader, first, self.node.size, count, span=span)
        if table is None or nodes is None or not self._agrees(table, nodes, before):
            return None
        return Proved(nodes, buckets, 0 if alone else room)

    def _agrees(self, table: Sequence[int], nodes: Sequence[Sequence[int]], before: int) -> bool:
        """Whether each bucket leads to the node before its first one."""
        room = len(table)
        if self._code is None:
            known = {node[0] for node in nodes[:-1]}
            known.add(before)
            used = [each for each in table if each]
            return known.issuperset(used) and bool(used) == bool(nodes)
        bucket = None
        for node in nodes:
            own = node[-1] % room
            if own != bucket:
                if table[own] != before:
                    return False
                bucket = own
            before = node[0]
        return True

    def nodes(self, reader: Reader, address: int) -> Optional[Sequence[int]]:
        table = self._table(reader, address)
        return None if table is None else [node[0] for node in table.nodes]

    def nodes_and_more(self, reader: Reader, address: int) -> Optional[tuple[Sequence[int], Sequence[Claim]]]:
        table = self._table(reader, address)
        if table is None:
            return None
        nodes = [node[0] for node in table.nodes]
        if not table.room:
            return nodes, ()
        claim = Claim(table.buckets, self._buckets.type, CONTAINER, " (buckets)", name=self._buckets.name)
        return nodes, (claim._replace(elements=table.room),)


def _hash(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    names = ("_M_buckets", "_M_bucket_count", "_M_before_begin", "_M_element_count", "_M_single_bucket")
    places = {name: found.offset for name in names if (found := find(types, type, f"_M_h.{name}")) is not None}
    table, buckets = find(types, type, "_M_h"), find(types, type, "_M_h._M_buckets")
    if table is None or buckets is None or not places.keys() >= set(names[:4]):
        return None
    arguments = types.facts(table.type).arguments
    value, traits = argument(types, types.facts(table.type), 1), arguments[-1].type if arguments else None
    kept = types.facts(traits).arguments if traits is not None else ()
    if value is None or not kept or kept[0].value is None:
        return None
    word, keeps_code = types.facts(buckets.type).size, bool(kept[0].value)
    made = Made(f"std::__detail::_Hash_node<{{}}, {'true' if keeps_code else 'false'}>", ("_M_nxt",), tail=keeps_code)
    node = made.node(types, facts.name, value, word)
    code = node.tail if keeps_code else None
    return Hash(places, node, code, table_of_links(types, f"{facts.name} buckets", word))


NODES: Mapping[str, Form] = {
    **dict.fromkeys(MAPS, _tree),
    **dict.fromkeys(HASHES, _hash),
    "list": _list,
    "forward_list": _forward_list,
}
