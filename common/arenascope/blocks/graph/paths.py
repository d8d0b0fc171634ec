"""The way from its main holder to a block."""

from __future__ import annotations

from itertools import chain
from typing import Optional, Sequence

from ...sources.target import Span
from .asked_address import Goal
from .blocks import DEEP, FLAGS, INSIDE, NOBODY, STALE
from .edges import stale_at
from .leads import RANKS
from .owners import BlockHolders, held, held_at_last
from .pointer_strength import Strength
from .refs import BLOCK, ImageSearch, Ref, of_word
from .root_pointers import Seed


def find_owner(search: ImageSearch, goal: Goal, refs: Sequence[Ref]) -> Optional[list[Ref]]:
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


def _way(search: ImageSearch, found: BlockHolders, block: int) -> list[Ref]:
    way = [block]
    while found.main.parents[way[-1]] != NOBODY:
        way.append(found.main.parents[way[-1]])
    way.reverse()
    first = found.main.ranks[way[0]], found.main.whose[way[0]], way[0]
    seeds = [
        seed
        for lead, seed in zip(found.leads, found.graph.seeds)
        if (lead.rank, lead.owner, lead.edge >> FLAGS) == first
    ]
    refs = [_of_seed(search, min(seeds, key=lambda each: (each.edge & DEEP, each.edge & INSIDE)))]
    for source, to in zip(way, way[1:]):
        best = min((int(edge) & (STALE | INSIDE) for edge in found.graph.of(source) if edge >> FLAGS == to), default=0)
        refs.append(_pointer(search, source, to, best))
    return refs


def _of_seed(search: ImageSearch, seed: Seed) -> Ref:
    ranges, again = search.roots.ranges, search.second_look
    if seed.root >= len(ranges):
        return of_word(search.roots.words[seed.root - len(ranges)])
    for each in again.pointers if again is not None else ():
        if each.seed == seed:
            found = search.named(ranges[seed.root], seed.address, search.blocks.starts[each.suspect])
            return found._replace(encoding=each.encoding)
    return search.named(ranges[seed.root], seed.address, search.session.memory.word(seed.address))


def _pointer(search: ImageSearch, source: int, to: int, best: int) -> Ref:
    """The first pointer from one block to another that is as good as its `best` edge; where there is no plain one, what
    is written otherwise."""
    blocks = search.blocks
    begin, start, end = blocks.starts[source], blocks.starts[to], blocks.ends[to]
    span = Span(begin, blocks.ends[source])
    plain = search.between(span, Span(start, end if best & INSIDE else start))
    good = (each for each in plain if best & STALE or stale_at(search, each.address, source) is None)
    for hit in chain(good, search.between(span, Span(start, end), encoded=True)):
        return Ref(BLOCK, hit.address, hit.value, block=source, offset=hit.address - begin, encoding=hit.encoding)
    return Ref(BLOCK, None, start, block=source)
