"""The way from its main holder to a block."""

from __future__ import annotations

from itertools import chain
from typing import Optional, Sequence

from ...sources.target import Span
from .asked_address import Goal
from .edge import DEEP, FLAGS, INSIDE
from .edges import SecondLook, Seed
from .owner_pages import NOBODY
from .owners import RANKS, Held, held, held_at_last
from .pointer_strength import Strength
from .refs import BLOCK, Ref, Search, of_word


def find_owner(search: Search, goal: Goal, refs: Sequence[Ref]) -> Optional[list[Ref]]:
    """The pointers to what is asked for, that of a root first; None where nothing leads there. `refs`: all that points
    to it. Who holds a live block is its main holder; of what is no such block whoever has one of these pointers, those
    that are sure before others."""
    found = held(search) if goal.number is None else held_at_last(search, goal.number)
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
    ranges, again = search.roots.ranges, search.memo.get(SecondLook)
    if seed.root >= len(ranges):
        return of_word(search.roots.words[seed.root - len(ranges)])
    for each in again.pointers if again is not None else ():
        if each.seed == seed:
            found = search.named(ranges[seed.root], seed.address, search.blocks.starts[each.suspect])
            return found._replace(encoding=each.encoding)
    return search.named(ranges[seed.root], seed.address, search.session.memory.word(seed.address))


def _pointer(search: Search, source: int, to: int, start_only: bool) -> Ref:
    """The first pointer from one block to another, to its start alone or not; where there is no plain one, what is
    written otherwise."""
    blocks = search.blocks
    begin, start, end = blocks.starts[source], blocks.starts[to], blocks.ends[to]
    span = Span(begin, blocks.ends[source])
    plain = search.between(span, Span(start, start if start_only else end))
    for hit in chain(plain, search.between(span, Span(start, end), encoded=True)):
        return Ref(BLOCK, hit.address, hit.value, block=source, offset=hit.address - begin, encoding=hit.encoding)
    return Ref(BLOCK, None, start, block=source)
