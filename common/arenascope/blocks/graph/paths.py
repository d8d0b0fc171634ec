"""The way from its main holder to a block."""

from __future__ import annotations

from typing import Optional, Sequence

from ...sources.target import Span
from ..finder import Finder
from .edge import DEEP, FLAGS, INSIDE
from .edges import Seed
from .kept import NOBODY
from .owners import RANKS, Held, held
from .refs import BLOCK, Ref, Search, of_word
from .strength import Strength
from .whose import Goal


def find_owner(search: Search, goal: Goal, refs: Sequence[Ref]) -> Optional[list[Ref]]:
    """The pointers to what is asked for, that of a root first; None where nothing leads there. `refs`: all that points
    to it. Who holds a live block is its main holder; of what is no such block whoever has one of these pointers, those
    that are sure before others."""
    found = held(search)
    if goal.number is not None and found.main.whose[goal.number] != NOBODY:
        return _way(search, found, goal.number)
    strength = Strength(search.session, search.blocks)

    def order(ref: Ref) -> tuple[bool, int]:
        if ref.block is not None:
            return not strength.is_sure(ref, goal), found.main.ranks[ref.block]
        return not strength.is_sure(ref, goal), RANKS.index(ref.kind if ref.kind in RANKS else "stack")

    known = [each for each in refs if each.block is None or found.main.whose[each.block] != NOBODY]
    last = min(known, key=order, default=None)
    if last is None:
        return None
    return [*(_way(search, found, last.block) if last.block is not None else ()), last]


def _way(search: Search, found: Held, block: int) -> list[Ref]:
    way = [block]
    while found.main.parents[way[-1]] != NOBODY:
        way.append(found.main.parents[way[-1]])
    way.reverse()
    seeds = [
        seed
        for lead, seed in zip(found.leads, found.graph.seeds)
        if (lead.rank, lead.owner, lead.edge >> FLAGS) == (found.main.ranks[block], found.main.whose[block], way[0])
    ]
    refs = [_of_seed(search, min(seeds, key=lambda each: (each.edge & DEEP, each.edge & INSIDE)))]
    for source, to in zip(way, way[1:]):
        start = any(edge >> FLAGS == to and not edge & INSIDE for edge in found.graph.of(source))
        refs.append(_pointer(search, source, to, start))
    return refs


def _of_seed(search: Search, seed: Seed) -> Ref:
    ranges = search.roots.ranges
    if seed.root >= len(ranges):
        return of_word(search.roots.words[seed.root - len(ranges)])
    return search.named(ranges[seed.root], seed.address, search.session.memory.word(seed.address))


def _pointer(search: Search, source: int, to: int, start_only: bool) -> Ref:
    """The first pointer from one block to another, to its start alone or not."""
    blocks, word = search.blocks, search.session.memory.pointer_size
    start, end = blocks.starts[to], blocks.ends[to]
    finder = Finder([start], [start if start_only else end], [Span(start, end)], word)
    for window in search.words.of(blocks.starts[source], blocks.ends[source]):
        for index, _ in finder.hits(window.words):
            address = window.address + index * word
            return Ref(BLOCK, address, window.words[index], block=source, offset=address - blocks.starts[source])
    return Ref(BLOCK, None, start, block=source)
