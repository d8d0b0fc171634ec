"""Follows many lists of free chunks at once, by the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Mapping

from ..engine import EngineImage, FollowedLists, ListStart, is_there

if TYPE_CHECKING:
    from .session import Session

LARGEST = (1 << 64) - 1


def follow_lists(session: Session, starts: Mapping[int, ListStart]) -> FollowedLists:
    """Follows lists to their ends: those of a process as it stands, or those in the bytes of another image. What is not
    among the result is left to the walkers: without the engine that is all, and so where only a debugger reads."""
    target, layout = session.target, session.layout
    if not starts or not is_there():
        return FollowedLists()
    engine = EngineImage(target.pointer_size, target.byte_order, target.stop_if_asked)
    if target.memory_tid is None:
        heaps = [heap for heaps in session.heaps.values() for heap in heaps]
        pieces = [piece for heap in heaps for piece in target.pieces(heap.address, heap.end) or ()]
        if not pieces:
            return FollowedLists()
        engine.set_memory(pieces)
    size = sum(header.system_mem for header in session.headers)
    most = size // layout.min_size + sum(start.limit for start in starts.values() if start.inside)
    rules = layout.header, layout.mask, layout.behaviour.safe_linking, min(most, LARGEST)
    with session.meter("following free lists", size) as meter:
        return engine.follow(target.memory_tid or 0, starts, rules, meter, size)
