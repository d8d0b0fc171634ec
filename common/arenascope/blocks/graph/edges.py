"""Every pointer of a process, once: from roots to live blocks, and from live blocks to each other."""

from __future__ import annotations

from array import array
from typing import Iterable, Iterator, NamedTuple, Optional, Sequence

from ...engine import Buffer, EdgeTable, Groups, StaleRows
from ..recognise.postgres import ContextLinks
from .blocks import DEEP, EDGE_SHIFT, STALE, LiveBlocks, is_low_number
from .pointers_to import ImageSearch, Seed, root_pointers
from .stale_rows import contexts_of, stale_words
from .stale_words import COUNTS, MAY_HOLD, NO_BLOCK, StaleEdges, StaleWords, number_of, why_text

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
    """The edges of all blocks, and the pointers that roots have."""

    def __init__(
        self, blocks: LiveBlocks, table: EdgeTable, seeds: Sequence[Seed], stale: Optional[StaleEdges] = None
    ) -> None:
        """`stale`: the words of edges and seeds that are marked so."""
        self.blocks, self.table, self.seeds = blocks, table, seeds
        self.offsets, self.edges = table.offsets, table.edges
        self.stale = stale if stale is not None else StaleEdges()

    def of(self, block: int) -> Sequence[int]:
        """The block's edges, in the order of its words."""
        return self.edges[self.offsets[block] : self.offsets[block + 1]]

    def mark(
        self,
        first: Iterable[int],
        marks: bytearray,
        mark: int,
        starts_only: bool = False,
        parents: Optional[array[int]] = None,
    ) -> Sequence[int]:
        """Marks these and what hangs on them: all that had less, which it returns in the order in which they were met.
        `parents`, where it is given, learns by which block each was met."""
        return self.table.mark(array("I", first), marks, mark, starts_only, parents)


class Further(NamedTuple):
    """A pointer that a block has."""

    source: int
    edge: int


def with_more(graph: Graph, seeds: Sequence[Seed], further: Sequence[Further]) -> Graph:
    """The same with some pointers more."""
    table = graph.table.with_edges(further) if further else graph.table
    return Graph(graph.blocks, table, [*graph.seeds, *seeds], graph.stale)


def lasting(graph: Graph, passing: bytes) -> Graph:
    """The graph without what is there for a moment: pointers from blocks that only stacks and registers hold, such as
    what a thread was started with, to blocks that others hold; and without those of stale words. `passing`: of each
    block how much worse those are that hold it; 0: they hold for good."""
    if not any(passing) and not len(graph.stale):
        return graph
    return Graph(graph.blocks, graph.table.lasting(bytearray(passing)), graph.seeds, graph.stale)


def without_unused_room(graph: Graph) -> Optional[Graph]:
    """The graph without pointers that lie in room which containers do not use; None: there are none."""
    unused = [*graph.stale.unused()]
    return Graph(graph.blocks, graph.table.without(unused), graph.seeds, graph.stale) if unused else None


def build(search: ImageSearch) -> Graph:
    """Reads all that counts, once."""
    if search.graph is None:
        search.graph = _build(search)
    return search.graph


def _build(search: ImageSearch) -> Graph:
    blocks = search.blocks
    seeds = root_pointers(search)
    words = stale_words(search)
    with search.meter("following pointers", search.heap_spans) as meter:
        table, rows = search.engine.edges(search.heap_spans, number_of("low-number"), meter)
    seeds, stale = _marked(seeds, words, rows)
    return _as_a_tree(search, Graph(blocks, table, seeds, stale))


def _marked(seeds: Sequence[Seed], words: StaleWords, rows: StaleRows) -> tuple[list[Seed], StaleEdges]:
    """The seeds, with those marked that lie in what is excluded, and all stale edges."""
    marked, more = [*seeds], []
    ranges = list(words.ranges())
    low, high = (ranges[0].start, ranges[-1].end) if ranges else (0, 0)
    for at, each in enumerate(seeds):
        why = words.why(each.address, NO_BLOCK) if low <= each.address < high else COUNTS
        if why != COUNTS:
            marked[at] = each._replace(edge=each.edge | STALE)
            more.append((each.address, NO_BLOCK, marked[at].edge, why, MAY_HOLD))
    return marked, StaleEdges.of(rows, more)


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
    inner = {edge >> EDGE_SHIFT for each, edge in edges.items() if family.get(family[each].parent, FIRST).parent}
    seeds = [each._replace(edge=each.edge | DEEP) if each.edge >> EDGE_SHIFT in inner else each for each in graph.seeds]
    graph.table.deepen(array("I", inner))
    graph = Graph(graph.blocks, graph.table, seeds, graph.stale)
    parents = {each: family[each].parent for each in edges if family[each].parent}
    more = [Further(edges[parent] >> EDGE_SHIFT, edges[each]) for each, parent in parents.items()]
    return with_more(graph, (), more)


def stale_at(search: ImageSearch, address: int, block: int) -> Optional[str]:
    """Why the word there is no pointer that holds something, as in heap_model.py; None: it may be one."""
    graph = search.graph
    if graph is not None:
        return why_text(graph.stale.why(address))
    return why_text(stale_words(search).why(address, block, block != NO_BLOCK and _is_odd(search, address)))


def _is_odd(search: ImageSearch, address: int) -> bool:
    value = search.session.memory.try_word(address) or 0
    to = search.blocks.find(value)
    return to >= 0 and is_low_number(value, value - search.blocks.starts[to], search.session.memory.pointer_size)


class Lump(NamedTuple):
    """A block that nothing of the others leads to, or the first of a cycle of which that is so."""

    head: int
    others: Sequence[int]
    """All that hangs on it, and on no head before it; of a cycle the rest as well."""


class Lumps:
    """Some of them, in order of their heads. A program that leaks loses millions of blocks, most of them alone: these
    take four bytes each."""

    def __init__(self, found: Groups) -> None:
        self.heads = found.heads
        self._leading, self._ends, self._others = found.leading, found.ends, found.others
        self._way_ends, self._ways = found.way_ends, found.ways

    def __len__(self) -> int:
        return len(self.heads)

    def hanging(self) -> Iterator[Lump]:
        """Those of more than one block."""
        begin = 0
        for head, end in zip(self._leading, self._ends):
            yield Lump(head, self._others[begin:end])
            begin = end

    def ways_round(self) -> Iterator[Sequence[int]]:
        """Of each cycle the shortest way round from its head on; of a long one only its begin."""
        begin = 0
        for end in self._way_ends:
            yield self._ways[begin:end]
            begin = end

    def blocks(self) -> array[int]:
        return array("I", self.heads) + array("I", self._others)


def lumps(graph: Graph, nodes: Buffer, starts_only: bool = False) -> Lumps:
    """Every node once; they are in order. With `starts_only` pointers to insides do not count."""
    return Lumps(graph.table.groups(nodes, starts_only))
