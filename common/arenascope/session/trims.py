"""Plans malloc_trim(0) for all arenas of a session, and counts how much of it is resident."""

from __future__ import annotations

from bisect import bisect_left
from typing import Iterable, Optional, Sequence

from ..analysis.pinning_blocks import Thresholds
from ..analysis.trim_prediction import ArenaTrim, Residents, Trim, TrimRules, plan_trim, until_locked
from ..base.heap_model import (
    ArenaHeader,
    Range,
)
from ..glibc.find.libc_file import current_brk
from ..sources.target import Residency, Span, covered
from .problems import depends_on_mp
from .session import Session

MANY = 256
"""At least so many ranges are intersected with resident pages, rather than looked up one by one."""


def trims(session: Session, bounds: bool = False) -> list[Trim]:
    """Plans malloc_trim(0), arena by arena; with `bounds`, lower bounds count if nothing exact can be known."""
    if not session.started:
        return []
    usages = session.usages
    rules = trim_rules(session)
    planned = []
    for arena, usage in zip(session.arenas, usages):
        plan = plan_trim(arena, usage.tcache.bytes if usage.tcache else None, rules)
        if session.residency is not None:
            planned.append(Trim(plan, _residents(session, plan)))
        else:
            # counting the pages of a dense core that are not all zero reads all of them
            unknown = Residents(None, None, None)
            planned.append(Trim(plan, unknown, _residents(session, plan) if bounds else unknown))
    return planned


def trim_rules(session: Session) -> TrimRules:
    located, params = session.located, session.params
    brk = current_brk(session.target, session.memory, located.libc, session.regions, main=session.headers[0])
    depends_on_mp(session, "thp_pagesize")
    thp = params.get("thp_pagesize") if params else None
    return TrimRules(session.layout, session.target.page_size, brk, thp or 0)


def thresholds_of(session: Session, header: ArenaHeader, rules: TrimRules) -> Optional[Thresholds]:
    """Returns the thresholds that free() compares at an arena's end; None if mp_ or top is not known."""
    params = session.params
    depends_on_mp(session, "trim_threshold", "top_pad")
    if params is None or header.top_bytes is None or not {"trim_threshold", "top_pad"} <= params.values.keys():
        return None
    page = None
    heaps = session.heaps[header.index]
    if not header.main and heaps and "pagesize" in session.layout.heap:
        page = session.memory.try_word(heaps[-1].address + session.layout.heap["pagesize"])
    return Thresholds(params.values["trim_threshold"], params.values["top_pad"], page or rules.page)


def _residents(session: Session, plan: ArenaTrim) -> Residents:
    """Counts what the plan would free in memory. The break moves back over locked pages; madvise does not free them."""
    going = tops = None
    if plan.madvise is not None and plan.brk_bytes is not None:
        going = [*until_locked(plan.madvise, session.locked), *([plan.brk_range] if plan.brk_range else [])]
    if plan.tops_bytes is not None:
        tops = [*until_locked([plan.tops] if plan.tops else [], session.locked)]
    return Residents(
        resident_bytes(session, going), _within(session, plan.top) if plan.top else None, resident_bytes(session, tops)
    )


def _within(session: Session, top: Range) -> Optional[int]:
    """Returns the resident bytes of this top, without what shares its first page."""
    first, page = Range(top.address, min(top.bytes, 1)), session.target.page_size
    pages, shared = (resident_bytes(session, [each] if each.bytes else []) for each in (top, first))
    return None if pages is None else max(pages - (top.address % page if shared else 0), 0)


def resident_bytes(session: Session, ranges: Optional[Iterable[Range]]) -> Optional[int]:
    """Returns how much of these ranges is in memory; None if that, or the ranges, are not known."""
    residency = session.any_residency
    if residency is None or ranges is None:
        return None
    resident = 0
    ranges = sorted(ranges)
    if len(ranges) >= MANY and residency.exact:
        resident, ranges = _in_heaps(session, residency, ranges)
    for each in ranges:
        pages = residency.count(each.address, each.end)
        if pages is None:
            return None
        resident += pages.resident
    return resident


def _in_heaps(session: Session, residency: Residency, ranges: Sequence[Range]) -> tuple[int, Sequence[Range]]:
    """Counts the resident bytes of ranges within heaps with one query for each heap; also returns the remaining
    ranges."""
    page, in_memory, at = session.target.page_size, 0, 0
    left: list[Range] = []
    for start, end in session.heap_ranges:
        first = bisect_left(ranges, (start, 0), at)
        last = bisect_left(ranges, (end, 0), first)
        left += ranges[at:first]
        at = last
        inside = ranges[first:last]
        resident = residency.resident_ranges(start, end) if inside and inside[-1].end <= end else None
        if resident is None:
            left += inside
        else:
            # partial pages count in full, as when each is asked for
            whole = (Span(each.address // page * page, -(-each.end // page) * page) for each in inside)
            in_memory += covered(((each.start, each.bytes) for each in whole), resident)
    return in_memory, [*left, *ranges[at:]]
