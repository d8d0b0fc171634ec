"""What each kind of live block keeps from going back, of a whole image."""

from __future__ import annotations

from itertools import chain
from types import ModuleType
from typing import Callable, Iterable, Iterator, Mapping, NamedTuple, Optional, Sequence

from ..analysis.held_back import HeldBack, Holdings, HoldSearch, LiveBlockKinds, Totals, Typed, TypeRow, seen
from ..analysis.resident import Present
from ..base.model import BY_SIZE, ArenaHeader, Gap, Heap
from ..glibc.chunk import PREV_INUSE, SIZE_BITS
from ..session.resident import pages_of, resident_spans
from ..session.session import Session
from ..session.trims import thresholds_of, trim_rules
from .declared.fitting_structs import fitting_structs
from .live_blocks import Block, HeapBlocks, NamedLiveBlocks, NamedRun
from .name_all_blocks import live_kinds
from .recognise.all_recognisers import NONE
from .type_sums import summed

SHORT_RUNS, SHORT = "short runs", NONE - 1
"""In place of a state, and of a kind's number."""


def long_runs(numpy: ModuleType, session: Session, heap: HeapBlocks) -> Iterator[Block]:
    """As Live.blocks."""
    for piece in heap.pieces:
        if isinstance(piece, Gap):
            yield piece.address, piece.bytes, piece.kind, NONE
        else:
            yield from _of_piece(numpy, session, piece)


def _of_piece(numpy: ModuleType, session: Session, piece: NamedRun) -> Iterator[Block]:
    kinds = numpy.array(piece.kinds)
    raws = numpy.append(numpy.asarray(piece.raws, dtype=numpy.uint64), numpy.uint64(piece.follow))
    is_free = raws[1:] & numpy.uint64(PREV_INUSE) == 0
    places = numpy.append(0, numpy.cumsum((raws[:-1] & ~numpy.uint64(SIZE_BITS)).astype(numpy.int64)))
    used = numpy.flatnonzero(kinds != NONE)
    changes = numpy.flatnonzero(numpy.diff(kinds[used]))
    # of all runs but the last, and of all but the first: where they end, and begin
    lasts, firsts = used[changes], used[changes + 1]
    # of those in between: they reach from the run before to the next one at most
    is_short = places[firsts[1:]] - places[lasts[:-1] + 1] < session.target.page_size
    edges = numpy.flatnonzero(numpy.diff(is_short, prepend=False, append=False))
    # of several short runs the first block stands for all
    begins, ends = firsts[edges[::2]], lasts[edges[1::2]]
    kinds[begins] = SHORT
    steps = numpy.zeros(len(kinds) + 1, dtype=numpy.int64)
    steps[begins + 1] -= 1
    steps[ends + 1] += 1
    kept = numpy.flatnonzero(numpy.cumsum(steps)[:-1] == 0)
    starts = places[kept]
    sizes = numpy.diff(starts, append=places[-1])
    columns = (starts, sizes, kinds[kept], is_free[kept])
    for start, size, kind, free in zip(*(each.tolist() for each in columns)):
        chunk = piece.address + start
        if kind == SHORT:
            yield chunk, size, SHORT_RUNS, NONE
        elif kind == NONE:
            yield chunk, size, "free" if free else session.listed.get(chunk, "used"), NONE
        else:
            yield chunk, size, "used", kind


Stream = Callable[[ArenaHeader, Heap], Iterable[Typed]]
"""A heap's blocks in address order, each with the number of its kind, and what is no block, as a sweep tells it."""
InMemory = Mapping[Heap, Optional[Present]]


class TypeFigures(NamedTuple):
    """The live blocks by what they are, and what each keeps from going back."""

    live: NamedLiveBlocks
    rows: Sequence[TypeRow]
    totals: Totals
    holdings: Holdings

    @property
    def seen(self) -> LiveBlockKinds:
        return seen(self.rows, self.holdings)


def types_of(
    session: Session, only: Optional[int] = None, present: Optional[InMemory] = None, holders: bool = True
) -> TypeFigures:
    """Of all arenas and the blocks served by mmap, or of one arena. After Ctrl-C, of what was met until then:
    what its kinds hold back is not known. `present`: read before the heaps were read for something else. Of all arenas
    it is found once for all commands beside each other."""
    known = session.block_results.types if only is None and holders else None
    if known is None:
        known = _types_of(session, only, present, holders)
        if only is None and holders:
            session.block_results.types = known
    return known


def _types_of(session: Session, only: Optional[int], present: Optional[InMemory], holders: bool) -> TypeFigures:
    present = in_memory(session, only) if present is None else present
    live = live_kinds(session, only, holders)
    rows, totals = summed(session, live)
    if session.stopped:
        return TypeFigures(live, rows, totals, Holdings())
    try:
        holdings = holdings_of(session, live, present)
    except KeyboardInterrupt:
        session.stopped = True
        return TypeFigures(live, rows, totals, Holdings())
    return TypeFigures(live, [_with_held(row, holdings.of(row.index)) for row in rows], totals, holdings)


def _with_held(row: TypeRow, held: Optional[HeldBack]) -> TypeRow:
    """In bytes that leave memory, where that is known, and else of address space."""
    if held is None:
        return row
    return row._replace(holds_back=held.releases if held.resident is None else held.resident)


def with_guesses(session: Session, rows: Sequence[TypeRow]) -> list[TypeRow]:
    """Where blocks are known by their size alone, what they may be; after Ctrl-C nothing more is known of any."""
    if session.stopped:
        return [*rows]
    try:
        found = fitting_structs(session, (each for each in rows if each.kind.how == BY_SIZE))
    except KeyboardInterrupt:
        session.stopped = True
        return [*rows]
    return [each._replace(may_be=found.get(each.samples[0], ())) for each in rows]


def holdings_of(session: Session, live: NamedLiveBlocks, present: InMemory) -> Holdings:
    by_heap = {each.heap: each for each in live.heaps}
    with session.meter("judging types", sum(heap.bytes for heap in by_heap)) as meter:

        def judged(heap: Heap) -> Iterator[Typed]:
            meter.advance(heap.bytes)
            yield from ()

        def stream(_: ArenaHeader, heap: Heap) -> Iterable[Typed]:
            ours = by_heap[heap]
            blocks = live.blocks(ours) if live.numpy is None else long_runs(live.numpy, session, ours)
            return chain(blocks, judged(heap))

        holdings = held_back(session, present, stream)
    in_memory = pages_of(session, [block for block, _ in live.mmapped])
    for (block, kind), pages in zip(live.mmapped, in_memory):
        # munmap: it takes the header's page with it, and what is locked
        holdings.add(kind, block.bytes, pages.resident if pages else None)
    return holdings


def in_memory(session: Session, only: Optional[int] = None) -> InMemory:
    """What all heaps, or those of arena `only`, have in memory: to be read before any of them is."""
    present: dict[Heap, Optional[Present]] = {}
    for header in session.headers:
        if only in (None, header.index):
            for heap in session.heaps[header.index]:
                spans = resident_spans(session, heap)
                present[heap] = None if spans is None else Present(spans)
    return present


def held_back(session: Session, present: InMemory, stream: Stream) -> Holdings:
    """Of the arenas of which it is known what is in memory."""
    rules, holdings = trim_rules(session), Holdings()
    for header in session.headers:
        heaps = [heap for heap in session.heaps[header.index] if heap in present]
        if not heaps:
            continue
        top_end = header.top + (header.top_bytes or 0)
        search = HoldSearch(header.main, top_end, rules, thresholds_of(session, header, rules), holdings=holdings)
        search.locked = session.locked
        for heap in heaps:
            search.walk(heap, stream(header, heap), present[heap])
        search.finish()
    return holdings
