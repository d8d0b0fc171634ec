"""libc++'s containers, where debug information has them in an inline namespace (`std::__1`)."""

from __future__ import annotations

from typing import Iterable, Mapping, Optional, Sequence

from ....sources.debug_info_types import StructField, TypeFacts
from ....sources.type_spelling import parts_of
from ..claims import CONTAINER, Claim, Container, Reader, Types
from .forms import (
    Body,
    ByTemplate,
    Form,
    Links,
    Node,
    OfBody,
    OfText,
    PlacedMember,
    Table,
    alignment,
    argument,
    between,
    find,
    inside,
    known,
    links,
    object_of,
    rounded,
    table_of_links,
    words_at,
)
from .libstdcxx import (
    AnyValue,
    Chain,
    Control,
    Counts,
    Hash,
    Manager,
    OneOf,
    Owned,
    Perhaps,
    Proved,
    Ring,
    Shared,
    Tree,
    Vector,
    key_of,
)

BUFFER, LEAST = 4096, 16
"""Bytes of a deque's buffer, and how many elements it has at least (`__deque_block_size`)."""


def first(types: Types, type: int, *paths: str) -> Optional[PlacedMember]:
    """The first of these members that there is; of a compressed pair its first part."""
    for path in paths:
        found = find(types, type, f"{path}.__value_") or find(types, type, path)
        if found is not None:
            return found
    return None


def _vector(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    begin, element = find(types, type, "__begin_"), argument(types, facts, 0)
    if begin is None or element is None:
        return None
    size = types.facts(element).size
    if types.facts(element).form == "boolean":
        bits, room = types.facts(begin.type).target, first(types, type, "__cap_alloc_", "__cap_")
        places = known(begin, first(types, type, "__size_"), room)
        return Bits(places, bits, types.facts(bits).size) if places and bits is not None else None
    places = known(begin, find(types, type, "__end_"), first(types, type, "__end_cap_", "__cap_"))
    word = types.facts(begin.type).size
    return Vector(places[0], element, size) if places == [begin.offset + at * word for at in range(3)] else None


class Bits(OfBody):
    """vector<bool>: where its words begin, how many bits it has, and how many words there is room for."""

    def __init__(self, places: Sequence[int], element: int, size: int) -> None:
        super().__init__(element, size, words=False)
        self._places = places

    def body(self, reader: Reader, address: int) -> Optional[Body]:
        words = words_at(reader, address, self._places)
        if words is None or words[1] > words[2] * self.size * 8:
            return None
        start, bits, room = words
        if not room or not reader.holds(start, room * self.size):
            return Body(0, 0, 0) if not room and not start else None
        return Body(start, -(-bits // (8 * self.size)), room)

    def elements(self, reader: Reader, address: int) -> Optional[int]:
        return reader.word(address + self._places[1]) if self.body(reader, address) is not None else None


class String(OfText):
    """basic_string: a long one has a mark in the word of its capacity, the length of a short one is in a byte there."""

    def __init__(self, places: Sequence[int], inside: PlacedMember, letters: PlacedMember, name: str) -> None:
        """`places`: of a long one's letters, length and capacity; `inside`: of a short one's letters; `letters`: how
        many bytes the whole has, and their type."""
        super().__init__(letters.type, inside.type, words=False, name=name)
        self._places, self.inside, self._whole, self.after = places, inside.offset, letters.offset, 1
        self._is_last = places[2] > places[0]

    def body(self, reader: Reader, address: int) -> Optional[Body]:
        words = words_at(reader, address, self._places)
        mark = reader.number(address + (self._whole - 1 if self._is_last else self._places[2]), 1)
        if words is None or mark is None:
            return None
        start, count, room = words
        if not mark & (0x80 if self._is_last else 1):
            count, most = mark if self._is_last else mark >> 1, self._whole // self.size - (self.inside > 0) - 1
            return Body(0, count, most) if count <= most else None
        room &= (1 << 8 * reader.word_size - 1) - 1 if self._is_last else ~1
        if not count < room or not reader.holds(start, room * self.size):
            return None
        ended = reader.bytes(start + count * self.size, self.size) == bytes(self.size)
        return Body(start, count, room - 1) if ended else None


def _string(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    letter = argument(types, facts, 0)
    whole = next((each for each in ("__r_.__value_", "__r_", "__rep_") if find(types, type, f"{each}.__l")), None)
    if letter is None or whole is None:
        return None
    data, count = (find(types, type, f"{whole}.__l.{name}") for name in ("__data_", "__size_"))
    short, size = find(types, type, f"{whole}.__s.__data_"), types.facts(letter).size
    if data is None or count is None or short is None:
        return None
    word = types.facts(data.type).size
    # the capacity may have bits of its word: it has what the others leave
    left = {0, word, 2 * word} - {data.offset, count.offset}
    if len(left) != 1:
        return None
    places = (data.offset, count.offset, left.pop())
    return String(places, PlacedMember(short.offset, size), PlacedMember(facts.size, letter), f"{facts.name} body")


class Values(OfBody):
    """valarray: its begin and its end."""

    def __init__(self, begin: int, element: int, size: int) -> None:
        super().__init__(element, size)
        self._begin = begin

    def body(self, reader: Reader, address: int) -> Optional[Body]:
        words = reader.words(address + self._begin, 2)
        return None if words is None else between(reader, (*words, words[1]), self.size)


def _valarray(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    begin, element = find(types, type, "__begin_"), argument(types, facts, 0)
    return Values(begin.offset, element, types.facts(element).size) if begin and element is not None else None


class Deque:
    """A vector of buffers; the elements begin somewhere in the first ones."""

    def __init__(self, places: Sequence[int], element: int, size: int, of_map: Table) -> None:
        """`places`: of the map's four words, of the first element's number, of how many there are."""
        self._places, self._element, self._size, self._map = places, element, size, of_map
        self._each = BUFFER // size if size * LEAST < BUFFER else LEAST

    def claims(self, reader: Reader, address: int) -> Optional[Sequence[Claim]]:
        word, each = reader.word_size, self._each
        words = words_at(reader, address, self._places)
        if words is None:
            return None
        start, begin, end, top, first, count = words
        if not start:
            return [] if not (begin or end or top or count) else None
        if not start <= begin <= end <= top or any((other - start) % word for other in (begin, end, top)):
            return None
        buffers = reader.words(begin, (end - begin) // word) if reader.holds(start, top - start) else None
        if buffers is None or first + count > len(buffers) * each or len(set(buffers)) < len(buffers):
            return None
        if not all(reader.holds(buffer, each * self._size) for buffer in buffers):
            return None
        map = Claim(start, self._map.type, CONTAINER, " (map)", front=begin - start, name=self._map.name)
        claims = [map._replace(elements=len(buffers), capacity=(top - begin) // word)]
        for number, buffer in enumerate(buffers):
            low, high = max(first, number * each), min(first + count, (number + 1) * each)
            used, front = max(0, high - low), low - number * each if high > low else 0
            claim = Claim(buffer, self._element, CONTAINER, "", number=low - first, front=front * self._size)
            claims.append(claim._replace(elements=used, capacity=each - front))
        return claims

    def elements(self, reader: Reader, address: int) -> Optional[int]:
        return reader.word(address + self._places[-1]) if self.claims(reader, address) is not None else None


def _deque(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    element, begin = argument(types, facts, 0), find(types, type, "__map_.__begin_")
    map = [find(types, type, f"__map_.{name}") for name in ("__first_", "__begin_", "__end_")]
    last = first(types, type, "__map_.__end_cap_", "__map_.__cap_")
    places = known(*map, last, find(types, type, "__start_"), first(types, type, "__size_"))
    if element is None or begin is None or not places:
        return None
    of_map = table_of_links(types, f"{facts.name} map", types.facts(begin.type).size)
    return Deque(places, element, types.facts(element).size, of_map)


BODIES: Mapping[str, Form] = {"vector": _vector, "basic_string": _string, "valarray": _valarray, "deque": _deque}


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
