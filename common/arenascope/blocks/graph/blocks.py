"""The live blocks of an image in order of their addresses: all that a pointer may lead to.

Cached and free chunks are none, nor is what malloc keeps for itself: thread caches, arenas, headers of heaps.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from functools import cached_property
from itertools import islice
from typing import Container, Iterable, Iterator, NamedTuple, Optional, Sequence

from ...base.heap_model import ArenaHeader, Finding, Heap
from ...engine import TOO_LONG, WRONG_FLAGS, EngineImage, Stopped, Stretch, sum_at
from ...glibc.sweep import Sweep, first_chunk
from ...session.resident import parts_of
from ...session.session import Session
from ...sources.target import Span, joined
from .memory_windows import ImageBytes


class LiveBlocks:
    """All of them. An address from `starts[n]` to `ends[n]`, both included, is the nth's: one past the end still is, as
    another's size word lies there."""

    def __init__(
        self,
        engine: EngineImage,
        *,
        strangers: Sequence[Span] = (),
        damaged: bool = False,
        besides: Sequence[Span] = (),
    ) -> None:
        self.engine = engine
        """Has them in its table."""
        self.starts, self.ends, self.sizes = engine.blocks()
        self.strangers = strangers
        """Amid heaps, and not malloc's: somebody else's sbrk, and what could not be read as chunks."""
        self.damaged = damaged
        self.besides = besides
        """What else in heaps is not free: thread caches and what is in them, what is no chunk; without tops, and fast
        chunks."""

    @cached_property
    def bytes(self) -> int:
        return sum(self.sizes)

    def __len__(self) -> int:
        return len(self.starts)

    def find(self, address: int) -> int:
        """Which one an address belongs to; -1: none."""
        index = bisect_right(self.starts, address) - 1
        return index if index >= 0 and address <= self.ends[index] else -1

    def bytes_of(self, numbers: Sequence[int]) -> int:
        return sum_at(self.sizes, array("I", numbers))


def live_blocks(session: Session) -> LiveBlocks:
    """All of them, swept once for an image."""
    if session.block_results.blocks is None:
        session.block_results.blocks = _sweep(session)
    return session.block_results.blocks


def _sweep(session: Session) -> LiveBlocks:
    layout, target = session.layout, session.target
    engine = EngineImage(target.pointer_size, target.byte_order, target.stop_if_asked)
    if not session.started:
        return LiveBlocks(engine)
    image = ImageBytes(session, None)
    parts = [part for span in heap_spans(session) for part in image.present(*span)]
    engine.set_memory(image.all_pieces(parts))
    own = {each.tcache for each in session.thread_words if each.tcache}
    listed = {**session.listed, **dict.fromkeys((each - layout.header for each in own), OWN)}
    order = array("Q", sorted(listed))
    fast = bytearray(listed[each] == "fast" for each in order)
    found = _Found(session)
    heaps = [(header, heap) for header in session.headers for heap in session.heaps[header.index]]
    todo = [found.begin(header, heap) for header, heap in heaps]
    with session.meter("sweeping", sum(heap.bytes for _, heap in heaps)) as meter:
        while todo:
            stretches = [each.stretch for each in todo]
            besides, stopped = engine.sweep(stretches, layout.min_size, layout.header, order, fast, meter)
            found.besides += map(Span._make, besides)
            todo = [each for each, stop in zip(todo, stopped) if found.goes_on(each, stop)]
    mapped = [*_mmapped(session, listed)]
    twice = engine.make_blocks(mapped, layout.word - layout.header)
    strangers = list(_mapped(session, found.strangers))
    return LiveBlocks(engine, strangers=strangers, damaged=found.damaged or twice > 0, besides=sorted(found.besides))


OWN = "own"
"""In place of a list: the chunk is a thread cache itself."""
MOST = (1 << 64) - (1 << 12)


class _HeapSweep:
    """The sweep of one heap, and how far it has come."""

    def __init__(self, session: Session, header: ArenaHeader, heap: Heap) -> None:
        self.findings: list[Finding] = []
        memory, layout = session.memory, session.layout
        self.rules = Sweep(memory, layout, header, heap, self.findings, marked=array("Q"))
        self.position = min(first_chunk(layout, header, heap), self.rules.limit)

    @property
    def stretch(self) -> Stretch:
        rules = self.rules
        start, limit, end = (min(each, MOST) for each in (self.position, rules.limit, rules.heap.end))
        return Stretch(start, limit, end, rules.wrong, rules.header.main)


class _Found:
    """What sweeps find beside blocks."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.besides: list[Span] = []
        self.strangers: list[Span] = []
        self.damaged = False

    def begin(self, header: ArenaHeader, heap: Heap) -> _HeapSweep:
        sweep = _HeapSweep(self._session, header, heap)
        if sweep.position > heap.address:
            self.besides.append(Span(heap.address, sweep.position))
        return sweep

    def goes_on(self, sweep: _HeapSweep, stopped: Stopped) -> bool:
        """Takes in what stands where the sweep stopped; whether chunks may follow."""
        rules = sweep.rules
        if stopped.reason in (WRONG_FLAGS, TOO_LONG):
            rules.say_wrong(stopped.raw, stopped.position)
        sweep.position = stopped.position
        if stopped.position < rules.limit:
            gaps = rules.gaps(stopped.position)
            for piece in gaps:
                span = Span(piece.address, piece.address + piece.bytes)
                self.besides.append(span)
                if piece.kind in ("foreign", "damage"):
                    self.strangers.append(span)
                    self.damaged |= piece.kind == "damage"
                sweep.position = span.end
        if sweep.position < rules.limit:
            return True
        self._session.keep_findings(sweep.findings)
        return False


def _mmapped(session: Session, listed: Container[int]) -> Iterator[tuple[int, int, int]]:
    """(start, last address, size) of each block that malloc got by mmap: after it lies somebody else's mapping."""
    for block in session.mmapped:
        if block.chunk not in listed:
            yield block.chunk + session.layout.header, block.base + block.bytes - 1, block.bytes


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
EDGE_SHIFT = 3
"""An edge shifted right by so many bits, past those that say that, is the number of the block that it leads to."""
FRONT = 32
LOW = 1 << 32
ALIGNED = 8
BEFORE_TEXT = 17
"""The longest header in front of a text that pointers lead to: redis' sdshdr64."""


def is_low_number(value: int, past: int, word: int) -> bool:
    """Whether what leads so far into a block may be a number by chance: where a program's heap lies below 4 GiB, 32-bit
    hashes and counts of 64-bit programs do. Structs inside of blocks are aligned; a pointer to a letter amid a text
    has another one beside it, to the start."""
    return word == ALIGNED and value < LOW and past > BEFORE_TEXT and value % ALIGNED != 0


def edge_to(number: int, past: int) -> int:
    """`past`: so far from the block's start on."""
    return number << EDGE_SHIFT | (DEEP if past > FRONT else 0) | (INSIDE if past else 0)


NOBODY = -1


class OwnerPages(NamedTuple):
    """An owner's memory, in bytes."""

    resident: int
    """Resident bytes of its blocks."""
    returns: int
    """Pages that would leave memory with its blocks."""
