"""The graph without what is there for a moment: pointers from blocks that only stacks and registers hold, such as what
a thread was started with, to blocks that others hold; and without those of stale words."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Sequence

from .descendants import AT_ONCE, fast
from .edge import FLAGS, STALE
from .edges import Graph, without
from .stale_words import NO_BLOCK

if TYPE_CHECKING:
    from ...base.array_types import Numbers


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
