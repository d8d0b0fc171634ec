"""Every pointer of a process, once: from roots to live blocks, and from live blocks to each other."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from itertools import accumulate
from operator import add
from types import ModuleType
from typing import TYPE_CHECKING, Collection, Iterable, Iterator, NamedTuple, Optional, Sequence, Union

from ..recognise.postgres import ContextLinks
from .blocks import DEEP, FLAGS, INSIDE, STALE, LiveBlocks, heap_spans, is_low_number
from .refs import ImageSearch
from .root_pointers import Seed, look_of, root_pointers
from .stale_rows import contexts_of, stale_words
from .stale_words import COUNTS, NO_BLOCK, Collected, StaleEdges, StaleWords, why_text

if TYPE_CHECKING:
    from ...base.array_types import Numbers

FIRST = ContextLinks(0, 0, 0, 0)
ROOT = -1
"""In place of a block's number: the pointer is a root's."""


class Disguised(NamedTuple):
    """An encoded pointer."""

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
        stale: Optional[StaleEdges] = None,
    ) -> None:
        """With `numpy`, where they are worth it, offsets and edges are arrays. `stale`: the words of edges and seeds
        that are marked so."""
        self.blocks, self.offsets, self.edges, self.seeds = blocks, offsets, edges, seeds
        self.numpy = numpy
        self.stale = stale if stale is not None else StaleEdges()

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
    return Graph(graph.blocks, offsets, edges, [*graph.seeds, *seeds], numpy=graph.numpy, stale=graph.stale)


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
        left = numpy.delete(graph.edges, places)
        return Graph(graph.blocks, offsets, left, graph.seeds, numpy=numpy, stale=graph.stale)
    edges, at = array("I"), 0
    for place in places:
        edges.extend(graph.edges[at:place])
        at = place + 1
    edges.extend(graph.edges[at:])
    offsets = array("Q", (each - bisect_left(places, each) for each in graph.offsets))
    return Graph(graph.blocks, offsets, edges, graph.seeds, stale=graph.stale)


def build(search: ImageSearch) -> Graph:
    """Reads all that counts, once."""
    if search.graph is None:
        search.graph = _build(search)
    return search.graph


def _build(search: ImageSearch) -> Graph:
    blocks = search.blocks
    look = look_of(search)
    seeds = root_pointers(search, look)
    table, found, spans = stale_words(search), Collected(), heap_spans(search.session)
    with search.session.meter("following pointers", sum(search.words.bytes(*each) for each in spans)) as meter:
        offsets, edges = look.sources(spans, table, found, meter)
    seeds = _marked(seeds, table, found)
    return _as_a_tree(search, Graph(blocks, offsets, edges, seeds, numpy=look.numpy, stale=found.in_order()))


def _marked(seeds: Sequence[Seed], table: StaleWords, stale: Collected) -> list[Seed]:
    """With those marked that lie in what is excluded."""
    marked = [*seeds]
    ranges = list(table.ranges())
    low, high = (ranges[0].start, ranges[-1].end) if ranges else (0, 0)
    for at, each in enumerate(seeds):
        why = table.why(each.address, NO_BLOCK) if low <= each.address < high else COUNTS
        if why != COUNTS:
            marked[at] = each._replace(edge=each.edge | STALE)
            stale.add(each.address, NO_BLOCK, marked[at].edge, why)
    return marked


def _as_a_tree(search: ImageSearch, graph: Graph) -> Graph:
    """With pointers from each of PostgreSQL's contexts to its children.

    Each points to its parent, its first child, and the siblings before and after it. By these a variable that leads to
    one of them would lead to all: the memory of a large sort would be held by whoever points to some other context. So
    those to parents and siblings are in the table of stale words. PostgreSQL's own variables lead to children of the
    first context; one further down a variable has for a moment, or from what was there before. The same goes for
    blocks: what is none of PostgreSQL's may have it from before.
    """
    family, edges = contexts_of(search)
    if not edges:
        return graph
    inner = {edge >> FLAGS for each, edge in edges.items() if family.get(family[each].parent, FIRST).parent}
    seeds = [each._replace(edge=each.edge | DEEP) if each.edge >> FLAGS in inner else each for each in graph.seeds]
    graph = Graph(graph.blocks, graph.offsets, _deep(graph, inner), seeds, numpy=graph.numpy, stale=graph.stale)
    parents = {each: family[each].parent for each in edges if family[each].parent}
    more = [Further(edges[parent] >> FLAGS, edges[each]) for each, parent in parents.items()]
    return with_more(graph, (), more)


def _deep(graph: Graph, targets: Collection[int]) -> Sequence[int]:
    """Its edges; those to these count as such to insides."""
    if graph.numpy is None:
        return array("I", (each | DEEP if each >> FLAGS in targets else each for each in graph.edges))
    numpy = graph.numpy
    edges = numpy.asarray(graph.edges)
    found: Sequence[int] = numpy.where(numpy.isin(edges >> FLAGS, [*targets]), edges | edges.dtype.type(DEEP), edges)
    return found


def stale_at(search: ImageSearch, address: int, block: int) -> Optional[str]:
    """Why the word there is no pointer that holds something, as in model.py; None: it may be one."""
    graph = search.graph
    if graph is not None:
        return why_text(graph.stale.why(address))
    return why_text(stale_words(search).why(address, block, block != NO_BLOCK and _is_odd(search, address)))


def _is_odd(search: ImageSearch, address: int) -> bool:
    value = search.session.memory.try_word(address) or 0
    to = search.blocks.find(value)
    return to >= 0 and is_low_number(value, value - search.blocks.starts[to], search.session.memory.pointer_size)


MANY = 300
WIDE = 16
"""From this part of all blocks on they are sorted by going through all."""
AT_ONCE = 1 << 21
"""Edges that are looked at together: more would not stay in the processor's caches, nor take little memory."""


class Spread:
    """Marks blocks of one graph. `parents`, where it is given, learns by which one each was met."""

    def __init__(self, graph: Graph, marks: bytearray, parents: Optional[array[int]] = None, many: int = MANY) -> None:
        self._offsets, self._edges = graph.offsets, graph.edges
        """Of numpy's arrays views: a loop goes through numbers of Python's faster than through numpy's."""
        self._marks, self._parents = marks, parents
        self._many = many
        numpy = self._numpy = graph.numpy
        if numpy is not None:
            self._fast_offsets, self._fast_edges = fast(numpy, graph)
            views = (memoryview(each) for each in (self._fast_offsets, self._fast_edges))  # type: ignore[arg-type]
            self._offsets, self._edges = views
            self._fast_marks = numpy.frombuffer(marks, dtype=numpy.uint8)
            self._fast_parents = numpy.frombuffer(parents, dtype=numpy.int32) if parents is not None else None

    def of(self, block: int) -> Sequence[int]:
        """Its edges."""
        return self._edges[self._offsets[block] : self._offsets[block + 1]]

    def mark(self, first: Iterable[int], mark: int, starts_only: bool = False) -> array[int]:
        """These, and what hangs on them: all that had less, in the order in which they were met."""
        marks = self._marks
        begin, new = array("q"), array("q")
        for block in first:
            if marks[block] < mark:
                marks[block] = mark
                begin.append(block)
        level: Union[array[int], Numbers] = begin
        while len(level):
            if isinstance(level, array):
                new.extend(level)
            else:
                new.frombytes(level.tobytes())
            if self._numpy is None or len(level) < self._many:
                level = self._one_by_one(level, mark, starts_only)
            else:
                level = self._at_once(self._numpy, level, mark, starts_only)
        return new

    def _one_by_one(self, level: Union[array[int], Numbers], mark: int, starts_only: bool) -> array[int]:
        marks, offsets, edges, parents = self._marks, self._offsets, self._edges, self._parents
        next_level = array("q")
        for block in level if isinstance(level, array) else level.tolist():
            for edge in edges[offsets[block] : offsets[block + 1]]:
                to = edge >> FLAGS
                if marks[to] < mark and not (starts_only and edge & INSIDE):
                    marks[to] = mark
                    next_level.append(to)
                    if parents is not None:
                        parents[to] = block
        return next_level

    def _at_once(self, numpy: ModuleType, level: Union[array[int], Numbers], mark: int, starts_only: bool) -> Numbers:
        parts = []
        for sources, edges in edges_of(numpy, self._fast_offsets, self._fast_edges, numpy.asarray(level)):
            counts = self._fast_marks[edges >> FLAGS] < mark
            if starts_only:
                counts &= edges & INSIDE == 0
            targets = edges[counts] >> FLAGS
            self._fast_marks[targets] = mark
            if self._fast_parents is not None:
                self._fast_parents[targets] = sources[counts]
            parts.append(self._once(numpy, targets))
        new: Numbers = numpy.concatenate(parts).astype(numpy.int64)
        return new

    def _once(self, numpy: ModuleType, blocks: Numbers) -> Numbers:
        """In order, each of them once."""
        once: Numbers
        if len(blocks) < len(self._marks) // WIDE:
            once = numpy.unique(blocks)
        else:
            met = numpy.zeros(len(self._marks), dtype=bool)
            met[blocks] = True
            once = numpy.flatnonzero(met)
        return once


def fast(numpy: ModuleType, graph: Graph) -> tuple[Numbers, Numbers]:
    """A graph's offsets and edges as numpy sees them."""
    return numpy.asarray(graph.offsets).view(numpy.int64), numpy.asarray(graph.edges)


def edges_of(numpy: ModuleType, offsets: Numbers, edges: Numbers, nodes: Numbers) -> Iterator[tuple[Numbers, Numbers]]:
    """(of each edge its source, the edge), for the nodes in their order, as many at a time as is good."""
    begins = offsets[nodes]
    ends = numpy.cumsum(offsets[nodes + 1] - begins)
    low = 0
    while low < len(nodes):
        before = int(ends[low - 1]) if low else 0
        high = max(low + 1, int(numpy.searchsorted(ends, before + AT_ONCE, side="right")))
        counts = numpy.diff(ends[low:high], prepend=before)
        shift = begins[low:high] - (ends[low:high] - counts)
        places = numpy.arange(before, int(ends[high - 1])) + numpy.repeat(shift, counts)
        yield numpy.repeat(nodes[low:high], counts), edges[places]
        low = high


def lasting(graph: Graph, passing: bytes) -> Graph:
    """`passing`: of each block how much worse those are that hold it; 0: they hold for good."""
    if not any(passing) and not len(graph.stale):
        return graph
    return without(graph, _gone(graph, passing) if graph.numpy is None else _gone_at_once(graph.numpy, graph, passing))


def _gone(graph: Graph, passing: bytes) -> Sequence[int]:
    """Where the edges stand."""
    offsets, edges = graph.offsets, graph.edges
    sources = {source for source, passes in enumerate(passing) if passes}.union(graph.stale.sources) - {NO_BLOCK}
    return [
        at
        for source in sorted(sources)
        for at in range(offsets[source], offsets[source + 1])
        if edges[at] & STALE or passing[source] > passing[edges[at] >> FLAGS]
    ]


def _gone_at_once(numpy: ModuleType, graph: Graph, passing: bytes) -> Numbers:
    """The same with numpy."""
    offsets, edges = fast(numpy, graph)
    passes = numpy.frombuffer(passing, dtype=numpy.uint8)
    sources = numpy.repeat(passes, numpy.diff(offsets))
    gone = [numpy.zeros(0, dtype=numpy.int64)]
    for first in range(0, len(edges), AT_ONCE):
        some = edges[first : first + AT_ONCE]
        worse = sources[first : first + AT_ONCE] > passes[some >> FLAGS]
        gone.append(numpy.flatnonzero(worse | (some & STALE > 0)) + first)
    return numpy.concatenate(gone)  # type: ignore[no-any-return]
