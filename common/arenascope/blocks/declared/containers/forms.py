"""What libraries have in common, and the two forms that most of their containers have: nodes with a value each, and one
block of all elements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import ModuleType
from typing import TYPE_CHECKING, Callable, Iterable, Mapping, NamedTuple, Optional, Sequence

from ....sources.debug_info_types import TypeFacts
from ..claims import CONTAINER, Claim, Container, Reader, Types

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


if TYPE_CHECKING:
    from ....base.array_types import Flags, Numbers

    Words = Callable[[Numbers], Optional[Numbers]]
    """The words at addresses; None where not all can be read."""


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


class Bodies(NamedTuple):
    """Of many containers at once."""

    start: Numbers
    used: Numbers
    room: Numbers
    sure: Flags
    """Where these prove themselves once there is a block for just so many elements."""
    empty: Flags
    """Where there is no block."""


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

    def many(self, numpy: ModuleType, words: Words, at: Numbers) -> Optional[Bodies]:
        """Does what `body` does for many addresses at once, with numpy. Addresses left undecided are passed to `body`
        one by one; None: all are."""
        return None

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


class Text(NamedTuple):
    """Where a string's letters lie."""

    start: int
    length: int
    """In letters."""
    size: int
    """Bytes of a letter."""


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
    return Body(start, (finish - start) // size, (end - start) // size)
