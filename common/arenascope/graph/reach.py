"""What can be reached from roots: by pointers to starts, or by any."""

from __future__ import annotations

from typing import Iterable, Iterator

from ..target import Span
from .edges import INSIDE, Graph, Seed
from .finder import Finder
from .refs import Search
from .strength import Strength

MARKS = UNREACHED, POSSIBLE, DEFINITE = 0, 1, 2


class Reach:
    """`marks[n]` of the nth block: 0 where nothing leads there, POSSIBLE or DEFINITE."""

    def __init__(self, search: Search, graph: Graph) -> None:
        self._search, self._graph = search, graph
        self._strength = Strength(search.session, search.blocks)
        self.marks = bytearray(len(graph.blocks))
        self.add(seed.edge for seed in graph.seeds)
        # what has a mark by starts alone keeps it; the rest is judged one by one
        self.mark((seed.edge >> 1 for seed in graph.seeds if not seed.edge & INSIDE), DEFINITE)
        self._lift()

    def add(self, edges: Iterable[int]) -> None:
        """These lead somewhere, too."""
        self.mark((edge >> 1 for edge in edges), POSSIBLE)

    def mark(self, first: Iterable[int], mark: int) -> None:
        marks, offsets, edges = self.marks, self._graph.offsets, self._graph.edges
        definite = mark == DEFINITE
        todo = []
        for block in first:
            if marks[block] < mark:
                marks[block] = mark
                todo.append(block)
        while todo:
            block = todo.pop()
            for edge in edges[offsets[block] : offsets[block + 1]]:
                to = edge >> 1
                if marks[to] < mark and not (definite and edge & INSIDE):
                    marks[to] = mark
                    todo.append(to)

    def _lift(self) -> None:
        """Where a pointer to the inside is as good as one to the start."""
        marks, graph = self.marks, self._graph
        for seed in graph.seeds:
            if seed.edge & INSIDE and marks[seed.edge >> 1] == POSSIBLE and self._is_lifted(seed):
                self.mark([seed.edge >> 1], DEFINITE)
        seen = bytearray(len(marks))
        found = True
        while found:
            found = False
            for block in range(len(marks)):
                if marks[block] == DEFINITE and not seen[block]:
                    seen[block] = 1
                    found |= self._lift_from(block)

    def _lift_from(self, block: int) -> bool:
        marks = self.marks
        inner = {edge >> 1 for edge in self._graph.of(block) if edge & INSIDE and marks[edge >> 1] == POSSIBLE}
        for to in inner:
            if any(self._strength.is_definite(to, value) for value in self._values(block, to)):
                self.mark([to], DEFINITE)
        return bool(inner)

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
        return self._strength.is_definite(seed.edge >> 1, value)
