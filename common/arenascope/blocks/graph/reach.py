"""What can be reached from roots: by pointers to starts, or by any."""

from __future__ import annotations

from typing import Iterable, Iterator, Sequence

from ...sources.target import Span
from ..finder import Finder
from .edge import FLAGS, INSIDE
from .edges import Graph, Seed
from .refs import Search
from .spread import AT_ONCE, Spread, fast
from .strength import Strength

UNMARKED, POSSIBLE, DEFINITE = 0, 1, 2


def marked(marks: bytearray, mark: int) -> list[int]:
    """The blocks that are marked so: few of millions, mostly."""
    found = []
    at = marks.find(mark)
    while at >= 0:
        found.append(at)
        at = marks.find(mark, at + 1)
    return found


class Reach:
    """`marks[n]` of the nth block: 0 where nothing leads there, POSSIBLE or DEFINITE."""

    def __init__(self, search: Search, graph: Graph) -> None:
        self._search, self._graph = search, graph
        self._strength = Strength(search.session, search.blocks)
        self.marks = bytearray(len(graph.blocks))
        self._spread = Spread(graph, self.marks)
        self.mark((seed.edge >> FLAGS for seed in graph.seeds if not seed.edge & INSIDE), DEFINITE)
        if UNMARKED in self.marks:
            # of most programs that was all
            self.mark(self._inside(), POSSIBLE)

    def mark(self, first: Iterable[int], mark: int) -> Sequence[int]:
        """These, and what hangs on them; all that had less."""
        return self._spread.mark(first, mark, starts_only=mark == DEFINITE)

    def add(self, blocks: Iterable[int]) -> None:
        """These are reached after all, and what they lead to."""
        new = self.mark(blocks, DEFINITE)
        self.mark([edge >> FLAGS for block in new for edge in self._graph.of(block)], POSSIBLE)

    def _inside(self) -> list[int]:
        """What pointers to the inside lead to. Where one is as good as a pointer to the start, it is marked so."""
        marks = self.marks
        seeds = [seed for seed in self._graph.seeds if seed.edge & INSIDE]
        self.mark((seed.edge >> FLAGS for seed in seeds if self._is_lifted(seed)), DEFINITE)
        inside = [seed.edge >> FLAGS for seed in seeds]
        todo = self._leading_inside()
        for block in todo:
            # grows as it is gone through
            inner = {
                edge >> FLAGS for edge in self._graph.of(block) if edge & INSIDE and marks[edge >> FLAGS] != DEFINITE
            }
            inside += inner
            for to in inner:
                if any(self._strength.is_definite(to, value) for value in self._values(block, to)):
                    todo += self.mark([to], DEFINITE)
        return inside

    def _leading_inside(self) -> list[int]:
        """What is certainly reached and has pointers to the inside of what is not yet."""
        graph, numpy = self._graph, self._graph.numpy
        if numpy is None:
            return [block for block, mark in enumerate(self.marks) if mark == DEFINITE]
        offsets, edges = fast(numpy, graph)
        marks = numpy.frombuffer(self.marks, dtype=numpy.uint8)
        leading = numpy.zeros(len(marks), dtype=bool)
        for first in range(0, len(edges), AT_ONCE):
            some = edges[first : first + AT_ONCE]
            places = numpy.flatnonzero((some & INSIDE > 0) & (marks[some >> FLAGS] != DEFINITE)) + first
            leading[numpy.searchsorted(offsets, places, side="right") - 1] = True
        return numpy.flatnonzero(leading & (marks == DEFINITE)).tolist()  # type: ignore[no-any-return]

    def _values(self, block: int, to: int) -> Iterator[int]:
        blocks, word = self._search.blocks, self._search.session.memory.pointer_size
        start, end = blocks.starts[to], blocks.ends[to]
        finder = Finder([start], [end], [Span(start, end)], word)
        for window in self._search.words.of(blocks.starts[block], blocks.ends[block]):
            for index, _ in finder.hits(window.words):
                yield window.words[index]

    def _is_lifted(self, seed: Seed) -> bool:
        roots = self._search.roots
        if seed.root < len(roots.ranges):
            value = self._search.session.memory.word(seed.address)
        else:
            value = roots.words[seed.root - len(roots.ranges)].value
        return self._strength.is_definite(seed.edge >> FLAGS, value)
