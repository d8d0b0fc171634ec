"""The text of `heap trim`."""

from __future__ import annotations

from typing import Iterator, Mapping, Optional, Sequence

from ...analysis.causes import WORTH, trim_seconds
from ...analysis.trim import Trim, total
from ...base.model import Applied, Statement
from ...base.printable import one_line
from ..shared_text.text import AT_LEAST, Style, count, duration, number, table

RESIDENT = "resident_bytes"
HEADERS = (
    "arena",
    "addresses",
    "calls",
    "RSS falls",
    "top stays",
    "resident top",
    "stranded",
    "tcache",
    "--tops",
)
EXPENDABLE = ("calls", "tcache", "resident top", "top stays", "addresses", "--tops", "stranded", "RSS falls")
TOPS = 7
"""The index of --tops among the figures of a row."""
WHOSE, WHOSE_TOLD = "pins --types", "whose blocks keep what is stranded"
CAME_IN = 256 << 10
"""How much RSS must have grown meanwhile to be mentioned."""


def lines(
    style: Style,
    plans: Sequence[Trim],
    applied: Optional[Applied],
    *,
    whole: bool,
    ranges: bool,
    tops: bool,
    limit: int,
    kept: Sequence[Statement],
    may_apply: bool,
    refused: Optional[str],
    holds: Optional[float] = None,
) -> Iterator[str]:
    """`whole`: the plans cover everything that was requested; `kept`: what stays, and why; `refused`: why --apply would
    be refused; `holds`: estimated seconds for which --apply would stop the process in all."""
    if applied is not None:
        yield from _applied_lines(style, applied)
        yield from _left_lines(style, applied, kept, tops)
        return
    yield style.bold(_sentence(style, plans, whole))
    yield ""
    rows = [_row(style, trim) for trim in plans]
    footer = ["all", *_figures(style, plans)] if len(rows) > 1 and whole else None
    yield from table(style, HEADERS, rows, footer=footer, expendable=EXPENDABLE, limit=limit, what="arena")
    # what is not in memory would not return anything
    said = [each for each in kept if each.figures.get("resident_bytes") != 0]
    yield from _apart([_reason_line(each, style, refused is None) for each in said])
    if ranges:
        yield ""
        yield from _range_lines(style, plans, tops, limit)
    yield from _apart(list(_duration(style, plans, may_apply, refused, holds=holds)))
    if not _returns_nothing(plans):
        return
    if _bytes_of(said, "pages-shared") >= WORTH:
        yield from _apart([style.dim(f"next: {style.typed(WHOSE)} ({WHOSE_TOLD})")])
    elif not any(each.id == "tops-untouched" for each in said):
        yield from _apart([style.dim(f"next: {style.typed('report')} (what holds the memory, and what would help)")])


def _apart(paragraph: Sequence[str]) -> Iterator[str]:
    """The lines with an empty line before them; nothing if there are none."""
    if paragraph:
        yield ""
        yield from paragraph


def _returns_nothing(plans: Sequence[Trim]) -> bool:
    """Whether a trim certainly returns nothing: nothing resident, or, if that is not known, nothing at all."""
    released = total(trim.plan.release_bytes for trim in plans)
    return 0 in (total(trim.resident.trim for trim in plans), released)


def _row(style: Style, trim: Trim) -> list[str]:
    """The cells of one arena. "-": the arena has no such figure."""
    plan, cells = trim.plan, _figures(style, [trim])
    if plan.tops_bytes == 0:
        cells[TOPS] = "-"
    return [str(plan.arena) if plan.arena else f"{plan.arena} main", *cells]


def _figures(style: Style, plans: Sequence[Trim]) -> list[str]:
    """Figures of one arena, or sums over several."""
    kept = [trim.plan for trim in plans]
    released = total(plan.release_bytes for plan in kept)
    return [
        style.size(released),
        number(_calls(plans)),
        _at_least(style, total(trim.resident.trim for trim in plans), _bound(plans, "trim"), released),
        style.size(total(plan.top and plan.top.bytes for plan in kept)),
        _at_least(style, total(trim.resident.top for trim in plans), _bound(plans, "top"), None),
        style.size(total(plan.subpage_bytes for plan in kept)),
        style.size(total(plan.tcache_bytes for plan in kept)),
        style.size(total(plan.tops_bytes for plan in kept)),
    ]


def _calls(plans: Sequence[Trim]) -> Optional[int]:
    return total(None if trim.plan.madvise is None else len(trim.plan.madvise) for trim in plans)


def _at_least(style: Style, value: Optional[int], bound: Optional[int], released: Optional[int]) -> str:
    """A figure, or its lower bound if not all is known. A bound as large as what is released is exact."""
    if value is not None or bound is None:
        return style.size(value)
    return style.size(bound) if bound == released else f"≥ {style.size(bound)}"


def _bound(plans: Sequence[Trim], name: str) -> Optional[int]:
    return total(getattr(trim.at_least, name) if trim.at_least else None for trim in plans)


def _sentence(style: Style, plans: Sequence[Trim], whole: bool) -> str:
    resident = total((trim.resident.trim for trim in plans), whole)
    released = total((trim.plan.release_bytes for trim in plans), whole)
    tops = total((trim.resident.tops for trim in plans), whole)
    in_tops = total((trim.plan.tops_bytes for trim in plans), whole)
    if released is None:
        return "what malloc_trim(0) would return is not known: not all that it looks at can be read"
    if resident is not None:
        first = f"malloc_trim(0) would return {style.size(resident) + ' of' if resident else 'no'} resident memory"
    else:
        bound = _bound(plans, "trim")
        first = f"malloc_trim(0) would release {style.size(released)} of address space"
        if bound is None:
            first += ", how much is resident is not known"
        else:
            first += f", {'all' if bound == released else f'at least {style.size(bound)}'} of it resident"
    where = count(len([trim for trim in plans if trim.plan.tops]), "thread arena")
    if tops:
        first += f"; {style.size(tops)} in the tops of {where} stays (--tops returns it)"
    elif tops is None and in_tops:
        first += f"; {style.size(in_tops)} in the tops of {where} stays (--tops releases it)"
    return first


KEPT: Mapping[str, str] = {
    "tops-untouched": "tops of thread arenas: malloc_trim never touches them; free() does once one reaches "
    "trim_threshold",
    "pages-shared": "stranded: free pieces that share their page with a block in use; freeing that block releases them",
    "cached-by-threads": "tcache: blocks that threads keep for themselves; a thread gives them back when it ends",
    "pages-locked": "locked: {size} of these ranges lie in or after a mapping that the program has locked (mlock): "
    "the kernel refuses it and goes no further in that range",
    "break-grows": "break: the main arena's top is so small that malloc_trim grows it by a page (systrim compares "
    "unsigned)",
}


def reason(said: Statement, style: Style) -> str:
    """Why it stays, and what would release it. `style` only sets how sizes are written."""
    size = said.figures["bytes"]
    return KEPT[said.id].format(size=style.size(None if size is None else int(size)))


def _reason_line(said: Statement, style: Style, applies: bool) -> str:
    """The reason with the command to type. `applies`: --apply would not be refused."""
    if said.id != "tops-untouched":
        return reason(said, style)
    apply = f", or: {style.typed_to_apply('trim --apply --tops')}" if applies else ""
    return f"{reason(said, style)} (see {style.typed('params')}){apply}"


def _range_lines(style: Style, plans: Sequence[Trim], tops: bool, limit: int) -> Iterator[str]:
    rows = []
    for trim in plans:
        how = {each.address: "madvise" for each in trim.plan.madvise or ()}
        for start, size in trim.plan.ranges:
            rows.append(
                [str(trim.plan.arena), f"{start:#x}", f"{start + size:#x}", style.size(size), how.get(start, "brk")]
            )
        if tops and trim.plan.tops:
            start, size = trim.plan.tops
            rows.append([str(trim.plan.arena), f"{start:#x}", f"{start + size:#x}", style.size(size), "--tops"])
    headers = ("arena", "from", "to", "size", "by")
    yield from table(style, headers, rows, left=(0, 1, 2, 4), limit=limit, what="range")


def _duration(
    style: Style, plans: Sequence[Trim], may_apply: bool, refused: Optional[str], *, holds: Optional[float]
) -> Iterator[str]:
    calls = _calls(plans)
    resident = total(trim.resident.trim for trim in plans)
    if not resident or calls is None:
        return
    worst = max(plans, key=lambda trim: trim.resident.trim or 0)
    longest = trim_seconds(worst.resident.trim or 0, _calls([worst]) or 0)
    yield style.dim(
        f"malloc_trim would take about {duration(trim_seconds(resident, calls))} ({count(calls, 'madvise call')}) "
        f"and lock one arena at a time, for {duration(longest)} at most. "
        "Released pages that are used again fault in again."
    )
    if holds is not None:
        yield style.dim(
            f"to apply it stops the process for about {duration(round(holds, 2))} in all, as the heap is checked first "
            "(an estimate)"
        )
    if may_apply and refused is not None:
        yield style.dim(f"--apply would be refused: {refused}")
    elif may_apply:
        tops = " (--tops: the tops too)" if any(trim.resident.tops for trim in plans) else ""
        yield style.dim(f"next: {style.typed_to_apply('trim --apply')}{tops}")


def question(
    calls: Sequence[str],
    pid: Optional[int],
    name: str,
    *,
    returns: Optional[int],
    takes: float,
    held: float,
    holds: Optional[float],
) -> str:
    """The question before anything is done. `returns`: what leaves memory, None: not known; `takes`: seconds for the
    calls alone; `held`: seconds for which the process stood still for this question; `holds`: seconds in all, None if
    something else holds it."""
    who = f"{one_line(name)} ({pid})" if name else f"process {pid}"
    effects = []
    if returns is not None:
        within = f" in about {duration(takes)}" if returns else ""
        effects.append(f"returns {Style().size(returns) if returns else 'nothing'}{within}")
    if holds is not None:
        effects.append(
            f"stops the process for about {duration(round(holds, 2))} in all, to look and to check the heap first "
            f"(an estimate; {duration(held)} of it for this question)"
        )
    return f"Call {' and '.join(calls)} in {who}?" + (f" It {' and '.join(effects)}" if effects else "")


def _applied_lines(style: Style, applied: Applied) -> Iterator[str]:
    returned = style.size(applied.released_bytes) if applied.released_bytes > 0 else "nothing"
    yield style.bold(
        f"RSS {style.size(applied.rss_before)} before, {style.size(applied.rss_after)} after: "
        f"{returned} returned in {duration(applied.seconds)} (the call alone)"
    )
    yield f"predicted: {style.size(applied.predicted_bytes)}"
    came = applied.rss_after - applied.rss_before + max(0, applied.released_bytes)
    if came >= CAME_IN:
        yield f"meanwhile {style.size(came)} came in: pages of files that the call needs, and what other threads use"
    yield from map(call_line, applied.calls)


def _left_lines(style: Style, applied: Applied, kept: Sequence[Statement], tops: bool) -> Iterator[str]:
    """What is still free, by the plan of this trim, in one line; nothing if nothing is left."""
    stranded, in_tops = _bytes_of(kept, "pages-shared"), 0 if tops else _bytes_of(kept, "tops-untouched", RESIDENT)
    left = stranded + in_tops + _bytes_of(kept, "cached-by-threads")
    if not left:
        return
    more = any(each.figures["refused"] for each in applied.calls) or any(
        each.id == "pages-locked" or each.figures.get(RESIDENT, each.figures["bytes"]) is None for each in kept
    )
    line = f"still free: {AT_LEAST if more else ''}{style.size(left)}"
    if stranded:
        line += f", {'all' if stranded == left else style.size(stranded)} of it stranded beside blocks in use"
    if stranded >= max(in_tops, WORTH):
        line += f"; next: {style.typed(WHOSE)} ({WHOSE_TOLD})"
    elif in_tops >= WORTH:
        line += f"; next: {style.typed('trim --apply --tops')} ({style.size(in_tops)} in the tops of thread arenas)"
    yield line


def _bytes_of(kept: Sequence[Statement], kind: str, figure: str = "bytes") -> int:
    """How much of that kind is known to stay."""
    return next((int(each.figures[figure] or 0) for each in kept if each.id == kind), 0)


def call_line(said: Statement) -> str:
    """How many ranges one call released."""
    ranges, refused = (int(said.figures[name] or 0) for name in ("ranges", "refused"))
    ours = count(ranges, said.names["of"])
    if said.id == "released":
        return f"{said.names['call']}: {ours} released"
    return f"{said.names['call']}: {ranges - refused} of {ours} released, the kernel refused the rest"
