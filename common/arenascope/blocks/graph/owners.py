"""Whose memory it is: what each variable, thread, mapping alone leads to.

Stacks and registers hold for a moment what something else keeps: they own only what no variable leads to, and other
mappings what neither does. What several of one rank lead to, none of them alone, is shared. Where much seems to be
nobody's, pointers that are written otherwise count as well: see leaks.py.
"""

from __future__ import annotations

from array import array
from typing import Iterable, Iterator, Mapping, Optional, Sequence

from ...base.records import NamedTuple
from ..recognise.holders import POOL
from .dominators import Dominators, dominators
from .edges import Further, Graph, SecondLook, Seed, build, with_more
from .leak_rows import types_of
from .leaks import pointers_again
from .reach import marked
from .refs import Search
from .spread import Spread
from .together import Common, Shared, Together, Tops

RANKS = {"global": 0, "tls": 0, "kernel": 0, "stack": 1, "register": 1, "mapping": 2}
SHARED, UNREACHED = "shared", "unreached"
NOBODY = -1
NO_RANK = 1 + max(RANKS.values())
"""Of a block to which nobody leads."""
LITTLE = 1000
"""What nothing plain leads to is not looked for again where it is less than such a part of all."""
SPREADS = 0.5
"""A way goes down as long as one block has more than that of what hangs together."""
DEEPEST = 8
MOST_JOINTLY = 3
MOST_NAMED = 2000
"""Of blocks that several hold so many are asked what they are, the largest holders first."""


class Owner(NamedTuple):
    """A root, as people name it."""

    kind: str
    name: Optional[str]
    tid: Optional[int] = None


class Leading(NamedTuple):
    """Who leads to what no owner alone does: whoever leads to most of it first."""

    owners: Sequence[Owner]
    whole: bool
    """These are all."""


class Jointly(NamedTuple):
    """What some owners, all of them and nobody else, lead to."""

    owners: Sequence[Owner]
    bytes: int


class Step(NamedTuple):
    """A block on the way down to where what is held spreads."""

    block: int
    blocks: int
    """How many it holds, itself among them."""
    bytes: int


class Holding(NamedTuple):
    """What an owner alone holds."""

    owner: Owner
    number: int
    """Which of `Owners.whose` it is."""
    blocks: int
    bytes: int
    way: Sequence[Step] = ()
    leading: Optional[Leading] = None
    """Of what several lead to: who does."""


class Owners(NamedTuple):
    holdings: Sequence[Holding]
    """The largest first; they sum to all live blocks."""
    whose: Sequence[int]
    """Of each block, the number of the holding that it belongs to."""
    above: Sequence[int]
    """Of each block, the one that alone leads to it; NOBODY: there is none."""
    jointly: Sequence[Jointly] = ()
    """What most of that is which several lead to, the largest first."""


def in_order(holdings: Sequence[Holding]) -> list[Holding]:
    return sorted(holdings, key=lambda each: (-each.bytes, each.owner.kind, each.owner.name or ""))


def find_owners(search: Search) -> Owners:
    """Once for all who ask about one search."""
    return search.memo.get(Owners) or search.memo.keep(_find_owners(search))


def _find_owners(search: Search) -> Owners:
    graph = build(search)
    led = _led(search, graph)
    suspects = marked(led.rank_of, NO_RANK)
    if suspects and _worth_it(search, suspects):
        graph = _with_encoded(search, graph, suspects)
        led = _led(search, graph)
    # no owner has what one of a higher rank leads to
    ranks = [RANKS[owner.kind] for owner in led.owners]
    held = [[block for block in each if led.rank_of[block] == rank] for each, rank in zip(led.edges, ranks)]
    owners, held = _threads_as_one(led.owners, held)
    return _Tree(search, owners, _dominators(graph, held, led.parents)).summed(graph, held)


def _worth_it(search: Search, suspects: Sequence[int]) -> bool:
    """What is known is taken; else all that may have pointers has to be looked through once more."""
    blocks = search.blocks
    return search.memo.get(SecondLook) is not None or (
        search.looks_again and LITTLE * blocks.bytes_of(suspects) >= blocks.bytes
    )


def _with_encoded(search: Search, graph: Graph, suspects: Sequence[int]) -> Graph:
    found = pointers_again(search, suspects)
    seeds = [each.seed for each in found if each.seed is not None]
    return with_more(graph, seeds, [Further(each.source, each.suspect << 1) for each in found if each.seed is None])


class _Led(NamedTuple):
    """Who leads to what."""

    owners: list[Owner]
    edges: Sequence[Sequence[int]]
    """The blocks that each has a pointer to."""
    rank_of: bytearray
    parents: array[int]
    """By which block each was met."""


def _led(search: Search, graph: Graph) -> _Led:
    owners, edges = _owners(search, graph)
    parents = array("i", [NOBODY]) * len(graph.blocks)
    rank_of = _ranks(graph, [RANKS[owner.kind] for owner in owners], edges, parents)
    return _Led(owners, edges, rank_of, parents)


def _dominators(graph: Graph, held: Sequence[Sequence[int]], parents: array[int]) -> Dominators:
    """Of node 0, which leads to the owners, and of blocks after these."""
    numpy = graph.numpy
    if numpy is not None:
        from .shrink import dominators_at_once

        return dominators_at_once(numpy, graph, held, parents)
    count = len(held)
    first = count + 1

    def targets(node: int) -> Sequence[int]:
        if not node:
            return range(1, first)
        if node < first:
            return [block + first for block in held[node - 1]]
        return [(edge >> 1) + first for edge in graph.of(node - first)]

    return dominators(first + len(graph.blocks), targets)


def _owners(search: Search, graph: Graph) -> tuple[list[Owner], list[list[int]]]:
    """Everybody who has a pointer to a block, and which blocks."""
    known: dict[Owner, int] = {}
    edges: list[list[int]] = []
    for seed in graph.seeds:
        owner = _owner(search, seed)
        if owner not in known:
            known[owner] = len(edges)
            edges.append([])
        edges[known[owner]].append(seed.edge >> 1)
    return list(known), edges


def _threads_as_one(owners: list[Owner], held: list[list[int]]) -> tuple[list[Owner], list[list[int]]]:
    """What a thread holds by its stack and its registers is one owner's, the stack's: a compiler keeps one and the same
    variable in both. Of what only registers hold they are the owner."""
    stacks = {owner.tid: at for at, owner in enumerate(owners) if owner.kind == "stack" and held[at]}
    left = []
    for at, owner in enumerate(owners):
        if owner.kind == "register" and owner.tid in stacks:
            held[stacks[owner.tid]] += held[at]
        else:
            left.append(at)
    return [owners[at] for at in left], [held[at] for at in left]


def _owner(search: Search, seed: Seed) -> Owner:
    ranges = search.roots.ranges
    if seed.root >= len(ranges):
        word = search.roots.words[seed.root - len(ranges)]
        return Owner(word.kind, None if word.kind == "register" else word.name, word.tid)
    root = ranges[seed.root]
    if root.kind == "stack":
        return Owner(root.kind, None, root.tid)
    if root.kind == "mapping":
        return Owner(root.kind, root.path or f"{root.start:#x}")
    place = search.names.place(root, seed.address)
    return Owner(root.kind, place.whole_name or None if place is not None else None, root.tid)


def _ranks(graph: Graph, ranks: Sequence[int], edges: Sequence[Sequence[int]], parents: array[int]) -> bytearray:
    """Of each block the highest rank that leads to it; `parents` learns by which block it was met."""
    marks = bytearray(len(graph.blocks))
    spread = Spread(graph, marks, parents)
    for rank in range(NO_RANK):
        spread.mark((block for owner, each in zip(ranks, edges) if owner == rank for block in each), NO_RANK - rank)
    return marks.translate(bytes((NO_RANK - mark) % 256 for mark in range(256)))


class _Group(NamedTuple):
    """What is one row: an owner, or what several lead to."""

    owner: Owner
    tops: Sequence[int]
    """Places of its uppermost nodes."""


class _Tree:
    """Nodes by the places at which they were met: 0, owners and blocks, each below the one that leads to it alone."""

    def __init__(self, search: Search, owners: Sequence[Owner], tree: Dominators) -> None:
        self._search, self._owners = search, owners
        self._nodes, self._above = tree
        self._first = len(owners) + 1
        self._sizes = search.blocks.sizes
        size = 8 * len(self._nodes)
        self._held, self._blocks = array("Q", bytes(size)), array("Q", bytes(size))
        self._largest: dict[int, int] = {}
        for at in range(len(self._nodes) - 1, 0, -1):
            if self._nodes[at] >= self._first:
                self._held[at] += self._sizes[self._nodes[at] - self._first]
                self._blocks[at] += 1
            over = self._above[at]
            self._held[over] += self._held[at]
            self._blocks[over] += self._blocks[at]
            if over not in self._largest or self._held[at] >= self._held[self._largest[over]]:
                self._largest[over] = at

    def summed(self, graph: Graph, held: Sequence[Sequence[int]]) -> Owners:
        """Each owner's; by type and who leads there what several hold; what nobody does."""
        uppermost = list(self._tops())
        shared = [at for at, owner in uppermost if owner.kind == SHARED]
        places = {at: place for place, at in enumerate(shared)}
        common = Common(graph, self._laid(held, shared, places))
        groups = self._grouped(uppermost, shared, common)
        unreached = len(groups)
        leads = array("q", [NOBODY]) * len(self._sizes)
        of, whose = array("q", bytes(8 * len(self._nodes))), array("q", [unreached]) * len(self._sizes)
        for number, group in enumerate(groups):
            for at in group.tops:
                of[at] = number
        for at in range(1, len(self._nodes)):
            if self._above[at]:
                of[at] = of[self._above[at]]
            if self._nodes[at] >= self._first:
                whose[self._nodes[at] - self._first] = of[at]
                leads[self._nodes[at] - self._first] = max(NOBODY, self._nodes[self._above[at]] - self._first)
        rows = [self._holding(group.owner, number, group.tops) for number, group in enumerate(groups)]
        rows = [
            row._replace(leading=self._leading(common.of([places[at] for at in group.tops])))
            if row.owner.kind == SHARED
            else row
            for row, group in zip(rows, groups)
        ]
        lost = [size for size, owner in zip(self._sizes, whose) if owner == unreached]
        if lost:
            rows.append(Holding(Owner(UNREACHED, None), unreached, blocks=len(lost), bytes=sum(lost)))
        rows = in_order([each for each in rows if each.bytes])
        jointly = [Jointly(self._named(owners), size) for owners, size in common.sums().items()]
        jointly.sort(key=lambda each: (-each.bytes, repr(each.owners)))
        return Owners(rows, whose, leads, jointly[:MOST_JOINTLY])

    def _grouped(
        self, uppermost: Sequence[tuple[int, Owner]], shared: Sequence[int], common: Common
    ) -> Sequence[_Group]:
        """What several lead to by who they are as well, where that is much: of what is put together none is named for
        what only others lead to."""
        large = common.large()
        leaders = {at: owners for at, owners in zip(shared, common.leaders) if owners in large}
        # where not all of a group's were asked what they are, what some are says nothing
        untold = {leaders[at] for at, owner in uppermost if owner.name is None and at in leaders}
        groups: dict[tuple[Owner, Optional[frozenset[int]]], list[int]] = {}
        for at, owner in uppermost:
            who = leaders.get(at) if owner.name != POOL else None
            groups.setdefault((Owner(SHARED, None) if who in untold else owner, who), []).append(at)
        return [_Group(owner, tops) for (owner, _), tops in groups.items()]

    def _laid(self, held: Sequence[Sequence[int]], shared: Sequence[int], places: Mapping[int, int]) -> Tops:
        """Of each block what it hangs on below 0."""
        tops = array("i", [NOBODY]) * len(self._sizes)
        if shared:
            above = array("i", bytes(4 * len(self._nodes)))
            for at in range(1, len(self._nodes)):
                over = self._above[at]
                if over:
                    above[at] = above[over]
                else:
                    above[at] = places[at] + self._first - 1 if at in places else self._nodes[at] - 1
                if self._nodes[at] >= self._first:
                    tops[self._nodes[at] - self._first] = above[at]
        return Tops(held, [Shared(self._nodes[at] - self._first, self._held[at]) for at in shared], tops)

    def _leading(self, found: Together) -> Leading:
        return Leading([self._owners[each] for each in found.owners], found.whole)

    def _named(self, owners: Iterable[int]) -> list[Owner]:
        return [self._owners[each] for each in sorted(owners)]

    def _tops(self) -> Iterator[tuple[int, Owner]]:
        """What lies right below 0: owners, and blocks that no owner alone leads to."""
        shared = [at for at in range(1, len(self._nodes)) if not self._above[at] and self._nodes[at] >= self._first]
        shared.sort(key=lambda at: -self._held[at])
        named = shared[:MOST_NAMED]
        types = types_of(self._search, [self._nodes[at] - self._first for at in named])
        for at in range(1, len(self._nodes)):
            if self._nodes[at] < self._first:
                yield at, self._owners[self._nodes[at] - 1]
        for at in named:
            yield at, Owner(SHARED, types[self._nodes[at] - self._first].name)
        for at in shared[MOST_NAMED:]:
            yield at, Owner(SHARED, None)

    def _holding(self, owner: Owner, number: int, tops: Sequence[int]) -> Holding:
        start = tops[0] if owner.kind != SHARED else None
        way = [*self._way(start)] if start is not None else [self._step(max(tops, key=self._held.__getitem__))]
        held, blocks = sum(self._held[at] for at in tops), sum(self._blocks[at] for at in tops)
        return Holding(owner, number, blocks=blocks, bytes=held, way=way)

    def _step(self, at: int) -> Step:
        return Step(self._nodes[at] - self._first, blocks=self._blocks[at], bytes=self._held[at])

    def _way(self, at: int) -> Iterator[Step]:
        """Down from an owner, as long as one alone has most."""
        for _ in range(DEEPEST):
            below = self._largest.get(at)
            if below is None or self._held[below] <= SPREADS * self._held[at]:
                return
            yield self._step(below)
            at = below
