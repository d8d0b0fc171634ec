"""What can be reached from roots: by pointers to starts, or by any."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from typing import Iterable, Iterator, NamedTuple, Optional, Sequence

from ...sources.target import Span
from ..pointer_finder import Finder
from .blocks import FLAGS, INSIDE
from .edges import AT_ONCE, Graph, Spread, fast
from .pointer_strength import Strength
from .refs import ImageSearch
from .root_pointers import Seed

UNMARKED, POSSIBLE, DEFINITE = 0, 1, 2
SMALL = 512
"""Bytes of a block that is looked at word by word."""
MANY_ALIKE = 8
"""So many blocks of a size that all are pointed to at one offset are no chance."""


def marked(marks: bytearray, mark: int) -> array[int]:
    """The blocks that are marked so, in order: few of millions, mostly, or most of them."""
    found = array("I")
    for run in re.finditer(re.escape(bytes([mark])) + b"+", marks):
        found.extend(range(*run.span()))
    return found


class _Pointer(NamedTuple):
    to: int
    """The block that it leads to."""
    value: int
    at: int
    """Where it lies."""


class Reach:
    """`marks[n]` of the nth block: 0 where nothing leads there, POSSIBLE or DEFINITE."""

    def __init__(self, search: ImageSearch, graph: Graph) -> None:
        self._search, self._graph = search, graph
        self._strength = Strength(search.session, search.blocks)
        self.marks = bytearray(len(graph.blocks))
        self._spread = Spread(graph, self.marks)
        self.alike: list[int] = []
        """What is reached at an offset that is the same for all blocks of its size."""
        self._offsets: dict[int, int] = {}
        """Of such sizes."""
        self._past: dict[int, set[int]] = {}
        """How far inside other pointers lead."""
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
        self.mark(
            (seed.edge >> FLAGS for seed in seeds if self._is_lifted(seed.edge >> FLAGS, *self._value(seed))), DEFINITE
        )
        inside = [seed.edge >> FLAGS for seed in seeds]
        todo: Sequence[int] = self._leading_inside()
        while todo:
            more: list[int] = []
            for block in todo:
                inner = {edge >> FLAGS for edge in self._spread.of(block) if edge & INSIDE}
                inner = {to for to in inner if marks[to] != DEFINITE}
                inside += inner
                for to, value, at in self._pointers(block, sorted(inner)):
                    if marks[to] == DEFINITE or not self._is_lifted(to, value, at):
                        continue
                    if len(self._spread.of(to)):
                        more += self.mark([to], DEFINITE)
                    else:
                        # a text, of which a database has a million: nothing hangs on it
                        marks[to] = DEFINITE
            todo = more or self._alike()
        return inside

    def _is_lifted(self, to: int, value: int, at: Optional[int]) -> bool:
        """Whether such a pointer is as good as one to the start; where it is not, how far inside it leads is kept."""
        if self._strength.is_definite(to, value, at):
            return True
        past = value - self._search.blocks.starts[to]
        if past == self._offsets.get(self._search.blocks.sizes[to]):
            self.alike.append(to)
            return True
        self._past.setdefault(to, set()).add(past)
        return False

    def _alike(self) -> list[int]:
        """Blocks of a size of which all lead to one offset inside: they are meant, whatever stands there."""
        groups: dict[int, list[int]] = {}
        for to in self._past:
            if self.marks[to] != DEFINITE:
                groups.setdefault(self._search.blocks.sizes[to], []).append(to)
        new: list[int] = []
        for size, blocks in groups.items():
            common = set.intersection(*(self._past[each] for each in blocks)) if len(blocks) >= MANY_ALIKE else ()
            if common:
                self._offsets[size] = min(common)
                self.alike += blocks
                new += self.mark(blocks, DEFINITE)
        return new

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

    def _pointers(self, block: int, inner: Sequence[int]) -> Iterator[_Pointer]:
        """To any of these."""
        if not inner:
            return
        blocks, memory = self._search.blocks, self._search.session.memory
        word, size = memory.pointer_size, blocks.ends[block] - blocks.starts[block]
        starts, ends = [blocks.starts[to] for to in inner], [blocks.ends[to] for to in inner]
        # a finder's making takes longer than to look at a few words: a database has a million such blocks
        data = memory.try_read(blocks.starts[block], size // word * word) if size <= SMALL else None
        if data is not None:
            for at, value in enumerate(memory.unpack_words(data)):
                which = bisect_right(starts, value) - 1
                if which >= 0 and value <= ends[which]:
                    yield _Pointer(inner[which], value, blocks.starts[block] + at * word)
            return
        finder = Finder(starts, ends, [Span(starts[0], ends[-1])], word)
        for window in self._search.words.of(blocks.starts[block], blocks.ends[block]):
            for index, which in finder.hits(window.words):
                yield _Pointer(inner[which], window.words[index], window.address + index * word)

    def _value(self, seed: Seed) -> tuple[int, Optional[int]]:
        """And where it lies in memory."""
        roots = self._search.roots
        if seed.root < len(roots.ranges):
            return self._search.session.memory.word(seed.address), seed.address
        return roots.words[seed.root - len(roots.ranges)].value, None
