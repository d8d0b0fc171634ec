"""Finds each block's main holder, and how much of what it holds nobody else leads to.

1. edges.build: every pointer of roots and blocks, and which of them are stale words.
2. leads_of: who has each pointer of a root, and of which rank it is.
3. sure_holders (engine/src/holders.rs): each block's holder, by rank, deep pointers and steps.
4. in_better_order (borrowed_pointers.py): pointers that were borrowed are put behind, and 3 is done again.
5. _hold_by_stale_words: holders for what only stale words lead to.
6. by_members: a variable that holds most of all is split into its members, and 3 and 5 are done again.
7. _with_encoded: if much seems to be nobody's, encoded pointers are followed (unreached.py), and 2 to 6 are done again.
8. find_owners (engine/src/dominators.rs, ownership.rs): what each owner holds, what of it alone, and with whom.
"""

from __future__ import annotations

from array import array
from collections import Counter
from itertools import accumulate, chain
from typing import Mapping, NamedTuple, Optional, Sequence

from ...base.heap_model import Owner
from ...engine import HeldStep, OwnedSums, Ownership, places_of
from .blocks import ALIGNED, EDGE_SHIFT, INSIDE, LOW, NOBODY, STALE
from .borrowed_pointers import claims_of, in_better_order
from .edges import Graph, build, lasting, with_more
from .leads import RANKS, Lead, Leads, MainHolders, by_members, leads_of, stale_leads
from .pointers_to import ImageSearch
from .unreached import pointers_again

GROUPS = (0, 0, 0, 0, 1, 1, 1, 2, 3, 4)
"""The group of each rank. A block is shared only with owners of the group that holds it: pointers of owners of worse
groups do not count, only those of the blocks that they hold (see PASSING). Runtimes, mappings and cookies are a group
of their own: a word of theirs may be old, or be kept only to be handed back; but a block that they hold is an object
in use, and its pointers count."""
PASSING = GROUPS[RANKS.index("local")]
"""Pointers of blocks that only owners of this group or a worse one hold do not count either."""
UNREACHED = "unreached"
ONE_IN_UNREACHED = 1000
"""Encoded pointers are searched for only if at least 1/1000 of all bytes seems to be nobody's."""
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
    as_good: Sequence[Owner] = ()
    """Those of them who lead to nearly all that it holds."""


class Owners(NamedTuple):
    holdings: Sequence[Holding]
    """The largest first. They sum to all live blocks."""
    whose: memoryview
    """The number of each block's holding. What nobody leads to has one as well, whose number is that of all owners;
    MainHolders.whose has NOBODY there."""
    above: Sequence[int]
    """The block that alone leads to each block; NOBODY: there is none."""
    sharing: memoryview
    """SEVERAL, ALONE or JOINTLY for each block."""
    jointly: Sequence[Jointly] = ()
    """Groups of owners that lead to most together, the largest first."""


def in_order(holdings: Sequence[Holding]) -> list[Holding]:
    return sorted(holdings, key=lambda each: (-each.bytes, each.owner.kind, each.owner.name or ""))


class OwnersBlocks(NamedTuple):
    """Some of the blocks that an owner is the main holder of."""

    blocks: int
    bytes: int


def blocks_by_owner(search: ImageSearch, owners: Owners, chosen: bytes) -> dict[int, OwnersBlocks]:
    """By the holdings' numbers, of those blocks that have 1 there."""
    numbers = places_of(1, bytearray(chosen))
    whose, sizes = owners.whose, search.blocks.sizes
    found: dict[int, OwnersBlocks] = {}
    for (owner, size), times in Counter(zip(map(whose.__getitem__, numbers), map(sizes.__getitem__, numbers))).items():
        before = found.get(owner, OwnersBlocks(0, 0))
        found[owner] = OwnersBlocks(before.blocks + times, before.bytes + times * size)
    return found


def only_with(owners: Owners, chosen: Mapping[int, OwnersBlocks]) -> Owners:
    """Those that have any of these blocks, those with most first."""
    holdings = [each for each in owners.holdings if each.number in chosen]
    return owners._replace(holdings=sorted(holdings, key=lambda each: -chosen[each.number].bytes))


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


def _suspects(found: BlockHolders) -> Sequence[int]:
    return places_of(NOBODY, found.main.whose)


ROUNDS = 4
"""So many times at most pointers that were borrowed are put behind, as each time others may hold more."""


def _held_by(search: ImageSearch, graph: Graph) -> BlockHolders:
    blocks = search.blocks
    is_low = search.session.memory.pointer_size == ALIGNED and len(blocks) > 0 and blocks.starts[0] < LOW
    stated = leads_of(search, graph)
    claims = claims_of(search, graph, stated)
    main = sure_holders(graph, stated.leads, is_low)
    for _ in range(ROUNDS):
        better = in_better_order(graph, stated, main, claims)
        if better is None:
            break
        stated = better
        main = sure_holders(graph, stated.leads, is_low)
    told = _hold_by_stale_words(graph, stated, main)
    members = by_members(search, graph, stated._replace(owners=told.owners), main)
    if members is not None:
        main = sure_holders(graph, members.leads, is_low)
        told = _hold_by_stale_words(graph, members, main)
    return BlockHolders(graph, told.owners, told.leads, main)


def sure_holders(graph: Graph, leads: Sequence[Lead], chance: bool = False) -> MainHolders:
    """Those that need no stale words. `chance`: numbers may lead to the inside of blocks, so that lasting holders who
    do without such pointers come first."""
    count = len(graph.blocks)
    whose, parents, ties = (array("i", [NOBODY]) * count for _ in range(3))
    found = MainHolders(whose, parents, ties, bytearray(count))
    sure = [each for each in leads if not each.edge & STALE]
    if chance:
        first = [each for each in sure if each.rank < RANKS.index("local") and not each.edge & INSIDE]
        _hold(graph, first, STALE | INSIDE, found)
    _hold(graph, sure, STALE, found)
    return found


def _hold_by_stale_words(graph: Graph, stated: Leads, found: MainHolders) -> Leads:
    """Gives a holder to what only stale words lead to, whose rank is below all others; who has these words as well."""
    owners, by_words = stale_leads(graph, stated.owners, found)
    _hold(graph, [*(each for each in stated.leads if each.edge & STALE), *by_words], 0, found)
    return Leads(owners, [*stated.leads, *by_words])


def _hold(graph: Graph, leads: Sequence[Lead], skipped: int, found: MainHolders) -> None:
    # a lead has four numbers of 32 bits, of which two may be NOBODY
    rows = array("I", (number & 0xFFFFFFFF for lead in leads for number in lead))
    graph.table.hold(rows, skipped, *found)


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
    direct: list[list[int]] = [[] for _ in owners]
    for rank, owner, edge, _ in leads:
        if GROUPS[main.ranks[edge >> EDGE_SHIFT]] == GROUPS[rank]:
            direct[owner].append(edge >> EDGE_SHIFT)
    offsets, blocks = array("Q", accumulate(map(len, direct), initial=0)), array("I", chain.from_iterable(direct))
    with search.session.meter("finding who holds what alone", 2 * len(graph.blocks)) as meter:
        told = graph.table.ownership(offsets, blocks, search.blocks.sizes, main.whose, main.ties, meter)
    return _told(owners, told)


def _told(owners: Sequence[Owner], found: Ownership) -> Owners:
    # the last row is what nobody leads to
    named = [*owners, Owner(UNREACHED, None)]
    rows = [_holding(number, named, row) for number, row in enumerate(found.rows) if row.bytes]
    jointly = [Jointly([owners[each] for each in group], size) for group, size in found.jointly]
    return Owners(in_order(rows), found.whose, found.above, sharing=found.sharing, jointly=jointly)


def _holding(number: int, owners: Sequence[Owner], row: OwnedSums) -> Holding:
    return Holding(
        owners[number],
        number,
        *row[:5],
        way=row.steps,
        leading=OtherHolders([owners[each] for each in row.others], row.whole) if row.others or not row.whole else None,
        as_good=[owners[each] for each in row.others[: row.as_good]],
    )


def _worth_it(search: ImageSearch, suspects: Sequence[int]) -> bool:
    """Whether to search for encoded pointers: if known they are used, otherwise all memory must be searched again."""
    blocks = search.blocks
    return search.second_look is not None or ONE_IN_UNREACHED * blocks.bytes_of(suspects) >= blocks.bytes


def _with_encoded(search: ImageSearch, graph: Graph, suspects: Sequence[int]) -> Graph:
    found = pointers_again(search, suspects)
    seeds = [each.seed for each in found if each.seed is not None]
    return with_more(graph, seeds, [(each.source, each.suspect << EDGE_SHIFT) for each in found if each.seed is None])
