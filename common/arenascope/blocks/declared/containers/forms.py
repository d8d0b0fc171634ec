"""What libraries have in common, and the two forms that most of their containers have: nodes with a value each, and one
block of all elements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Callable, Iterable, Mapping, NamedTuple, Optional, Sequence

from ....sources.debug_info_types import StructField, TypeFacts
from ..claims import ARRAY, CONTAINER, EXACT, Claim, Container, Reader, Types, new_record
from ..contents import Text

Form = Callable[[Types, int, TypeFacts], Optional[Container]]
"""Makes what containers of one template have in common, by a type of it and its facts; None: it is another one."""


class ByTemplate:
    """A Library, by the names of its class templates."""

    def __init__(self, template_of: Callable[[str], Optional[str]], forms: Mapping[str, Form]) -> None:
        """`template_of`: of a type's name, within the library; None for what is not of it."""
        self._template_of, self._forms = template_of, forms

    def container(self, types: Types, type: int) -> Optional[Container]:
        facts = types.facts(type)
        form = self._forms.get(self._template_of(facts.name) or "") if facts.form == "struct" else None
        return form(types, type, facts) if form is not None else None


class Node(NamedTuple):
    """A made-up node."""

    type: int
    size: int
    tail: int
    """Where what follows its value may lie."""


class OfNodes(ABC):
    """Whatever proves its nodes."""

    strength = CONTAINER

    def __init__(self, node: Node) -> None:
        self.node = node

    @abstractmethod
    def nodes(self, reader: Reader, address: int) -> Optional[Sequence[int]]:
        """In its order; None unless it has proved itself."""

    def nodes_and_more(self, reader: Reader, address: int) -> Optional[tuple[Sequence[int], Sequence[Claim]]]:
        """The nodes, and what else it has."""
        nodes = self.nodes(reader, address)
        return None if nodes is None else (nodes, ())

    def claims(self, reader: Reader, address: int) -> Optional[Iterable[Claim]]:
        found = self.nodes_and_more(reader, address)
        if found is None:
            return None
        nodes, more = found
        return [*(self.claim(node, number) for number, node in enumerate(nodes)), *more]

    def claim(self, node: int, number: int) -> Claim:
        return Claim(node, self.node.type, self.strength, "", number=number)

    def elements(self, reader: Reader, address: int) -> Optional[int]:
        nodes = self.nodes(reader, address)
        return None if nodes is None else len(nodes)


class Body(NamedTuple):
    """Elements that lie beside each other in a block."""

    start: int
    """0: there is no block."""
    used: int
    room: int


NOWHERE = Body(0, 0, 0)


class OfBody(ABC):
    """Whatever proves its body."""

    def __init__(self, element: int, size: int, words: bool = True, name: str = "") -> None:
        """`element`: the elements' type. `name`: the body's name, for when that type says less."""
        self.element, self.size, self.words, self.name = element, size, words, name
        self.front = self.after = 0
        """So many bytes are before the elements; so many elements are after them that nobody counts (a string's 0)."""

    @abstractmethod
    def body(self, reader: Reader, address: int) -> Optional[Body]:
        """None unless it has proved itself."""

    def claims(self, reader: Reader, address: int) -> Optional[Iterable[Claim]]:
        body = self.body(reader, address)
        if body is None or not body.start:
            return None if body is None else ()
        return (self.claim(body),)

    def claim(self, body: Body) -> Claim:
        claim = Claim(body.start, self.element, CONTAINER, "", words=self.words, front=self.front, name=self.name)
        number = 0 if self.words else None
        return claim._replace(elements=body.used + self.after, capacity=body.room + self.after, number=number)

    def elements(self, reader: Reader, address: int) -> Optional[int]:
        body = self.body(reader, address)
        return None if body is None else body.used


class OfText(OfBody):
    """A string, of which short ones may lie within itself."""

    inside = 0
    """Where in itself."""

    def text(self, reader: Reader, address: int) -> Optional[Text]:
        """None unless it has proved itself."""
        body = self.body(reader, address)
        if body is None:
            return None
        return Text(body.start + self.front or address + self.inside, body.used, self.size)


class OfValue(ABC):
    """Whatever has in one place a value of one of several types, or none; a number tells which."""

    def __init__(self, value: int, types: Sequence[Optional[int]]) -> None:
        """`value`: where it lies. `types`: by the number; None: it has no value then."""
        self._value, self._types = value, types

    @abstractmethod
    def which(self, reader: Reader, address: int) -> Optional[int]:
        """The number; None unless it has proved itself."""

    def claims(self, reader: Reader, address: int) -> Optional[Iterable[Claim]]:
        which = self.which(reader, address)
        if which is None:
            return None
        type = self._types[which]
        return () if type is None else (Claim(address + self._value, type, CONTAINER, "", inline=True),)

    def elements(self, reader: Reader, address: int) -> Optional[int]:
        which = self.which(reader, address)
        return None if which is None else int(self._types[which] is not None)


def between(reader: Reader, words: Sequence[int], size: int) -> Optional[Body]:
    """By its start, the end of its elements and its own end. None: none, or not made yet."""
    start, finish, end = words
    if not start <= finish <= end or (end - start) % size or (finish - start) % size:
        return None
    if start and not reader.holds(start, end - start):
        return None
    return new_record(Body, (start, (finish - start) // size, (end - start) // size))


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


DEEPEST = 24
"""So deep members are looked for: bases of bases, members of members."""


class PlacedMember(NamedTuple):
    """A member, or a member of members, and where it is in the whole."""

    offset: int
    type: int


class Table(NamedTuple):
    """An array of pointers to nodes or buffers: the type of one, and what the array is called."""

    type: int
    name: str


def find(types: Types, type: int, path: str) -> Optional[PlacedMember]:
    """A member of a member: "_M_impl._M_start". Each may be a base's, at any depth."""
    found = PlacedMember(0, type)
    for name in path.split("."):
        inner = _member(types, found.type, name, DEEPEST)
        if inner is None:
            return None
        found = PlacedMember(found.offset + inner.offset, inner.type)
    return found


def _member(types: Types, type: int, name: str, deepest: int) -> Optional[PlacedMember]:
    if not deepest:
        return None
    fields = types.facts(type).fields
    for field in fields:
        if field.name == name and not field.is_base:
            return PlacedMember(field.offset, field.type)
    for field in fields:
        # a base's members, and an anonymous union's
        if field.is_base or not field.name:
            inner = _member(types, field.type, name, deepest - 1)
            if inner is not None:
                return PlacedMember(field.offset + inner.offset, inner.type)
    return None


def inside(types: Types, type: int, name: str, deepest: int = DEEPEST) -> Optional[PlacedMember]:
    """The first member of a member whose type's name begins so, or the type itself."""
    facts = types.facts(type)
    if facts.name.startswith(name):
        return PlacedMember(0, type)
    for field in facts.fields if deepest else ():
        inner = inside(types, field.type, name, deepest - 1)
        if inner is not None:
            return PlacedMember(field.offset + inner.offset, inner.type)
    return None


def argument(types: Types, facts: TypeFacts, number: int) -> Optional[int]:
    """The type that is a template's argument, where it is complete."""
    if number >= len(facts.arguments):
        return None
    type = facts.arguments[number].type
    return type if type is not None and types.facts(type).size else None


def known(*members: Optional[PlacedMember]) -> Optional[list[int]]:
    """Where all of them lie."""
    offsets = [each.offset for each in members if each is not None]
    return offsets if len(offsets) == len(members) else None


def words_at(reader: Reader, address: int, places: Sequence[int]) -> Optional[list[int]]:
    """The words at these places of an object; None where one of them cannot be read."""
    words = [word for place in places if (word := reader.word(address + place)) is not None]
    return words if len(words) == len(places) else None


def alignment(types: Types, type: int, word: int, deepest: int = DEEPEST) -> int:
    """As far as the members tell: `alignas` is not in debug information's facts."""
    facts = types.facts(type)
    if facts.form in ("struct", "union") and facts.fields and deepest:
        return max(alignment(types, each.type, word, deepest - 1) for each in facts.fields)
    if facts.form == "array" and facts.target is not None and deepest:
        return alignment(types, facts.target, word, deepest - 1)
    whole = facts.size & -facts.size or 1
    # what has no members that we see has bit-fields
    return min(whole, word if facts.form in ("struct", "union") else 2 * word)


def rounded(size: int, to: int) -> int:
    return -(-size // to) * to


def link(types: Types) -> int:
    """A pointer from node to node. What it leads to the container tells, not its type."""
    return types.pointer_to(types.made_up("node", 0, ()))


def links(types: Types, names: Sequence[str], word: int, start: int = 0) -> list[StructField]:
    pointer = link(types)
    return [StructField(name, start + number * word, pointer) for number, name in enumerate(names)]


def table_of_links(types: Types, name: str, word: int) -> Table:
    return Table(types.made_up(name, word, links(types, ("",), word)), name)


class Object(NamedTuple):
    """What a pointer that owns leads to: one object, of this type or one derived from it, or an array."""

    type: int
    size: int
    front: Optional[int] = None
    """Of an array: so many bytes lie before it, where their number does (for `delete[]`)."""

    def claims(self, reader: Reader, address: int) -> Optional[Sequence[Claim]]:
        if not address:
            return ()
        if self.front is None:
            return (Claim(address, self.type, EXACT, ""),)
        usable = reader.usable(address)
        if usable is not None:
            # as many as there is room for
            count = usable // self.size
            return (Claim(address, self.type, ARRAY, "", elements=count, number=0),) if count else None
        noted = reader.word(address - reader.word_size)
        if not noted or not reader.holds(address - self.front, self.front + noted * self.size):
            return None
        return (Claim(address - self.front, self.type, CONTAINER, "", elements=noted, number=0, front=self.front),)


def object_of(types: Types, pointer: int, array: bool) -> Optional[Object]:
    facts = types.facts(pointer)
    if facts.form != "pointer" or facts.target is None or not types.facts(facts.target).size:
        return None
    front = max(facts.size, alignment(types, facts.target, facts.size)) if array else None
    return Object(facts.target, types.facts(facts.target).size, front)
