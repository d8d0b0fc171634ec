"""What hangs on some blocks: level by level, with numpy where many are met at once.

In a list of a million blocks each level is one block, in an array all are one level: only for such is numpy worth what
a call of it costs.
"""

from __future__ import annotations

from array import array
from types import ModuleType
from typing import TYPE_CHECKING, Iterable, Iterator, Optional, Sequence, Union

from .edge import FLAGS, INSIDE
from .edges import Graph

if TYPE_CHECKING:
    from ...base.array_types import Numbers

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
