"""The ways to blocks without their numbers: all requests have one, `srv->table->buckets[]->log`.

A struct that is reached again from itself (a list's next, a tree's children, a container in a container's element)
stays where it was first met. So there are as many patterns as a program's types have ways to each other, and not more
for a million blocks.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from typing import Iterator, NamedTuple, Optional

from .named_blocks import ELEMENT, NOBODY, NamedBlocks
from .path_text import is_pointed_to

NUMBERS = re.compile(r"\[(?:\d+|\.\.\.)\]")
PART = re.compile(r" \(\w+\)$")
"""Behind the step to what a container has besides its elements: " (buckets)", " (map)"."""
MOST = 1 << 14
UNKNOWN = -1
"""In place of a pattern: of a block that has no name."""


class Edge(NamedTuple):
    """A step between blocks."""

    text: str
    container: Optional[str]
    """The step to the container that leads there; None: a pointer does."""
    is_element: bool
    """Or it is a part of the container that has no elements."""


def edge_of(step: str) -> Edge:
    text = NUMBERS.sub("[]", step)
    if text.endswith(ELEMENT):
        return Edge(text, text.removesuffix(ELEMENT), is_element=True)
    part = PART.search(text)
    return Edge(text, text[: part.start()], is_element=False) if part else Edge(text, None, is_element=False)


class Pattern:
    """The blocks that are reached in one way and have one name."""

    def __init__(self, number: int, parent: Optional[Pattern], edge: Edge, *, name: int, text: str) -> None:
        self.number, self.parent, self.edge = number, parent, edge
        self.name = name
        """A number of NamedBlocks' names; -1: a variable."""
        self.text = text
        self.blocks = self.bytes = 0
        self.elements = 0
        """Of arrays those in use, of others one each."""
        self.begun = 0
        """How many are the first of their container, or are not reached from the same struct."""
        self.largest = self.sample = 0
        """The elements of the largest container, and a block of it."""
        self.level = 0
        """Of the weakest claim."""
        self.again: Counter[str] = Counter()
        """By which members the same struct is reached from itself."""
        self.forks = False
        """One struct leads to several."""
        self.to: dict[tuple[str, int], Pattern] = {}
        """What is reached from here, itself and what it was reached from included."""

    def below(self) -> Iterator[Pattern]:
        return (each for each in self.to.values() if each.parent is self and each is not self)

    def held(self) -> tuple[int, int]:
        """Blocks and bytes, with all that is below."""
        blocks, size, waiting = 0, 0, [self]
        while waiting:
            each = waiting.pop()
            blocks, size = blocks + each.blocks, size + each.bytes
            waiting += each.below()
        return blocks, size


class PathPatterns:
    """Of one image."""

    def __init__(self, named: NamedBlocks) -> None:
        self._named = named
        self.patterns: list[Pattern] = []
        self.of = array("i", [UNKNOWN]) * len(named.blocks)
        """By a block's number."""
        self._same = _same_objects(named)
        self._edges: dict[int, Edge] = {}
        self._roots: dict[tuple[str, int], Pattern] = {}
        self._led = bytearray(len(named.blocks))
        """Structs that lead to one of their own."""
        known = self.of
        for block, name in enumerate(named.name):
            if name >= 0 and known[block] == UNKNOWN:
                for each in self._unknown(block):
                    self._add(each)

    def _unknown(self, block: int) -> list[int]:
        """The way to it from where it is known, from there on."""
        parents, known, names = self._named.parent, self.of, self._named.name
        way = [block]
        while len(way) <= len(known):
            above = parents[way[-1]]
            if above < 0 or known[above] != UNKNOWN or names[above] < 0:
                break
            way.append(above)
        return way[::-1]

    def _add(self, block: int) -> None:
        named = self._named
        parent, step = named.parent[block], named.step[block]
        name = self.name(block)
        edge = self._edges.get(step)
        if edge is None:
            edge = self._edges[step] = edge_of(named.steps[step])
        known = self.of[parent] if parent >= 0 else UNKNOWN
        above = self.patterns[known] if known != UNKNOWN else self._root(parent, name)
        pattern = above.to.get((edge.text, name))
        if pattern is None:
            pattern = above.to[edge.text, name] = self._reached(above, edge, name)
        self.of[block] = pattern.number
        pattern.blocks += 1
        pattern.bytes += named.blocks.sizes[block]
        if named.name[block] not in self._same:
            pattern.level = max(pattern.level, named.level[block])
        elements = named.elements[block] if named.names[name].form == "array" else 1
        pattern.elements += elements
        if edge.is_element:
            number = named.number[block]
            pattern.begun += number == 0
            elements += number
        elif pattern is above:
            pattern.again[edge.text] += 1
            pattern.forks = pattern.forks or bool(self._led[parent])
            self._led[parent] = 1
        else:
            pattern.begun += 1
        if elements > pattern.largest:
            pattern.largest, pattern.sample = elements, block

    def name(self, block: int) -> int:
        """Of names that say the same of the block's beginning one."""
        name = self._named.name[block]
        return self._same.get(name, name)

    def _root(self, parent: int, name: int) -> Pattern:
        """A variable; or, of what its own vtable told, its class."""
        named = self._named
        if NOBODY < parent < 0:
            start = named.starts[-1 - parent]
            label, type = start.label, start.type
        else:
            label, type = f"({named.names[name].text})", UNKNOWN
        root = self._roots.get((label, type))
        if root is None:
            root = self._roots[label, type] = self._made(None, edge_of(""), UNKNOWN, text=label)
        return root

    def _reached(self, above: Pattern, edge: Edge, name: int) -> Pattern:
        if self._named.names[name].form == "object":
            again: Optional[Pattern] = above
            while again is not None and again.name != name:
                again = again.parent
            if again is not None:
                return again
        if len(self.patterns) >= MOST:
            # what is left belongs to what it was reached from
            return above
        return self._made(above, edge, name, text=above.text + self.step(above, edge.text, name))

    def step(self, above: Pattern, text: str, name: Optional[int] = None) -> str:
        """As a programmer writes it, from a block of that pattern on; `name`: of what it leads to."""
        if text.endswith(ELEMENT):
            is_body = name is not None and self._named.names[name].form == "array"
            text = text.removesuffix(ELEMENT) + "[]" * (not is_body)
        if above.name >= 0 and text.startswith(".") and is_pointed_to(self._named, self._named.names[above.name]):
            return f"->{text[1:]}"
        return text

    def _made(self, parent: Optional[Pattern], edge: Edge, name: int, *, text: str) -> Pattern:
        pattern = Pattern(len(self.patterns), parent, edge, name=name, text=text)
        self.patterns.append(pattern)
        return pattern


def _same_objects(named: NamedBlocks) -> dict[int, int]:
    """malloc leaves a block larger where the rest could be no chunk: "T and a tail" may be a T."""
    objects = {each.type: number for number, each in enumerate(named.names) if each.form == "object" and each.words}
    return {
        number: objects[each.type]
        for number, each in enumerate(named.names)
        if each.form == "tail" and each.type in objects
    }
