"""What every arena holds, as several commands need it."""

from __future__ import annotations

from typing import Optional

from ..analysis.usage import ArenaUsage, arena_usage, header_usage
from ..model import Tally
from ..session import Session


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
