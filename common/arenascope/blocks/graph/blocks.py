"""The live blocks of an image in order of their addresses: all that a pointer may lead to.

Cached and free chunks are none, nor is what malloc keeps for itself: thread caches, arenas, headers of heaps.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from functools import cached_property
from itertools import accumulate, islice
from types import ModuleType
from typing import Callable, Iterable, Iterator, NamedTuple, Optional, Protocol, Sequence

from ...base.model import ChunkRun, Heap
from ...glibc.sweep import blocks, chunks
from ...session.resident import parts_of
from ...session.session import Session
from ...sources.target import Span, joined
from ..pointer_finder import library


class _HasBytes(Protocol):
    """Numbers as they lie in memory."""

    def tobytes(self) -> bytes: ...


class BlockStretch:
    """Some blocks, in order: what malloc returned, where each ends, and how much of the heap it takes."""

    def __init__(self) -> None:
        self.starts, self.ends, self.sizes = array("Q"), array("Q"), array("Q")

    def add(self, start: int, end: int, size: int) -> None:
        self.starts.append(start)
        self.ends.append(end)
        self.sizes.append(size)

    def extend(self, starts: _HasBytes, ends: _HasBytes, sizes: _HasBytes) -> None:
        """By arrays of numpy's, or what is laid out like them."""
        for mine, more in ((self.starts, starts), (self.ends, ends), (self.sizes, sizes)):
            mine.frombytes(more.tobytes())


class LiveBlocks:
    """All of them. An address from `starts[n]` to `ends[n]`, both included, is the nth's: one past the end still is, as
    another's size word lies there."""

    def __init__(
        self,
        starts: Sequence[int],
        ends: Sequence[int],
        sizes: Sequence[int],
        counts: Sequence[int],
        *,
        strangers: Sequence[Span] = (),
        damaged: bool = False,
        besides: Sequence[Span] = (),
    ) -> None:
        self.starts, self.ends, self.sizes = starts, ends, sizes
        self.counts = counts
        """How many in each of the extents."""
        self.strangers = strangers
        """Amid heaps, and not malloc's: somebody else's sbrk, and what could not be read as chunks."""
        self.damaged = damaged
        self.besides = besides
        """What else in heaps is not free: thread caches and what is in them, what is no chunk; without tops, and fast
        chunks."""

    @cached_property
    def extents(self) -> Sequence[Span]:
        """Where they lie, roughly."""
        firsts = accumulate(self.counts, initial=0)
        return [Span(self.starts[at], self.ends[at + count - 1]) for at, count in zip(firsts, self.counts)]

    @cached_property
    def bytes(self) -> int:
        return sum(self.sizes)

    def __len__(self) -> int:
        return len(self.starts)

    def find(self, address: int) -> int:
        """Which one an address belongs to; -1: none."""
        index = bisect_right(self.starts, address) - 1
        return index if index >= 0 and address <= self.ends[index] else -1

    def bytes_of(self, numbers: Iterable[int]) -> int:
        return sum(map(self.sizes.__getitem__, numbers))


def put_in_order(
    stretches: Iterable[BlockStretch],
    strangers: Sequence[Span] = (),
    damaged: bool = False,
    besides: Sequence[Span] = (),
) -> LiveBlocks:
    starts, ends, sizes, counts = array("Q"), array("Q"), array("Q"), []
    for each in sorted((each for each in stretches if each.starts), key=lambda each: each.starts[0]):
        starts.extend(each.starts)
        ends.extend(each.ends)
        sizes.extend(each.sizes)
        counts.append(len(each.starts))
    return LiveBlocks(starts, ends, sizes, counts, strangers=strangers, damaged=damaged, besides=besides)


def live_blocks(session: Session) -> LiveBlocks:
    """Sweeps every heap."""
    if not session.started:
        return put_in_order(())
    own = {each.tcache for each in session.thread_words if each.tcache}
    stretches: list[BlockStretch] = []
    strangers: list[Span] = []
    besides: list[Span] = []
    damaged = False
    heaps = [(header, heap) for header in session.headers for heap in session.heaps[header.index]]
    size = sum(heap.bytes for _, heap in heaps)
    add = _adder(session, own, library(size))
    with session.meter("sweeping", size) as meter:
        for header, heap in heaps:
            stretch = BlockStretch()
            for piece in session.sweep(header, heap):
                meter.advance(piece.bytes)
                if isinstance(piece, ChunkRun):
                    add(piece, stretch, besides)
                    continue
                span = Span(piece.address, piece.address + piece.bytes)
                if piece.kind != "top":
                    besides.append(span)
                if piece.kind in ("foreign", "damage"):
                    strangers.append(span)
                    damaged |= piece.kind == "damage"
            stretches.append(stretch)
    stretches += _mmapped(session, own)
    return put_in_order(stretches, list(_mapped(session, strangers)), damaged, sorted(besides))


def _adder(
    session: Session, own: set[int], numpy: Optional[ModuleType]
) -> Callable[[ChunkRun, BlockStretch, list[Span]], None]:
    """Puts the live blocks of a run into a stretch, and beside them what else is not free; `own` are malloc's."""
    header, word = session.layout.header, session.layout.word

    def one_by_one(run: ChunkRun, to: BlockStretch, besides: list[Span]) -> None:
        starts, ends, sizes = to.starts.append, to.ends.append, to.sizes.append
        for chunk, size, state in blocks(run, session.listed):
            if state == "used" and chunk + header not in own:
                starts(chunk + header)
                # the word after the chunk's own is the next one's, and this one's as long as it is in use
                ends(chunk + size + word)
                sizes(size)
            elif state not in ("free", "fast"):
                besides.append(Span(chunk, chunk + size))

    if numpy is None:
        return one_by_one
    not_live = numpy.array(sorted(own), dtype=numpy.uint64)

    def at_once(run: ChunkRun, to: BlockStretch, besides: list[Span]) -> None:
        addresses, sizes, taken, live = chunks(numpy, run)
        starts = addresses + numpy.uint64(header)
        place = numpy.minimum(numpy.searchsorted(starts, not_live), len(starts) - 1)
        live[place[starts[place] == not_live]] = False
        taken[[index for index, chunk in run.marks if session.listed[chunk] == "fast"]] = False
        others = numpy.flatnonzero(taken & ~live)
        ends = addresses[others] + sizes[others]
        besides += map(Span, addresses[others].tolist(), ends.tolist())
        starts, sizes = starts[live], sizes[live]
        to.extend(starts, starts + sizes - numpy.uint64(header - word), sizes)

    return at_once


def _mmapped(session: Session, own: set[int]) -> Iterator[BlockStretch]:
    for block in session.mmapped:
        user = block.chunk + session.layout.header
        if block.chunk not in session.listed and user not in own:
            # after it lies somebody else's mapping
            stretch = BlockStretch()
            stretch.add(user, block.base + block.bytes - 1, block.bytes)
            yield stretch


def heap_spans(session: Session) -> list[Span]:
    """Where malloc's own memory lies, in order: heaps with what they have given up and can still be read, and blocks of
    mappings of their own."""
    if not session.started:
        return []
    spans = list(_mapped(session, (_whole_heap(heap) for heaps in session.heaps.values() for heap in heaps)))
    for parts in parts_of(session.mmapped, session.regions):
        spans += joined(parts)
    return sorted(spans)


def _mapped(session: Session, spans: Iterable[Span]) -> Iterator[Span]:
    """What of them is mapped at all, as a damaged arena may claim any size; all, where nothing tells of mappings."""
    ground = joined((each.start, each.end) for each in session.regions)
    if not ground:
        yield from spans
        return
    starts = [each.start for each in ground]
    for span in spans:
        at = max(bisect_right(starts, span.start) - 1, 0)
        for each in islice(ground, at, None):
            if each.start >= span.end:
                break
            if each.end > span.start:
                yield Span(max(each.start, span.start), min(each.end, span.end))


def _whole_heap(heap: Heap) -> Span:
    """With what it has given up."""
    return Span(heap.address, max(heap.end, heap.address + (heap.mprotect_bytes or 0)))


class SpanMark(NamedTuple):
    """What part of a mapping is; None: nothing that counts."""

    start: int
    end: int
    kind: Optional[str]
    tid: Optional[int] = None


class Marks:
    """Ranges that are something, in order. Where two lie over each other, the one that was named first counts."""

    def __init__(self, marks: Iterable[SpanMark]) -> None:
        self._marks: list[SpanMark] = []
        self._starts: list[int] = []
        for each in marks:
            for part, before in list(self.over(each.start, each.end)):
                if before is None:
                    at = bisect_right(self._starts, part.start)
                    self._starts.insert(at, part.start)
                    self._marks.insert(at, each._replace(start=part.start, end=part.end))

    def over(self, start: int, end: int) -> Iterator[tuple[Span, Optional[SpanMark]]]:
        """The parts of a range, each with the mark that it bears."""
        at = start
        index = max(0, bisect_right(self._starts, start) - 1)
        while index < len(self._marks) and self._marks[index].start < end:
            mark = self._marks[index]
            low, high = max(mark.start, at), min(mark.end, end)
            if low < high:
                if at < low:
                    yield Span(at, low), None
                yield Span(low, high), mark
                at = high
            index += 1
        if at < end:
            yield Span(at, end), None


INSIDE, DEEP, STALE = 1, 2, 4
"""Of an edge: it leads to the block's inside; and that to past FRONT, in which a program's own headers may stand; it
comes from a word that stale_words.py excludes."""
FLAGS = 3
"""So many bits of an edge say that. Above them is the block's number."""
FRONT = 32
LOW = 1 << 32
ALIGNED = 8


def is_low_number(value: int, past: int, word: int) -> bool:
    """Whether what leads so far into a block may be a number by chance: where a program's heap lies below 4 GiB, 32-bit
    hashes and counts of 64-bit programs do. Structs inside of blocks are aligned; a pointer to a letter amid a text
    has another one beside it, to the start."""
    return word == ALIGNED and value < LOW and past > FRONT and value % ALIGNED != 0


def edge_to(number: int, past: int) -> int:
    """`past`: so far from the block's start on."""
    return number << FLAGS | (DEEP if past > FRONT else 0) | (INSIDE if past else 0)


NOBODY = -1


class OwnerPages(NamedTuple):
    """An owner's memory, in bytes."""

    resident: int
    """Resident bytes of its blocks."""
    returns: int
    """Pages that would leave memory with its blocks."""


Join = Callable[[int, int], int]
"""Returns the owner of a page from the owners of two blocks on it."""


def nobodys(one: int, other: int) -> int:
    return one if one == other else NOBODY
