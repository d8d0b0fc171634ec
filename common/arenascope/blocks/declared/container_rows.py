"""The containers of a program by the way to them, with how many elements they have and what lies below them.

Containers of libraries have proved themselves before the tracer took what they claim. What C programs write themselves
is told by its form: an array, a struct that leads to its own kind (list, tree), an array of pointers to such (chained
hash table). Their elements are counted by following the links, as some may have been reached in another way first.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from itertools import groupby
from typing import Iterable, Iterator, NamedTuple, Optional, Sequence

from .claims import LOCAL, PAIR
from .layouts import FlatType, Slot, TypeTable
from .memory_reader import MemoryReader
from .named_blocks import ELEMENT, NOBODY, BlockName, NamedBlocks, StartVariable
from .values import Values, key_text

ALIKE = 3
"""So often a step may repeat before it is written once, with a number: a list's "->next"."""
THROUGH_POINTER = ("object", "tail", "union", "field")
MOST_STEPS = 1 << 20
"""Of all ways that one command writes: chains are as long as lists are."""
INDEX = re.compile(r"\[(\d+)\]")


def path_text(named: NamedBlocks, block: int, values: Optional[Values] = None) -> Optional[str]:
    """None where no variable leads there by types, or no expression of the program's can name a struct on the way.
    `values`: what reads keys; None: they may not be shown."""
    start = start_of(named, block)
    if start is None or not named.enclosing.isdisjoint(_way(named, block)):
        return None
    return start_text(named, start) + "".join(_folded(_steps(named, block, values)))


def start_text(named: NamedBlocks, start: StartVariable) -> str:
    """A variable, and whose it is where it is not the main thread's."""
    if start.tid is None or start.tid == named.main_thread:
        return start.label
    frame = f" frame {start.frame}" if start.frame is not None else ""
    return f"thread {start.tid}{frame} {start.label}"


def length_of(named: NamedBlocks, block: int) -> int:
    """So many steps lead to it."""
    return len(_way(named, block))


def start_of(named: NamedBlocks, block: int) -> Optional[StartVariable]:
    """The variable from which a block is reached; None where its own vtable told what it is."""
    number = named.parent[_way(named, block)[0]] if named.name_of(block) is not None else NOBODY
    return named.starts[-1 - number] if number != NOBODY else None


def _way(named: NamedBlocks, block: int) -> list[int]:
    """The blocks on the way to one, which is the last."""
    way = [block]
    while named.parent[way[-1]] >= 0 and len(way) <= len(named.blocks):
        way.append(named.parent[way[-1]])
    return way[::-1]


def _steps(named: NamedBlocks, block: int, values: Optional[Values]) -> Iterator[str]:
    first = 0  # which of a container's elements the block begins with in which a step begins
    for each in _way(named, block):
        step, number, own = named.steps[named.step[each]], named.number[each], named.name_of(each)
        begins, first = first, 0
        if not step.endswith(ELEMENT):
            step = step.replace("[]", f"[{number}]", 1)
        elif own is not None and own.form == "array":
            # a body: the next step tells which of its elements is meant
            step, first = step.removesuffix(ELEMENT), number
        else:
            step = step.replace(ELEMENT, f"[{_key(named, each, number, values)}]")
        if begins:
            step = _moved(step, begins)
        holder = named.name_of(named.parent[each]) if named.parent[each] >= 0 else None
        if holder is not None and step.startswith(".") and is_pointed_to(named, holder):
            step = f"->{step[1:]}"
        yield step


def _moved(step: str, by: int) -> str:
    return INDEX.sub(lambda found: f"[{int(found[1]) + by}]", step, count=1)


def _key(named: NamedBlocks, block: int, number: int, values: Optional[Values]) -> str:
    name = named.name_of(block)
    if values is None or named.layouts is None or name is None or name.type is None:
        return f"#{number}"
    key = named.layouts.types.key(name.type)
    if key is None:
        return f"#{number}"
    return key_text(values.of(key.type, named.blocks.starts[block] + key.offset), number)


def is_pointed_to(named: NamedBlocks, holder: BlockName) -> bool:
    """A node that a container makes up stands for its element; a control block for the object that lies in it."""
    if holder.form not in THROUGH_POINTER or holder.type is None:
        return False
    if holder.type >= 0 or named.layouts is None:
        return True
    fields = named.layouts.types.facts(holder.type).fields
    return [each.name for each in fields] == [""]


def _folded(steps: Iterator[str]) -> Iterator[str]:
    for step, alike in groupby(steps):
        count = sum(1 for _ in alike)
        yield f"{step} ({count} times)" if step and count > ALIKE else step * count


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


FEW = 1 << 14
"""Of so many containers in one row the longest chain is looked for."""
DEEPEST = 8
"""So many pointers and nodes in each other are followed to the struct that they lead to."""
OWNERS = ("std::shared_ptr<", "std::unique_ptr<", "std::weak_ptr<")
PIECE = 1 << 13
"""Words of an array that are read at once."""


class Elements(NamedTuple):
    """How many, and how they are spread."""

    number: int
    largest: int
    """In one container."""
    buckets: Optional[int] = None
    """Of hash tables."""
    longest_chain: Optional[int] = None
    """None: not a hash table, or too many of them."""


class ContainerRow(NamedTuple):
    """All containers that are reached in one way."""

    path: str
    type: str
    """Of lists, trees: of one element."""
    form: str
    """One of CONTAINER_FORMS."""
    links: Sequence[str]
    """The members by which elements lead to each other, where the program links them itself."""
    containers: int
    """Those that have blocks."""
    elements: Elements
    held_blocks: int
    held_bytes: int
    """With all that lies below them."""
    sample: int
    """A block of the largest one."""
    certain: bool
    element: str = ""
    """The struct of the program's own that an element is, or leads to; "": none is known."""


def container_rows(named: NamedBlocks, reader: MemoryReader) -> list[ContainerRow]:
    """What holds most first. KeyboardInterrupt."""
    found = [*_Rows(named, reader).all()]
    return sorted(found, key=lambda row: (-row.held_bytes, row.path))


class _Rows:
    def __init__(self, named: NamedBlocks, reader: MemoryReader) -> None:
        assert named.layouts is not None
        self._named, self._reader = named, reader
        self._layouts, self._types = named.layouts, named.layouts.types
        self._paths = PathPatterns(named)
        self._blocks = self._members()

    def all(self) -> Iterator[ContainerRow]:
        for pattern in self._paths.patterns:
            yield from self._of_libraries(pattern)
            is_array = self._is_array(pattern)
            if is_array:
                yield self._array(pattern)
            yield from self._linked(pattern, is_array)

    def _members(self) -> dict[int, list[int]]:
        """The blocks of those patterns of which the blocks are looked at again."""
        wanted = {
            each.number: list[int]()
            for pattern in self._paths.patterns
            for each in (pattern, *pattern.below())
            if self._is_array(each) or each.again or (each.edge.container is not None and not each.edge.is_element)
        }
        for block, number in enumerate(self._paths.of):
            if number in wanted:
                wanted[number].append(block)
        return wanted

    def _is_array(self, pattern: Pattern) -> bool:
        """And neither a container's nor a text."""
        if pattern.name < 0 or pattern.edge.container is not None:
            return False
        name = self._named.names[pattern.name]
        return name.form == "array" and name.type is not None and self._types.facts(name.type).form != "character"

    def _row(
        self, path: str, type: str, elements: Elements, of: Sequence[Pattern], *, form: str, containers: int
    ) -> ContainerRow:
        held = [each.held() for each in of]
        largest = max(of, key=lambda each: each.largest)
        blocks, size = (sum(some) for some in zip(*held))
        sample = self._named.blocks.starts[largest.sample]
        certain = all(each.level <= LOCAL for each in of)
        return ContainerRow(
            path,
            type,
            form=form,
            links=(),
            containers=containers,
            elements=elements,
            held_blocks=blocks,
            held_bytes=size,
            sample=sample,
            certain=certain,
        )

    # containers of libraries

    def _of_libraries(self, above: Pattern) -> Iterator[ContainerRow]:
        of = [each for each in above.below() if each.edge.container is not None]
        of.sort(key=lambda each: each.edge.container or "")
        for step, some in groupby(of, key=lambda each: each.edge.container or ""):
            every = [*some]
            elements = [each for each in every if each.edge.is_element]
            if not elements:
                continue
            parts = [each for each in every if not each.edge.is_element]
            number, largest = sum(each.elements for each in elements), max(each.largest for each in elements)
            tables = [each for each in parts if each.edge.text.endswith(" (buckets)")]
            counted = Elements(number, largest)
            if tables:
                counted = self._hashed(counted, tables, elements)
            yield self._row(
                above.text + self._paths.step(above, step),
                self._container_type(above, step, elements[0]),
                counted,
                every,
                form="hash-table" if tables else "container",
                containers=sum(each.begun for each in elements),
            )._replace(element=self._struct(elements[0].name))

    def _container_type(self, above: Pattern, step: str, element: Pattern) -> str:
        """As it is declared; where it lies in another container, by what it has."""
        type = self._named.names[above.name].type if above.name >= 0 else self._start_type(element)
        if type is not None:
            inner = step.removeprefix("[]") if above.name >= 0 else step
            for each in self._layouts.of(type).containers:
                if each.step == inner:
                    return each.name
        name = self._named.names[element.name].text
        return name.removesuffix(" node").removesuffix(" body")

    def _start_type(self, element: Pattern) -> Optional[int]:
        parent = self._named.parent[element.sample]
        return self._named.starts[-1 - parent].type if -len(self._named.starts) <= parent < 0 else None

    def _hashed(self, counted: Elements, tables: Iterable[Pattern], elements: Iterable[Pattern]) -> Elements:
        """The nodes are one chain, of which each bucket leads to the node before its first one."""
        named = self._named
        buckets = [block for each in tables for block in self._blocks[each.number]]
        size = sum(named.elements[block] for block in buckets)
        if len(buckets) > FEW:
            return counted._replace(buckets=size)
        numbers = {each.number for each in elements}
        starts: dict[tuple[int, str], list[int]] = {}
        for block in buckets:
            step = named.steps[named.step[block]].removesuffix(" (buckets)")
            starts[named.parent[block], step] = self._begins(block, numbers)
        ends = self._counts(numbers, starts.keys())
        longest = 0
        for owner, begins in starts.items():
            begins = sorted({0, *begins, ends.get(owner, 0)})
            longest = max([longest, *(after - before for before, after in zip(begins, begins[1:]))])
        return counted._replace(buckets=size, longest_chain=longest)

    def _begins(self, table: int, nodes: set[int]) -> list[int]:
        """Which nodes of the chain are the first of their bucket."""
        named, of = self._named, self._paths.of
        before = (self._reader.at(word) for word in self._words(table) if word)
        return [named.number[each] + 1 for each in before if each >= 0 and of[each] in nodes]

    def _counts(self, nodes: set[int], owners: Iterable[tuple[int, str]]) -> dict[tuple[int, str], int]:
        """How many nodes each has."""
        named = self._named
        counts = dict.fromkeys(owners, 0)
        for block, number in enumerate(self._paths.of):
            if number in nodes:
                owner = named.parent[block], named.steps[named.step[block]].removesuffix(ELEMENT)
                if owner in counts:
                    counts[owner] = max(counts[owner], named.number[block] + 1)
        return counts

    def _struct(self, name: int) -> str:
        """Of what blocks by that name have, or lead to."""
        type = self._named.names[name].type
        for _ in range(DEEPEST):
            facts = self._types.facts(type) if type is not None else None
            if type is None or facts is None:
                break
            if facts.form in ("pointer", "reference", "array"):
                type = facts.target
            elif type < 0:
                # a node: its links, and what it has
                type = next((each.type for each in facts.fields if not each.name), None)
            elif facts.name.startswith(PAIR):
                type = next((each.type for each in facts.fields if each.name == "second"), None)
            elif facts.name.startswith(OWNERS):
                type = facts.arguments[0].type if facts.arguments else None
            else:
                return facts.name if facts.form == "struct" and self._layouts.container(type) is None else ""
        return ""

    # arrays, and what links its own kind

    def _array(self, pattern: Pattern) -> ContainerRow:
        name, element = self._named.names[pattern.name], self._struct(pattern.name)
        chained = self._chained_below(pattern)
        if chained is not None:
            walk = self._walk(chained)
            slots = 0
            for block in self._blocks[pattern.number]:
                slots += self._named.elements[block]
                walk.each_of(self._words(block), table=True)
            counted = Elements(walk.elements, walk.largest, slots, walk.longest)
            row = self._row(pattern.text, name.text, counted, [pattern], form="array", containers=pattern.blocks)
            return row._replace(form="chained-hash-table", links=_links([chained]), element=element)
        counted = Elements(pattern.elements, pattern.largest)
        if name.type is not None and self._types.facts(name.type).form == "pointer":
            used = [sum(map(bool, self._words(block))) for block in self._blocks[pattern.number]]
            counted = Elements(sum(used), max(used, default=0))
        row = self._row(pattern.text, name.text, counted, [pattern], form="array", containers=pattern.blocks)
        return row._replace(element=element)

    def _chained_below(self, pattern: Pattern) -> Optional[Pattern]:
        """What an array's pointers lead to, where it chains."""
        below = [each for each in pattern.below() if each.edge.text == "[]" and each.again and not each.forks]
        if len(below) != 1:
            return None
        # an index of what is in a list as well has no chains of its own
        heads = [self._reader.at(word) for block in self._blocks[pattern.number] for word in self._words(block) if word]
        parents, of = self._named.parent, self._paths.of
        begun = bytearray(len(of))
        for head in heads:
            if head >= 0:
                begun[head] = 1
        inner = (each for each in self._blocks[below[0].number] if parents[each] >= 0)
        return None if any(begun[each] and of[parents[each]] == below[0].number for each in inner) else below[0]

    def _words(self, block: int) -> Iterator[int]:
        """Of an array of pointers, those in use."""
        named = self._named
        name = named.name_of(block)
        at = named.blocks.starts[block] + (name.front if name is not None else 0)
        count, word = named.elements[block], self._reader.word_size
        for first in range(0, count, PIECE):
            yield from self._reader.words(at + first * word, min(PIECE, count - first)) or ()

    def _linked(self, above: Pattern, is_array: bool) -> Iterator[ContainerRow]:
        """Lists and trees. A list may be reached by its first and its last node."""
        chained = self._chained_below(above) if is_array else None
        of = [each for each in above.below() if each is not chained and each.edge.container is None]
        of.sort(key=lambda each: each.name)
        for name, some in groupby(of, key=lambda each: each.name):
            every = [*some]
            if not any(each.again for each in every):
                continue
            main = max(every, key=lambda each: each.blocks)
            forks = any(each.forks for each in every)
            number, largest = sum(each.blocks for each in every), 0
            text = self._named.names[name].text
            if not forks:
                walk = self._walk(main)
                walk.each_of(self._named.blocks.starts[block] for block in self._first_ones(main))
                number, largest = max(number, walk.elements), walk.longest
            if forks:
                largest = number if main.begun == 1 else main.largest
            counted, form = Elements(number, largest), "tree" if forks else "list"
            row = self._row(main.text, text, counted, every, form=form, containers=main.begun)
            yield self._in_variable(row._replace(links=_links(every), element=self._struct(name)), above)

    def _in_variable(self, row: ContainerRow, above: Pattern) -> ContainerRow:
        """An array of lists that is a variable, or lies in one, is a hash table."""
        path, array, _ = row.path.rpartition("[]")
        if above.name >= 0 or not array or row.form != "list" or "[" in path:
            return row
        counted = Elements(row.elements.number, row.elements.number, longest_chain=row.elements.largest)
        return row._replace(path=path, form="chained-hash-table", containers=1, elements=counted)

    def _walk(self, pattern: Pattern) -> _Walk:
        link, _ = pattern.again.most_common(1)[0]
        type = self._named.names[pattern.name].type
        slots = self._layouts.of(type).slots if type is not None else ()
        offset = next((each.offset for each in slots if each.step == link), None)
        return _Walk(self._reader, self._paths, pattern.name, offset)

    def _first_ones(self, pattern: Pattern) -> Iterator[int]:
        parents, of = self._named.parent, self._paths.of
        for block in self._blocks[pattern.number]:
            if parents[block] < 0 or of[parents[block]] != pattern.number:
                yield block


def _links(of: Iterable[Pattern]) -> Sequence[str]:
    return sorted({text.removeprefix(".") for each in of for text in each.again})


class _Walk:
    """Follows the member by which structs of one kind chain."""

    def __init__(self, reader: MemoryReader, paths: PathPatterns, name: int, offset: Optional[int]) -> None:
        """`offset`: of the member; None: it is none of the struct's own pointers."""
        self._reader, self._name, self._name_of, self._offset = reader, name, paths.name, offset
        self._seen = bytearray(len(reader.blocks))
        self.elements = self.longest = self.largest = 0

    def each_of(self, heads: Iterable[int], table: bool = False) -> None:
        """`table`: these are of one container."""
        before = self.elements
        for head in heads:
            length = self._length(head) if head else 0
            self.elements += length
            self.longest = max(self.longest, length)
        self.largest = max(self.largest, self.elements - before if table else self.longest)

    def _length(self, value: int) -> int:
        """How many were not met before."""
        find, name_of, starts = self._reader.blocks.find, self._name_of, self._reader.blocks.starts
        length = 0
        while value:
            # the link may lead to the member that has the next link
            block = find(value)
            if block < 0 or name_of(block) != self._name or self._seen[block]:
                break
            self._seen[block] = 1
            length += 1
            if self._offset is None:
                break
            value = self._reader.word(starts[block] + self._offset) or 0
        return length


MOST_COUNTS = 64
"""So many numbers beside a pointer are tried as its count."""


class Counts:
    def __init__(self, reader: MemoryReader, types: TypeTable) -> None:
        self._reader, self._types, self._word = reader, types, reader.word_size

    def least(self, block: int, size: int) -> int:
        """How many objects a block is for at least: its last word may be there for the chunk's alignment alone."""
        return (self._reader.room(block) - self._word) // size

    def beside(self, layout: FlatType, at: Optional[int], size: int, block: int) -> int:
        """A number in the same object that says how many the block has; 0: none."""
        if at is None or size <= 0:
            return 0
        most = self._reader.room(block) // size
        for each in layout.numbers[:MOST_COUNTS]:
            count = self._reader.number(at + each.offset, each.size)
            if count is not None and 2 <= count <= most and self._reader.fits(block, count * size):
                return count
        return 0

    def by_exponent(self, layout: FlatType, at: Optional[int], size: int, block: int) -> int:
        """Likewise a number that says which power of 2, as hash tables keep it; 0: none."""
        if at is None:
            return 0
        most = self._reader.room(block) // size
        for each in layout.powers[:MOST_COUNTS]:
            power = self._reader.number(at + each.offset, each.size)
            if power is not None and 1 <= power < most.bit_length() and self._reader.fits(block, size << power):
                return 1 << power
        return 0

    def by_ends(self, layout: FlatType, at: Optional[int], slot: Slot, block: int) -> int:
        """Pointers of the same type into the same block, as those behind the last element in use and at the end of the
        room; 0: there is none."""
        target, start = slot.target, self._reader.blocks.starts[block]
        size = self._types.facts(target).size if target is not None else 0
        if at is None or not size:
            return 0
        room = self._reader.room(block)
        ends = {
            word - start
            for each in layout.slots
            if each.target == target and each.offset > slot.offset
            for word in [self._reader.word(at + each.offset)]
            if word is not None and 0 < word - start <= room and not (word - start) % size
        }
        return min(ends) // size if ends and self._reader.fits(block, max(ends)) else 0

    def flexible(self, layout: FlatType, at: int, block: int) -> int:
        """How many elements a struct that ends in T[] has, by a number in it; 0: none says it."""
        if layout.flexible is None:
            return 0
        element, offset = layout.flexible
        size = self._types.facts(element).size
        for each in layout.numbers[:MOST_COUNTS]:
            count = self._reader.number(at + each.offset, each.size)
            if not count or count * size > self._reader.room(block):
                continue
            # the struct may have been counted with its padding; a text has a zero byte more
            whole = {base + (count + more) * size for base in (offset, layout.size) for more in (0, 1)}
            if any(self._reader.fits(block, each) for each in whole):
                return count
        return 0

    def in_front(self, value: int, block: int, size: int) -> int:
        """How many objects `new T[n]` made, which it keeps in front of them; 0: it did not."""
        front = value - self._reader.blocks.starts[block]
        if front not in (self._word, 2 * self._word) or not size:
            return 0
        count = self._reader.word(value - self._word)
        room = self._reader.room(block)
        fits = count is not None and 0 < count * size <= room and self._reader.fits(block, front + count * size)
        return count or 0 if fits else 0
