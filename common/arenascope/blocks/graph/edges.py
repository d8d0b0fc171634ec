"""Every pointer of a process, once: from roots to live blocks, and from live blocks to each other."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from itertools import accumulate
from operator import add
from types import ModuleType
from typing import TYPE_CHECKING, Iterator, Optional, Sequence, Union

from ...base.meter import Meter
from ...base.records import NamedTuple
from ...sources.target import Span
from ..pointer_finder import Finder
from ..recognise.postgres import Member, Postgres
from ..types import ground_of
from .blocks import LiveBlocks, heap_spans
from .edge import DEEP, FLAGS, edge_to
from .refs import Search

if TYPE_CHECKING:
    from ...base.array_types import Numbers

FIRST = Member(0, 0, 0, 0)
ROOT = -1
"""In place of a block's number: the pointer is a root's."""


class Seed(NamedTuple):
    """A pointer that a root has."""

    root: int
    """Its number among the ranges, or after these among the words."""
    address: int
    """Where it lies; 0 for a word of its own."""
    edge: int


class Disguised(NamedTuple):
    """A pointer that is written otherwise."""

    source: int
    """The block that has it, or ROOT."""
    suspect: int
    encoding: str
    seed: Optional[Seed] = None
    """A root's: which, and where."""
    inside: bool = False
    """It leads past the suspect's start."""


class SecondLook(NamedTuple):
    """What leads to blocks that nothing plain leads to."""

    pointers: Sequence[Disguised]
    inside: Sequence[Disguised] = ()
    """Unaligned words that lead to their insides, as in packed rows of tables: old words or chance, mostly."""


class Graph:
    """`edges[offsets[n]:offsets[n + 1]]` are the nth block's, in the order of its words."""

    def __init__(
        self,
        blocks: LiveBlocks,
        offsets: Sequence[int],
        edges: Sequence[int],
        seeds: Sequence[Seed],
        *,
        numpy: Optional[ModuleType] = None,
    ) -> None:
        """With `numpy`, where they are worth it, offsets and edges are arrays."""
        self.blocks, self.offsets, self.edges, self.seeds = blocks, offsets, edges, seeds
        self.numpy = numpy

    def of(self, block: int) -> Sequence[int]:
        return self.edges[self.offsets[block] : self.offsets[block + 1]]


class Further(NamedTuple):
    """A pointer that a block has."""

    source: int
    edge: int


def with_more(graph: Graph, seeds: Sequence[Seed], further: Sequence[Further]) -> Graph:
    """The same with some pointers more."""
    offsets, edges = graph.offsets, graph.edges
    if further:
        more, numpy = sorted(further), graph.numpy
        offsets, edges = _with(graph, more) if numpy is None else _with_at_once(numpy, graph, more)
    return Graph(graph.blocks, offsets, edges, [*graph.seeds, *seeds], numpy=graph.numpy)


def _with(graph: Graph, further: Sequence[Further]) -> tuple[Sequence[int], Sequence[int]]:
    edges, counts = array("I"), array("Q", bytes(8 * len(graph.offsets)))
    at = 0
    for source, edge in further:
        end = graph.offsets[source + 1]
        edges.extend(graph.edges[at:end])
        edges.append(edge)
        counts[source + 1] += 1
        at = end
    edges.extend(graph.edges[at:])
    return array("Q", map(add, graph.offsets, accumulate(counts))), edges


def _with_at_once(numpy: ModuleType, graph: Graph, further: Sequence[Further]) -> tuple[Sequence[int], Sequence[int]]:
    offsets, edges = numpy.asarray(graph.offsets), numpy.asarray(graph.edges)
    sources = numpy.array([each.source for each in further])
    new = numpy.array([each.edge for each in further], dtype=edges.dtype)
    counts = numpy.cumsum(numpy.bincount(sources + 1, minlength=len(offsets)))
    return offsets + counts.astype(offsets.dtype), numpy.insert(edges, offsets[sources + 1].astype(numpy.int64), new)


def without(graph: Graph, places: Union[Sequence[int], Numbers]) -> Graph:
    """The same but for the edges at these places, which are in order."""
    if not len(places):
        return graph
    numpy = graph.numpy
    if numpy is not None:
        offsets = numpy.asarray(graph.offsets)
        offsets = offsets - numpy.searchsorted(numpy.asarray(places), offsets).astype(offsets.dtype)
        return Graph(graph.blocks, offsets, numpy.delete(graph.edges, places), graph.seeds, numpy=numpy)
    edges, at = array("I"), 0
    for place in places:
        edges.extend(graph.edges[at:place])
        at = place + 1
    edges.extend(graph.edges[at:])
    return Graph(
        graph.blocks, array("Q", (each - bisect_left(places, each) for each in graph.offsets)), edges, graph.seeds
    )


def build(search: Search) -> Graph:
    """Reads all that counts, once."""
    return search.memo.get(Graph) or search.memo.keep(_build(search))


def _build(search: Search) -> Graph:
    session, blocks, roots = search.session, search.blocks, search.roots
    seeds: list[Seed] = []
    numpy = search.numpy if len(blocks) else None
    with session.meter("following pointers", search.bytes) as meter:
        offsets, edges = _plain(search, seeds, meter) if numpy is None else _fast(search, numpy, seeds, meter)
    for number, word in enumerate(roots.words, len(roots.ranges)):
        index = blocks.find(word.value)
        if index >= 0:
            seeds.append(Seed(number, 0, edge_to(index, word.value - blocks.starts[index])))
    return _as_a_tree(search, Graph(blocks, offsets, edges, seeds, numpy=numpy))


def _as_a_tree(search: Search, graph: Graph) -> Graph:
    """With pointers from each of PostgreSQL's contexts to its children, and none to its parent and its siblings.

    Each points to its parent and to the siblings before and after it. By these a variable that leads to one of them
    leads to all: the memory of a large sort would be held by whoever points to some other context. PostgreSQL's own
    variables lead to children of the first context; one further down a variable has for a moment, or from what was
    there before.
    """
    memory, blocks = search.session.memory, search.blocks
    if memory.pointer_size != 8 or memory.byte_order != "little":
        return graph
    family = Postgres(ground_of(search.session)).family(len(blocks))
    if not family:
        return graph
    numbers = {address: blocks.find(address) for address in family}
    begins = {address for address, number in numbers.items() if number >= 0 and blocks.starts[number] == address}
    edges = {each: edge_to(numbers[each], 0) for each in begins if {family[each].parent, each} - {0} <= begins}
    inner = {numbers[address] for address in edges if family.get(family[address].parent, FIRST).parent}
    seeds = [each._replace(edge=each.edge | DEEP) if each.edge >> FLAGS in inner else each for each in graph.seeds]
    graph = Graph(blocks, graph.offsets, graph.edges, seeds, numpy=graph.numpy)
    places: list[int] = []
    more: list[Further] = []
    for address, each in family.items():
        if address not in edges:
            continue
        if each.parent:
            more.append(Further(numbers[each.parent], edges[address]))
        first = int(graph.offsets[numbers[address]])
        row = [int(edge) for edge in graph.of(numbers[address])]
        for beside in (each.parent, each.before, each.after, each.child):
            edge = edges.get(beside)
            if edge in row:
                places.append(first + row.index(edge))
                row[row.index(edge)] = -1
    return with_more(without(graph, sorted(places)), (), more)


def _plain(search: Search, seeds: list[Seed], meter: Meter) -> tuple[Sequence[int], Sequence[int]]:
    blocks, word = search.blocks, search.session.memory.pointer_size
    finder = Finder(blocks.starts, blocks.ends, blocks.extents, word)
    for number, root in enumerate(search.roots.ranges):
        for address, edge in _pointers(search, finder, Span(root.start, root.end), meter):
            seeds.append(Seed(number, address, edge))
    sources = _Sources(blocks, word)
    for span in heap_spans(search.session):
        sources.take(_pointers(search, finder, span, meter))
    return sources.offsets(), sources.edges


def _fast(search: Search, numpy: ModuleType, seeds: list[Seed], meter: Meter) -> tuple[Sequence[int], Sequence[int]]:
    from .edges_with_numpy import Pointers

    pointers = Pointers(numpy, search)
    for number, root in enumerate(search.roots.ranges):
        for addresses, edges in pointers.of(Span(root.start, root.end), meter):
            seeds += [Seed(number, *each) for each in zip(addresses.tolist(), edges.tolist())]
    return pointers.sources(heap_spans(search.session), meter)


def _pointers(search: Search, finder: Finder, span: Span, meter: Meter) -> Iterator[tuple[int, int]]:
    """(address, edge) of each pointer in a range, in order."""
    word, starts = search.session.memory.pointer_size, search.blocks.starts
    for at, words, _ in search.words.of(span.start, span.end):
        for index, which in finder.hits(words):
            yield at + index * word, edge_to(which, words[index] - starts[which])
    meter.advance(search.words.bytes(*span))


class _Sources:
    """Takes pointers in the order of their addresses, and tells which block each lies in."""

    def __init__(self, blocks: LiveBlocks, word: int) -> None:
        self._blocks, self._word = blocks, word
        self._at = 0
        self._counts = array("I", bytes(4 * len(blocks)))
        self.edges = array("I")

    def take(self, pointers: Iterator[tuple[int, int]]) -> None:
        starts, ends, last = self._blocks.starts, self._blocks.ends, len(self._blocks) - 1
        at, counts, word, append = self._at, self._counts, self._word, self.edges.append
        for address, edge in pointers:
            while at < last and starts[at + 1] <= address:
                at += 1
            # a block that points to itself is not held by that
            if starts[at] <= address <= ends[at] - word + 1 and edge >> FLAGS != at:
                counts[at] += 1
                append(edge)
        self._at = at

    def offsets(self) -> Sequence[int]:
        return array("Q", [0, *accumulate(self._counts)])
