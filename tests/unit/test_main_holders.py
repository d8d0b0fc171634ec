"""Each block's main holder: against all ways to it."""

from __future__ import annotations

import random
from array import array
from typing import Iterator, Sequence

import pytest

from arenascope.blocks.graph.blocks import DEEP, FLAGS, INSIDE, NOBODY, STALE
from arenascope.blocks.graph.edges import Graph, lasting
from arenascope.blocks.graph.leads import STALE_RANK, Lead, MainHolders, Owner, main_holders, stale_leads
from arenascope.blocks.graph.stale_words import StaleEdges
from arenascope.engine import EdgeTable

FEW, RANKS = 14, 3
Way = tuple[int, int, int]
"""The rank of whoever leads there, how many insides it takes, how many steps."""


def some_graph(rng: random.Random, stale: Sequence[int] = (0,)) -> Graph:
    """`stale`: what an edge may be marked with besides."""
    offsets, edges, found = array("I", [0]), array("I"), list[tuple[int, int, int, int]]()
    for block in range(FEW):
        edges.extend(sorted(edge(rng) | rng.choice(stale) for _ in range(rng.randrange(4))))
        for at in range(offsets[-1], len(edges)):
            if edges[at] & STALE:
                found.append((at, block, edges[at], 1))
        offsets.append(len(edges))
    stale_edges = StaleEdges(*zip(*found)) if found else None
    return Graph(range(FEW), EdgeTable.of(offsets, edges), [], stale_edges)  # type: ignore[arg-type]


def all_that_leads(graph: Graph, leads: Sequence[Lead], without: int) -> set[int]:
    """What they lead to by edges that are not marked so."""
    met: set[int] = set()
    todo = [each.edge for each in leads]
    while todo:
        to = todo.pop()
        if not to & without and to >> FLAGS not in met:
            met.add(to >> FLAGS)
            todo += map(int, graph.of(to >> FLAGS))
    return met


def edge(rng: random.Random) -> int:
    return rng.randrange(FEW) << FLAGS | rng.choice((0, 0, INSIDE, INSIDE | DEEP))


def some_leads(rng: random.Random) -> list[Lead]:
    """An owner with a lower number has no worse rank."""
    ranks = sorted(rng.randrange(RANKS) for _ in range(5))
    return [Lead(rank, owner, edge(rng)) for owner, rank in enumerate(ranks) for _ in range(rng.randrange(3))]


def best_ways(graph: Graph, leads: Sequence[Lead]) -> Iterator[tuple[int, dict[int, Way]]]:
    """Of each block the best way from each owner, over no block that one of a better rank leads to."""
    rank_of: dict[int, int] = {}
    for rank in range(RANKS):
        met = {each.edge >> FLAGS for each in leads if each.rank == rank} - rank_of.keys()
        while met:
            rank_of.update(dict.fromkeys(met, rank))
            met = {to >> FLAGS for block in met for to in graph.of(block)} - rank_of.keys()
    best: list[dict[int, Way]] = [{} for _ in range(FEW)]
    todo = [(each.edge, each.owner, (each.rank, 0, 0)) for each in leads]
    while todo:
        to, owner, (rank, insides, steps) = todo.pop()
        block, way = to >> FLAGS, (rank, insides + (to & DEEP > 0), steps + 1)
        if rank_of[block] == rank and way < best[block].get(owner, (RANKS, 0, 0)):
            best[block][owner] = way
            todo += [(each, owner, way) for each in graph.of(block)]
    yield from enumerate(best)


@pytest.mark.parametrize("seed", range(60))
def test_the_best_way_wins(seed: int) -> None:
    rng = random.Random(seed)
    graph = some_graph(rng)
    leads = some_leads(rng)
    found = main_holders(graph, leads)
    for block, ways in best_ways(graph, leads):
        if not ways:
            assert (found.whose[block], found.parents[block], found.ties[block]) == (NOBODY, NOBODY, NOBODY)
            continue
        best = min(ways.values())
        as_good = {owner for owner, way in ways.items() if way == best}
        assert found.whose[block] in as_good
        assert found.ranks[block] == best[0]
        assert (found.ties[block] != NOBODY) == (len(as_good) > 1)
        assert found.ties[block] in {NOBODY, *as_good} - {found.whose[block]}
        parent = found.parents[block]
        if parent == NOBODY:
            assert any(each.owner == found.whose[block] and each.edge >> FLAGS == block for each in leads)
        else:
            assert found.whose[parent] == found.whose[block]
            assert any(to >> FLAGS == block for to in graph.of(parent))


@pytest.mark.parametrize("seed", range(20))
def test_what_is_there_for_a_moment_counts_for_itself_alone(seed: int) -> None:
    """And for what is held by worse; a stale word's edge not at all."""
    rng = random.Random(seed)
    graph = some_graph(rng, stale=(0, 0, STALE) if seed % 2 else (0,))
    passing = bytes(rng.randrange(3) for _ in range(FEW))
    found = lasting(graph, passing)
    for block in range(FEW):
        row = map(int, graph.of(block))
        left = [to for to in row if passing[block] <= passing[to >> FLAGS] and not to & STALE]
        assert [*map(int, found.of(block))] == left


@pytest.mark.parametrize("seed", range(60))
def test_a_stale_word_holds_what_nothing_else_does(seed: int) -> None:
    """That is all that can be reached by any word and not without these; whose it is the block tells that has it."""
    rng = random.Random(seed)
    graph, leads = some_graph(rng, stale=(0, 0, STALE)), some_leads(rng)
    owners = [Owner("global", f"g_{number}") for number in range(5)]
    held = all_that_leads(graph, leads, STALE)

    def stale(found: MainHolders) -> Sequence[Lead]:
        assert {block for block, owner in enumerate(found.whose) if owner != NOBODY} == held
        return [*stale_leads(graph, owners, found)]

    found = main_holders(graph, leads, stale)
    every = all_that_leads(graph, leads, 0)
    assert {block for block, owner in enumerate(found.whose) if owner != NOBODY} == every
    for block in every:
        owner, parent = owners[found.whose[block]], found.parents[block]
        assert (owner.stale is not None) == (found.ranks[block] == STALE_RANK) == (block not in held)
        if owner.stale is not None:
            assert any(int(to) >> FLAGS == block for to in graph.of(parent))
            assert owners[found.whose[parent]]._replace(stale=owner.stale) == owner
