"""Finds each block's main holder, and how much of what it holds nobody else leads to.

If a block seems to be nobody's, encoded pointers are followed as well: see leaks.py.
"""

from __future__ import annotations

from array import array
from collections import Counter, deque
from functools import cached_property
from itertools import accumulate
from types import ModuleType
from typing import Iterable, Iterator, Mapping, NamedTuple, Optional, Sequence

from .blocks import FLAGS, NOBODY, STALE
from .dominators import Dominators, dominators, dominators_at_once
from .edges import AT_ONCE, Further, Graph, build, fast, lasting, with_more
from .leads import RANKS, Lead, MainHolders, Owner, leads_of, main_holders, stale_leads
from .leaks import pointers_again
from .refs import ImageSearch

MOST = 8
"""So many owners a block learns of."""
MOST_POINTERS = 1 << 22
"""So many pointers are kept for that; of more than that owners are told, but not that these are all."""
TRIFLE = 100
"""Less than such a part of what some lead to."""
NONE = -1


class JointOwners(NamedTuple):
    """Who leads to some blocks, by their numbers: whoever leads to most of it first."""

    owners: Sequence[int] = ()
    whole: bool = True
    """These are all."""


class SharedBlock(NamedTuple):
    """A block that several lead to, and nothing below them alone."""

    block: int
    bytes: int
    """With what hangs on it."""


class Tops(NamedTuple):
    """What lies right below all roots."""

    held: Sequence[Sequence[int]]
    """Of each owner, the blocks that it has pointers to."""
    shared: Sequence[SharedBlock]
    whose: Sequence[int]
    """Of each block the owner, or after these the shared block, that it hangs on; NONE: nothing leads there."""


Pointers = Iterator[tuple[Sequence[int], Sequence[int]]]
"""From what hangs on one to another's uppermost block: of some what they hang on, and the shared block's place."""


class Common:
    """Of each shared block the owners that lead there."""

    def __init__(self, graph: Graph, tops: Tops) -> None:
        self._sizes = [each.bytes for each in tops.shared]
        self._known: list[list[int]] = [[] for _ in tops.shared]
        self._whole = True
        if tops.shared:
            self._learn(graph, tops)

    def _learn(self, graph: Graph, tops: Tops) -> None:
        place = array("i", [NONE]) * len(graph.blocks)
        for at, top in enumerate(tops.shared):
            place[top.block] = at
        owners = len(tops.held)
        numpy, whose = graph.numpy, tops.whose
        pointers = _slowly(graph, whose, place) if numpy is None else _at_once(numpy, graph, whose, place)
        offsets, targets = self._sorted(pointers, numpy, owners + len(tops.shared))
        # met first by those of which a pointer leads there, or one of what hangs on them
        new = [(place[block], owner) for owner, each in enumerate(tops.held) for block in each if place[block] != NONE]
        new += [(at, owner) for owner in range(owners) for at in targets[offsets[owner] : offsets[owner + 1]]]
        todo: deque[tuple[int, int]] = deque()
        for at, owner in new:
            if owner not in self._known[at] and len(self._known[at]) < MOST:
                self._known[at].append(owner)
                todo.append((at, owner))
        lists, begin = self._known, owners
        while todo:
            at, owner = todo.popleft()
            for to in targets[offsets[begin + at] : offsets[begin + at + 1]]:
                known = lists[to]
                if owner not in known and len(known) < MOST:
                    known.append(owner)
                    todo.append((to, owner))

    def _sorted(
        self, pointers: Pointers, numpy: Optional[ModuleType], count: int
    ) -> tuple[Sequence[int], Sequence[int]]:
        """By their sources: where those of each begin, and where they lead."""
        sources, targets = array("q"), array("q")
        for some, leads in pointers:
            sources.extend(some)
            targets.extend(leads)
            if len(sources) > MOST_POINTERS:
                self._whole = False
                break
        if numpy is not None:
            froms = numpy.frombuffer(sources, dtype=numpy.int64)
            order = numpy.argsort(froms, kind="stable")
            offsets = numpy.searchsorted(froms[order], numpy.arange(count + 1))
            return offsets.tolist(), numpy.frombuffer(targets, dtype=numpy.int64)[order].tolist()
        counts = Counter(sources)
        begins = [0, *accumulate(counts[each] for each in range(count))]
        filled, placed = begins[:-1], array("q", bytes(8 * len(targets)))
        for source, target in zip(sources, targets):
            placed[filled[source]] = target
            filled[source] += 1
        return begins, placed

    def of(self, places: Sequence[int]) -> JointOwners:
        """Of some shared blocks, by their places in the list. Who leads to a trifle of them is not named."""
        sizes: Counter[int] = Counter()
        for at in places:
            for owner in self._known[at]:
                sizes[owner] += self._sizes[at]
        least = sum(self._sizes[at] for at in places) // TRIFLE
        owners = sorted((each for each in sizes if sizes[each] >= least), key=lambda each: (-sizes[each], each))
        every = self._whole and all(len(self._known[at]) < MOST for at in places)
        return JointOwners(owners, every and len(owners) == len(sizes))

    @cached_property
    def leaders(self) -> Sequence[Optional[frozenset[int]]]:
        """Of each block all who lead there, where these are known; blocks are many, and few sets."""
        same: dict[frozenset[int], frozenset[int]] = {}
        every = (frozenset(known) if self._whole and len(known) < MOST else None for known in self._known)
        return [None if owners is None else same.setdefault(owners, owners) for owners in every]

    def sums(self) -> Counter[frozenset[int]]:
        """Bytes by all who lead there, where these are known."""
        found: Counter[frozenset[int]] = Counter()
        for owners, size in zip(self.leaders, self._sizes):
            if owners is not None:
                found[owners] += size
        return found

    def large(self) -> set[frozenset[int]]:
        """Those that lead to more than a trifle of all that several do."""
        least = sum(self._sizes) // TRIFLE
        return {owners for owners, size in self.sums().items() if size > least}


def _slowly(graph: Graph, whose: Sequence[int], place: Sequence[int]) -> Pointers:
    owners = _owners(whose, place)
    for block, top in enumerate(whose):
        if top != NONE:
            targets = {place[edge >> FLAGS] for edge in graph.of(block)} - {NONE, top - owners}
            if targets:
                yield [top] * len(targets), sorted(targets)


def _at_once(numpy: ModuleType, graph: Graph, whose: Sequence[int], place: Sequence[int]) -> Pointers:
    offsets, edges = fast(numpy, graph)
    tops, places = numpy.asarray(whose), numpy.asarray(place)
    owners = _owners(whose, place)
    last = len(graph.blocks)
    low = 0
    while low < last:
        high = max(low + 1, int(numpy.searchsorted(offsets, offsets[low] + AT_ONCE, side="right")) - 1)
        sources = numpy.repeat(tops[low:high], numpy.diff(offsets[low : high + 1]))
        targets = places[edges[offsets[low] : offsets[high]] >> FLAGS]
        which = (targets != NONE) & (sources != NONE) & (sources != targets + owners)
        # numpy's own unique() counts by hashes, which takes ten times as long
        both = numpy.sort(sources[which].astype(numpy.int64) << 32 | targets[which])
        once = both[numpy.diff(both, prepend=-1) != 0]
        yield array("q", (once >> 32).tobytes()), array("q", (once & 0xFFFFFFFF).tobytes())
        low = high


def _owners(whose: Sequence[int], place: Sequence[int]) -> int:
    """How many there are in front of shared blocks."""
    at = next(block for block, number in enumerate(place) if number == 0)
    return whose[at]


GROUPS = (0, 0, 0, 0, 1, 1, 2, 3, 4)
"""The group of each rank. A block is shared only with owners of the same group: those of worse groups do not count."""
PASSING = GROUPS[RANKS.index("local")]
"""Blocks that only owners of this group or a worse one hold do not make others shared either."""
UNREACHED = "unreached"
LITTLE = 1000
"""Encoded pointers are searched for only if at least 1/1000 of all bytes seems to be nobody's."""
SPREADS = 0.5
"""A way goes on while one block holds more than this share of what the step above holds."""
DEEPEST = 8
MOST_JOINTLY = 3
SEVERAL, ALONE, JOINTLY = 0, 1, 2
"""Who leads to a block: its main holder and others (SEVERAL), its main holder alone, or from JOINTLY on the first, the
second … group of joint owners."""


class OtherHolders(NamedTuple):
    """Other owners of what an owner does not hold alone, those that lead to most of it first."""

    owners: Sequence[Owner]
    whole: bool
    """There are no more than these."""


class Jointly(NamedTuple):
    """What all of these owners lead to, and nobody else."""

    owners: Sequence[Owner]
    bytes: int


class HeldStep(NamedTuple):
    """A block on the way from an owner to where what it holds spreads."""

    block: int
    blocks: int
    """How many blocks it holds, itself among them."""
    bytes: int


class Holding(NamedTuple):
    """The blocks that an owner is the main holder of."""

    owner: Owner
    number: int
    """Its number in `Owners.whose`."""
    blocks: int
    bytes: int
    alone_blocks: int
    """Blocks that nobody else leads to."""
    alone_bytes: int
    tied_bytes: int = 0
    """Bytes that another owner leads to in as few steps."""
    way: Sequence[HeldStep] = ()
    leading: Optional[OtherHolders] = None
    """Other owners of what it does not hold alone."""


class Owners(NamedTuple):
    holdings: Sequence[Holding]
    """The largest first. They sum to all live blocks."""
    whose: Sequence[int]
    """The number of each block's holding."""
    above: Sequence[int]
    """The block that alone leads to each block; NOBODY: there is none."""
    lead: Sequence[int]
    """SEVERAL, ALONE or JOINTLY for each block."""
    jointly: Sequence[Jointly] = ()
    """Groups of owners that lead to most together, the largest first."""


def in_order(holdings: Sequence[Holding]) -> list[Holding]:
    return sorted(holdings, key=lambda each: (-each.bytes, each.owner.kind, each.owner.name or ""))


class BlockHolders(NamedTuple):
    """The main holder of each block, as an index of `owners`."""

    graph: Graph
    owners: Sequence[Owner]
    leads: Sequence[Lead]
    main: MainHolders


def held(search: ImageSearch) -> BlockHolders:
    """The holders of all blocks, found once for an image. Encoded pointers are followed if much seems to be
    nobody's."""
    if search.held is None:
        search.held = _held(search)
    return search.held


def _held(search: ImageSearch) -> BlockHolders:
    found = _held_by(search, build(search))
    suspects = _suspects(found)
    if suspects and _worth_it(search, suspects):
        found = _held_by(search, _with_encoded(search, found.graph, suspects))
    return found


def held_at_last(search: ImageSearch, block: int) -> BlockHolders:
    """The holders, with encoded pointers followed if no plain one leads to this block, however small it is."""
    found = held(search)
    if found.main.whose[block] == NOBODY and search.second_look is None:
        pointers_again(search, _suspects(found))
        return held(search)
    return found


def _suspects(found: BlockHolders) -> array[int]:
    return array("I", (block for block, owner in enumerate(found.main.whose) if owner == NOBODY))


def _held_by(search: ImageSearch, graph: Graph) -> BlockHolders:
    owners, leads = leads_of(search, graph)
    by_words: list[Lead] = []

    def stale(found: MainHolders) -> Sequence[Lead]:
        by_words.extend(stale_leads(graph, owners, found))
        return [*(each for each in leads if each.edge & STALE), *by_words]

    main = main_holders(graph, [each for each in leads if not each.edge & STALE], stale)
    return BlockHolders(graph, owners, [*leads, *by_words], main)


def find_owners(search: ImageSearch) -> Owners:
    if search.owners is None:
        search.owners = _find_owners(search)
    return search.owners


def _find_owners(search: ImageSearch) -> Owners:
    found = held(search)
    owners, leads, main = found.owners, found.leads, found.main
    passing = bytes(max(0, group - PASSING + 1) for group in GROUPS)
    graph = lasting(found.graph, bytes(main.ranks).translate(passing.ljust(256, b"\0")))
    # an owner does not hold what an owner of a better group leads to
    tops: list[list[int]] = [[] for _ in owners]
    for rank, owner, edge, _ in leads:
        if GROUPS[main.ranks[edge >> FLAGS]] == GROUPS[rank]:
            tops[owner].append(edge >> FLAGS)
    tree = _dominators(graph, tops, main.parents)
    return _Tree(search, found._replace(graph=graph), tree).summed(tops)


def _worth_it(search: ImageSearch, suspects: Sequence[int]) -> bool:
    """Whether to search for encoded pointers: if known they are used, otherwise all memory must be searched again."""
    blocks = search.blocks
    return search.second_look is not None or (search.looks_again and LITTLE * blocks.bytes_of(suspects) >= blocks.bytes)


def _with_encoded(search: ImageSearch, graph: Graph, suspects: Sequence[int]) -> Graph:
    found = pointers_again(search, suspects)
    seeds = [each.seed for each in found if each.seed is not None]
    return with_more(graph, seeds, [Further(each.source, each.suspect << FLAGS) for each in found if each.seed is None])


def _dominators(graph: Graph, held: Sequence[Sequence[int]], parents: array[int]) -> Dominators:
    """Dominators of node 0, which leads to the owners, and of the blocks, whose nodes come after these."""
    numpy = graph.numpy
    if numpy is not None:
        return dominators_at_once(numpy, graph, held, parents)
    count = len(held)
    first = count + 1

    def targets(node: int) -> Sequence[int]:
        if not node:
            return range(1, first)
        if node < first:
            return [block + first for block in held[node - 1]]
        return [(edge >> FLAGS) + first for edge in graph.of(node - first)]

    return dominators(first + len(graph.blocks), targets)


class _Tree:
    """The dominator tree: node 0, owners and blocks, each below the node that alone leads to it, in the order in which
    they were met."""

    def __init__(self, search: ImageSearch, found: BlockHolders, tree: Dominators) -> None:
        self._search, self._found = search, found
        self._nodes, self._above = tree
        self._first = len(found.owners) + 1
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

    def summed(self, held: Sequence[Sequence[int]]) -> Owners:
        """The holdings of all owners, and of what nobody leads to."""
        count, unreached = len(self._sizes), len(self._found.owners)
        tops = [at for at in range(1, len(self._nodes)) if not self._above[at]]
        shared = [at for at in tops if self._nodes[at] >= self._first]
        places = {at: place for place, at in enumerate(shared)}
        common = Common(self._found.graph, self._laid(held, shared, places))
        sums = common.sums()
        most = sorted(sums, key=lambda owners: (-sums[owners], sorted(owners)))[:MOST_JOINTLY]
        ways = {who: JOINTLY + at for at, who in enumerate(most)}
        of = array("q", bytes(8 * len(self._nodes)))
        leads = bytearray(len(self._nodes))
        mine: list[list[int]] = [[] for _ in self._found.owners]
        for at in tops:
            node = self._nodes[at] - self._first
            of[at] = self._found.main.whose[node] if node >= 0 else self._nodes[at] - 1
            who = common.leaders[places[at]] if node >= 0 else None
            leads[at] = ALONE if node < 0 else ways.get(who, SEVERAL) if who is not None else SEVERAL
            mine[of[at]].append(at)
        whose, above = array("q", [unreached]) * count, array("q", [NOBODY]) * count
        lead = bytearray(b"%c" % ALONE) * count
        for at in range(1, len(self._nodes)):
            if self._above[at]:
                of[at], leads[at] = of[self._above[at]], leads[self._above[at]]
            block = self._nodes[at] - self._first
            if block >= 0:
                whose[block], lead[block] = of[at], leads[at]
                above[block] = max(NOBODY, self._nodes[self._above[at]] - self._first)
        rows = [
            self._holding(number, tops, common, [places[at] for at in tops if at in places])
            for number, tops in enumerate(mine)
        ]
        rows = self._with_ties([each for each in rows if each.bytes])
        lost = [size for size, owner in zip(self._sizes, whose) if owner == unreached]
        if lost:
            nobody = Owner(UNREACHED, None)
            number, size = len(lost), sum(lost)
            rows.append(Holding(nobody, unreached, blocks=number, bytes=size, alone_blocks=number, alone_bytes=size))
        jointly = [Jointly(self._named(owners), sums[owners]) for owners in most]
        return Owners(in_order(rows), whose, above, lead=lead, jointly=jointly)

    def _with_ties(self, rows: Sequence[Holding]) -> list[Holding]:
        main = self._found.main
        tied = [0] * len(self._found.owners)
        for size, owner, other in zip(self._sizes, main.whose, main.ties):
            if other != NOBODY:
                tied[owner] += size
        return [each._replace(tied_bytes=tied[each.number]) for each in rows]

    def _laid(self, held: Sequence[Sequence[int]], shared: Sequence[int], places: Mapping[int, int]) -> Tops:
        """For each block, the node just below node 0 that it hangs on."""
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
        return Tops(held, [SharedBlock(self._nodes[at] - self._first, self._held[at]) for at in shared], tops)

    def _named(self, owners: Iterable[int]) -> list[Owner]:
        return [self._found.owners[each] for each in sorted(owners)]

    def _holding(self, number: int, tops: Sequence[int], common: Common, shared: Sequence[int]) -> Holding:
        """`tops`: the owner's node, and blocks that others lead to as well; `shared`: places of these blocks."""
        size, blocks = sum(self._held[at] for at in tops), sum(self._blocks[at] for at in tops)
        own = next((at for at in tops if self._nodes[at] < self._first), None)
        below = [self._largest[own]] if own is not None and own in self._largest else []
        below += [at for at in tops if at != own]
        leading = common.of(shared) if shared else None
        return Holding(
            self._found.owners[number],
            number,
            blocks=blocks,
            bytes=size,
            alone_blocks=self._blocks[own] if own is not None else 0,
            alone_bytes=self._held[own] if own is not None else 0,
            way=list(self._way(max(below, key=self._held.__getitem__), size)) if below else (),
            leading=self._leading(leading, number) if leading is not None else None,
        )

    def _leading(self, found: JointOwners, but: int) -> OtherHolders:
        return OtherHolders([self._found.owners[each] for each in found.owners if each != but], found.whole)

    def _way(self, at: Optional[int], most: int) -> Iterator[HeldStep]:
        """The way down from an owner, while one block holds most."""
        for _ in range(DEEPEST):
            if at is None or self._held[at] <= SPREADS * most:
                return
            yield HeldStep(self._nodes[at] - self._first, blocks=self._blocks[at], bytes=self._held[at])
            most = self._held[at]
            at = self._largest.get(at)
