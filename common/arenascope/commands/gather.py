"""What several commands ask of a session: usage, trim plans, residency of ranges."""

from __future__ import annotations

from bisect import bisect_right
from typing import Iterable, Iterator, NamedTuple, Optional

from ..analysis.trim import ArenaTrim, Range, Rules, plan_trim, until_locked
from ..analysis.usage import ArenaUsage, arena_usage, header_usage
from ..glibc.brk import current_brk
from ..model import ArenaHeader, Statement, Tally
from ..render.problems import sentence
from ..session import Session
from .allocators import replaced

STACK_WORDS = 32
"""A thread that waits has return addresses in its innermost frames."""


def problems_of(session: Session) -> list[Statement]:
    """What a reader must know before trusting a figure, in the order in which it was met."""
    problems = [finding.statement for finding in session.findings]
    shortage = session.target.shortage()
    if shortage:
        problems.insert(0, Statement("core-cut", text=shortage))
    problems += _absent(session)
    past = replaced(session)
    if past:
        problems.append(past)
    if session.params is None:
        problems.append(Statement("mp-not-found"))
    if "thread_caches" in session.__dict__ and not session.caches_known:
        problems.append(Statement("caches-not-found"))
    if None in session.__dict__.get("cached_by_arena", {}).values():
        problems.append(Statement("cached-chunks-unowned"))
    words = session.thread_words[0] if session.started and "thread_words" in session.__dict__ else []
    if any(each.arena is None for each in words):
        problems += [Statement("thread-arenas-not-found"), *_without_stacks(session)]
    return problems


def _without_stacks(session: Session) -> Iterator[Statement]:
    """Why, where a core has only zeros for the stacks of such threads."""
    if session.target.kind != "core":
        return
    size = STACK_WORDS * session.target.pointer_size
    lost = [each.thread for each in session.thread_words[0] if each.arena is None and each.thread.stack_pointer]
    empty = [thread for thread in lost
             if not (session.memory.try_read(thread.stack_pointer or 0, size) or b"?").strip(b"\0")]  # fmt: skip
    if empty:
        yield Statement("stacks-empty", {"threads": len(session.thread_words[0]), "empty": len(empty)})


def _absent(session: Session) -> Iterator[Statement]:
    """Heaps that a core holds in part: it was cut, or the program withheld pages (MADV_DONTDUMP)."""
    if session.target.kind != "core" or not session.regions:
        return
    present = [region for region in session.regions if region.present]
    starts = [region.start for region in present]
    for heap in [heap for heaps in session.__dict__.get("heaps", {}).values() for heap in heaps]:
        there, index = heap.address, bisect_right(starts, heap.address) - 1
        while 0 <= index < len(present) and present[index].start <= there < heap.end and present[index].end > there:
            there, index = present[index].end, index + 1
        if there < heap.end:
            yield Statement("heap-absent", {"arena": heap.arena}, {"address": f"{heap.address:#x}"})


def parts_differ(header: ArenaHeader, found: int) -> Statement:
    return Statement("parts-differ", {"arena": header.index, "parts_bytes": found, "system_bytes": header.system_mem})


def top_differs(header: ArenaHeader, found: int) -> Statement:
    return Statement("top-differs", {"arena": header.index, "top_bytes": header.top_bytes, "to_end_bytes": found})


def listed_not_met(header: ArenaHeader, chunks: int) -> Statement:
    return Statement("listed-not-met", {"arena": header.index, "chunks": chunks})


def inexact(session: Session) -> Optional[str]:
    """Why a text of glibc's own cannot be written as glibc would; None where nothing that it tells is missing."""
    sound = session.all_arenas and all(arena.complete for arena in session.arenas) and session.params is not None
    return None if sound else sentence(problems_of(session)[0])


def unknown_release(session: Session) -> list[Statement]:
    """For what differs from release to release; no problem for figures, as memory tells the layout."""
    if session.located.version is not None:
        return []
    return [Statement("release-unknown", names={"taken_for": ".".join(map(str, session.layout.release))})]


def full_usages(session: Session) -> list[ArenaUsage]:
    arenas = session.arenas
    caches = session.thread_caches if session.started else []
    cached = session.cached_by_arena if session.caches_known else None
    return arena_usage(arenas, caches, cached, session.resident)


def quick_usages(session: Session) -> list[ArenaUsage]:
    return header_usage(session.headers, session.heaps, session.thread_owners, session.resident)


def mmapped_tally(session: Session) -> Optional[Tally]:
    params = session.params
    return Tally(params.values["n_mmaps"], params.values["mmapped_mem"]) if params else None


class Residents(NamedTuple):
    """How much of a plan's ranges is in memory; None where that cannot be known."""

    trim: Optional[int]
    top: Optional[int]
    tops: Optional[int]


class Trim(NamedTuple):
    """A plan, and what of it would show in RSS."""

    plan: ArenaTrim
    resident: Residents
    at_least: Optional[Residents] = None
    """A lower bound, where the image has no more to tell (a dense core)."""


def trims(session: Session, bounds: bool = False) -> list[Trim]:
    """malloc_trim(0), arena by arena; with `bounds`, lower ones are counted where nothing exact can be known."""
    if not session.started:
        return []
    usages = full_usages(session)
    rules = trim_rules(session)
    found = []
    for arena, usage in zip(session.arenas, usages):
        plan = plan_trim(arena, usage.tcache.bytes if usage.tcache else None, rules)
        if session.residency is not None:
            found.append(Trim(plan, _residents(session, plan)))
        else:
            # counting the pages of a dense core that are not all zero reads all of them
            unknown = Residents(None, None, None)
            found.append(Trim(plan, unknown, _residents(session, plan) if bounds else unknown))
    return found


def trim_rules(session: Session) -> Rules:
    located, params = session.located, session.params
    brk = current_brk(session.target, session.memory, located.libc, session.regions, session.headers[0])
    thp = params.get("thp_pagesize") if params else None
    return Rules(session.layout, session.target.page_size, brk, thp or 0)


def _residents(session: Session, plan: ArenaTrim) -> Residents:
    """The break moves back over locked pages; madvise does not."""
    going = kept = tops = None
    if plan.madvise is not None and plan.brk_bytes is not None:
        going = [*until_locked(plan.madvise, session.locked), *([plan.brk_range] if plan.brk_range else [])]
    if plan.top is not None:
        kept = [plan.top] if plan.top[1] else []
    if plan.tops_bytes is not None:
        tops = [*until_locked([plan.tops] if plan.tops else [], session.locked)]
    return Residents(*(resident_bytes(session, ranges) for ranges in (going, kept, tops)))


def resident_bytes(session: Session, ranges: Optional[Iterable[Range]]) -> Optional[int]:
    """How much of these ranges is in memory; None where that, or what they are, is not known."""
    residency = session.any_residency
    if residency is None or ranges is None:
        return None
    found = 0
    for start, size in ranges:
        pages = residency.count(start, start + size)
        if pages is None:
            return None
        found += pages.resident
    return found
