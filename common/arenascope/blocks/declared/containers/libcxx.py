"""libc++'s containers, where debug information has them in an inline namespace (`std::__1`)."""

from __future__ import annotations

from typing import Iterable, Mapping, Optional, Sequence

from ....sources.debug_info_types import StructField, TypeFacts
from ....sources.type_spelling import parts_of
from ..claims import CONTAINER, Claim, Container, Reader, Types
from .forms import ByTemplate, Form, Node
from .libcxx_bodies import BODIES, first
from .libstdcxx_nodes import Chain, Hash, Proved, Ring, Tree, key_of
from .libstdcxx_pointers import Control, Counts, Owned, Shared
from .libstdcxx_values import AnyValue, Manager, OneOf, Perhaps
from .parts import alignment, argument, find, inside, known, links, object_of, rounded, table_of_links
from .walks import Links

NAMESPACES = ("__1", "__2", "__ndk1", "__Cr")
TREE = Links(parent=2, left=0, right=1)
COUNT, OWNERS = 8, 1 << 32
"""Bytes of a control block's counts, and fewer than so many hold an object."""
INSIDE, ALONE = "__shared_ptr_emplace", "__shared_ptr_pointer"
BODY = "__function::__func"


def template_of(name: str) -> Optional[str]:
    """ "map" of std::__1::map<int, int>; None for a name outside such a namespace."""
    parts = name.partition("<")[0].split("::")
    return "::".join(parts[2:]) if parts[0] == "std" and len(parts) > 2 and parts[1] in NAMESPACES else None


# nodes


def _node(types: Types, owner: str, value: int, names: Sequence[str], *, after: int) -> Node:
    """`after`: how many bytes lie in front of the value, as far as its alignment lets them."""
    facts, word = types.facts(value), types.facts(types.pointer_to(value)).size
    to = alignment(types, value, word)
    place = rounded(after, to)
    size = rounded(place + facts.size, max(word, to))
    fields = (*links(types, names, word), StructField("", place, value))
    return Node(types.made_up(f"{owner} node", size, fields, key_of(types, owner, value, place)), size, size)


def _tree(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    tree = find(types, type, "__tree_")
    value = argument(types, types.facts(tree.type), 0) if tree is not None else None
    root = find(types, type, "__tree_.__pair1_.__value_.__left_") or find(types, type, "__tree_.__end_node_.__left_")
    count = first(types, type, "__tree_.__pair3_", "__tree_.__size_")
    places = known(count, root, find(types, type, "__tree_.__begin_node_"))
    if value is None or root is None or not places:
        return None
    # after three words comes the colour
    after = 3 * types.facts(root.type).size + 1
    node = _node(types, facts.name, value, ("__left_", "__right_", "__parent_"), after=after)
    # the header begins with the pointer to the root
    return Tree(root.offset, places, node, TREE)


class HashTable(Hash):
    """unordered_map and the like: as libstdc++, but that an empty one has no buckets."""

    def _table(self, reader: Reader, address: int) -> Optional[Proved]:
        places = self._places
        if not reader.word(address + places["_M_buckets"]):
            count = reader.word(address + places["_M_element_count"])
            return Proved((), 0, room=0) if count == 0 else None
        return super()._table(reader, address)


def _hash(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    table = find(types, type, "__table_")
    value = argument(types, types.facts(table.type), 0) if table is not None else None
    buckets = first(types, type, "__table_.__bucket_list_.__ptr_")
    namespace = facts.name.partition("unordered_")[0]
    deleter = inside(types, type, f"{namespace}__bucket_list_deallocator<")
    room = first(types, deleter.type, "__data_", "__size_") if deleter is not None else None
    before = first(types, type, "__table_.__p1_", "__table_.__first_node_")
    places = known(buckets, before, first(types, type, "__table_.__p2_", "__table_.__size_"))
    if value is None or buckets is None or deleter is None or room is None or not places:
        return None
    word = types.facts(buckets.type).size
    names = dict(zip(("_M_buckets", "_M_before_begin", "_M_element_count"), places))
    names["_M_bucket_count"] = deleter.offset + room.offset
    node = _node(types, facts.name, value, ("__next_",), after=2 * word)
    return HashTable(names, node, word, table_of_links(types, f"{facts.name} buckets", word))


def _list(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    end, value = find(types, type, "__end_"), argument(types, facts, 0)
    previous = find(types, type, "__end_.__prev_")
    places = known(previous, first(types, type, "__size_alloc_", "__size_"))
    if end is None or value is None or previous is None or not places or previous.offset != end.offset:
        return None
    node = _node(types, facts.name, value, ("__prev_", "__next_"), after=2 * types.facts(previous.type).size)
    return Ring(places[0], places[1], node, backwards=True)


def _forward_list(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    value, pair = argument(types, facts, 0), first(types, type, "__before_begin_")
    head = find(types, pair.type, "__next_") if pair is not None else None
    if value is None or pair is None or head is None:
        return None
    word = types.facts(head.type).size
    return Chain(pair.offset + head.offset, _node(types, facts.name, value, ("__next_",), after=word))


# pointers


def _unique_ptr(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    pointer = first(types, type, "__ptr_")
    if pointer is None or not facts.arguments or facts.arguments[0].type is None:
        return None
    object = object_of(types, pointer.type, types.facts(facts.arguments[0].type).form == "array")
    return Owned(pointer.offset, object) if object is not None else None


class SharedPointer(Shared):
    """shared_ptr and weak_ptr: the counts are one less than who holds it."""

    def _counted(self, reader: Reader, block: int) -> Optional[Counts]:
        counts = [reader.number(block + place, COUNT) for place in self._counts]
        uses, weaks = ((each + 1) % (1 << 8 * COUNT) if each is not None else OWNERS for each in counts)
        # all who hold the object hold the block together once
        return Counts(uses, weaks) if uses < OWNERS and 0 < weaks < OWNERS else None

    def _control(self, name: str, word: int, method: int) -> Optional[Control]:
        parts, types = parts_of(name), self._types
        template = template_of(name)
        if parts is None or template not in (INSIDE, ALONE) or not parts.arguments:
            return None
        own = types.by_name(name)
        if own is None:
            return None
        if template == INSIDE:
            return self._with_object(name, parts.arguments[0], own, word)
        pointer = find(types, own, "__data_.__value_.__value_") or find(types, own, "__ptr_")
        is_array = "[]" in parts.arguments[1] if len(parts.arguments) > 1 else True
        if pointer is None:
            return None
        return Control(own, types.facts(own).size, pointer.offset, object_of(types, pointer.type, is_array))


def _shared_ptr(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    block = find(types, type, "__cntrl_")
    base = types.facts(block.type).target if block is not None else None
    if block is None or base is None:
        return None
    counts = known(find(types, base, "__shared_owners_"), find(types, base, "__shared_weak_owners_"))
    return SharedPointer(types, block.offset, Counts(*counts), argument(types, facts, 0)) if counts else None


# values


def _optional(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    held, places = argument(types, facts, 0), known(find(types, type, "__val_"), find(types, type, "__engaged_"))
    return Perhaps(places[0], places[1], held) if held is not None and places else None


def _variant(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    whole = find(types, type, "__impl_") or find(types, type, "__impl")
    index, data = (find(types, whole.type, name) if whole else None for name in ("__index", "__data"))
    if whole is None or index is None or data is None:
        return None
    size, value = types.facts(index.type).size, whole.offset + data.offset
    return OneOf(whole.offset + index.offset, size, value=value, types=[each.type for each in facts.arguments])


def _any(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    places = known(first(types, type, "__h_", "__h"), first(types, type, "__s_", "__s"))
    return AnyValue(Manager(types, places[0], "::__handle("), places[1]) if places else None


class Function:
    """function: a pointer to an object with a vtable, which lies inside where it is small."""

    def __init__(self, types: Types, places: Sequence[int], name: str) -> None:
        """`places`: of the pointer, of the room for a small one."""
        self._types, self._places, self._name = types, places, name

    def claims(self, reader: Reader, address: int) -> Optional[Iterable[Claim]]:
        held, inside = reader.word(address + self._places[0]), address + self._places[1]
        table = reader.word(held) if held else None
        if not held or table is None:
            return None if held is None or held else ()
        name = reader.class_of(table)
        if name is None or template_of(name) != BODY:
            return None
        type = self._types.by_name(name)
        if held == inside:
            return (Claim(inside, type, CONTAINER, "", inline=True),) if type is not None else ()
        usable = reader.usable(held)
        if usable is None:
            return None
        if type is None:
            # of a lambda: the vtable alone tells what it is
            type = self._types.made_up(self._name, usable, ())
        is_block = reader.holds(held, self._types.facts(type).size)
        return (Claim(held, type, CONTAINER, "", name=self._name),) if is_block else None

    def elements(self, reader: Reader, address: int) -> Optional[int]:
        held = reader.word(address + self._places[0])
        return None if held is None else int(held != 0)


def _function(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    places = known(find(types, type, "__f_.__f_"), find(types, type, "__f_.__buf_"))
    return Function(types, places, f"{facts.name} body") if places else None


FORMS: Mapping[str, Form] = {
    **dict.fromkeys(("map", "multimap", "set", "multiset"), _tree),
    **dict.fromkeys(("unordered_map", "unordered_multimap", "unordered_set", "unordered_multiset"), _hash),
    **dict.fromkeys(("shared_ptr", "weak_ptr"), _shared_ptr),
    **BODIES,
    "list": _list,
    "forward_list": _forward_list,
    "unique_ptr": _unique_ptr,
    "optional": _optional,
    "variant": _variant,
    "any": _any,
    "function": _function,
}

LIBCXX = ByTemplate(template_of, FORMS)
