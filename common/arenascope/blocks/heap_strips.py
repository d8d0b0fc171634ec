"""Every heap from end to end, for the map: what lies where, which types, what would go back, what is in memory."""

from __future__ import annotations

from bisect import bisect_left
from typing import Iterable, Iterator, Mapping, NamedTuple, Optional, Sequence

from ..analysis.heap_map import LAYERS, SPLITS, Strip, cell_bytes
from ..analysis.pinning_blocks import TypeRow, in_order
from ..analysis.trim_prediction import plan_trim, until_locked
from ..base.heap_model import ArenaHeader, Heap, Range, Statement
from ..base.progress_bar import Unseen, metered
from ..session.problems import listed_not_met, parts_differ, top_differs
from ..session.resident import resident_spans
from ..session.session import Session
from ..session.trims import trim_rules
from ..sources.target import Runs, Span
from .type_figures import TypeFigures


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
