"""Pointers in words: those of roots, with which all that is looked for begins, and those of the heap."""

from __future__ import annotations

from array import array
from itertools import accumulate
from types import ModuleType
from typing import Iterator, NamedTuple, Optional, Protocol, Sequence

from ...base.worker_pool import Meter
from ...sources.target import Span
from ..pointer_finder import Finder
from .blocks import FLAGS, STALE, edge_to, is_low_number
from .edges_with_numpy import Pointers
from .refs import ImageSearch
from .stale_words import COUNTS, Collected, StaleWords


class Seed(NamedTuple):
    """A pointer that a root has."""

    root: int
    """Its number among the ranges, or after these among the words."""
    address: int
    """Where it lies; 0 for a word of its own."""
    edge: int


class Look(Protocol):
    """Finds pointers to blocks: with numpy (edges_with_numpy.py), or without."""

    numpy: Optional[ModuleType]

    def pointers(self, span: Span, meter: Meter) -> Iterator[tuple[int, int]]:
        """(address, edge) of each pointer in a range, in order; edges of low numbers are marked as stale."""

    def sources(
        self, spans: Sequence[Span], table: StaleWords, stale: Collected, meter: Meter
    ) -> tuple[Sequence[int], Sequence[int]]:
        """(offsets, edges) of all blocks, which lie in these spans. Those of words that the table excludes are marked,
        and added to `stale`."""


def look_of(search: ImageSearch) -> Look:
    numpy = search.numpy if len(search.blocks) else None
    if numpy is None:
        return _OneByOne(search)

    return Pointers(numpy, search)


def root_pointers(search: ImageSearch, look: Optional[Look] = None) -> Sequence[Seed]:
    """All that roots have, looked for once. Of those in ranges none is marked as stale: the table may need them."""
    if search.root_pointers is None:
        search.root_pointers = _found(search, look or look_of(search))
    return search.root_pointers


def _found(search: ImageSearch, look: Look) -> list[Seed]:
    blocks, roots = search.blocks, search.roots
    seeds: list[Seed] = []
    size = sum(search.words.bytes(each.start, each.end) for each in roots.ranges)
    with search.session.meter("looking into roots", size) as meter:
        for number, root in enumerate(roots.ranges):
            found = look.pointers(Span(root.start, root.end), meter)
            seeds += [Seed(number, address, edge & ~STALE) for address, edge in found]
    for number, word in enumerate(roots.words, len(roots.ranges)):
        index = blocks.find(word.value)
        if index >= 0:
            edge = edge_to(index, word.value - blocks.starts[index])
            seeds.append(Seed(number, 0, edge if word.stale is None else edge | STALE))
    return seeds


class _OneByOne:
    numpy: Optional[ModuleType] = None

    def __init__(self, search: ImageSearch) -> None:
        blocks, word = search.blocks, search.session.memory.pointer_size
        self._search, self._word = search, word
        self._finder = Finder(blocks.starts, blocks.ends, blocks.extents, word)

    def pointers(self, span: Span, meter: Meter) -> Iterator[tuple[int, int]]:
        word, starts, words = self._word, self._search.blocks.starts, self._search.words
        for at, some, _ in words.of(span.start, span.end):
            for index, which in self._finder.hits(some):
                value, past = some[index], some[index] - starts[which]
                odd = STALE if is_low_number(value, past, word) else 0
                yield at + index * word, edge_to(which, past) | odd
        meter.advance(words.bytes(*span))

    def sources(
        self, spans: Sequence[Span], table: StaleWords, stale: Collected, meter: Meter
    ) -> tuple[Sequence[int], Sequence[int]]:
        blocks, word, touched = self._search.blocks, self._word, table.touched
        starts, ends, last = blocks.starts, blocks.ends, len(blocks) - 1
        at, counts, edges = 0, array("I", bytes(4 * len(blocks))), array("I")
        append = edges.append
        for span in spans:
            for address, edge in self.pointers(span, meter):
                while at < last and starts[at + 1] <= address:
                    at += 1
                # a block that points to itself is not held by that
                if starts[at] <= address <= ends[at] - word + 1 and edge >> FLAGS != at:
                    odd = bool(edge & STALE)
                    why = table.why(address, at, odd) if odd or touched[at] else COUNTS
                    edge &= ~STALE
                    if why != COUNTS:
                        edge |= STALE
                        stale.add(address, at, edge, why)
                    counts[at] += 1
                    append(edge)
        return array("Q", [0, *accumulate(counts)]), edges
