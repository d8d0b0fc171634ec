"""Every pointer of a process, once: from roots to live blocks, and from live blocks to each other."""

from __future__ import annotations

from array import array
from typing import NamedTuple, Optional, Sequence

from ...engine import EdgeTable, StaleRows
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
        self.stale = stale if stale is not None else StaleEdges()

    def of(self, block: int) -> Sequence[int]:
        """The block's edges, in the order of its words."""
        table = self.table
        return table.edges[table.offsets[block] : table.offsets[block + 1]]


def with_more(graph: Graph, seeds: Sequence[Seed], further: Sequence[tuple[int, int]]) -> Graph:
    """The same with some pointers more; `further` are (block, edge)."""
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
    more = [(edges[parent] >> EDGE_SHIFT, edges[each]) for each, parent in parents.items()]
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
