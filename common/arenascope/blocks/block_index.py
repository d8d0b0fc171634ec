"""The live blocks by their addresses, and what is noted of each."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from itertools import compress
from operator import add
from typing import TYPE_CHECKING, Iterator, NamedTuple, Optional, Sequence

from ..analysis.pinning_blocks import Typed
from ..base.heap_model import ArenaHeader, ChunkRun, Gap, Heap, Kind, MmappedBlock
from ..base.progress_bar import Meter, metered
from ..glibc.malloc_chunk import masked
from ..glibc.sweep import blocks, free_chunks
from ..session.session import Session
from .recognise.all_recognisers import NONE, Catalogue

if TYPE_CHECKING:
    from .graph.blocks import LiveBlocks


class NamedLiveBlocks:
    """The live blocks of some arenas, and what each is."""

    def __init__(self, session: Session, blocks: LiveBlocks, only: Optional[int]) -> None:
        """Of the arena `only`; None: of all, and those served by mmap."""
        self._session, self.blocks, self.is_whole = session, blocks, only is None
        headers = [header for header in session.headers if only in (None, header.index)]
        self.heaps = [(header, heap) for header in headers for heap in session.heaps[header.index]]
        self.kinds: list[Kind] = []
        self.numbers = array("i", [NONE]) * len(blocks)
        """Of each of `blocks` which of `kinds` it is; NONE: Ctrl-C came before that was known."""
        self.caches: dict[int, int] = {}
        """glibc's thread caches, which are none of `blocks`: the numbers of their kind, by where they begin."""

    def span(self, heap: Heap) -> range:
        """Which of `blocks` lie in a heap."""
        starts = self.blocks.starts
        return range(bisect_left(starts, heap.address), bisect_left(starts, heap.end))

    def mmapped(self) -> Iterator[tuple[MmappedBlock, int]]:
        """The blocks served by mmap, with the numbers of their kinds."""
        for block in self._session.mmapped if self.is_whole else ():
            user = block.chunk + self._session.layout.header
            number = self.blocks.find(user)
            yield block, self.numbers[number] if number >= 0 else self.caches.get(user, NONE)

    def typed(self) -> Iterator[tuple[int, int]]:
        """(number, its kind's number) of each block whose kind is known."""
        spans = [range(len(self.blocks))] if self.is_whole else [self.span(heap) for _, heap in self.heaps]
        for span in spans:
            for number in span:
                if self.numbers[number] != NONE:
                    yield number, self.numbers[number]

    def mark(self, blocks: bytes) -> int:
        """Gives blocks that have 1 there kinds of their own, each like the one that it had. Returns the first of their
        numbers."""
        first = len(self.kinds)
        # of which nothing has a name there are none
        if len(blocks) == len(self.numbers) and not self._session.stopped:
            self.numbers = array("i", map(add, self.numbers, map((0, first).__getitem__, blocks)))
        self.kinds += self.kinds
        return first

    def sweep(self, header: ArenaHeader, heap: Heap, meter: Meter) -> Iterator[Typed]:
        """Every chunk and gap of a heap in address order."""
        for piece in metered(self._session.sweep(header, heap), meter):
            if isinstance(piece, Gap):
                yield piece.address, piece.bytes, piece.kind, NONE
            else:
                yield from self._chunks(piece)

    def stretches(self, header: ArenaHeader, heap: Heap, meter: Meter) -> Iterator[Typed]:
        """The same, but neighbours in use that are of one kind as one; and where those of several kinds have less than
        a page each, and nothing that is free beside them, these as one of no kind."""
        for piece in metered(self._session.sweep(header, heap), meter):
            if isinstance(piece, Gap):
                yield piece.address, piece.bytes, piece.kind, NONE
                continue
            others = self._not_blocks(piece)
            ranges, sizes = self._used(piece, others)
            found = [*self.blocks.engine.stretches(self.numbers, ranges, self._session.target.page_size)]
            # there may be chunks that are no blocks for other reasons
            if [size for size, _ in found] == sizes:
                yield from self._grouped(others, [rows for _, rows in found])
            else:
                yield from self._chunks(piece)

    def _chunks(self, run: ChunkRun) -> Iterator[Typed]:
        starts, before = self.blocks.starts, self._session.layout.header
        number = bisect_left(starts, run.address)
        for chunk, size, state in blocks(run, self._session.listed):
            user, kind = chunk + before, NONE
            if state == "used":
                while number < len(starts) and starts[number] < user:
                    number += 1
                is_block = number < len(starts) and starts[number] == user
                kind = self.numbers[number] if is_block else self.caches.get(user, NONE)
            yield chunk, size, state, kind

    def _not_blocks(self, run: ChunkRun) -> list[Typed]:
        """A run's chunks that are free, in a list or a thread cache itself, in address order, and what ends the run."""
        session, end = self._session, run.address + run.bytes
        found = {chunk: (chunk, size, "free", NONE) for chunk, size in free_chunks(run)}
        for index, chunk in run.marks:
            if chunk in session.listed and chunk not in found:
                found[chunk] = chunk, masked(run.raws[index]), session.listed[chunk], NONE
        for user, kind in self.caches.items():
            chunk = user - session.layout.header
            if run.address <= chunk < end and chunk not in found:
                found[chunk] = chunk, session.chunk_size(user), "used", kind
        return [*sorted(found.values()), (end, 0, "", NONE)]

    def _used(self, run: ChunkRun, others: Sequence[Typed]) -> tuple[array[int], list[int]]:
        """The blocks in front of each of the others, as two numbers each, and the bytes that these must have."""
        starts, before, at = self.blocks.starts, self._session.layout.header, run.address
        ranges, sizes = array("I"), list[int]()
        for chunk, size, _, _ in others:
            first = bisect_left(starts, at + before)
            ranges.extend((first, max(first, bisect_left(starts, chunk + before))))
            sizes.append(max(0, chunk - at))
            at = chunk + size
        return ranges, sizes

    def _grouped(self, others: Sequence[Typed], found: Sequence[Sequence[tuple[int, int]]]) -> Iterator[Typed]:
        starts, before = self.blocks.starts, self._session.layout.header
        for other, rows in zip(others, found):
            for number, (first, kind) in enumerate(rows, 1):
                chunk = starts[first] - before
                end = starts[rows[number][0]] - before if number < len(rows) else other[0]
                yield chunk, end - chunk, "used", kind
            if other[1]:
                yield other


WEAK_EVIDENCE = ("size", "zeros", "pointers", "text")
"""Kinds of blocks that are known by little: what holds such a block may tell more of it."""


def is_weak(kind: Kind) -> bool:
    """Whether holders may tell more of such blocks."""
    return kind.kind in WEAK_EVIDENCE or (kind.kind == "node" and not kind.certain)


class IndexedBlock(NamedTuple):
    """A block, or what it is for."""

    kind: int
    usable: int


Known = tuple[int, int, int]
"""A block: where it is, what is usable of it, its kind's number."""


class Index:
    """The live blocks by their addresses, and what each is."""

    def __init__(
        self, session: Session, catalogue: Catalogue, blocks: LiveBlocks, kinds: array[int], names: list[Kind]
    ) -> None:
        """`kinds` has each block's, by its number among `names`."""
        self.front, self.fronts = catalogue.front, catalogue.front_sizes
        """How far into a block pointers may lead, past what the program has in front."""
        self._blocks, self.starts = blocks, blocks.starts
        self.kinds, self.names = kinds, names
        self.low, self.high = catalogue.low, catalogue.high
        self._word = session.layout.word
        self._weak = bytearray()
        """Of each kind, by its number: whether holders may tell more."""
        self.mapped = {block.chunk + session.layout.header for block in session.mmapped}
        self.words = session.memory.try_words

    def _number(self, user: int) -> int:
        number = bisect_left(self.starts, user)
        return number if number < len(self.starts) and self.starts[number] == user else NONE

    def _find(self, user: int) -> tuple[int, int]:
        """The block that begins there, or so far before it, in front of what it is for."""
        number = self._number(user)
        for front in self.fronts if number == NONE else ():
            fronted = self._number(user - front)
            if fronted != NONE and self.front(user - front) == front:
                return fronted, front
        return number, 0

    def _usable(self, number: int) -> int:
        return self._usable_between(self.starts[number], self._blocks.ends[number])

    def _usable_between(self, start: int, end: int) -> int:
        return end - start + 1 & -self._word

    def block(self, user: int) -> Optional[IndexedBlock]:
        """The block that begins there, or of which what it is for does, after its allocator's header."""
        number, front = self._find(user)
        return IndexedBlock(self.kinds[number], self._usable(number) - front) if number != NONE else None

    def put(self, user: int, kind: int) -> None:
        number, _ = self._find(user)
        if number != NONE:
            self.kinds[number] = kind

    def of_kinds(self, kinds: set[int]) -> Iterator[Known]:
        """The blocks that are of one of these, in address order, without those served by mmap."""
        for user, usable, kind in zip(*self.rows_of(kinds), filter(kinds.__contains__, self.kinds)):
            if user not in self.mapped:
                yield user, usable, kind

    def rows_of(self, kinds: set[int]) -> tuple[array[int], array[int]]:
        """Where all blocks of these kinds begin, in order, and what is usable of each."""
        chosen = bytearray(map(kinds.__contains__, self.kinds))
        starts, ends = (array("Q", compress(each, chosen)) for each in (self.starts, self._blocks.ends))
        return starts, array("Q", map(self._usable_between, starts, ends))

    def pointers(self, user: int, size: int) -> Iterator[tuple[int, int]]:
        """(offset, word) of the words there that may lead to blocks."""
        for at, word in enumerate(self.words(user, max(0, size) // self._word) or ()):
            if self.low <= word < self.high and not word % self._word:
                yield at * self._word, word

    def is_weak(self, kind: int) -> bool:
        if kind == NONE:
            return False
        while kind >= len(self._weak):
            self._weak.append(is_weak(self.names[len(self._weak)]))
        return bool(self._weak[kind])

    def usable(self, user: int) -> Optional[int]:
        number, front = self._find(user)
        return self._usable(number) - front if number != NONE and self.is_weak(self.kinds[number]) else None
