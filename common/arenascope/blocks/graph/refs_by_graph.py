"""Who points to a block, by a graph that is there: only blocks that do are read."""

from __future__ import annotations

import sys
from bisect import bisect_right
from typing import Iterator, Sequence

from ...sources.target import Span
from ..pointer_finder import Finder
from .descendants import AT_ONCE
from .edge import DEEP, FLAGS, INSIDE, STALE
from .edges import Graph
from .refs import BLOCK, ImageSearch, Ref, in_order, of_word

WAYS = (0, INSIDE, DEEP, INSIDE | DEEP)


def pointers_to(search: ImageSearch, graph: Graph, number: int) -> list[Ref]:
    """As Search.references finds them."""
    blocks, roots = search.blocks, search.roots
    start, end = blocks.starts[number], blocks.ends[number]
    refs: list[Ref] = []
    for seed in graph.seeds:
        if seed.edge >> FLAGS != number:
            continue
        if seed.root >= len(roots.ranges):
            refs.append(of_word(roots.words[seed.root - len(roots.ranges)]))
        else:
            value = search.session.memory.word(seed.address)
            refs.append(search.named(roots.ranges[seed.root], seed.address, value))
    word = search.session.memory.pointer_size
    finder = Finder([start], [end], [Span(start, end)], word)
    for source in _sources(graph, number):
        first = blocks.starts[source]
        for window in search.words.of(first, blocks.ends[source]):
            for index, _ in finder.hits(window.words):
                address = window.address + index * word
                refs.append(Ref(BLOCK, address, window.words[index], block=source, offset=address - first))
    return in_order(refs)


def _sources(graph: Graph, number: int) -> Sequence[int]:
    """The blocks that lead to it, inside of it or not."""
    return sorted(
        {
            bisect_right(graph.offsets, at) - 1
            for way in (*WAYS, *(each | STALE for each in WAYS))
            for at in _places(graph, number << FLAGS | way)
        }
    )


def _places(graph: Graph, edge: int) -> Iterator[int]:
    """Where it stands among the edges: bytes are searched faster than numbers, but for numpy's."""
    if graph.numpy is not None:
        numpy, edges = graph.numpy, graph.numpy.asarray(graph.edges)
        for first in range(0, len(edges), AT_ONCE):
            yield from (numpy.flatnonzero(edges[first : first + AT_ONCE] == edge) + first).tolist()
        return
    data = memoryview(graph.edges).cast("B").tobytes()  # type: ignore[arg-type]
    needle = edge.to_bytes(4, sys.byteorder)
    at = data.find(needle)
    while at >= 0:
        if at % 4 == 0:
            yield at // 4
        at = data.find(needle, at + 1)
