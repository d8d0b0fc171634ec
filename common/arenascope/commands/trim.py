"""heap trim: what malloc_trim(0) would give back, what it would leave and why, and doing it."""

from __future__ import annotations

from typing import Iterator, Optional, Sequence

from ..analysis.usage import total
from ..apply import Applied, Controller, Stopwatch, call_trim, check_locks, release_tops, settle
from ..errors import RefusedError, UsageError
from ..render.json import address
from ..render.text import Style, count, cut, left_out, number, table
from ..session import Session
from ..sources.procfiles import memory_of
from . import ARENA, LIMIT, Answer, Context, argument, command
from .gather import Trim, problems_of, trims

# measured: madvise returns 4 KiB pages at some 10 to 20 GB/s, and costs about a microsecond a call
SECONDS_PER_BYTE = 1 / 12e9
SECONDS_PER_CALL = 1.5e-6


@command(
    "Show what malloc_trim(0) would give back, to the page, and what it would leave and why.",
    "trim --ranges --arena 1",
    "malloc_trim releases whole free pages inside the bins of every arena and the end of the main arena's top. It\n"
    "never touches the tops of thread arenas, thread caches, or blocks in use. --apply does it in the live process,\n"
    "only when no thread is inside malloc; --tops also releases the pages inside the tops of thread arenas.",
    (
        argument("--ranges", action="store_true", help="list the ranges that would be released"),
        argument("--apply", action="store_true", help="do it (live only; asks first)"),
        argument("--tops", action="store_true", help="also the tops of thread arenas"),
        argument("-y", "--yes", action="store_true", help="with --apply: do not ask"),
        ARENA,
        LIMIT,
    ),
    dont_repeat=True,
)
def trim_command(context: Context) -> Answer:
    options = context.options
    if options.arena is not None and options.apply and not options.tops:
        raise UsageError(
            "malloc_trim has no choice of arenas", "--arena N goes with --apply --tops, or without --apply"
        )
    controller = _prepare(context) if options.apply else None
    session = context.session
    context.check_arena(options.arena)
    plans = [trim for trim in trims(session) if options.arena in (None, trim.plan.index)]
    problems = problems_of(session)
    if any(trim.plan.brk_bytes is None for trim in plans):
        problems.append("__curbrk was not found: whether the main arena's top would be trimmed is not known")
    applied = None
    if controller is not None:
        if problems:
            raise RefusedError("the heap is not sound enough to call into it", problems[0])
        applied = _apply(context, controller, plans)
    keys = {
        "arenas": [_arena_json(trim, options.ranges) for trim in plans],
        "totals": _totals_json(plans),
        "applied": applied
        and {
            "rss_before": applied.rss_before,
            "rss_after": applied.rss_after,
            "predicted_bytes": applied.predicted_bytes,
            "released_bytes": applied.released_bytes,
            "seconds": applied.seconds,
        },
    }
    status = 1 if applied and not applied.released_bytes else 0
    return Answer(keys, _lines(context, plans, applied), problems, status)


def _prepare(context: Context) -> Controller:
    """Asks, then brings every thread out of malloc; what is planned afterwards is planned on what stands still."""
    if context.target.kind != "live":
        raise RefusedError("a core cannot be trimmed", "--apply needs the live process")
    controller = context.door.controller()
    if controller is None:
        raise RefusedError("the shell only looks and cannot call into a process", "use --apply from GDB or LLDB")
    what = "madvise on the tops of thread arenas" if context.options.tops else ""
    if context.options.arena is None:
        what = "malloc_trim(0)" + (f" and {what}" if what else "")
    if not context.options.yes and not context.door.confirm(f"Call {what} in process {context.target.pid}?"):
        raise RefusedError("not done")
    before = Session(context.target)
    settle(controller, before)
    context.renew()
    check_locks(context.session)
    return controller


def _apply(context: Context, controller: Controller, plans: Sequence[Trim]) -> Applied:
    pid = context.target.pid
    assert pid is not None
    rss, anonymous = memory_of(pid)
    done = []
    predicted: list[Optional[int]] = []
    with Stopwatch() as watch:
        if context.options.arena is None:
            call_trim(controller, context.session)
            predicted += [trim.resident.trim for trim in plans]
            done.append(f"malloc_trim(0): {count(sum(len(trim.plan.madvise) for trim in plans), 'range')} released")
        if context.options.tops:
            tops = [trim.plan.tops for trim in plans if trim.plan.tops]
            release_tops(controller, context.session, tops)
            predicted += [trim.resident.tops for trim in plans]
            done.append(f"madvise: the inside of {count(len(tops), 'top')} released")
    rss_after, anonymous_after = memory_of(pid)
    return Applied(rss, rss_after, total(predicted), anonymous - anonymous_after, watch.seconds, done)


def _arena_json(trim: Trim, with_ranges: bool) -> dict[str, object]:
    plan = trim.plan
    found: dict[str, object] = {
        "index": plan.index,
        "address": address(plan.address),
        "madvise_bytes": plan.madvise_bytes,
    }
    if with_ranges:
        found["madvise_ranges"] = [[address(start), size] for start, size in plan.madvise]
    found.update(
        brk_bytes=plan.brk_bytes,
        resident_bytes=trim.resident.trim,
        kept={
            "top_bytes": plan.top[1],
            "top_resident_bytes": trim.resident.top,
            "subpage_bytes": plan.subpage_bytes,
            "tcache_bytes": plan.tcache_bytes,
        },
        tops_bytes=plan.tops[1] if plan.tops else 0,
        tops_range=[address(plan.tops[0]), plan.tops[1]] if plan.tops else None,
    )
    return found


def _totals_json(plans: Sequence[Trim]) -> dict[str, object]:
    return {
        "release_bytes": total(trim.plan.release_bytes for trim in plans),
        "resident_bytes": total(trim.resident.trim for trim in plans),
        "kept_bytes": total(trim.plan.kept_bytes for trim in plans),
        "tops_bytes": _tops(plans),
        "tops_resident_bytes": total(trim.resident.tops for trim in plans),
    }


def _tops(plans: Sequence[Trim]) -> int:
    return sum(trim.plan.tops[1] for trim in plans if trim.plan.tops)


def _lines(context: Context, plans: Sequence[Trim], applied: Optional[Applied]) -> Iterator[str]:
    style = context.style
    if not context.session.started:
        yield "no heap yet: malloc has not been called in this process"
        return
    if applied is not None:
        yield from _applied_lines(style, applied)
        return
    yield style.bold(_sentence(style, plans))
    yield ""
    rows = [_row(style, trim) for trim in plans]
    shown, more = cut(rows, context.options.limit)
    yield from table(HEADERS, shown, footer=_footer(style, plans) if len(rows) > 1 else None)
    yield from left_out(style, more, "arena")
    yield ""
    yield from _why(style, plans)
    if context.options.ranges:
        yield ""
        yield from _range_lines(context, plans)
    yield ""
    yield from _duration(context, plans)


HEADERS = (
    "arena",
    "released",
    "calls",
    "break",
    "resident",
    "stays: top",
    "its resident",
    "sub-page",
    "tcache",
    "--tops",
)


def _row(style: Style, trim: Trim) -> list[str]:
    plan = trim.plan
    return [
        f"{plan.index} main" if plan.index == 0 else str(plan.index),
        style.size(plan.madvise_bytes),
        number(len(plan.madvise)),
        style.size(plan.brk_bytes) if plan.index == 0 else "-",
        _resident(style, trim, "trim"),
        style.size(plan.top[1]),
        _resident(style, trim, "top"),
        style.size(plan.subpage_bytes),
        style.size(plan.tcache_bytes),
        style.size(plan.tops[1]) if plan.tops else "-",
    ]


def _resident(style: Style, trim: Trim, name: str) -> str:
    value: Optional[int] = getattr(trim.resident, name)
    bound: Optional[int] = getattr(trim.at_least, name) if trim.at_least else None
    return style.size(value) if value is not None or bound is None else f"≥ {style.size(bound)}"


def _footer(style: Style, plans: Sequence[Trim]) -> list[str]:
    return [
        "all",
        style.size(sum(trim.plan.madvise_bytes for trim in plans)),
        number(sum(len(trim.plan.madvise) for trim in plans)),
        style.size(total(trim.plan.brk_bytes for trim in plans)),
        style.size(total(trim.resident.trim for trim in plans)),
        style.size(sum(trim.plan.top[1] for trim in plans)),
        style.size(total(trim.resident.top for trim in plans)),
        style.size(sum(trim.plan.subpage_bytes for trim in plans)),
        style.size(total(trim.plan.tcache_bytes for trim in plans)),
        style.size(_tops(plans)),
    ]


def _sentence(style: Style, plans: Sequence[Trim]) -> str:
    resident = total(trim.resident.trim for trim in plans)
    released = total(trim.plan.release_bytes for trim in plans)
    tops = total(trim.resident.tops for trim in plans)
    if resident is not None:
        first = f"malloc_trim(0) would return {style.size(resident)} of resident memory"
    else:
        bound = total(trim.at_least.trim if trim.at_least else None for trim in plans)
        first = f"malloc_trim(0) would release {style.size(released)} of address space"
        first += (
            f", at least {style.size(bound)} of it resident"
            if bound is not None
            else ", how much is resident is not known"
        )
    where = count(len([trim for trim in plans if trim.plan.tops]), "thread arena")
    if tops:
        first += f"; {style.size(tops)} more, in the tops of {where}, it never touches (--tops does)"
    elif tops is None and _tops(plans):
        first += f"; it never touches {style.size(_tops(plans))} in the tops of {where} (--tops does)"
    return first


def _why(style: Style, plans: Sequence[Trim]) -> Iterator[str]:
    """What stays, and what would release it."""
    if any(trim.plan.tops and trim.resident.tops != 0 for trim in plans):
        yield (f"tops of thread arenas: malloc_trim never touches them; free() does once one reaches trim_threshold "
               f"(see {style.program} params), or: {style.program} trim --apply --tops")  # fmt: skip
    if any(trim.plan.subpage_bytes for trim in plans):
        yield "sub-page: free pieces that share their page with a block in use; freeing that neighbour releases them"
    if any(trim.plan.tcache_bytes for trim in plans):
        yield "tcache: blocks that threads keep for themselves; a thread gives them back when it ends"
    if any((trim.plan.brk_bytes or 0) < 0 for trim in plans):
        yield "break: the main arena's top is so small that malloc_trim grows it by a page (systrim compares unsigned)"


def _range_lines(context: Context, plans: Sequence[Trim]) -> Iterator[str]:
    rows = []
    for trim in plans:
        how = {start: "madvise" for start, _ in trim.plan.madvise}
        for start, size in trim.plan.ranges:
            rows.append([str(trim.plan.index), f"{start:#x}", f"{start + size:#x}", context.style.size(size),
                         how.get(start, "brk")])  # fmt: skip
        if context.options.tops and trim.plan.tops:
            start, size = trim.plan.tops
            rows.append([str(trim.plan.index), f"{start:#x}", f"{start + size:#x}", context.style.size(size), "--tops"])
    shown, more = cut(rows, context.options.limit)
    yield from table(("arena", "from", "to", "size", "by"), shown, left=(0, 1, 2, 4))
    yield from left_out(context.style, more, "range")


def _duration(context: Context, plans: Sequence[Trim]) -> Iterator[str]:
    calls = sum(len(trim.plan.madvise) for trim in plans)
    resident = total(trim.resident.trim for trim in plans)
    style = context.style
    if resident is None or not (calls or resident):
        return
    worst = max(plans, key=lambda trim: trim.resident.trim or 0)
    longest = _seconds(worst.resident.trim or 0, len(worst.plan.madvise))
    yield style.dim(
        f"it would take about {_duration_text(_seconds(resident, calls))} ({count(calls, 'madvise call')}) and lock one "
        f"arena at a time, for {_duration_text(longest)} at most. Released pages that are used again fault in again."
    )
    if context.target.kind == "live" and context.door.controller() is not None:
        yield style.dim(f"next: {style.program} trim --apply [--tops]")


def _seconds(resident: int, calls: int) -> float:
    return resident * SECONDS_PER_BYTE + calls * SECONDS_PER_CALL


def _duration_text(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{max(1, round(seconds * 1000))} ms"


def _applied_lines(style: Style, applied: Applied) -> Iterator[str]:
    yield style.bold(f"RSS {style.size(applied.rss_before)} before, {style.size(applied.rss_after)} after: "
                     f"{style.size(applied.released_bytes)} returned in {applied.seconds * 1000:.0f} ms")  # fmt: skip
    yield f"predicted: {style.size(applied.predicted_bytes)}"
    yield from applied.done
