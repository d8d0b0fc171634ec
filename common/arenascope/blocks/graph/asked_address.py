"""What an address stands for when its owner is asked for: a block, or else the whole mapping."""

from __future__ import annotations

from typing import NamedTuple, Optional

from ...glibc.sweep import Placed, find_blocks
from ...sources.target import Span
from .blocks import heap_spans
from .pointers_to import ImageSearch
from .roots import Ref


class Goal(NamedTuple):
    """What is pointed to."""

    span: Span
    """The end is included."""
    bytes: int
    state: str
    """"used", "mmapped", "tcache", "fast", "free" or "mapping"."""
    number: Optional[int] = None
    """Of a live block: its number."""
    arena: Optional[int] = None
    path: str = ""
    """What is mapped there, of a mapping."""


class Pointed(NamedTuple):
    """What an address stands for, and who points there."""

    goal: Optional[Goal]
    """None where nothing is mapped."""
    refs: list[Ref]


def asked_for(search: ImageSearch, place: int) -> Pointed:
    goal = _goal_of(search, place)
    return Pointed(goal, _refs_to(search, goal) if goal is not None else [])


def _goal_of(search: ImageSearch, place: int) -> Optional[Goal]:
    session, blocks = search.session, search.blocks
    index = blocks.find(place)
    header = session.layout.header if session.started else 0
    if index < 0 and session.started:
        # a chunk's header is the block's, too
        index = blocks.find(place + header)
        index = index if index >= 0 and place >= blocks.starts[index] - header else -1
    if index >= 0:
        start = blocks.starts[index]
        mapped = any(each.chunk + header == start for each in session.mmapped)
        arena = None if mapped else session.arena_of(start - header)
        span = Span(start, blocks.ends[index])
        return Goal(span, blocks.sizes[index], "mmapped" if mapped else "used", index, arena=arena)
    return _free(search, place) or _mapping(search, place)


def _refs_to(search: ImageSearch, goal: Goal) -> list[Ref]:
    """All that points there; where nothing does, what may mean it all the same."""
    refs, again = search.references(goal.span, goal.number), search.second_look
    # what a second look has not found need not be looked for once more
    if refs or (again is not None and goal.number not in {None, *(each.suspect for each in again.pointers)}):
        return refs
    return search.encoded(goal.span, goal.number)


def _free(search: ImageSearch, place: int) -> Optional[Goal]:
    """A chunk that is not in use: who still points there."""
    session = search.session
    for arena in session.headers if session.started else ():
        for heap in session.heaps[arena.index]:
            if not heap.address <= place < heap.end:
                continue
            placed = find_blocks(session.sweep(arena, heap), session.listed, [place]).get(place)
            if not isinstance(placed, Placed) or placed.state in ("top", "used"):
                return None
            user, end = placed.chunk + session.layout.header, placed.chunk + placed.bytes
            return Goal(Span(user, end), placed.bytes, placed.state, arena=arena.index)
    return None


def _mapping(search: ImageSearch, place: int) -> Optional[Goal]:
    region = next((each for each in search.session.regions if each.contains(place)), None)
    if region is None:
        return None
    # the kernel makes one mapping of neighbours: what lies between those that are known is somebody else's
    own = [Span(region.start, end) for end in [search.session.bss_ends.get(region.start)] if end is not None]
    start, end = region.start, region.end
    for each in [*own, *heap_spans(search.session)]:
        if each.start <= place < each.end:
            start, end = max(start, each.start), min(end, each.end)
        elif each.end <= place:
            start = max(start, each.end)
        else:
            end = min(end, each.start)
    return Goal(Span(start, end - 1), end - start, "mapping", path=region.path)
