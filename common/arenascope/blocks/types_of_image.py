"""What each kind of live block keeps from going back, of a whole image."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from typing import Callable, Iterable, Iterator, Mapping, NamedTuple, Optional, Sequence

from ..analysis.chunk_sums import STATES, SweepSums
from ..analysis.heap_map import LAYERS, SPLITS, Strip, cell_bytes
from ..analysis.pinning_blocks import (
    SAMPLES,
    HeldBack,
    Holdings,
    HoldSearch,
    LiveBlockKinds,
    Totals,
    Typed,
    TypeRow,
    in_order,
    seen,
)
from ..analysis.trim_prediction import plan_trim, until_locked
from ..base.heap_model import BY_SIZE, ArenaHeader, Heap, Range, Statement
from ..base.progress_meter import Unseen, metered
from ..session.problems import listed_not_met, parts_differ, top_differs
from ..session.resident import pages_of, resident_spans
from ..session.session import Session
from ..session.trims import thresholds_of, trim_rules
from ..sources.target import Runs, Span
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
        top_end = header.top + (header.top_bytes or 0)
        search = HoldSearch(header.main, top_end, rules, thresholds_of(session, header, rules), holdings=holdings)
        search.locked = session.locked
        for heap in heaps:
            search.walk(heap, stream(header, heap), present[heap])
        search.finish()
    return holdings


class HeapStrips:
    """The outcome of sweeping the heaps."""

    def __init__(self) -> None:
        self.strips: list[Strip] = []
        self.problems: list[Statement] = []


PAGE_CELLS, MAIN_PAGE_CELLS, LEAST_PAGE_CELLS, ALL_PAGE_CELLS = 4096, 16384, 64, 1 << 19
"""The resolution of a page: for a heap, for one of the main arena's, for one among very many, and in total."""
TYPES = 8
"""So many types get a layer of their own."""


def type_layer(number: int) -> str:
    return f"type{number}"


def lay_types(types: TypeFigures, picture: HeapStrips) -> Sequence[TypeRow]:
    """Those that hold back the most; each strip gets a layer for each."""
    rows = in_order(types.rows, "holds-back")[:TYPES]
    layers = {row.index: type_layer(number) for number, row in enumerate(rows)}
    headers = {heap: header for header, heap in types.live.heaps}
    for strip in picture.strips:
        for chunk, size, _, kind in types.live.sweep(headers[strip.heap], strip.heap, Unseen()):
            if kind in layers:
                strip.add(layers[kind], chunk, size)
    return rows


class GoesBack(NamedTuple):
    """Of one arena, in address order; None where that is not known."""

    releasable: Optional[Runs]
    really: Runs
    """Without what is locked."""
    tops: Optional[Runs]


def draw(session: Session, only: Optional[int], fine: Mapping[Heap, int], picture: HeapStrips) -> None:
    """All heaps, or those of arena `only`; `fine` says into how many cells each is cut at most."""
    headers = [header for header in session.headers if only in (None, header.index)]
    try:
        # reading a heap maps zero pages: residency is read before anything is walked
        resident = {heap: resident_spans(session, heap) for heap in fine}
        goes_back = _goes_back(session, only, picture.problems)
        session.heed_ctrl_c()
        # a chunk that looks used may be in a list that was not read to its end
        unknown, order = () if session.caches_known and session.fast_known else ("used", "cached"), session.listed_order
        size = sum(heap.bytes for heap in fine)

        with session.meter("sweeping", size) as meter:
            for header in headers:
                strips = []
                for heap in session.heaps[header.index]:
                    strip = Strip(heap, cell_bytes(heap.bytes, session.target.page_size, fine[heap]), unknown)
                    _lay_over(strip, resident.pop(heap, None), goes_back[header.index])
                    for piece in metered(session.sweep(header, heap), meter):
                        strip.add_piece(piece)
                    strips.append(strip)
                picture.strips += strips
                picture.problems += _differences(header, strips, order)
    except KeyboardInterrupt:
        session.stopped = True
        picture.problems.append(Statement("stopped", {"heaps": len(picture.strips)}))
    if session.residency is None:
        for strip in picture.strips:
            strip.unknown |= {"resident", "releasable_resident"}


def _goes_back(session: Session, only: Optional[int], problems: list[Statement]) -> Mapping[int, GoesBack]:
    rules, by_arena = trim_rules(session), {}
    for arena in session.arenas:
        if only not in (None, arena.header.index):
            continue
        plan = plan_trim(arena, None, rules)
        known = plan.madvise is not None and plan.brk_bytes is not None
        if plan.brk_bytes is None and plan.top is not None:
            problems.append(Statement("brk-not-found"))
        # the break moves back over locked pages; madvise ends at them
        really = [*until_locked(plan.madvise or (), session.locked), *([plan.brk_range] if plan.brk_range else [])]
        by_arena[plan.arena] = GoesBack(
            releasable=_runs(plan.ranges) if known else None,
            really=_runs(sorted(really)),
            tops=None if plan.tops_bytes is None else _runs([plan.tops] if plan.tops else []),
        )
    return by_arena


def _runs(ranges: Iterable[Range]) -> Runs:
    return Runs((each.address, each.end) for each in ranges)


def _lay_over(strip: Strip, resident: Optional[Sequence[Span]], goes_back: GoesBack) -> None:
    heap = strip.heap.address, strip.heap.end
    here = None if resident is None else Runs(resident)
    for layer, runs in (("resident", here), ("releasable", goes_back.releasable), ("tops", goes_back.tops)):
        if runs is None:
            strip.unknown.add(layer)
        else:
            strip.add_spans(layer, runs.parts_in(*heap))
    if here is None or "releasable" in strip.unknown:
        strip.unknown.add("releasable_resident")
        return
    for part in goes_back.really.parts_in(*heap):
        strip.add_spans("releasable_resident", here.parts_in(*part))


def _differences(header: ArenaHeader, strips: Sequence[Strip], order: Sequence[int]) -> Iterator[Statement]:
    """Checks an arena's parts against its own figures."""
    bytes_in_all, top = sum(strip.bytes for strip in strips), sum(strip.total("top") or 0 for strip in strips)
    if bytes_in_all != header.system_mem:
        yield parts_differ(header, bytes_in_all)
    if header.top_bytes is not None and top != header.top_bytes:
        yield top_differs(header, top)
    listed = sum(bisect_left(order, strip.heap.end) - bisect_left(order, strip.heap.address) for strip in strips)
    missed = listed - sum(strip.met for strip in strips)
    if missed:
        yield listed_not_met(header, missed)


def page_cells(heaps: Sequence[Heap]) -> Mapping[Heap, int]:
    """Into how many cells each is cut for a page."""
    share = max(LEAST_PAGE_CELLS, ALL_PAGE_CELLS // max(len(heaps), 1))
    return {heap: min(share, PAGE_CELLS if heap.arena else MAIN_PAGE_CELLS) for heap in heaps}


def page_rows(session: Session, picture: HeapStrips, types: int) -> list[dict[str, object]]:
    """The heaps as a page has them; so many types have layers of their own."""
    layers = (*LAYERS, SPLITS, *map(type_layer, range(types)))
    return [
        {
            "arena": strip.heap.arena,
            "threads": [each.name or str(each.tid) for each in session.thread_owners if each.arena == strip.heap.arena],
            "address": f"{strip.heap.address:#x}",
            "bytes": strip.heap.bytes,
            "cell": strip.cell,
            "layers": {layer: strip.cells(layer) for layer in layers},
        }
        for strip in picture.strips
    ]
