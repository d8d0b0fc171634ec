"""What each kind of live block keeps from going back, of a whole image."""

from __future__ import annotations

from typing import Callable, Iterable, Mapping, Optional

from ..analysis.holding import Holdings, HoldSearch, Present, Typed
from ..model import ArenaHeader, Heap
from ..session import Session
from .resident import resident_spans
from .trims import thresholds_of, trim_rules

Stream = Callable[[ArenaHeader, Heap], Iterable[Typed]]
"""A heap's blocks in address order, each with the number of its kind, and what is no block, as a sweep tells it."""
InMemory = Mapping[Heap, Optional[Present]]


def in_memory(session: Session, only: Optional[int] = None) -> InMemory:
    """What all heaps, or those of arena `only`, have in memory: to be read before any of them is."""
    present: dict[Heap, Optional[Present]] = {}
    for header in session.headers:
        if only in (None, header.index):
            for heap in session.heaps[header.index]:
                spans = resident_spans(session, heap)
                present[heap] = None if spans is None else Present(spans)
    return present


def held_back(session: Session, present: InMemory, stream: Stream) -> Holdings:
    """Of the arenas of which it is known what is in memory."""
    rules, holdings = trim_rules(session), Holdings()
    for header in session.headers:
        heaps = [heap for heap in session.heaps[header.index] if heap in present]
        if not heaps:
            continue
        top_end = header.top + (header.top_bytes or 0)
        search = HoldSearch(header.main, top_end, rules, thresholds_of(session, header, rules), holdings)
        search.locked = session.locked
        for heap in heaps:
            search.walk(heap, stream(header, heap), present[heap])
        search.finish()
    return holdings
