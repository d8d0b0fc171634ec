"""The live blocks of a whole image by type: how many, how large, what is in memory, what they keep from going back."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from typing import Callable, Iterable, Mapping, NamedTuple, Optional, Sequence

from ..analysis.chunk_sums import STATES, SweepSums
from ..analysis.pinning_blocks import (
    SAMPLES,
    HeldBack,
    Holdings,
    HoldSearch,
    LiveBlockKinds,
    Totals,
    Typed,
    TypeRow,
    seen,
)
from ..base.heap_model import BY_SIZE, ArenaHeader, Heap
from ..base.progress_bar import metered
from ..session.resident import pages_of, resident_spans
from ..session.session import Session
from ..session.trims import thresholds_of, trim_rules
from ..sources.target import Runs
from .block_index import NamedLiveBlocks
from .declared.fitting_structs import fitting_structs
from .name_all_blocks import THREAD_CACHE, live_kinds
from .recognise.all_recognisers import NONE


class _Sum:
    """Of one kind."""

    def __init__(self) -> None:
        self.blocks = self.bytes = self.resident = 0
        self.samples: list[int] = []


class _Sums:
    def __init__(self, session: Session, live: NamedLiveBlocks) -> None:
        self._session, self._live = session, live
        self._residency, self._header = session.residency, session.layout.header
        self._all = [_Sum() for _ in live.kinds]

    def add_heap(self, heap: Heap) -> None:
        live, span = self._live, self._live.span(heap)
        numbers, sizes = (each[span.start : span.stop] for each in (live.numbers, live.blocks.sizes))
        missing: set[int] = set()
        for (kind, size), times in Counter(zip(numbers, sizes)).items():
            if kind != NONE:
                row = self._all[kind]
                row.blocks += times
                row.bytes += times * size
                row.resident += times * size
                if len(row.samples) < SAMPLES:
                    missing.add(kind)
        self._take_samples(span, missing)
        caches = [(user, kind) for user, kind in live.caches.items() if heap.address <= user < heap.end]
        for user, kind in caches:
            self._add(kind, user, self._session.chunk_size(user))
        if self._residency is not None:
            resident = self._residency.resident_ranges(heap.address, heap.end) or ()
            present = Runs(resident).spans_in(heap.address, heap.end)
            before = [heap.address, *(each.end for each in present)]
            after = [*(each.start for each in present), heap.end]
            for low, high in zip(before, after):
                self._take_off(span, low, high)
                for user, kind in caches:
                    start = user - self._header
                    absent = min(high, start + self._session.chunk_size(user)) - max(low, start)
                    self._all[kind].resident -= max(0, absent)

    def _add(self, kind: int, user: int, size: int, resident: Optional[int] = None) -> None:
        row = self._all[kind]
        row.blocks += 1
        row.bytes += size
        row.resident += size if resident is None else resident
        if len(row.samples) < SAMPLES:
            row.samples.append(user)

    def _take_samples(self, span: range, missing: set[int]) -> None:
        for number in span if missing else ():
            kind = self._live.numbers[number]
            if kind in missing:
                row = self._all[kind]
                row.samples.append(self._live.blocks.starts[number])
                if len(row.samples) == SAMPLES:
                    missing.remove(kind)
                    if not missing:
                        break

    def _take_off(self, span: range, low: int, high: int) -> None:
        """What is not in memory, which lies in free chunks mostly."""
        starts, sizes, numbers = self._live.blocks.starts, self._live.blocks.sizes, self._live.numbers
        number = max(span.start, bisect_right(starts, low + self._header, span.start, span.stop) - 1)
        while number < span.stop and starts[number] - self._header < high:
            start = starts[number] - self._header
            absent = min(high, start + sizes[number]) - max(low, start)
            if absent > 0 and numbers[number] != NONE:
                self._all[numbers[number]].resident -= absent
            number += 1

    def add_mmapped(self) -> None:
        for block, kind in self._live.mmapped():
            if kind != NONE:
                pages = self._residency.count(block.base, block.base + block.bytes) if self._residency else None
                self._add(kind, block.chunk + self._header, block.bytes, pages.resident if pages else 0)

    def rows(self) -> list[TypeRow]:
        known = self._residency is not None
        return [
            TypeRow(
                kind,
                index,
                blocks=each.blocks,
                bytes=each.bytes,
                resident=each.resident if known else None,
                holds_back=None,
                samples=each.samples,
            )
            for index, (kind, each) in enumerate(zip(self._live.kinds, self._all))
            if each.blocks
        ]


def summed(session: Session, live: NamedLiveBlocks) -> tuple[list[TypeRow], Totals]:
    """The kinds of which there are any, and all of it. After Ctrl-C only the heaps that were swept count."""
    sums, chunks = _Sums(session, live), SweepSums(session.listed)
    taken = 0
    try:
        with session.meter("sweeping", sum(heap.bytes for _, heap in live.heaps)) as meter:
            for header, heap in live.heaps:
                for piece in metered(session.sweep(header, heap), meter):
                    chunks.add(piece)
                chunks.keep()
                taken += heap.bytes
                sums.add_heap(heap)
    except KeyboardInterrupt:
        session.stopped = True
    sums.add_mmapped()
    rows, all_chunks = sums.rows(), chunks.sums()
    free = sum(all_chunks.tally(state).bytes for state in STATES if state != "used")
    return rows, Totals(
        blocks=sum(row.blocks for row in rows),
        bytes=sum(row.bytes for row in rows),
        used=taken - free - all_chunks.gaps["top"],
        mmapped=sum(block.bytes for block, _ in live.mmapped()),
        bookkeeping=all_chunks.bookkeeping,
        foreign=all_chunks.gaps["foreign"],
        damaged=all_chunks.gaps["damage"],
        caches=sum(row.blocks for row in rows if row.kind == THREAD_CACHE),
    )


Stream = Callable[[ArenaHeader, Heap], Iterable[Typed]]
"""A heap's blocks in address order, each with the number of its kind, and what is no block, as a sweep tells it."""
InMemory = Mapping[Heap, Optional[Runs]]


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
    is_kept = only is None and holders
    known = session.block_results.types if is_kept else None
    if known is None:
        present = in_memory(session, only) if present is None else present
        known = _figures(session, live_kinds(session, only, holders), present)
        if is_kept:
            session.block_results.types = known
    return known


def types_of_matching(session: Session, only: Optional[int], blocks: bytes) -> TypeFigures:
    """The same with rows of those blocks alone that have 1 there; the totals are those of all."""
    present = in_memory(session, only)
    live = live_kinds(session, only)
    first = live.mark(blocks)
    found = _figures(session, live, present)
    return found._replace(rows=[row for row in found.rows if row.index >= first])


def _figures(session: Session, live: NamedLiveBlocks, present: InMemory) -> TypeFigures:
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
    with session.meter("judging types", sum(heap.bytes for _, heap in live.heaps)) as meter:
        holdings = held_back(session, present, lambda header, heap: live.stretches(header, heap, meter))
    mmapped = [(block, kind) for block, kind in live.mmapped() if kind != NONE]
    in_memory = pages_of(session, [block for block, _ in mmapped])
    for (block, kind), pages in zip(mmapped, in_memory):
        # munmap: it takes the header's page with it, and what is locked
        holdings.add(kind, block.bytes, pages.resident if pages else None)
    return holdings


def in_memory(session: Session, only: Optional[int] = None) -> InMemory:
    """What all heaps, or those of arena `only`, have in memory: to be read before any of them is."""
    present: dict[Heap, Optional[Runs]] = {}
    for header in session.headers:
        if only in (None, header.index):
            for heap in session.heaps[header.index]:
                spans = resident_spans(session, heap)
                present[heap] = None if spans is None else Runs(spans)
    return present


def held_back(session: Session, present: InMemory, stream: Stream) -> Holdings:
    """Of the arenas of which it is known what is in memory."""
    rules, holdings = trim_rules(session), Holdings()
    for header in session.headers:
        heaps = [heap for heap in session.heaps[header.index] if heap in present]
        if not heaps:
            continue
        search = HoldSearch(header, rules, thresholds_of(session, header, rules), holdings)
        search.locked = session.locked
        for heap in heaps:
            search.walk(heap, stream(header, heap), present[heap])
        search.finish()
    return holdings
