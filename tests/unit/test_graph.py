"""Pointers in plain bytes: which words lead into some ranges, and what a second look makes of the others."""

from __future__ import annotations

import itertools
import random
from array import array
from bisect import bisect_right
from typing import Sequence

import pytest

from arenascope.base.progress_bar import Unseen
from arenascope.blocks.graph.blocks import DEEP, EDGE_SHIFT, INSIDE, Marks, SpanMark
from arenascope.blocks.graph.edges import Graph
from arenascope.blocks.graph.leads import Lead
from arenascope.blocks.graph.main_holders import sure_holders
from arenascope.engine import ENCODINGS, EdgeTable, EngineImage
from arenascope.sources.target import MemoryPiece, Span

AT = 0x7F0000400000


@pytest.mark.parametrize("spread", [1 << 12, 1 << 22, 1 << 30, 1 << 34, 1 << 42])
@pytest.mark.parametrize("word", [8, 4])
def test_every_pointer_to_a_block(spread: int, word: int) -> None:
    """Of blocks that lie close together or not."""
    rng = random.Random(spread)
    base = 0x5500_0000_0000 if word == 8 else 0x5500_0000
    spread = min(spread, 1 << 30) if word == 4 else spread
    starts = sorted({rng.randrange(base, base + spread, 16) for _ in range(400)})
    ends = [min(start + rng.randrange(8, 4000), after - 1) for start, after in zip(starts, [*starts[1:], 1 << 63])]
    values = [each + rng.randrange(-20, 4020) for each in starts for _ in range(20)]
    values += [*starts, *ends, *(rng.getrandbits(8 * word) for _ in range(200)), 0, (1 << 8 * word) - 1]
    rng.shuffle(values)
    code = "Q" if word == 8 else "I"
    engine = EngineImage(word, "little")
    engine.set_memory([MemoryPiece(AT, word * len(values), memoryview(array(code, values)).cast("B"))])
    engine.set_blocks(array("Q", starts), array("Q", ends), array("Q", [0] * len(starts)))
    found = [*engine.pointers([Span(AT, AT + word * len(values))], Unseen())]
    truth = []
    for index, value in enumerate(values):
        at = bisect_right(starts, value) - 1
        if at >= 0 and value <= ends[at]:
            past = value - starts[at]
            truth.append((AT + index * word, value, at << EDGE_SHIFT | (past > 0) * INSIDE | (past > 32) * DEEP, 0))
    assert found == truth


def test_what_words_may_mean() -> None:
    target = 0x5555_1234_5670
    values = [target | 0xABCD << 48, target << 16 | 0x77, 0, 0, target - (AT + 4 * 8) & (1 << 64) - 1, 0]
    data = bytearray(array("Q", values).tobytes())
    data[19:27] = target.to_bytes(8, "little")
    engine = EngineImage(8, "little")
    engine.set_memory([MemoryPiece(AT, len(data), memoryview(data))])
    engine.set_blocks(array("Q", [target]), array("Q", [target + 8]), array("Q", [32]))
    rows = [*engine.encoded(array("I", [0]), [Span(AT, AT + len(data))], Unseen())]
    again = [*engine.encoded_to(Span(target, target + 8), [Span(AT, AT + len(data))], Unseen())]
    found = {(ENCODINGS[each.encoding], each.address) for each in rows if each.value == target}
    assert found == {
        ("tagged", AT),
        ("shifted", AT + 8),
        ("unaligned", AT + 19),
        ("relative", AT + 32),
        ("unaligned", AT + 10),
    }
    assert again == rows


def test_marks_lie_over_each_other() -> None:
    marks = Marks([SpanMark(100, 200, "a"), SpanMark(150, 250, "b"), SpanMark(50, 300, None), SpanMark(280, 320, "c")])
    parts = [(*span, mark.kind if mark else "none") for span, mark in marks.over(0, 400)]
    assert parts == [
        (0, 50, "none"),
        (50, 100, None),
        (100, 200, "a"),
        (200, 250, "b"),
        (250, 300, None),
        (300, 320, "c"),
        (320, 400, "none"),
    ]


def reached(targets: dict[int, list[int]], without: int) -> set[int]:
    seen: set[int] = set()
    todo = [] if without == 0 else [0]
    while todo:
        node = todo.pop()
        if node not in seen:
            seen.add(node)
            todo += [each for each in targets[node] if each != without]
    return seen


def is_told(targets: dict[int, list[int]], nodes: Sequence[int], above_places: Sequence[int]) -> None:
    """A node stands above all that cannot be reached without it; the last of them is the one that is told."""
    all_ = reached(targets, -1)
    over = {node: {each for each in all_ if node not in reached(targets, each)} - {node} for node in all_}
    assert sorted(nodes) == sorted(all_)
    above = {node: nodes[at] for node, at in zip(nodes, above_places)}
    for place, at in enumerate(above_places[1:], 1):
        assert at < place
    for node in all_ - {0}:
        assert over[node] == {above[node]} | over[above[node]], (targets, node)


def graph_of(targets: Sequence[Sequence[int]]) -> Graph:
    """Of blocks with these edges."""
    offsets = array("I", itertools.accumulate(map(len, targets), initial=0))
    table = EdgeTable.of(offsets, array("I", itertools.chain.from_iterable(targets)))
    return Graph(range(len(targets)), table, ())  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(50))
def test_dominators_are_what_deletion_shows(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(20):
        count = rng.randrange(1, 24)
        of = [[rng.randrange(count) for _ in range(rng.choice((0, 1, 1, 2, 3, 5)))] for _ in range(count)]
        held = [[rng.randrange(count) for _ in range(rng.randrange(4))] for _ in range(rng.randrange(4))]
        graph = graph_of([[to << EDGE_SHIFT | rng.randrange(2) for to in each] for each in of])
        first = 1 + len(held)
        lists = [[*range(1, first)], *([to + first for to in each] for each in (*held, *of))]
        offsets = array("Q", itertools.accumulate(map(len, held), initial=0))
        found = graph.table.dominators(offsets, array("I", itertools.chain.from_iterable(held)), Unseen())
        is_told(dict(enumerate(lists)), *found)


@pytest.mark.parametrize("seed", range(20))
def test_what_hangs_on_some_blocks(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randrange(1, 24)
    edges = [
        [rng.randrange(count) << EDGE_SHIFT | rng.randrange(2) for _ in range(rng.randrange(4))] for _ in range(count)
    ]
    graph, first = graph_of(edges), rng.sample(range(count), rng.randrange(count))
    for starts_only in (False, True):
        met, todo = set[int](), [*first]
        while todo:
            block = todo.pop()
            if block not in met:
                met.add(block)
                todo += [each >> EDGE_SHIFT for each in edges[block] if not (starts_only and each & INSIDE)]
        marks, parents = bytearray(count), array("i", [-1]) * count
        found = graph.table.mark(first, marks, 2, starts_only, parents)
        assert {*found} == met == {block for block, mark in enumerate(marks) if mark == 2}
        assert len(found) == len(met)
        for block in met:
            assert block in first or any(each >> EDGE_SHIFT == block for each in edges[parents[block]])


@pytest.mark.parametrize("seed", range(20))
def test_lumps_hold_each_block_once(seed: int) -> None:
    rng = random.Random(seed)
    every, count = 40, rng.randrange(1, 30)
    nodes = array("I", sorted(rng.sample(range(every), count)))
    edges = [
        [rng.randrange(every) << EDGE_SHIFT | rng.randrange(2) for _ in range(rng.randrange(3))] for _ in range(every)
    ]
    for starts_only in (False, True):
        found = graph_of(edges).table.lumps(nodes, starts_only)
        assert sorted(found.blocks()) == [*nodes]
        others = {head: set(hanging) for head, hanging in found.hanging()}
        assert set(others) <= set(found.heads)
        assert [*found.heads] == sorted(found.heads)
        # nothing leads to a head but what it leads to itself: a cycle
        for head in found.heads:
            leads = {node for node in nodes for edge in edges[node] if edge >> EDGE_SHIFT == head}
            if starts_only:
                leads = {node for node in nodes if head << EDGE_SHIFT in edges[node]}
            assert leads - {head} <= others.get(head, set())
        # and something leads to each of the others
        for below in others.values():
            assert all(any(edge >> EDGE_SHIFT == each for node in nodes for edge in edges[node]) for each in below)


@pytest.mark.parametrize("seed", range(20))
def test_the_way_round_a_cycle_is_the_shortest(seed: int) -> None:
    rng = random.Random(seed)
    count = 40
    edges = [[rng.randrange(count) << EDGE_SHIFT for _ in range(rng.randrange(3))] for _ in range(count)]
    leads = [{edge >> EDGE_SHIFT for edge in each} - {node} for node, each in enumerate(edges)]

    def steps(node: int) -> dict[int, int]:
        """How far what it leads to is away."""
        found, todo = dict.fromkeys(leads[node], 1), [*leads[node]]
        for each in todo:
            new = leads[each] - {*found}
            found.update(dict.fromkeys(new, found[each] + 1))
            todo += new
        return found

    found = graph_of(edges).table.lumps(array("I", range(count)))
    ways = {way[0]: [*way] for way in found.ways_round()}
    assert {*ways} == {head for head in found.heads if head in steps(head)}
    for head, way in ways.items():
        assert len(way) == steps(head)[head]
        assert all(to in leads[node] for node, to in zip(way, [*way[1:], head]))


def test_a_long_way_round_is_told_in_part() -> None:
    count = 1000
    ring = [[(node + 1) % count << EDGE_SHIFT] for node in range(count)]
    (way,) = graph_of(ring).table.lumps(array("I", range(count))).ways_round()
    assert [*way] == [*range(64)]


def test_without_some_edges() -> None:
    edges = [[8, 16, 8, 8], [0], [8]]
    without = graph_of(edges).table.without([(0, 8), (0, 8), (2, 8), (1, 16)])
    left = [[*without.edges[begin:end]] for begin, end in zip(without.offsets, without.offsets[1:])]
    assert left == [[16, 8], [0], []]


def test_who_holds_what_alone_and_with_others() -> None:
    """Against every owner followed by itself."""
    met = 0
    for seed in range(200):
        rng = random.Random(seed)
        count = rng.randrange(1, 24)
        of = [[rng.randrange(count) for _ in range(rng.choice((0, 1, 1, 2, 3)))] for _ in range(count)]
        held = [[rng.randrange(count) for _ in range(rng.randrange(3))] for _ in range(rng.choice((2, 3, 6, 12)))]
        sizes = array("Q", [rng.randrange(32, 512, 16) for _ in range(count)])
        graph = graph_of([[to << EDGE_SHIFT for to in each] for each in of])
        leads = [Lead(0, owner, block << EDGE_SHIFT) for owner, each in enumerate(held) for block in each]
        main = sure_holders(graph, leads)
        offsets = array("Q", itertools.accumulate(map(len, held), initial=0))
        blocks = array("I", itertools.chain.from_iterable(held))
        found = graph.table.ownership(offsets, blocks, sizes, main.whose, main.ties, Unseen())
        # each owner is asked by itself what it leads to
        lists = {block + 1: [to + 1 for to in each] for block, each in enumerate(of)}
        reach = [reached({**lists, 0: [block + 1 for block in each]}, -1) for each in held]
        leading = [frozenset(owner for owner, each in enumerate(reach) if block + 1 in each) for block in range(count)]
        nobody = len(held)
        groups = [frozenset(group) for group, _ in found.jointly]
        for block, owners in enumerate(leading):
            assert found.whose[block] in (owners or {nobody})
            if len(owners) == 1:
                assert found.sharing[block] == 1
            elif owners:
                assert found.sharing[block] == (2 + groups.index(owners) if owners in groups else 0) or len(owners) >= 8
                met += 1
        for owner, row in enumerate(found.rows):
            mine = [block for block in range(count) if found.whose[block] == owner]
            alone = [block for block in mine if len(leading[block]) < 2]
            assert (row.blocks, row.bytes) == (len(mine), sum(map(sizes.__getitem__, mine)))
            assert (row.alone_blocks, row.alone_bytes) == (len(alone), sum(map(sizes.__getitem__, alone)))
            others = frozenset().union(*(leading[block] for block in mine)) - {owner}
            assert others.issuperset(row.others)
        for group, size in found.jointly:
            # some others may have been met first
            assert size == sum(sizes[block] for block in range(count) if leading[block] == {*group}) or len(group) >= 8
    assert met > 100


def test_who_leads_to_a_trifle_is_not_named() -> None:
    """Two hold a great deal together, a third one a little of it with the first."""
    graph, sizes = graph_of([[], []]), array("Q", [1 << 20, 96])
    offsets, blocks = array("Q", [0, 2, 3, 4]), array("I", [0, 1, 0, 1])
    main = (array("i", [0, 0]), array("i", [1, 2]))
    found = graph.table.ownership(offsets, blocks, sizes, *main, Unseen())
    assert (found.rows[0].others, found.rows[0].whole) == ([1], False)
    assert found.jointly == [([0, 1], 1 << 20), ([0, 2], 96)]


def costs_of_each(above: Sequence[int], kinds: Sequence[int], sizes: Sequence[int]) -> list[int]:
    tables = array("i", above), array("i", kinds), array("Q", sizes)
    return graph_of([[] for _ in sizes]).table.costs(*tables).tolist()


@pytest.mark.parametrize("seed", range(8))
def test_what_one_of_a_kind_costs(seed: int) -> None:
    """Each block is told of by the nearest of every kind above it, and by itself."""
    rng = random.Random(seed)
    count = 300
    order = rng.sample(range(count), count)
    above = [-1] * count
    for place, block in enumerate(order[1:], 1):
        above[block] = rng.choice([-1, *order[max(0, place - 20) : place]])
    kinds, sizes = [rng.randrange(5) for _ in range(count)], [rng.randrange(16, 200) for _ in range(count)]
    truth = [0] * count
    for block in range(count):
        at, met = block, set()
        while at != -1:
            if kinds[at] not in met:
                truth[at] += sizes[block]
            met.add(kinds[at])
            at = above[at]
    assert costs_of_each(above, kinds, sizes) == truth


def test_what_one_costs_is_told_of_any_depth() -> None:
    deep = 50_000
    above = range(-1, deep - 1)
    assert set(costs_of_each(above, [7] * deep, [16] * deep)) == {16}
    by_turns = costs_of_each(above, [at % 2 for at in range(deep)], [16] * deep)
    assert by_turns == [32] * (deep - 1) + [16]
