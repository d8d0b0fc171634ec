"""The graph without what is there for a moment: pointers from blocks that only stacks and registers hold, such as what
a thread was started with, to blocks that others hold."""

from __future__ import annotations

from array import array
from types import ModuleType

from .edge import FLAGS
from .edges import Graph
from .spread import AT_ONCE, fast


def lasting(graph: Graph, passing: bytes) -> Graph:
    """`passing`: of each block whether only these hold it."""
    if not any(passing):
        return graph
    if graph.numpy is not None:
        return _at_once(graph.numpy, graph, passing)
    offsets, edges = array("Q", [0]), array("I")
    for block, passes in enumerate(passing):
        edges.extend(each for each in graph.of(block) if not passes or passing[each >> FLAGS])
        offsets.append(len(edges))
    return Graph(graph.blocks, offsets, edges, graph.seeds)


def _at_once(numpy: ModuleType, graph: Graph, passing: bytes) -> Graph:
    offsets, edges = fast(numpy, graph)
    passes = numpy.frombuffer(passing, dtype=bool)
    sources = numpy.repeat(passes, numpy.diff(offsets))
    gone = [numpy.zeros(0, dtype=numpy.int64)]
    for first in range(0, len(edges), AT_ONCE):
        targets = edges[first : first + AT_ONCE] >> FLAGS
        gone.append(numpy.flatnonzero(sources[first : first + AT_ONCE] & ~passes[targets]) + first)
    every = numpy.concatenate(gone)
    before = numpy.searchsorted(every, offsets)
    return Graph(graph.blocks, offsets - before, numpy.delete(edges, every), graph.seeds, numpy=numpy)
