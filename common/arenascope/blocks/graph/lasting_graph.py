"""The graph without what is there for a moment: pointers from blocks that only stacks and registers hold, such as what
a thread was started with, to blocks that others hold."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Sequence

from .descendants import AT_ONCE, fast
from .edge import FLAGS
from .edges import Graph, without

if TYPE_CHECKING:
    from ...base.array_types import Numbers


def lasting(graph: Graph, passing: bytes) -> Graph:
    """`passing`: of each block whether only these hold it."""
    if not any(passing):
        return graph
    return without(graph, _gone(graph, passing) if graph.numpy is None else _gone_at_once(graph.numpy, graph, passing))


def _gone(graph: Graph, passing: bytes) -> Sequence[int]:
    """Where the edges stand."""
    offsets = graph.offsets
    sources = (block for block, passes in enumerate(passing) if passes)
    return [
        at
        for source in sources
        for at in range(offsets[source], offsets[source + 1])
        if not passing[graph.edges[at] >> FLAGS]
    ]


def _gone_at_once(numpy: ModuleType, graph: Graph, passing: bytes) -> Numbers:
    """The same with numpy."""
    offsets, edges = fast(numpy, graph)
    passes = numpy.frombuffer(passing, dtype=bool)
    sources = numpy.repeat(passes, numpy.diff(offsets))
    gone = [numpy.zeros(0, dtype=numpy.int64)]
    for first in range(0, len(edges), AT_ONCE):
        targets = edges[first : first + AT_ONCE] >> FLAGS
        gone.append(numpy.flatnonzero(sources[first : first + AT_ONCE] & ~passes[targets]) + first)
    return numpy.concatenate(gone)  # type: ignore[no-any-return]
