"""The shortest way from a root to a block."""

from __future__ import annotations

from array import array
from typing import Iterable, Optional, Sequence

from ...sources.target import Span
from ..finder import Finder
from .edges import INSIDE, Graph, Seed, build
from .leaks import Marked
from .reach import DEFINITE, POSSIBLE
from .refs import BLOCK, Ref, Search, of_word
from .roots import KINDS
from .spread import Spread
from .strength import Strength
from .whose import Goal

UNSEEN, ROOT = -1, -2
FAR = 10000
"""Blocks that are gone through before it is asked whether there is a way at all, where that is quick."""


def find_owner(search: Search, goal: Goal, refs: Sequence[Ref]) -> Optional[list[Ref]]:
    """The pointers from a root to what is asked for, the root's first; None where nothing leads there. `refs`: all that
    points to it. Ways by pointers to starts come first, and among these by variables, stacks and registers."""
    strength = Strength(search.session, search.blocks)
    graph: Optional[Graph] = None
    for definite in (True, False):
        last = [each for each in refs if not definite or strength.is_sure(each, goal)]
        roots = [each for each in last if each.kind != BLOCK]
        if roots and roots[0].kind != "mapping":
            return [roots[0]]
        if any(each.kind == BLOCK for each in last):
            graph = graph or build(search)
        for kinds in (KINDS[:-1], KINDS):
            way = _way(search, graph, [each for each in last if each.kind == BLOCK], kinds, definite=definite)
            if way is not None:
                return way
            if roots and kinds == KINDS:
                return [roots[0]]
    return None


def _way(
    search: Search, graph: Optional[Graph], last: Sequence[Ref], kinds: Sequence[str], definite: bool
) -> Optional[list[Ref]]:
    if graph is None or not last:
        return None
    by_block = {each.block: each for each in reversed(last) if each.block is not None}
    marked = search.memo.get(Marked)
    if marked is not None:
        # what leaks were asked for, or a graph's file kept, tells at once that there is no way
        least = DEFINITE if definite else POSSIBLE
        by_block = {block: each for block, each in by_block.items() if marked.marks[block] >= least}
    if not by_block:
        return None
    seeds = seeds_of(search, graph, kinds)
    sure = marked is not None and len(seeds) == len(graph.seeds)
    way = shortest(graph, seeds, by_block, definite, sure=sure)
    if way is None:
        return None
    seed, blocks = way
    refs = [_of_seed(search, seed)]
    for source, to in zip(blocks, blocks[1:]):
        refs.append(_pointer(search, source, to, definite))
    return [*refs, by_block[blocks[-1]]]


def seeds_of(search: Search, graph: Graph, kinds: Sequence[str]) -> list[Seed]:
    """Those of roots of these kinds, in the order of the kinds."""
    order = {kind: at for at, kind in enumerate(kinds)}
    kinds_of = [*(each.kind for each in search.roots.ranges), *(each.kind for each in search.roots.words)]
    places = [order.get(kind, -1) for kind in kinds_of]
    return sorted((each for each in graph.seeds if places[each.root] >= 0), key=lambda each: places[each.root])


def shortest(
    graph: Graph, seeds: Iterable[Seed], goals: Iterable[int], definite: bool, *, sure: bool = False
) -> Optional[tuple[Seed, list[int]]]:
    """The root's pointer, and the blocks from the first that it leads to, to one of the goals. `sure`: that there
    is one is as good as known."""
    wanted = set(goals)
    before = array("q", [UNSEEN]) * len(graph.blocks)
    first: dict[int, Seed] = {}
    level: list[int] = []
    for seed in seeds:
        index = seed.edge >> 1
        if before[index] == UNSEEN and not (definite and seed.edge & INSIDE):
            before[index] = ROOT
            first[index] = seed
            level.append(index)
    end = next((each for each in level if each in wanted), None)
    far = FAR if graph.numpy is not None and not sure else len(before)
    begin, seen = list(level), 0
    while level and end is None:
        seen += len(level)
        if seen > far:
            # all that can be reached is told far sooner than the ways to it
            if not _is_reached(graph, begin, wanted, definite):
                return None
            far = len(before)
        level = _next_level(graph, level, before, definite)
        end = next((each for each in level if each in wanted), None)
    if end is None:
        return None
    way = [end]
    while before[way[-1]] != ROOT:
        way.append(before[way[-1]])
    return first[way[-1]], way[::-1]


def _is_reached(graph: Graph, begin: Iterable[int], wanted: Iterable[int], definite: bool) -> bool:
    marks = bytearray(len(graph.blocks))
    Spread(graph, marks).mark(begin, 1, starts_only=definite)
    return any(marks[each] for each in wanted)


def _next_level(graph: Graph, level: Sequence[int], before: array[int], definite: bool) -> list[int]:
    met = []
    for source in level:
        for edge in graph.of(source):
            if before[edge >> 1] == UNSEEN and not (definite and edge & INSIDE):
                before[edge >> 1] = source
                met.append(edge >> 1)
    return met


def _of_seed(search: Search, seed: Seed) -> Ref:
    ranges = search.roots.ranges
    if seed.root >= len(ranges):
        return of_word(search.roots.words[seed.root - len(ranges)])
    return search.named(ranges[seed.root], seed.address, search.session.memory.word(seed.address))


def _pointer(search: Search, source: int, to: int, definite: bool) -> Ref:
    """The first pointer from one block to another."""
    blocks, word = search.blocks, search.session.memory.pointer_size
    start, end = blocks.starts[to], blocks.ends[to]
    finder = Finder([start], [start if definite else end], [Span(start, end)], word)
    for window in search.words.of(blocks.starts[source], blocks.ends[source]):
        for index, _ in finder.hits(window.words):
            address = window.address + index * word
            return Ref(BLOCK, address, window.words[index], block=source, offset=address - blocks.starts[source])
    return Ref(BLOCK, None, start, block=source)
