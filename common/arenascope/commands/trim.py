"""heap trim: what malloc_trim(0) would give back, what it would leave and why, and doing it."""

from __future__ import annotations

import time
from itertools import chain
from typing import AbstractSet, Annotated, Callable, Iterator, Mapping, NamedTuple, Optional, Sequence

from ..analysis.arena_usage import total
from ..analysis.causes import WORTH
from ..analysis.trim_prediction import ArenaTrim, Trim, reasons, trim_seconds
from ..base.argv import pid_in
from ..base.errors import RefusedError, UsageError
from ..base.heap_model import Applied, Range, Statement
from ..base.printable import one_line
from ..glibc.find.inside_malloc import LOAD_SYMBOLS, UNKNOWN_CODE, MallocCode, ThreadStacks
from ..glibc.find.libc_file import exported
from ..glibc.find.thread_pointers import complete
from ..present.json_documents.record import (
    Document,
    RangeRecord,
    Record,
    Size,
    StatementRecord,
    hexadecimal,
    statement_record,
)
from ..present.json_documents.shared_records import ArenaIndex
from ..present.shared_text.lines_and_tables import (
    AT_LEAST,
    Column,
    Style,
    column_table,
    count,
    duration,
    number,
    say,
    table,
)
from ..present.shared_text.problem_sentences import sentence
from ..session.problems import RUN_ON, problems_of, replaced
from ..session.resident import code_of, find_means
from ..session.session import Session, likely_chunks
from ..session.trims import trims
from ..sources.live.proc_tables import is_zombie, name_of, seccomp_modes, status_number
from ..sources.target import MemoryUse, ThreadInfo
from .framework.command import ARENA, LIMIT, Answer, Context, Controller, FunctionCall, argument, command, of_heap

MADV_DONTNEED = 4
SECCOMP_STRICT = 1
STEP_SECONDS = (0.1, 0.5, 2.0)
"""How long a thread may take to leave malloc. The next time is tried when no thread left within this one."""
CALL_SECONDS = 120.0
ELSEWHERE = "use --apply from GDB or LLDB"
ANOTHER_WAY = "let the process run for a moment, then try again"
ROUNDS = 20
"""Rounds of a controller that can stop a thread exactly where it leaves malloc."""
FRAMES = 1 << 14
"""The most frames read of a thread. Of a deeper stack the words are examined instead."""

LOCK_WAITS = ("__lll_lock_wait_private", "__lll_lock_wait", "__GI___lll_lock_wait_private", "__GI___lll_lock_wait")

DEBUGGERS = ("gdb", "lldb")
"""How the names of debuggers begin that may have these commands (lldb-server is one)."""

FATAL_SIGNALS = ("SIGABRT", "SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGSYS")
"""Signals that the call itself may raise: delivering one would end the process."""


class KeptByArena(Record):
    """Memory that stays in an arena."""

    top_bytes: Optional[Size]
    """Its top."""
    top_resident_bytes: Optional[Size]
    """What of that is in memory."""
    subpage_bytes: Optional[int]
    """What shares a page with something else."""
    tcache_bytes: Optional[Size]
    """What threads keep."""


class ArenaTrimRecord(ArenaIndex):
    """The effect of malloc_trim(0) on an arena."""

    madvise_bytes: Optional[Size]
    """Pages released inside its bins."""
    madvise_ranges: Optional[Sequence[Annotated[RangeRecord, "A range"]]] = None
    """With --ranges, in address order."""
    brk_bytes: Optional[int]
    """How far the break moves back; negative: the heap grows instead."""
    resident_bytes: Optional[Size]
    """By how much RSS would fall."""
    kept: KeptByArena
    """What stays, and why."""
    tops_bytes: Optional[Size]
    """What --tops would add."""
    tops_range: Optional[RangeRecord]
    """Where."""


class TrimTotals(Record):
    """Sums over all arenas."""

    release_bytes: Optional[Size]
    """Address space."""
    resident_bytes: Optional[Size]
    """RSS."""
    kept_bytes: Optional[int]
    """What stays."""
    tops_bytes: Optional[Size]
    """What --tops would add."""
    tops_resident_bytes: Optional[Size]
    """What of that is in memory."""


class AppliedRecord(Record):
    """The outcome of --apply."""

    rss_before: Size
    """RSS."""
    rss_after: Size
    """RSS afterwards."""
    predicted_bytes: Optional[Size]
    """What was predicted."""
    released_bytes: int
    """What was released."""
    seconds: float
    """How long the calls took."""
    calls: Sequence[StatementRecord]
    """What each call released."""


class TrimDocument(Document, command="trim"):
    """The answer of trim."""

    arenas: Sequence[ArenaTrimRecord]
    """In the ring's order."""
    totals: TrimTotals
    """Of all arenas; null where one is not known."""
    reasons: Sequence[StatementRecord]
    """Why the rest stays, and what would release it."""
    applied: Optional[AppliedRecord]
    """With --apply: the outcome."""


# errors that all controllers share


def locked_out() -> RefusedError:
    return RefusedError(
        "call-waited-for-lock", "the call waited for a lock that nobody gave back, and was taken back", ANOTHER_WAY
    )


def still_at_work() -> RefusedError:
    return RefusedError(
        "call-at-work", "the call is still at work and must not be broken off", "`continue` lets it finish"
    )


def taken_back(signal: str) -> RefusedError:
    """The call raised a fatal signal and was unwound."""
    return RefusedError(
        "call-taken-back",
        f"the call was taken back at {signal}, which would have ended the process",
        "check shows the heap; an arena that was locked then still is",
    )


def gone(thread: ThreadInfo) -> RefusedError:
    return RefusedError("thread-gone", f"thread {thread.tid} is gone", "try again")


class DebuggerController:
    """The behaviour that all debuggers share."""

    rounds = ROUNDS

    def let_run(self, thread: ThreadInfo, times: int) -> bool:
        return False  # a debugger stops a thread only at a breakpoint, and its return address is a guess here

    def can_call(self, times: int) -> bool:
        return True  # a debugger can call from wherever a thread stands


class Whereabouts(NamedTuple):
    """The place where a thread is."""

    thread: ThreadInfo
    depth: Optional[int] = None
    """The depth of malloc's outermost frame on its stack."""
    waits: bool = False
    """It waits for a lock."""
    unsure: Optional[str] = None
    """Why it may be inside malloc although no trusted frame is."""


def settle(controller: Controller, session: Session) -> None:
    """Brings every thread out of malloc. RefusedError names a thread that stays, or that may be inside."""
    if session.located.other_file:
        raise RefusedError(
            "other-libc-loaded",
            "the debugger has loaded another libc than the process runs on: where its threads stand is not known",
            "arenascope trim --apply in the shell needs no files",
        )
    code = code_of(session)
    if not code.known:
        raise RefusedError(
            "malloc-code-unknown", UNKNOWN_CODE, ELSEWHERE if session.located.located_by == "symbols" else LOAD_SYMBOLS
        )
    patience = iter(STEP_SECONDS)
    seconds = next(patience)
    doubts = waits = 0
    suspects: Optional[set[int]] = None
    for _ in range(controller.rounds):
        inside = list(_inside(controller, session, code, suspects))
        if not inside and suspects is not None:
            # only suspects ran, but examine all once more to be sure
            inside = list(_inside(controller, session, code))
        if not inside:
            if controller.can_call(waits):
                return
            waits, suspects = waits + 1, None
            continue
        suspects = {each.thread.tid for each in inside}
        unsure = next((each for each in inside if each.unsure), None)
        if unsure is not None:
            if controller.let_run(unsure.thread, doubts):
                doubts += 1
                continue  # it may stand elsewhere now
            raise RefusedError(
                "perhaps-inside-malloc",
                f"{_who(unsure.thread)} may be inside malloc: its stack cannot be followed to its end, "
                f"and {unsure.unsure}",
                ANOTHER_WAY,
            )
        # lock holders go first: those that wait would only keep waiting
        runnable = [each for each in inside if not each.waits] or inside
        out = [controller.step_out(each.thread, each.depth or 0, seconds) for each in runnable]
        if any(out):
            continue
        # a thread that ran may now wait for another's lock, so try all again, for longer
        longer = next(patience, None)
        if longer is None:
            raise _stuck(runnable[0].thread, session)
        seconds = longer
    raise RefusedError("threads-keep-entering-malloc", "threads keep entering malloc", ANOTHER_WAY)


def _inside(
    controller: Controller, session: Session, code: MallocCode, among: Optional[AbstractSet[int]] = None
) -> Iterator[Whereabouts]:
    """The threads (of `among`) that are or may be inside malloc. Everything is read again, as the process has run."""
    now = Session(session.target, session.libc)
    regions = now.regions
    where = now.memory, now.target.machine, session.located.libc, regions
    threads = complete(*where, threads=now.target.threads(), pid=now.target.pid)
    stacks = ThreadStacks(now.memory, now.target.machine, regions, code, pid=now.target.pid)
    for thread in threads:
        if among is not None and thread.tid not in among:
            continue
        if thread.runs:
            continue  # it leaves malloc by itself
        if thread.lone and not thread.stack_pointer:
            continue  # io_uring's thread: it never runs the process's own code
        if thread.tid == now.target.pid and is_zombie(thread.tid, thread.tid):
            continue  # main, ended by pthread_exit(): only its name is left
        frames = controller.frames(thread, FRAMES)
        believed = stacks.believed(frames, thread)
        depths = [depth for depth, frame in enumerate(believed.frames) if code.owns(frame)]
        waits = any(frame.name in LOCK_WAITS for frame in believed.frames[:3])
        if depths and depths[-1] + 1 < len(believed.frames):
            yield Whereabouts(thread, depths[-1], waits)
        elif depths:
            yield Whereabouts(thread, unsure="what called malloc is not known")
        elif not believed.whole:
            reason = stacks.why_unsure(thread, frames[1].pc if len(believed.frames) == 1 < len(frames) else None)
            if reason is not None:
                yield Whereabouts(thread, unsure=reason)


def _who(thread: ThreadInfo) -> str:
    return f"thread {thread.tid} ({thread.name or 'no name'})"


def _stuck(thread: ThreadInfo, session: Session) -> RefusedError:
    locked = [f"arena {header.index}" for header in Session(session.target, session.libc).headers if header.mutex]
    where = f" while {' and '.join(locked)} {'is' if len(locked) == 1 else 'are'} locked" if locked else ""
    return RefusedError("inside-malloc", f"{_who(thread)} is inside malloc and does not leave it{where}", ANOTHER_WAY)


def check_tracer(pid: int) -> None:
    """RefusedError if another program traces the process: the kernel allows only one."""
    tracer = status_number(pid, "TracerPid")
    if not tracer:
        return
    name = one_line(name_of(tracer)) or "a program"
    there = "type `heap trim --apply` there, or detach it" if name.startswith(DEBUGGERS) else "end that first"
    raise RefusedError("traced-by-another", f"{name} ({tracer}) traces process {pid}, and only one can", there)


def check_filters(pid: int, insist: bool) -> None:
    """RefusedError if a seccomp filter may kill the process for a system call that it never makes itself."""
    try:
        modes = seccomp_modes(pid)
    except OSError:
        raise RefusedError("seccomp-unknown", "whether a seccomp filter forbids madvise cannot be read") from None
    strict = next((tid for tid, mode in modes.items() if mode == SECCOMP_STRICT), None)
    if strict is not None:
        raise RefusedError("seccomp-strict", f"thread {strict} is in seccomp's strict mode, in which madvise ends it")
    filtered = next((tid for tid, mode in modes.items() if mode), None)
    if filtered is not None and not insist:
        raise RefusedError(
            "seccomp-filter",
            f"thread {filtered} is under a seccomp filter, which may end the process at madvise or brk",
            "--even-under-seccomp insists",
        )


def check_tops(session: Session) -> None:
    """RefusedError if a thread that is not held could take memory from a top while its pages are released."""
    running = next((thread for thread in session.target_threads if thread.runs), None)
    if running is not None:
        raise RefusedError(
            "thread-not-held",
            f"{_who(running)} is not held by this debugger: it could be taking memory from a top at that moment",
            "leave out --tops",
        )


def check_locks(session: Session) -> None:
    """RefusedError if an arena is locked although no thread is inside malloc (a fork in progress, a lost lock)."""
    for header in session.headers:
        if header.mutex:
            raise RefusedError(
                "arena-locked", f"arena {header.index} is locked, and no thread is seen inside malloc", ANOTHER_WAY
            )


def call_trim(controller: Controller, session: Session) -> None:
    address = _function(session, "malloc_trim")
    controller.call(FunctionCall(address, [0]), CALL_SECONDS, lambda name: name in LOCK_WAITS)


def release_tops(controller: Controller, session: Session, tops: Sequence[tuple[int, Range]]) -> int:
    """Releases the pages of tops, each given with its arena's address; returns how many the kernel is known to have
    refused.

    It calls madvise(MADV_DONTNEED), which takes no lock of malloc's. The pages after a top's header hold no data.
    """
    address = _function(session, "madvise")
    mutex = session.layout.arena["mutex"]
    return sum(
        controller.call(
            FunctionCall(address, [each.address, each.bytes, MADV_DONTNEED], arena + mutex),
            CALL_SECONDS,
            lambda name: False,
        )
        != 0
        for arena, each in tops
    )


def _function(session: Session, name: str) -> int:
    """The address of libc's function, from libc's tables in memory: the debugger's symbol may be another library's."""
    address = exported(session.memory, session.located.libc, name).get(name)
    if address is None:
        symbol = session.target.symbol(name)
        address = symbol.address if symbol else None
    if address is None:
        raise RefusedError("function-not-found", f"{name} was not found in this process", "load libc's symbols")
    return address


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
    "trim --ranges --arena 1",
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
    whole=lambda options: bool(options.apply),
)
def trim_command(context: Context) -> Answer:
    """Show what malloc_trim(0) would give back, to the page, and what it would leave and why.

    malloc_trim releases whole free pages inside the bins of every arena and the end of the main arena's top. It never
    touches the tops of thread arenas, thread caches, or blocks in use. --apply does it in the live process, only when
    no thread is inside malloc, the heap is sound and no seccomp filter could end the process for it; --tops also
    releases the pages inside the tops of thread arenas.
    """
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
    calls = [statement_record(each, call_line(each)) for each in (applied.calls if applied else ())]
    totals = _totals(plans, _all(context))
    found = TrimDocument(
        arenas=[_row(trim, options.ranges) for trim in plans],
        totals=totals,
        reasons=[statement_record(each, reason(each, Style())) for each in kept],
        applied=applied and AppliedRecord.of(applied, calls=calls),
    )
    if applied is None:
        return Answer(found, of_heap(session, _lines(context, plans, totals, kept, refused)), problems)
    # with --arena, malloc_trim was not called
    left = _left_lines(context.style, applied, kept if options.arena is None else (), options.tops)
    text = chain(_applied_lines(context.style, applied), left)
    return Answer(found, of_heap(session, text), problems, 0 if applied.released_bytes else 1)


def _beside(session: Session) -> Sequence[str]:
    """Problems that do not forbid calling malloc_trim. Other threads may run on, as it takes malloc's own locks."""
    return (RUN_ON, *UNKNOWN_BESIDE) if session.layout.newer is not None else (RUN_ON,)


def _all(context: Context) -> bool:
    """Whether the plans cover everything that was requested."""
    return context.options.arena is not None or context.session.all_arenas


def _prepare(context: Context) -> Controller:
    """Asks the user, then brings every thread out of malloc, so that the plan made afterwards holds."""
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
    options, target = context.options, context.target
    if target.kind != "live":
        raise RefusedError("is-a-core", "a core cannot be trimmed", "--apply needs the live process")
    session = context.session
    _check_whose_malloc(session)
    plans = [trim for trim in trims(session) if options.arena in (None, trim.plan.arena)]
    parts = [trim.resident.returned for trim in plans] if options.arena is None else []
    parts += [trim.resident.tops for trim in plans] if options.tops else []
    returns = total(parts, _all(context))
    takes, began = trim_seconds(returns or 0, _ranges(plans)), time.monotonic()
    blocks = likely_chunks(session, MOST) if context.door.lets_go and session.started else 0
    counting = time.monotonic() - began
    looks, applies = LOOK + EACH_FREE * _listed(session), _apply_seconds(session, plans, blocks)
    pid, held_seconds = target.pid, context.door.release()
    context.renew()
    # if the machine was slow during this look, it will be so again
    slow = max(1.0, (held_seconds - counting) / looks)
    holds = held_seconds + slow * applies if held_seconds else None
    calls = ["malloc_trim(0)"] if options.arena is None else []
    calls += ["madvise on the tops of thread arenas"] if options.tops else []
    name, effects = one_line(name_of(pid or 0)), []
    if returns is not None:
        within = f" in about {duration(slow * takes)}" if returns else ""
        effects.append(f"returns {say(returns) if returns else 'nothing'}{within}")
    if holds is not None:
        effects.append(
            f"stops the process for about {duration(round(holds, 2))} in all, to look and to check the heap first "
            f"(an estimate; {duration(held_seconds)} of it are over, for this question)"
        )
    who = f"{name} ({pid})" if name else f"process {pid}"
    return f"Call {' and '.join(calls)} in {who}?" + (f" It {' and '.join(effects)}" if effects else "")


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
    call = trim_seconds(total(trim.resident.returned for trim in plans) or 0, ranges)
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
    from .check import audit

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
        began = time.monotonic()
        call_trim(controller, context.session)
        seconds += time.monotonic() - began
        predicted += [trim.resident.returned for trim in plans]
        calls.append(_released("malloc_trim(0)", "range", len(ranges), _kept(before, _in_memory(context, ranges))))
    if context.options.tops:
        tops = [(trim.plan.address, trim.plan.tops) for trim in plans if trim.plan.tops]
        inside = [each for _, each in tops]
        before = _in_memory(context, inside)
        began = time.monotonic()
        refused = release_tops(controller, context.session, tops)
        seconds += time.monotonic() - began
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


def _row(trim: Trim, with_ranges: bool) -> ArenaTrimRecord:
    plan, ranges = trim.plan, {}
    if with_ranges:
        ranges = {"madvise_ranges": None if plan.madvise is None else [_range(each) for each in plan.madvise]}
    return ArenaTrimRecord.of(
        plan,
        index=plan.arena,
        resident_bytes=trim.resident.returned,
        kept=KeptByArena.of(
            plan,
            top_bytes=plan.top and plan.top.bytes,
            top_resident_bytes=trim.resident.top,
            subpage_bytes=plan.stranded_bytes,
        ),
        tops_range=_range(plan.tops) if plan.tops else None,
        **ranges,
    )


def _range(range: Range) -> tuple[str, int]:
    return hexadecimal(range.address), range.bytes


def _totals(plans: Sequence[Trim], whole: bool) -> TrimTotals:
    return TrimTotals(
        release_bytes=total((trim.plan.release_bytes for trim in plans), whole),
        resident_bytes=total((trim.resident.returned for trim in plans), whole),
        kept_bytes=total((trim.plan.kept_bytes for trim in plans), whole),
        tops_bytes=total((trim.plan.tops_bytes for trim in plans), whole),
        tops_resident_bytes=total((trim.resident.tops for trim in plans), whole),
    )


RESIDENT = "resident_bytes"
EXPENDABLE = ("calls", "tcache", "resident top", "top stays", "address space", "--tops", "stranded", "RSS falls")
WHOSE, WHOSE_TOLD = "pins --types", "whose blocks keep what is stranded"
CAME_IN = 256 << 10
"""How much RSS must have grown meanwhile to be mentioned."""


def _lines(
    context: Context, plans: Sequence[Trim], totals: TrimTotals, kept: Sequence[Statement], refused: Optional[str]
) -> Iterator[str]:
    """`kept`: what stays, and why; `refused`: why --apply would be refused."""
    style, options = context.style, context.options
    yield style.bold(_sentence(style, plans, totals))
    yield ""
    rows = [[trim] for trim in plans]
    footer = plans if len(rows) > 1 and _all(context) else None
    yield from column_table(
        style, _columns(style), rows, footer=footer, expendable=EXPENDABLE, limit=options.limit, what="arena"
    )
    # what is not in memory would not return anything
    said = [each for each in kept if each.figures.get("resident_bytes") != 0]
    yield from _apart([_reason_line(each, style, refused is None) for each in said])
    if options.ranges:
        yield ""
        yield from _range_lines(style, plans, options.tops, options.limit)
    yield from _apart(list(_duration(context, plans, refused)))
    # nothing resident, or, if that is not known, nothing at all
    if 0 not in (total(trim.resident.returned for trim in plans), total(trim.plan.release_bytes for trim in plans)):
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


def _columns(style: Style) -> Sequence[Column]:
    """What they show of one arena, and of all in the last row. "-": the arena has no such figure."""

    def size(figure: Callable[[ArenaTrim], Optional[int]]) -> Callable[[Sequence[Trim]], str]:
        return lambda plans: style.size(total(figure(trim.plan) for trim in plans))

    tops = size(lambda plan: plan.tops_bytes)
    return (
        Column("arena", _name, left=True),
        Column("address space", size(lambda plan: plan.release_bytes)),
        Column("calls", lambda plans: number(_calls(plans))),
        Column("RSS falls", lambda plans: _at_least(style, plans, "returned")),
        Column("top stays", size(lambda plan: plan.top and plan.top.bytes)),
        Column("resident top", lambda plans: _at_least(style, plans, "top")),
        Column("stranded", size(lambda plan: plan.stranded_bytes)),
        Column("tcache", size(lambda plan: plan.tcache_bytes)),
        Column("--tops", lambda plans: "-" if len(plans) == 1 and plans[0].plan.tops_bytes == 0 else tops(plans)),
    )


def _name(plans: Sequence[Trim]) -> str:
    arena = plans[0].plan.arena
    return "all" if len(plans) > 1 else str(arena) if arena else f"{arena} main"


def _calls(plans: Sequence[Trim]) -> Optional[int]:
    return total(None if trim.plan.madvise is None else len(trim.plan.madvise) for trim in plans)


def _at_least(style: Style, plans: Sequence[Trim], name: str) -> str:
    """A figure of what is resident, or its lower bound if not all is known. A bound as large as what is released is
    exact."""
    value, bound = total(getattr(trim.resident, name) for trim in plans), _bound(plans, name)
    if value is not None or bound is None:
        return style.size(value)
    is_exact = name == "returned" and bound == total(trim.plan.release_bytes for trim in plans)
    return style.size(bound) if is_exact else f"≥ {style.size(bound)}"


def _bound(plans: Sequence[Trim], name: str) -> Optional[int]:
    return total(getattr(trim.at_least, name) if trim.at_least else None for trim in plans)


def _sentence(style: Style, plans: Sequence[Trim], totals: TrimTotals) -> str:
    resident, released = totals.resident_bytes, totals.release_bytes
    tops, in_tops = totals.tops_resident_bytes, totals.tops_bytes
    if released is None:
        return "what malloc_trim(0) would return is not known: not all that it looks at can be read"
    if resident is not None:
        first = f"malloc_trim(0) would return {style.size(resident) + ' of' if resident else 'no'} resident memory"
    else:
        bound = _bound(plans, "returned")
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
    "pages-shared": "stranded: free pieces on pages that also hold blocks in use; such a page can be returned only "
    "once all blocks on it are freed",
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


def _duration(context: Context, plans: Sequence[Trim], refused: Optional[str]) -> Iterator[str]:
    style, calls = context.style, _calls(plans)
    resident = total(trim.resident.returned for trim in plans)
    if not resident or calls is None:
        return
    worst = max(plans, key=lambda trim: trim.resident.returned or 0)
    longest = trim_seconds(worst.resident.returned or 0, _calls([worst]) or 0)
    yield style.dim(
        f"malloc_trim would take about {duration(trim_seconds(resident, calls))} ({count(calls, 'madvise call')}) "
        f"and lock one arena at a time, for {duration(longest)} at most. "
        "Released pages that are used again fault in again."
    )
    if context.target.kind != "live":
        return
    if refused is not None:
        yield style.dim(f"--apply would be refused: {refused}")
        return
    holds = _holds(context, plans)
    if holds is not None:
        yield style.dim(
            f"to do it stops the process for about {duration(round(holds, 2))} in all (an estimate), as the heap is "
            "checked first"
        )
    tops = " (--tops: the tops too)" if any(trim.resident.tops for trim in plans) else ""
    yield style.dim(f"next: {style.typed_to_apply('trim --apply')}{tops}")


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
