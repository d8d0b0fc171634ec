"""Follows many lists of free chunks at once, by the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Mapping

from ..engine import FollowedLists, ListStart

if TYPE_CHECKING:
    from .session import Session

LARGEST = (1 << 64) - 1


def follow_lists(session: Session, starts: Mapping[int, ListStart]) -> FollowedLists:
    """Follows lists to their ends: those of a process as it stands, or those in the bytes of another image. What is not
    among the result is left to the walkers: without the engine that is all, and so where only a debugger reads."""
    layout, engine = session.layout, session.engine if starts else None
    if engine is None:
        return FollowedLists()
    size = sum(header.system_mem for header in session.headers)
    most = size // layout.min_size + sum(start.limit for start in starts.values() if start.inside)
    rules = layout.header, layout.mask, layout.behaviour.safe_linking, min(most, LARGEST)
    with session.meter("following free lists", size) as meter:
        return engine.follow(session.target.memory_tid or 0, starts, rules, meter, size)
