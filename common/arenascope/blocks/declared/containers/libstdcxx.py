"""libstdc++'s containers, from GCC 4.9 on, with strings of the old and the new ABI."""

from __future__ import annotations

from typing import Iterable, Mapping, NamedTuple, Optional, Sequence

from ....sources.debug_info_types import StructField, TemplateArgument, TypeFacts
from ....sources.type_spelling import parts_of, spelled
from ..claims import CONTAINER, EXACT, Claim, Container, Reader, Types, new_record
from .forms import (
    DEEPEST,
    Body,
    ByTemplate,
    Form,
    Links,
    Node,
    Object,
    OfBody,
    OfNodes,
    OfText,
    OfValue,
    PlacedMember,
    Table,
    alignment,
    argument,
    between,
    both_ways,
    find,
    in_order,
    inside,
    known,
    links,
    object_of,
    one_way,
    rounded,
    table_of_links,
    words_at,
)

INPLACE, ALONE, DELETED = "std::_Sp_counted_ptr_inplace", "std::_Sp_counted_ptr", "std::_Sp_counted_deleter"
"""Templates of control blocks: with the object inside, with a pointer to it, with a deleter besides."""
OF_ARRAYS = "std::__sp_array_delete"
DELETERS = ("std::default_delete<", OF_ARRAYS)
CONTROL_STEP = " (control block)"
DISPOSE = 2
"""Which of a control block's virtual functions is `_M_dispose`: after two destructors."""


def _head(types: Types, type: int) -> Optional[PlacedMember]:
    """The first element of a tuple."""
    base = inside(types, type, "std::_Head_base<0")
    head = find(types, base.type, "_M_head_impl") if base is not None else None
    return PlacedMember(base.offset + head.offset, head.type) if base is not None and head is not None else None


def _alone(types: Types, facts: TypeFacts) -> Optional[PlacedMember]:
    """The pointer of one that frees by `delete`, where tuples cannot be read (LLDB 22): it has nothing else."""
    owned, deleter = (each.type for each in (*facts.arguments, TemplateArgument())[:2])
    if owned is None or deleter is None or not types.facts(deleter).name.startswith("std::default_delete<"):
        return None
    whole = types.facts(owned)
    target = whole.target if whole.form == "array" else owned
    pointer = types.pointer_to(target) if target is not None else None
    return PlacedMember(0, pointer) if pointer is not None and types.facts(pointer).size == facts.size else None


class Owned:
    """unique_ptr."""

    def __init__(self, place: int, object: Object) -> None:
        self._place, self._object = place, object

    @property
    def target(self) -> Optional[int]:
        """The type of the one object; None: it has an array."""
        return self._object.type if self._object.front is None else None

    def claims(self, reader: Reader, address: int) -> Optional[Iterable[Claim]]:
        object = reader.word(address + self._place)
        return None if object is None else self._object.claims(reader, object)

    def elements(self, reader: Reader, address: int) -> Optional[int]:
        claims = self.claims(reader, address)
        return None if claims is None else sum(1 if each.elements is None else each.elements for each in claims)


def _unique_ptr(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    if not facts.arguments or facts.arguments[0].type is None:
        return None
    found = _head(types, type) or _alone(types, facts)
    if found is None:
        return None
    object = object_of(types, found.type, types.facts(facts.arguments[0].type).form == "array")
    return Owned(found.offset, object) if object is not None else None


class Counts(NamedTuple):
    """Where a control block has how many share its object, and how many know it."""

    use: int
    weak: int

    @property
    def end(self) -> int:
        return self.weak + INT


class Control(NamedTuple):
    """A class of control blocks, by its vtable's name."""

    type: int
    size: int
    pointer: int = 0
    """Where it has the pointer to its object; 0: the object lies in it."""
    object: Optional[Object] = None
    """What the pointer leads to, if that is known."""

    def claims(self, reader: Reader, block: int, alive: bool) -> Iterable[Claim]:
        yield Claim(block, self.type, CONTAINER, CONTROL_STEP if self.pointer else "", words=alive)
        object = reader.word(block + self.pointer) if self.object is not None and alive else None
        if object and self.object is not None:
            yield from self.object.claims(reader, object) or ()


class Block(NamedTuple):
    """A control block that has proved itself; at 0: none."""

    address: int
    uses: int
    control: Optional[Control]
    """None: it is not known how it is made."""


class Shared:
    """shared_ptr and weak_ptr: the control block says by its vtable what it is and where its object is; where the
    pointer leads is of no account, as it may lead to a part of another object."""

    def __init__(self, types: Types, place: int, counts: Counts, held: Optional[int]) -> None:
        self._types, self._place, self._counts, self._held = types, place, counts, held
        self._known: dict[int, Optional[Control]] = {}

    def _block(self, reader: Reader, address: int) -> Optional[Block]:
        block = reader.word(address + self._place)
        if not block:
            return None if block is None else Block(0, 0, None)
        table, counted = reader.word(block), self._counted(reader, block)
        if not table or counted is None or reader.usable(block) is None:
            return None
        if table not in self._known:
            name = reader.class_of(table)
            if name is None:
                return None
            dispose = reader.word(table + DISPOSE * reader.word_size)
            self._known[table] = self._control(name, reader.word_size, dispose or 0)
        control = self._known[table]
        if control is not None and not reader.holds(block, control.size):
            return None
        return Block(block, counted.use, control)

    def _counted(self, reader: Reader, block: int) -> Optional[Counts]:
        """How many hold the object, and the block; None: it has no such counts."""
        uses, weaks = (reader.number(block + place, INT) for place in self._counts)
        if uses is None or weaks is None or uses >= MOST_COUNT or not 0 < weaks < MOST_COUNT:
            return None
        return Counts(uses, weaks)

    def claims(self, reader: Reader, address: int) -> Optional[Iterable[Claim]]:
        found = self._block(reader, address)
        if found is None or found.control is None:
            return None if found is None else ()
        return found.control.claims(reader, found.address, bool(found.uses))

    def elements(self, reader: Reader, address: int) -> Optional[int]:
        found = self._block(reader, address)
        return None if found is None else int(found.uses > 0)

    def _control(self, name: str, word: int, method: int) -> Optional[Control]:
        """By the class's name and one of its methods. None where it is not known how it is made."""
        parts, types = parts_of(name), self._types
        if parts is None or parts.template not in (INPLACE, ALONE, DELETED):
            return None
        own = types.by_name(name)
        if own is None:
            # where a lambda is among its arguments, debug information spells it in another way
            classes = [
                each for each in types.classes_at(method) if types.facts(each).name.startswith(f"{parts.template}<")
            ]
            own = classes[0] if len(classes) == 1 else None
        if parts.template == INPLACE:
            return self._with_object(name, parts.arguments[0], own, word)
        deleter = parts.arguments[1] if parts.template == DELETED else ""
        is_array = "[]" in deleter or deleter == OF_ARRAYS
        if own is not None:
            pointer = find(types, own, "_M_ptr") or find(types, own, "_M_impl._M_ptr")
            if pointer is None:
                return None
            return Control(own, types.facts(own).size, pointer.offset, object_of(types, pointer.type, is_array))
        # clang leaves its members out; the library's deleters have no bytes
        target = types.by_name(parts.arguments[0].removesuffix("*"))
        if target is None or (deleter and not deleter.startswith(DELETERS)):
            return None
        place, pointer_type = rounded(self._counts.end, word), types.pointer_to(target)
        made = types.made_up(name, place + word, (StructField("_M_ptr", place, pointer_type),))
        return Control(made, place + word, place, object_of(types, pointer_type, is_array))

    def _with_object(self, name: str, of: str, own: Optional[int], word: int) -> Optional[Control]:
        """What make_shared makes: a vtable, two counts, an allocator that mostly has no bytes, and the object."""
        types, held = self._types, self._held
        type = types.by_name(of)
        if type is None and held is not None and spelled(types.facts(held).name) == spelled(of):
            type = held
        if type is None or not types.facts(type).size:
            return None
        to = alignment(types, type, word)
        place = rounded(self._counts.end, to)
        size = rounded(place + types.facts(type).size, max(word, to))
        if own is not None and types.facts(own).size:
            names = ("_M_impl._M_storage", "_M_obj", "__storage_")
            storage = next((found for each in names if (found := find(types, own, each)) is not None), None)
            if storage is None:
                return None
            place, size = storage.offset, types.facts(own).size
        return Control(types.made_up(name, size, (StructField("", place, type),)), size)


def _shared_ptr(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    block = find(types, type, "_M_refcount._M_pi")
    base = types.facts(block.type).target if block is not None else None
    if block is None or base is None:
        return None
    uses, weaks = find(types, base, "_M_use_count"), find(types, base, "_M_weak_count")
    if uses is None or weaks is None:
        return None
    return Shared(types, block.offset, Counts(uses.offset, weaks.offset), argument(types, facts, 0))


POINTERS: Mapping[str, Form] = {"unique_ptr": _unique_ptr, "shared_ptr": _shared_ptr, "weak_ptr": _shared_ptr}


BUFFER = 512
"""Bytes of a deque's buffer, for elements that are smaller (`__deque_buf_size`)."""
INSIDE = 16
"""Bytes of the letters that a string has inside, with the 0 after them."""
UNSIGNED = 4
"""Bytes of the number of a bit in a word."""


class Vector(OfBody):
    """vector, of all but bool."""

    def __init__(self, start: int, element: int, size: int) -> None:
        super().__init__(element, size)
        self._start = start

    def body(self, reader: Reader, address: int) -> Optional[Body]:
        words = reader.words(address + self._start, 3)
        return None if words is None else between(reader, words, self.size)


class Bits(OfBody):
    """vector<bool>: its words of bits begin a block; where its last bit is, a word and a number tell."""

    def __init__(self, places: Sequence[int], element: int, size: int) -> None:
        """`places`: of the first word, the last one, the bit in it, the end."""
        super().__init__(element, size, words=False)
        self._places = places

    def _read(self, reader: Reader, address: int) -> Optional[Sequence[int]]:
        start, finish, of_bit, end = self._places
        words, bit = words_at(reader, address, (start, finish, end)), reader.number(address + of_bit, UNSIGNED)
        return None if words is None or bit is None or bit >= self.size * 8 else (*words[:2], bit, words[2])

    def body(self, reader: Reader, address: int) -> Optional[Body]:
        words = self._read(reader, address)
        if words is None:
            return None
        start, finish, bit, end = words
        return between(reader, (start, finish + self.size * (bit > 0), end), self.size)

    def elements(self, reader: Reader, address: int) -> Optional[int]:
        body, words = self.body(reader, address), self._read(reader, address)
        if body is None or words is None:
            return None
        return (body.used - (words[2] > 0)) * self.size * 8 + words[2]


def _vector(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    start, element = find(types, type, "_M_impl._M_start"), argument(types, facts, 0)
    if start is None or element is None:
        return None
    pointer = types.facts(start.type)
    if pointer.form == "struct":
        return _bits(types, type)
    places = known(start, *(find(types, type, f"_M_impl.{name}") for name in ("_M_finish", "_M_end_of_storage")))
    if pointer.form != "pointer" or places != [start.offset + number * pointer.size for number in range(3)]:
        return None
    return Vector(start.offset, element, types.facts(element).size)


def _bits(types: Types, type: int) -> Optional[Container]:
    names = ("_M_start._M_p", "_M_finish._M_p", "_M_finish._M_offset", "_M_end_of_storage")
    found = [find(types, type, f"_M_impl.{name}") for name in names]
    places, bits = known(*found), types.facts(found[0].type).target if found[0] is not None else None
    return Bits(places, bits, types.facts(bits).size) if places and bits is not None else None


class Iterator(NamedTuple):
    """A place in a deque, as libstdc++ has it."""

    cur: int
    first: int
    last: int
    """The end of the buffer."""
    node: int
    """Where the map leads to the buffer."""


class Buffers(NamedTuple):
    """What a deque has proved."""

    start: Iterator
    finish: Iterator
    buffers: Sequence[int]
    map: int
    room: int
    """Of the map, in buffers."""


class Deque:
    """deque: a map of buffers; the elements begin somewhere in the first one."""

    def __init__(self, places: Sequence[int], element: int, size: int, of_map: Table) -> None:
        """`places`: of the map, its size, and of the words of two iterators."""
        self._places, self._element, self._size, self._map = places, element, size, of_map
        self._each = max(1, BUFFER // size)

    def _buffers(self, reader: Reader, address: int) -> Optional[Buffers]:
        """None unless it has proved itself."""
        word, bytes = reader.word_size, self._each * self._size
        words = words_at(reader, address, self._places)
        if words is None:
            return None
        map, room, start, finish = words[0], words[1], Iterator(*words[2:6]), Iterator(*words[6:])
        if not map and not start.node:
            return Buffers(start, finish, (), map=0, room=0) if start.cur == finish.cur else None
        if not map <= start.node <= finish.node < map + room * word or not reader.holds(map, room * word):
            return None
        if any((each.node - map) % word or (each.cur - each.first) % self._size for each in (start, finish)):
            return None
        if any(each.last - each.first != bytes or not each.first <= each.cur < each.last for each in (start, finish)):
            return None
        used = (finish.node - start.node) // word + 1
        buffers = reader.words(start.node, used)
        if buffers is None or (buffers[0], buffers[-1]) != (start.first, finish.first) or len(set(buffers)) < used:
            return None
        if (used == 1 and finish.cur < start.cur) or not all(reader.holds(each, bytes) for each in buffers):
            return None
        return Buffers(start, finish, buffers, map=map, room=room)

    def claims(self, reader: Reader, address: int) -> Optional[Iterable[Claim]]:
        known = self._buffers(reader, address)
        if known is None or not known.map:
            return None if known is None else ()
        front = known.start.node - known.map
        map = Claim(known.map, self._map.type, CONTAINER, " (map)", front=front, name=self._map.name)
        map = map._replace(elements=len(known.buffers), capacity=known.room - front // reader.word_size)
        return [map, *self._of_buffers(known)]

    def _of_buffers(self, known: Buffers) -> Iterable[Claim]:
        size, number = self._size, 0
        for buffer in known.buffers:
            begin = known.start.cur if buffer == known.start.first else buffer
            end = known.finish.cur if buffer == known.finish.first else buffer + self._each * size
            claim = Claim(buffer, self._element, CONTAINER, "", number=number, front=begin - buffer)
            count, room = (end - begin) // size, self._each - (begin - buffer) // size
            yield claim._replace(elements=count, capacity=room)
            number += count

    def elements(self, reader: Reader, address: int) -> Optional[int]:
        known = self._buffers(reader, address)
        return None if known is None else sum(each.elements or 0 for each in self._of_buffers(known))


def _deque(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    element, table = argument(types, facts, 0), find(types, type, "_M_impl._M_map")
    inner = ["_M_map", "_M_map_size"]
    for side in ("_M_start", "_M_finish"):
        inner += [f"{side}.{name}" for name in ("_M_cur", "_M_first", "_M_last", "_M_node")]
    places = known(*(find(types, type, f"_M_impl.{name}") for name in inner))
    if element is None or table is None or not places:
        return None
    of_map = table_of_links(types, f"{facts.name} map", types.facts(table.type).size)
    return Deque(places, element, types.facts(element).size, of_map)


class Letters(NamedTuple):
    """Of a string: their type, how large each is, and what a block of them is called."""

    type: int
    size: int
    body: str


class String(OfText):
    """basic_string of the ABI of GCC 5 and later: short ones lie inside."""

    def __init__(self, places: Sequence[int], letters: Letters, word: int) -> None:
        """`places`: of the pointer, the letters inside, the length, the capacity, which lie at whole words."""
        super().__init__(letters.type, letters.size, words=False, name=letters.body)
        pointer, self.inside, length, room = places
        self._first = min(pointer, length, room)
        self._pointer, self._length, self._room = ((each - self._first) // word for each in (pointer, length, room))
        self._span, self.after = max(self._pointer, self._length, self._room) + 1, 1

    def body(self, reader: Reader, address: int) -> Optional[Body]:
        words = reader.words(address + self._first, self._span)
        if words is None:
            return None
        start, count = words[self._pointer], words[self._length]
        if start == address + self.inside:
            most = INSIDE // self.size - 1
            return new_record(Body, (0, count, most)) if count <= most else None
        capacity = words[self._room]
        if not count <= capacity or not reader.holds(start, (capacity + 1) * self.size):
            return None
        ended = reader.bytes(start + count * self.size, self.size) == bytes(self.size)
        return new_record(Body, (start, count, capacity)) if ended else None


class SharedString(OfText):
    """basic_string of the old ABI: a pointer to its letters, before which lie length, capacity and how many more
    share them. The one that all empty strings share is no block."""

    def __init__(self, pointer: int, letters: Letters, word: int) -> None:
        super().__init__(letters.type, letters.size, words=False, name=letters.body)
        self._pointer, self.front, self.after = pointer, 3 * word, 1

    def body(self, reader: Reader, address: int) -> Optional[Body]:
        letters = reader.word(address + self._pointer)
        head = reader.words(letters - self.front, 2) if letters else None
        if letters is None or head is None:
            return None
        start, (count, room) = letters - self.front, head
        if not count and not room and reader.usable(start) is None:
            return Body(0, 0, 0)
        if not count <= room or not reader.holds(start, self.front + (room + 1) * self.size):
            return None
        ended = reader.bytes(letters + count * self.size, self.size) == bytes(self.size)
        return Body(start, count, room) if ended else None


def _string(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    pointer, letter = find(types, type, "_M_dataplus._M_p"), argument(types, facts, 0)
    if pointer is None or letter is None:
        return None
    word, letters = types.facts(pointer.type).size, Letters(letter, types.facts(letter).size, f"{facts.name} body")
    others = ("_M_local_buf", "_M_string_length", "_M_allocated_capacity")
    places = known(pointer, *(find(types, type, name) for name in others))
    if places:
        return String(places, letters, word)
    return SharedString(pointer.offset, letters, word) if facts.size == word else None


class Values(OfBody):
    """valarray: how many, and where."""

    def __init__(self, places: Sequence[int], element: int, size: int) -> None:
        super().__init__(element, size)
        self._places = places

    def body(self, reader: Reader, address: int) -> Optional[Body]:
        words = words_at(reader, address, self._places)
        if words is None or (words[0] and not reader.holds(words[1], words[0] * self.size)):
            return None
        count, data = words
        return Body(data if count else 0, count, count)


def _valarray(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    places, element = known(find(types, type, "_M_size"), find(types, type, "_M_data")), argument(types, facts, 0)
    return Values(places, element, types.facts(element).size) if places and element is not None else None


BODIES: Mapping[str, Form] = {"vector": _vector, "deque": _deque, "basic_string": _string, "valarray": _valarray}


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


INT = 4
MOST_COUNT = 1 << 31
"""Of parts of a path."""
FUNCTOR = 2
"""So many words a function object may have that lies inside a std::function."""
KEPT_INSIDE = "std::any::_Manager_internal"
INSIDE_IN_LIBCXX = "std::__1::__any_imp::_SmallHandler"
MANAGERS = {
    "std::_Function_handler": 1,
    "std::_Function_base::_Base_manager": 0,
    "std::any::_Manager_external": 0,
    **dict.fromkeys((KEPT_INSIDE, INSIDE_IN_LIBCXX, "std::__1::__any_imp::_LargeHandler"), 0),
}
"""Class templates whose function copies and destroys what is held, and which argument it is; the first since GCC 11."""
MOST_ALTERNATIVES = 255


class Perhaps(OfValue):
    """optional: a value, and whether there is one."""

    def __init__(self, value: int, flag: int, type: int) -> None:
        super().__init__(value, (None, type))
        self._flag = flag

    def which(self, reader: Reader, address: int) -> Optional[int]:
        flag = reader.number(address + self._flag, 1)
        return flag if flag in (0, 1) else None


def _optional(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    held = argument(types, facts, 0)
    value = find(types, type, "_M_payload._M_payload._M_value") or find(types, type, "_M_payload._M_value")
    flag = find(types, type, "_M_payload._M_engaged")
    if held is None or value is None or flag is None or types.facts(value.type).size != types.facts(held).size:
        return None
    return Perhaps(value.offset, flag.offset, held)


class OneOf(OfValue):
    """variant: which alternative it has, and its value; all lie in one place."""

    def __init__(self, index: int, size: int, value: int, types: Sequence[Optional[int]]) -> None:
        super().__init__(value, (*types, None))
        self._index, self._size = index, size

    def which(self, reader: Reader, address: int) -> Optional[int]:
        """-1: none, as an exception left it."""
        number = reader.number(address + self._index, self._size)
        if number == (1 << 8 * self._size) - 1:
            return -1
        return number if number is not None and number < len(self._types) - 1 else None

    def elements(self, reader: Reader, address: int) -> Optional[int]:
        """A type that debug information does not have is one, too."""
        which = self.which(reader, address)
        return None if which is None else int(which >= 0)


def _variant(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    index, value = find(types, type, "_M_index"), find(types, type, "_M_u")
    if index is None or value is None:
        return None
    alternatives: list[Optional[int]] = []
    # one in the other, each with its first alternative
    place = value
    while True:
        first, rest = find(types, place.type, "_M_first"), find(types, place.type, "_M_rest")
        if first is None:
            break
        if first.offset:
            return None
        alternatives.append(argument(types, types.facts(first.type), 0))
        if rest is None or len(alternatives) > MOST_ALTERNATIVES:
            break
        place = rest
    if not alternatives:
        return None
    return OneOf(index.offset, types.facts(index.type).size, value.offset, alternatives)


class Managed(NamedTuple):
    """What the managing function of an any or a function tells."""

    template: str
    name: str
    """Of what is held, as the function's symbol has it."""
    types: Sequence[int]
    """Several, where the debug information has them by one name."""


class Manager:
    """What a pointer to a managing function tells: it is of a class template that has the value's type."""

    def __init__(self, types: Types, place: int, method: str) -> None:
        self.types, self._place, self._method = types, place, method
        self._known: dict[int, Optional[Managed]] = {}

    def function(self, reader: Reader, address: int) -> Optional[int]:
        """0: nothing is held."""
        return reader.word(address + self._place)

    def managed(self, reader: Reader, function: int) -> Optional[Managed]:
        """None if it is no such function."""
        if function not in self._known:
            self._known[function] = self._found(reader, function)
        return self._known[function]

    def _found(self, reader: Reader, function: int) -> Optional[Managed]:
        name, is_method, _ = (reader.symbol(function) or "").partition(self._method)
        parts = parts_of(name) if is_method else None
        place = MANAGERS.get(parts.template) if parts is not None else None
        if parts is None or place is None or place >= len(parts.arguments):
            return None
        held, types = parts.arguments[place], []
        for each in self.types.classes_at(function):
            facts = self.types.facts(each)
            type = facts.arguments[place].type if place < len(facts.arguments) else None
            if type is not None and facts.name.startswith(f"{parts.template}<"):
                types.append(type)
        named = self.types.by_name(held) if not types else None
        return Managed(parts.template, held, types if named is None else [named])

    def claim(self, address: int, type: int, managed: Managed) -> Claim:
        """A lambda has no name in debug information."""
        name = "" if self.types.facts(type).name else managed.name
        return Claim(address, type, CONTAINER, "", name=name)


class AnyValue:
    """any."""

    def __init__(self, manager: Manager, storage: int) -> None:
        self._manager, self._storage = manager, storage

    def claims(self, reader: Reader, address: int) -> Optional[Iterable[Claim]]:
        function, held = self._manager.function(reader, address), reader.word(address + self._storage)
        if not function or held is None:
            return None if function is None or held is None else ()
        managed = self._manager.managed(reader, function)
        if managed is None or len(managed.types) != 1:
            return None if managed is None else ()
        type = managed.types[0]
        if managed.template in (KEPT_INSIDE, INSIDE_IN_LIBCXX):
            return (Claim(address + self._storage, type, CONTAINER, "", inline=True),)
        if not reader.holds(held, self._manager.types.facts(type).size):
            return None
        return (self._manager.claim(held, type, managed),)

    def elements(self, reader: Reader, address: int) -> Optional[int]:
        function = self._manager.function(reader, address)
        return None if function is None else int(function != 0)


def _any(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    manager, storage = find(types, type, "_M_manager"), find(types, type, "_M_storage")
    if manager is None or storage is None:
        return None
    return AnyValue(Manager(types, manager.offset, "::_S_manage("), storage.offset)


class Function:
    """function. A functor lies inside if it is small and its bytes may be copied."""

    def __init__(self, manager: Manager, functor: int) -> None:
        self._manager, self._functor = manager, functor

    def claims(self, reader: Reader, address: int) -> Optional[Iterable[Claim]]:
        function, held = self._manager.function(reader, address), reader.word(address + self._functor)
        if not function or held is None:
            return None if function is None or held is None else ()
        managed = self._manager.managed(reader, function)
        if managed is None or not managed.types:
            return None if managed is None else ()
        types, inside, outside = self._manager.types, [], []
        for type in managed.types:
            facts = types.facts(type)
            is_block = facts.size > 0 and reader.holds(held, facts.size)
            if not facts.size or (facts.size <= FUNCTOR * reader.word_size and _may_be_copied(types, type)):
                if is_block and facts.name and facts.form == "struct":
                    # who wrote it may have forbidden to copy its bytes: both would fit
                    return ()
                inside.append(type)
            elif is_block:
                outside.append(type)
        if not inside and not outside:
            return None
        if len(outside) > 1:
            # malloc gives a block that is too large only where the rest would be too small for another
            outside = [each for each in outside if _is_full(reader, held, types.facts(each).size)]
        if len(outside) == 1 and not any(_begins_with_pointer(types, each) for each in inside):
            return (self._manager.claim(held, outside[0], managed),)
        if len(inside) != 1 or outside:
            return ()
        return (Claim(address + self._functor, inside[0], CONTAINER, "", inline=True),)

    def elements(self, reader: Reader, address: int) -> Optional[int]:
        function = self._manager.function(reader, address)
        return None if function is None else int(function != 0)


def _is_full(reader: Reader, block: int, size: int) -> bool:
    usable, word = reader.usable(block), reader.word_size
    return usable is not None and usable < max(size, 3 * word) + 2 * word


def _begins_with_pointer(types: Types, type: int) -> bool:
    facts = types.facts(type)
    return facts.form == "pointer" or any(
        not each.offset and _begins_with_pointer(types, each.type) for each in facts.fields
    )


def _may_be_copied(types: Types, type: int, deepest: int = DEEPEST) -> bool:
    """Whether its bytes may be copied, as far as its members tell: none is of a class of the library, none has a
    vtable."""
    facts = types.facts(type)
    if facts.polymorphic or facts.name.startswith("std::") or not deepest:
        return False
    return all(_may_be_copied(types, each.type, deepest - 1) for each in facts.fields)


def _function(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    manager, functor = find(types, type, "_M_manager"), find(types, type, "_M_functor")
    if manager is None or functor is None:
        return None
    return Function(Manager(types, manager.offset, "::_M_manager("), functor.offset)


class Path:
    """filesystem::path: a string, and the parts of a path that has several, after two ints that count them. The
    pointer's lowest bits say what kind of path it is."""

    def __init__(self, text: PlacedMember, parts: int, part: int, size: int) -> None:
        self._text, self._parts, self._part, self._size = text, parts, part, size

    def claims(self, reader: Reader, address: int) -> Optional[Iterable[Claim]]:
        parts = self._in_parts(reader, address)
        if parts is None:
            return None
        return (Claim(address + self._text.offset, self._text.type, CONTAINER, "", inline=True), *parts)

    def _in_parts(self, reader: Reader, address: int) -> Optional[Sequence[Claim]]:
        word = reader.word(address + self._parts)
        if word is None:
            return None
        block, kind = word & ~3, word & 3
        if not block:
            return ()
        count, room = reader.number(block, INT), reader.number(block + INT, INT)
        if count is None or room is None or not count <= room < MOST_COUNT or (kind and count):
            return None
        if not reader.holds(block, 2 * INT + room * self._size):
            return None
        return (Claim(block, self._part, CONTAINER, "", elements=count, capacity=room, number=0, front=2 * INT),)

    def elements(self, reader: Reader, address: int) -> Optional[int]:
        claims = self._in_parts(reader, address)
        return None if claims is None else sum(each.elements or 0 for each in claims)


def _path(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    text, parts = find(types, type, "_M_pathname"), find(types, type, "_M_cmpts")
    letters = find(types, type, "_M_pathname._M_dataplus._M_p")
    if text is None or parts is None or letters is None:
        return None
    word = types.facts(letters.type).size
    # path::_Cmpt, which only the library itself has: a path, and where in the whole it begins
    part = types.made_up(f"{facts.name}::_Cmpt", facts.size + word, (StructField("", 0, type),))
    return Path(text, parts.offset, part, facts.size + word)


VALUES: Mapping[str, Form] = {
    "optional": _optional,
    "variant": _variant,
    "any": _any,
    "function": _function,
    "filesystem::path": _path,
}


INNER = ("__cxx11", "__cxx1998", "__8")
"""Inline namespaces, and where the containers are that `_GLIBCXX_DEBUG` wraps."""
FORMS: Mapping[str, Form] = {**NODES, **BODIES, **POINTERS, **VALUES}


def template_of(name: str) -> Optional[str]:
    """ "map" of std::map<int, int>; None for a name outside std."""
    parts = name.partition("<")[0].split("::")
    if parts[0] != "std":
        return None
    return "::".join(part for part in parts[1:] if part not in INNER)


LIBSTDCXX = ByTemplate(template_of, FORMS)
