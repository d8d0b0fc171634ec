"""Containers of Rust's standard library. Their elements' types are templates' arguments; the members' names differ from
release to release, so that a pointer and a number are looked for by their form."""

from __future__ import annotations

from typing import Callable, Iterable, Iterator, Mapping, NamedTuple, Optional, Sequence

from ....sources.debug_info_types import Form as TypeForm
from ....sources.debug_info_types import TypeFacts
from ....sources.target import Span
from ...recognise.containers import GROUP, RawTable
from ..claims import CONTAINER, EXACT, Claim, Container, Reader, Types
from .forms import DEEPEST, Body, OfBody, OfValue, PlacedMember, argument, find, inside, known, words_at

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


CAPACITY = ("Cap", "UsizeNoHighBit")
"""Last parts of the names of numbers that are less than half of all."""
MOST_VARIANTS = 1 << 10


class Tag(NamedTuple):
    """Where the number lies."""

    offset: int
    size: int


class Variants(OfValue):
    """An enum."""

    def __init__(self, tag: Tag, variants: Sequence[int], *, full: Optional[int], first: int) -> None:
        """`variants`: their types. `full`: the one that has something else where the tag is, if there is one; `first`:
        the lowest tag of the others, which go on from there in their order."""
        super().__init__(0, variants)
        self._tag, self._full, self._first = tag, full, first
        self._others = range(len(variants))
        if full is not None:
            others = [number for number in self._others if number != full]
            self._others = range(others[0], others[-1] + 1)

    def which(self, reader: Reader, address: int) -> Optional[int]:
        """The variant's number."""
        value = reader.number(address + self._tag.offset, self._tag.size)
        if value is None:
            return None
        at = value - self._first
        if 0 <= at < len(self._others):
            # what lies between the others in their order has a number, too, but no tag
            return self._others[at] if self._others[at] != self._full else None
        return self._full if value < self._first or not self._first else None


class Leaf(NamedTuple):
    """What a variant has in the place of the tag."""

    type: int
    owner: str
    """The struct that it is a member of."""
    offset: int


def enum(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    """None where it is not certain how its variants are told."""
    if facts.tag is None or not 0 < len(facts.fields) <= MOST_VARIANTS or any(each.offset for each in facts.fields):
        return None
    tag = Tag(facts.tag.offset, types.facts(facts.tag.type).size)
    variants = [each.type for each in facts.fields]
    found = {number: list(_at(types, each, tag, DEEPEST)) for number, each in enumerate(variants)}
    full = [number for number, leaves in found.items() if leaves]
    if not full:
        return Variants(tag, variants, full=None, first=0)
    if len(full) > 1 or len(variants) < 2 or len(found[full[0]]) != 1:
        return None
    first = _first(types, found[full[0]][0], tag)
    if first is None or (not first and len(variants) > 2):
        return None
    return Variants(tag, variants, full=full[0], first=first)


def _first(types: Types, leaf: Leaf, tag: Tag) -> Optional[int]:
    """The lowest value that what lies there cannot have; None: it is not known."""
    facts = types.facts(leaf.type)
    if leaf.offset != tag.offset or facts.size != tag.size:
        return None
    if facts.form in ("pointer", "reference"):
        return 0
    is_capacity = facts.form == "integer" and leaf.owner.partition("<")[0].rpartition("::")[2] in CAPACITY
    return 1 << 8 * facts.size - 1 if is_capacity else None


def _at(types: Types, type: int, tag: Tag, deepest: int, offset: int = 0, owner: str = "") -> Iterator[Leaf]:
    """All that has bytes in common with the tag; an enum in it is one thing."""
    facts = types.facts(type)
    if not facts.size or offset >= tag.offset + tag.size or offset + facts.size <= tag.offset:
        return
    if facts.form == "struct" and facts.fields and deepest:
        for each in facts.fields:
            yield from _at(types, each.type, tag, deepest - 1, offset=offset + each.offset, owner=facts.name)
    elif facts.form != "struct":
        yield Leaf(type, owner, offset)


VECTOR, QUEUE = "alloc::vec::Vec", "alloc::collections::vec_deque::VecDeque"
TABLE = "hashbrown::raw::RawTable"
TABLES = (
    "std::collections::hash::map::HashMap",
    "std::collections::hash::set::HashSet",
    "hashbrown::map::HashMap",
    "hashbrown::set::HashSet",
    TABLE,
)
GLOBAL = "alloc::alloc::Global"
SLICE = {"data_ptr", "length"}
"""Members of a pointer to several."""
DYNAMIC = {"pointer", "vtable"}
BOXED, DROP = "alloc::boxed::Box<dyn ", "core::ptr::drop_in_place<"
CLOSURE, MOST_CLOSURES = "{{closure}}", 32
"""What symbols call each of a function's closures; so many of one function are looked at."""
CALLS = (4, 5)
"""Of a vtable of FnMut and Fn the method that is the closure itself, where it is not made of another."""
LAZY = "::lazy::Storage"
SHARED = ("alloc::rc::RcBox", "alloc::rc::RcInner", "alloc::sync::ArcInner")
"""What Rc and Arc point to: two counts before the value."""
MOST_PLACES = 1 << 32


class Rust:
    """A Library."""

    def container(self, types: Types, type: int) -> Optional[Container]:
        facts = types.facts(type)
        if facts.form != "struct":
            return enum(types, type, facts) if facts.tag is not None else None
        template = facts.name.partition("<")[0]
        form = _lazy if template.endswith(LAZY) else FORMS.get(template)
        if form is not None:
            return form(types, type, facts)
        names = {each.name for each in facts.fields}
        return _dynamic(types, facts) if names == DYNAMIC else _slice(types, facts) if names == SLICE else None


def _leaf(types: Types, type: int, form: TypeForm, deepest: int = DEEPEST) -> Optional[PlacedMember]:
    """The first member of a member that is of this form."""
    facts = types.facts(type)
    if facts.form == form:
        return PlacedMember(0, type)
    for field in facts.fields if deepest and facts.form == "struct" else ():
        inner = _leaf(types, field.type, form, deepest - 1)
        if inner is not None:
            return PlacedMember(field.offset + inner.offset, inner.type)
    return None


class Vector(OfBody):
    """Vec; a String has one of bytes."""

    def __init__(self, places: Sequence[int], element: int, size: int) -> None:
        """`places`: of the pointer, the capacity, the length."""
        super().__init__(element, size)
        self._places = places

    def body(self, reader: Reader, address: int) -> Optional[Body]:
        words = words_at(reader, address, self._places)
        if words is None or words[2] > words[1]:
            return None
        start, room, _ = words
        if not room:
            # it leads to where no block can be, as it may not be null
            return Body(0, 0, 0)
        return Body(start, words[2], room) if reader.holds(start, room * self.size) else None


def _places(types: Types, type: int) -> Optional[list[int]]:
    """Of a RawVec's pointer and its capacity."""
    buffer = find(types, type, "buf")
    if buffer is None:
        return None
    found = known(_leaf(types, buffer.type, "pointer"), _leaf(types, buffer.type, "integer"))
    return [buffer.offset + each for each in found] if found else None


def _vector(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    places, length, element = _places(types, type), find(types, type, "len"), argument(types, facts, 0)
    if places is None or length is None or element is None or not _is_global(types, facts):
        return None
    return Vector([*places, length.offset], element, types.facts(element).size)


def _is_global(types: Types, facts: TypeFacts) -> bool:
    """Whether its memory comes from malloc. Older releases have no allocator among the arguments."""
    allocator = facts.arguments[-1].type if len(facts.arguments) > 1 else None
    return allocator is None or types.facts(allocator).name == GLOBAL


class Queue:
    """VecDeque: elements from `head` on, at the end of the block again from its start."""

    def __init__(self, places: Sequence[int], element: int, size: int) -> None:
        """`places`: of the pointer, the capacity, the first element's number, the length."""
        self._places, self._element, self._size = places, element, size

    def _read(self, reader: Reader, address: int) -> Optional[Sequence[int]]:
        words = words_at(reader, address, self._places)
        if words is None:
            return None
        start, room, head, used = words
        if not room:
            return (0, 0, 0, 0) if not used else None
        is_proved = used <= room and head < room and reader.holds(start, room * self._size)
        return words if is_proved else None

    def claims(self, reader: Reader, address: int) -> Optional[Iterable[Claim]]:
        words = self._read(reader, address)
        if words is None or not words[0]:
            return None if words is None else ()
        start, room, head, used = words
        first = min(used, room - head)
        body = Claim(start, self._element, CONTAINER, "", number=0, front=head * self._size)
        claims = [body._replace(elements=first, capacity=room - head)]
        for number in range(first, used):
            at = start + (number - first) * self._size
            claims.append(Claim(at, self._element, CONTAINER, "", number=number, inline=True))
        return claims

    def elements(self, reader: Reader, address: int) -> Optional[int]:
        words = self._read(reader, address)
        return None if words is None else words[3]


def _queue(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    places, head, length = _places(types, type), find(types, type, "head"), find(types, type, "len")
    element = argument(types, facts, 0)
    if places is None or head is None or length is None or element is None or not _is_global(types, facts):
        return None
    return Queue([*places, head.offset, length.offset], element, types.facts(element).size)


class Entries:
    """HashMap and HashSet: entries, the last one first, and after them a byte for each place."""

    def __init__(self, types: Types, name: str, places: Sequence[int], element: int) -> None:
        """`places`: of the pointer to the bytes, how many places but one, how many entries."""
        self._types, self._name, self._places, self._element = types, name, places, element
        self._size = types.facts(element).size

    def _table(self, reader: Reader, address: int) -> Optional[tuple[RawTable, Sequence[int]]]:
        """With where its entries lie."""
        words = words_at(reader, address, self._places)
        if words is None or words[1] & words[1] + 1 or words[1] >= MOST_PLACES:
            return None
        control, mask, entries = words
        table = RawTable(control, mask + 1, entries)
        if not mask:
            return (table, ()) if not entries else None
        before = -(-table.places * self._size // GROUP) * GROUP
        usable = reader.usable(control - before)
        bytes = reader.bytes(control, table.control_bytes) if usable is not None else None
        if usable is None or bytes is None:
            return None
        block = Span(control - before, control - before + usable)
        if not table.fills(block, bytes) or not reader.holds(block.start, before + table.control_bytes):
            return None
        taken = [place for place in range(table.places) if bytes[place] < 0x80]
        return table, [control - (place + 1) * self._size for place in taken]

    def claims(self, reader: Reader, address: int) -> Optional[Iterable[Claim]]:
        found = self._table(reader, address)
        if found is None or found[0].places == 1:
            return None if found is None else ()
        table, entries = found
        before = -(-table.places * self._size // GROUP) * GROUP
        whole = self._types.made_up(f"{self._name} table", before + table.control_bytes, ())
        claims = [Claim(table.control - before, whole, CONTAINER, " (table)", words=False)]
        for number, at in enumerate(entries):
            claims.append(Claim(at, self._element, CONTAINER, "", number=number, inline=True))
        return claims

    def elements(self, reader: Reader, address: int) -> Optional[int]:
        found = self._table(reader, address)
        return None if found is None else found[0].entries


def _table(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    raw = inside(types, type, f"{TABLE}<")
    if raw is None:
        return None
    found = known(*(find(types, raw.type, f"table.{name}") for name in ("ctrl", "bucket_mask", "items")))
    element, own = argument(types, types.facts(raw.type), 0), types.facts(raw.type)
    if not found or element is None or not _is_global(types, own):
        return None
    return Entries(types, facts.name, [raw.offset + each for each in found], element)


class Several:
    """A pointer with a length: Box<[T]>, Rc<str>; also one that borrows, which leads to a block of that size by chance
    at most."""

    def __init__(self, places: Sequence[int], element: int, size: int) -> None:
        self._places, self._element, self._size = places, element, size
        self.front, self.name = 0, ""
        """Where Rc and Arc count in front."""

    def claims(self, reader: Reader, address: int) -> Optional[Iterable[Claim]]:
        start, count = (reader.word(address + place) for place in self._places)
        if not start or not count or not reader.holds(start, self.front + count * self._size):
            return ()
        claim = Claim(start, self._element, EXACT, "", number=0, front=self.front, name=self.name)
        return (claim._replace(elements=count),)

    def elements(self, reader: Reader, address: int) -> Optional[int]:
        return reader.word(address + self._places[1])


def _slice(types: Types, facts: TypeFacts) -> Optional[Container]:
    members = {each.name: each for each in facts.fields}
    pointer = types.facts(members["data_ptr"].type)
    if pointer.form != "pointer" or pointer.target is None or types.facts(members["length"].type).form != "integer":
        return None
    element, front, name, target = pointer.target, 0, "", types.facts(pointer.target)
    if target.name.partition("<")[0] in SHARED:
        value = next((each for each in target.fields if each.name in ("value", "data")), None)
        if value is None:
            return None
        element, front, name = value.type, value.offset, target.name
    size = types.facts(element).size
    places = [members["data_ptr"].offset, members["length"].offset]
    made = Several(places, element, size)
    made.front, made.name = front, name
    return made if size else None


class Dynamic:
    """Box<dyn Trait>: a pointer, and a vtable: the function that drops the value, its size, its alignment, methods.
    The compiler makes one function of two that are alike, so that two of them have to name the same type."""

    def __init__(self, types: Types, places: Sequence[int]) -> None:
        self._types, self._places = types, places

    def claims(self, reader: Reader, address: int) -> Optional[Iterable[Claim]]:
        start, table = (reader.word(address + place) for place in self._places)
        head = reader.words(table, 4) if table else None
        if not start or not table or head is None:
            return None
        drop, size, _, method = head
        name = reader.symbol(drop) or "" if drop else ""
        held = name[len(DROP) : -1]
        if not name.startswith(DROP) or not size:
            return ()
        type = self._closure(reader, held, size, table) if held.endswith(CLOSURE) else self._types.by_name(held)
        is_told = held.endswith(CLOSURE) or (reader.symbol(method) or "").startswith(f"<{held} as ")
        if type is None or not is_told or self._types.facts(type).size != size or not reader.holds(start, size):
            return ()
        return (Claim(start, type, EXACT, ""),)

    def _closure(self, reader: Reader, held: str, size: int, table: int) -> Optional[int]:
        """Of a function's closures the only one of that size. The last method is the closure itself."""
        words = reader.words(table, CALLS[-1] + 1) or ()
        if not any(reader.symbol(words[each]) == held for each in CALLS[: len(words)]):
            return None
        within = held[: -len(CLOSURE)]
        found = [self._types.by_name(f"{within}{{closure_env#{number}}}") for number in range(MOST_CLOSURES)]
        fitting = [each for each in found if each is not None and self._types.facts(each).size == size]
        return fitting[0] if len(fitting) == 1 else None

    def elements(self, reader: Reader, address: int) -> Optional[int]:
        return 1


class Lazy(OfValue):
    """What a thread has of its own, once it has asked for it: a value in one state of several."""

    def __init__(self, value: int, state: int, variants: Variants, types: Sequence[Optional[int]]) -> None:
        super().__init__(value, types)
        self._state, self._variants = state, variants

    def which(self, reader: Reader, address: int) -> Optional[int]:
        return self._variants.which(reader, address + self._state)


def _lazy(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    value, state = find(types, type, "value.value.value"), find(types, type, "state.value.value")
    facts = types.facts(state.type) if state is not None else facts
    made = enum(types, state.type, facts) if state is not None and facts.tag is not None else None
    if value is None or state is None or not isinstance(made, Variants):
        return None
    alive = [value.type if each.name == "Alive" else None for each in facts.fields]
    return Lazy(value.offset, state.offset, made, alive) if len(alive) - alive.count(None) == 1 else None


def _dynamic(types: Types, facts: TypeFacts) -> Optional[Container]:
    """Not of Rc and Arc, whose values have counts in front."""
    members = {each.name: each for each in facts.fields}
    if not facts.name.startswith(BOXED) or types.facts(members["pointer"].type).form != "pointer":
        return None
    return Dynamic(types, [members["pointer"].offset, members["vtable"].offset])


Form = Callable[[Types, int, TypeFacts], Optional[Container]]
FORMS: Mapping[str, Form] = {VECTOR: _vector, QUEUE: _queue, MAP: tree, **dict.fromkeys(TABLES, _table)}
