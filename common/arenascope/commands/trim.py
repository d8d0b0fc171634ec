"""heap trim: what malloc_trim(0) would give back, what it would leave and why, and doing it."""

from __future__ import annotations

from typing import Optional, Sequence

from ..analysis.trim import Trim, reasons
from ..analysis.usage import total
from ..analysis.verdict import trim_seconds
from ..base.argv import pid_in
from ..base.errors import RefusedError, UsageError
from ..base.model import Applied, Range, Statement
from ..present.formats.json import hexadecimal
from ..present.json_documents import arena_records as records
from ..present.json_documents.record import statement_record
from ..present.screens.trim import call_line, lines, question, reason
from ..present.shared_text.findings import sentence
from ..present.shared_text.text import Style
from ..session.before_hold import read_trims
from ..session.problems import RUN_ON, problems_of
from ..session.resident import replaced
from ..session.session import Session
from ..session.trims import find_means, trims
from ..sources.live.procfiles import name_of
from ..sources.target import MemoryUse
from .framework.apply_trim import (
    Controller,
    Stopwatch,
    call_trim,
    check_filters,
    check_locks,
    check_tops,
    check_tracer,
    release_tops,
    settle,
)
from .framework.command import ARENA, LIMIT, Answer, Context, argument, command, of_heap

OTHERS = "serves malloc in this process: malloc_trim does nothing for its memory"
LOOK, APPLY = 0.015, 0.05
"""Seconds, measured: the least time that a look stops a process, and that --apply does after it."""
EACH_FREE, EACH_RANGE, EACH_BLOCK = 8e-6, 70e-6, 0.3e-6
"""Seconds, measured: more for each listed chunk (in both), each released range, each checked chunk."""
BLOCK = 100
"""The assumed size of a block if it is not known."""
MOST = 10_000_000
"""Counting stops here: more blocks do not matter."""
UNKNOWN_BESIDE = ("mp-in-parts", "mp-not-found", "tcache-form", "caches-not-found", "cached-chunks-unowned")
"""Unknown facts of a new release that do not matter for malloc_trim, as it touches no thread's cache."""


@command(
    "what would return",
    "Show what malloc_trim(0) would give back, to the page, and what it would leave and why.",
    "trim --ranges --arena 1",
    "malloc_trim releases whole free pages inside the bins of every arena and the end of the main arena's top. It "
    "never touches the tops of thread arenas, thread caches, or blocks in use. --apply does it in the live process, "
    "only when no thread is inside malloc, the heap is sound and no seccomp filter could end the process for it; "
    "--tops also releases the pages inside the tops of thread arenas.",
    arguments=(
        argument("--ranges", action="store_true", help="list the ranges that would be released"),
        argument("--apply", action="store_true", help="do it (live only; asks first)"),
        argument("--tops", action="store_true", help="also the tops of thread arenas"),
        argument(
            "--even-under-seccomp",
            action="store_true",
            help="with --apply: even if a seccomp filter may kill the process for it",
        ),
        argument("-y", "--yes", action="store_true", help="with --apply: do not ask"),
        ARENA,
        LIMIT,
    ),
    dont_repeat=True,
    # --apply lets the process move, so that nothing read before holds
    lists=lambda options: not options.apply,
    reads=read_trims,
    whole=lambda options: bool(options.apply),
    sweeps=lambda options: bool(options.apply),
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
    plans = [trim for trim in trims(session, bounds=not options.json) if options.arena in (None, trim.plan.arena)]
    context.means = find_means(session, context.target)
    problems = problems_of(session)
    if any(trim.plan.brk_bytes is None and trim.plan.top is not None for trim in plans):
        problems.append(Statement("brk-not-found"))
    applied = None
    beside = _beside(session)
    unsound = [each for each in problems if each.id not in beside]
    if controller is not None:
        _heed_ctrl_c(context)
        if unsound:
            raise RefusedError("heap-not-sound", "the heap is not sound enough to call into it", sentence(unsound[0]))
        _check_soundness(context)
        applied = _apply(context, controller, plans)
    # a thread inside malloc is no lasting obstacle: --apply lets it leave
    lasting = unsound and context.target.kind == "live" and not any(each.mutex for each in session.headers)
    past = replaced(session)
    refused = sentence(unsound[0]) if lasting else context.means.lacks or None
    refused = refused if past is None else f"{past.names['allocators']} {OTHERS}"
    kept = list(reasons(plans, _all(context), session.locked))
    found = records.TrimDocument(
        arenas=[_row(trim, options.ranges) for trim in plans],
        totals=_totals(plans, _all(context)),
        reasons=[statement_record(each, reason(each, Style())) for each in kept],
        applied=_outcome(applied) if applied is not None else None,
    )
    status = 1 if applied and not applied.released_bytes else 0
    may_apply = context.target.kind == "live"
    text = lines(
        context.style,
        plans,
        applied,
        whole=_all(context),
        ranges=options.ranges,
        tops=options.tops,
        limit=options.limit,
        # with --arena, malloc_trim was not called
        kept=kept if applied is None or options.arena is None else (),
        may_apply=may_apply,
        refused=refused,
        holds=_holds(context, plans) if may_apply and refused is None else None,
    )
    return Answer(found, of_heap(session, text), problems, status)


def _beside(session: Session) -> Sequence[str]:
    """Problems that do not forbid calling malloc_trim. Other threads may run on, as it takes malloc's own locks."""
    return (RUN_ON, *UNKNOWN_BESIDE) if session.layout.newer is not None else (RUN_ON,)


def _all(context: Context) -> bool:
    """Whether the plans cover everything that was requested."""
    return context.options.arena is not None or context.session.all_arenas


def _prepare(context: Context) -> Controller:
    """Asks the user, then brings every thread out of malloc, so that the plan made afterwards holds."""
    # load it before the process is held
    from ..session import check  # noqa: F401

    asked = context.options.yes
    pid = pid_in(context.door.style().subject)
    if pid is not None:
        # the shell traces the process itself, in another way than to read it
        check_tracer(int(pid))
    if context.door.lets_go and not asked:
        # ask first: the process must not stand still while the user thinks
        asked = _confirm(context)
    if context.target.kind != "live":
        raise RefusedError("is-a-core", "a core cannot be trimmed", "--apply needs the live process")
    controller = context.door.controller()
    if controller is None:
        raise RefusedError("process-not-held", "nothing is called in a process that is not held", "leave out --no-stop")
    if context.target.image.memory_use() is None:
        raise RefusedError(
            "other-host", "the process is on another machine: nothing can be measured", "use arenascope there"
        )
    if context.target.pid is not None:
        check_filters(context.target.pid, context.options.even_under_seccomp)
    if not asked:
        _confirm(context)
    before = Session(context.target, context.options.libc)
    _check_whose_malloc(before)
    settle(controller, before)
    context.renew()
    check_locks(context.session)
    if context.options.tops:
        check_tops(context.session)
    return controller


def _confirm(context: Context) -> bool:
    if not context.door.confirm(lambda: _question(context)):
        raise RefusedError("not-confirmed", "not done")
    return True


def _question(context: Context) -> str:
    """The question, with estimates from a look of its own. Afterwards the process runs on if this door held it."""
    from ..session.parallel_sweeps import likely_chunks

    options, target = context.options, context.target
    if target.kind != "live":
        raise RefusedError("is-a-core", "a core cannot be trimmed", "--apply needs the live process")
    session = context.session
    _check_whose_malloc(session)
    plans = [trim for trim in trims(session) if options.arena in (None, trim.plan.arena)]
    parts = [trim.resident.trim for trim in plans] if options.arena is None else []
    parts += [trim.resident.tops for trim in plans] if options.tops else []
    returns = total(parts, _all(context))
    takes = trim_seconds(returns or 0, _ranges(plans))
    with Stopwatch() as counting:
        blocks = likely_chunks(session, MOST) if context.door.lets_go and session.started else 0
    looks, applies = LOOK + EACH_FREE * _listed(session), _apply_seconds(session, plans, blocks)
    pid, held = target.pid, context.door.release()
    context.renew()
    # if the machine was slow during this look, it will be so again
    slow = max(1.0, (held - counting.seconds) / looks)
    calls = ["malloc_trim(0)"] if options.arena is None else []
    calls += ["madvise on the tops of thread arenas"] if options.tops else []
    holds = held + slow * applies if held else None
    name = name_of(pid or 0)
    return question(calls, pid, name, returns=returns, takes=slow * takes, held=held, holds=holds)


def _holds(context: Context, plans: Sequence[Trim]) -> Optional[float]:
    """An estimate of the seconds for which --apply would stop the process: the look for the question, and all after the
    answer. None if something else holds it."""
    session = context.session
    if not (context.door.lets_go and session.started):
        return None
    heaps = sum(header.system_mem for header in session.headers)
    free = sum((trim.plan.release_bytes or 0) + (trim.plan.kept_bytes or 0) for trim in plans)
    return LOOK + EACH_FREE * _listed(session) + _apply_seconds(session, plans, max(heaps - free, 0) // BLOCK)


def _apply_seconds(session: Session, plans: Sequence[Trim], blocks: int) -> float:
    """Seconds from the answer to the end: threads leave malloc, the plan is made again, the heap is checked, the
    call."""
    ranges = _ranges(plans)
    call = trim_seconds(total(trim.resident.trim for trim in plans) or 0, ranges)
    return APPLY + EACH_FREE * _listed(session) + EACH_RANGE * ranges + EACH_BLOCK * blocks + call


def _listed(session: Session) -> int:
    return sum(len(each.addresses) for arena in session.arenas for each in (*arena.bins, *arena.fastbins))


def _ranges(plans: Sequence[Trim]) -> int:
    return sum(len(trim.plan.ranges) for trim in plans)


def _heed_ctrl_c(context: Context) -> None:
    """Stops here after Ctrl-C: a partial reading is enough for a plan, but not to apply it."""
    if context.session.stopped:
        context.door.notice("nothing was done\n")
        raise KeyboardInterrupt


def _check_whose_malloc(session: Session) -> None:
    """Refuses if another allocator serves malloc: a trim would return none of its memory."""
    past = replaced(session)
    if past is not None:
        raise RefusedError("malloc-replaced", f"{past.names['allocators']} {OTHERS}", f"ask {past.names['ask']}")


def _check_soundness(context: Context) -> None:
    """Refuses a damaged heap: malloc_trim would abort the process."""
    from ..session.check import audit

    outcome = audit(context.session)
    _heed_ctrl_c(context)
    for breach in outcome.breaches:
        raise RefusedError(
            "heap-damaged",
            f"the heap is damaged at {breach.address:#x} ({breach.rule}): malloc_trim could end the process",
            context.style.typed("check"),
        )
    beside = _beside(context.session)
    for unread in outcome.unread:
        if unread.id not in beside:
            raise RefusedError("heap-not-sound", "the heap is not sound enough to call into it", sentence(unread))


def _apply(context: Context, controller: Controller, plans: Sequence[Trim]) -> Applied:
    start = context.target.image.memory_use() or MemoryUse(0, 0)
    calls: list[Statement] = []
    predicted: list[Optional[int]] = []
    ranges = [each for trim in plans for each in trim.plan.madvise or ()]
    before = _in_memory(context, ranges)
    seconds = 0.0
    if context.options.arena is None:
        with Stopwatch() as watch:
            call_trim(controller, context.session)
        seconds += watch.seconds
        predicted += [trim.resident.trim for trim in plans]
        calls.append(_released("malloc_trim(0)", "range", len(ranges), _kept(before, _in_memory(context, ranges))))
    if context.options.tops:
        tops = [(trim.plan.address, trim.plan.tops) for trim in plans if trim.plan.tops]
        inside = [each for _, each in tops]
        before = _in_memory(context, inside)
        with Stopwatch() as watch:
            refused = release_tops(controller, context.session, tops)
        seconds += watch.seconds
        refused = max(refused, _kept(before, _in_memory(context, inside)))
        predicted += [trim.resident.tops for trim in plans]
        calls.append(_released("madvise", "top", len(tops), refused))
    end = context.target.image.memory_use() or MemoryUse(0, 0)
    # the call itself touches a page or two of stack and data
    released = max(start.anonymous - end.anonymous, 0)
    return Applied(
        start.rss,
        end.rss,
        predicted_bytes=total(predicted),
        released_bytes=released,
        seconds=seconds,
        calls=calls,
    )


def _in_memory(context: Context, ranges: Sequence[Range]) -> list[int]:
    """Resident bytes of each range."""
    residency = context.target.image.residency()
    pages = [residency.count(each.address, each.end) if residency is not None else None for each in ranges]
    return [each.resident if each is not None else 0 for each in pages]


def _kept(before: Sequence[int], after: Sequence[int]) -> int:
    """How many ranges the kernel did not release. (malloc_trim ignores madvise's result.)"""
    return sum(old > 0 and new >= old for old, new in zip(before, after))


def _released(call: str, kind: str, ranges: int, refused: int) -> Statement:
    """The outcome of a call. `kind`: "top" or "range"."""
    return Statement(
        "released-in-part" if refused else "released",
        {"ranges": ranges, "refused": refused},
        {"call": call, "of": kind},
    )


def _row(trim: Trim, with_ranges: bool) -> records.ArenaTrimRecord:
    plan = trim.plan
    row = records.ArenaTrimRecord.of(
        plan,
        index=plan.arena,
        address=hexadecimal(plan.address),
        madvise_ranges=None if plan.madvise is None else [_range(each) for each in plan.madvise],
        resident_bytes=trim.resident.trim,
        kept=records.KeptByArena.of(plan, top_bytes=plan.top and plan.top.bytes, top_resident_bytes=trim.resident.top),
        tops_range=_range(plan.tops) if plan.tops else None,
    )
    return row if with_ranges else row.without("madvise_ranges")


def _range(range: Range) -> tuple[str, int]:
    return hexadecimal(range.address), range.bytes


def _totals(plans: Sequence[Trim], whole: bool) -> records.TrimTotals:
    return records.TrimTotals(
        release_bytes=total((trim.plan.release_bytes for trim in plans), whole),
        resident_bytes=total((trim.resident.trim for trim in plans), whole),
        kept_bytes=total((trim.plan.kept_bytes for trim in plans), whole),
        tops_bytes=total((trim.plan.tops_bytes for trim in plans), whole),
        tops_resident_bytes=total((trim.resident.tops for trim in plans), whole),
    )


def _outcome(applied: Applied) -> records.AppliedRecord:
    return records.AppliedRecord.of(applied, calls=[statement_record(each, call_line(each)) for each in applied.calls])
