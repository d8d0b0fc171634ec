"""What several commands ask of a session: usage, trim plans, residency of ranges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterable, Optional

from ..analysis.trim import ArenaTrim, Range, Rules, plan_trim, until_locked
from ..analysis.usage import ArenaUsage, arena_usage, header_usage
from ..glibc.brk import current_brk
from ..glibc.libc_file import other_allocators
from ..model import Tally
from ..session import Session


def problems_of(session: Session) -> list[str]:
    """What a reader must know before trusting a figure, in the order in which it was met."""
    problems = [str(finding) for finding in session.findings]
    shortage = session.target.shortage()
    if shortage:
        problems.insert(0, shortage)
    others = other_allocators(session.regions)
    if others:
        problems.append(f"{' and '.join(others)} is mapped and serves malloc in this process: "
                        "glibc's arenas hold only what goes past it")  # fmt: skip
    if session.params is None:
        problems.append("mp_ was not found: thresholds and blocks served by mmap are not known")
    if "thread_caches" in session.__dict__ and not session.caches_known:
        problems.append("not every thread's cache was found: what they hold is not told from blocks in use")
    return problems


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


@dataclass(frozen=True)
class Residents:
    """How much of a plan's ranges is in memory; None where that cannot be known."""

    trim: Optional[int]
    top: Optional[int]
    tops: Optional[int]


@dataclass(frozen=True)
class Trim:
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
    going = [*until_locked(plan.madvise, session.locked), *([plan.brk_range] if plan.brk_range else [])]
    kept = [plan.top] if plan.top[1] else []
    tops = until_locked([plan.tops] if plan.tops else [], session.locked)
    return Residents(*(resident_bytes(session, ranges) for ranges in (going, kept, tops)))


def resident_bytes(session: Session, ranges: Iterable[Range]) -> Optional[int]:
    """How much of these ranges is in memory."""
    residency = session.any_residency
    if residency is None:
        return None
    found = 0
    for start, size in ranges:
        pages = residency.count(start, start + size)
        if pages is None:
            return None
        found += pages.resident
    return found
