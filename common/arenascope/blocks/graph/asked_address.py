"""What an address stands for when its owner is asked for: a block, or else the whole mapping."""

from __future__ import annotations

import sys
from bisect import bisect_right
from typing import Iterator, NamedTuple, Optional, Sequence

from ...glibc.sweep import Placed, find_blocks
from ...sources.target import Span
from ..pointer_finder import Finder
from .blocks import DEEP, FLAGS, INSIDE, STALE, heap_spans
from .edges import AT_ONCE, Graph
from .refs import BLOCK, ImageSearch, Ref, in_order, of_word

WAYS = (0, INSIDE, DEEP, INSIDE | DEEP)


def pointers_to(search: ImageSearch, graph: Graph, number: int) -> list[Ref]:
    """As Search.references finds them."""
    blocks, roots = search.blocks, search.roots
    start, end = blocks.starts[number], blocks.ends[number]
    refs: list[Ref] = []
    for seed in graph.seeds:
        if seed.edge >> FLAGS != number:
            continue
        if seed.root >= len(roots.ranges):
            refs.append(of_word(roots.words[seed.root - len(roots.ranges)]))
        else:
            value = search.session.memory.word(seed.address)
            refs.append(search.named(roots.ranges[seed.root], seed.address, value))
    word = search.session.memory.pointer_size
    finder = Finder([start], [end], [Span(start, end)], word)
    for source in _sources(graph, number):
        first = blocks.starts[source]
        for window in search.words.of(first, blocks.ends[source]):
            for index, _ in finder.hits(window.words):
                address = window.address + index * word
                refs.append(Ref(BLOCK, address, window.words[index], block=source, offset=address - first))
    return in_order(refs)


def _sources(graph: Graph, number: int) -> Sequence[int]:
    """The blocks that lead to it, inside of it or not."""
    return sorted(
        {
            bisect_right(graph.offsets, at) - 1
            for way in (*WAYS, *(each | STALE for each in WAYS))
            for at in _places(graph, number << FLAGS | way)
        }
    )


def _places(graph: Graph, edge: int) -> Iterator[int]:
    """Where it stands among the edges: bytes are searched faster than numbers, but for numpy's."""
    if graph.numpy is not None:
        numpy, edges = graph.numpy, graph.numpy.asarray(graph.edges)
        for first in range(0, len(edges), AT_ONCE):
            yield from (numpy.flatnonzero(edges[first : first + AT_ONCE] == edge) + first).tolist()
        return
    data = memoryview(graph.edges).cast("B").tobytes()  # type: ignore[arg-type]
    needle = edge.to_bytes(4, sys.byteorder)
    at = data.find(needle)
    while at >= 0:
        if at % 4 == 0:
            yield at // 4
        at = data.find(needle, at + 1)


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
        arena = None if mapped else session.owner_of(start - header)
        span = Span(start, blocks.ends[index])
        return Goal(span, blocks.sizes[index], "mmapped" if mapped else "used", index, arena=arena)
    return _free(search, place) or _mapping(search, place)


def _refs_to(search: ImageSearch, goal: Goal) -> list[Ref]:
    """All that points there; where nothing does, what may mean it all the same."""
    graph, again = search.graph, search.second_look
    if goal.number is not None and graph is not None:
        refs = pointers_to(search, graph, goal.number)
        # what a second look has not found need not be looked for once more
        if refs or (again is not None and goal.number not in {each.suspect for each in again.pointers}):
            return refs
        return search.encoded(goal.span, goal.number)
    return search.references(goal.span, goal.number) or search.encoded(goal.span, goal.number)


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
