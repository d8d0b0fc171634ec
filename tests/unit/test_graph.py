"""Pointers in plain bytes: which words lead into some ranges, and what a second look makes of the others."""

from __future__ import annotations

import itertools
import random
from array import array
from typing import Sequence

import pytest
from marks import full_after

from arenascope.base import optional_libraries
from arenascope.blocks.graph.blocks import FLAGS, Marks, SpanMark
from arenascope.blocks.graph.dominators import Dominators, dominators, lumps
from arenascope.blocks.graph.edges import Further, Graph, Spread, with_more, without
from arenascope.blocks.graph.encodings import WordWindow, decoded
from arenascope.blocks.graph.holders import costs_of_each
from arenascope.blocks.graph.leaks import marked
from arenascope.blocks.graph.owners import MOST, NONE, Common, SharedBlock, Tops
from arenascope.blocks.graph.returns import by_kind
from arenascope.blocks.graph.root_pointers import Seed
from arenascope.blocks.pointer_finder import FastFinder, Finder, finder_of
from arenascope.sources.memory import Memory
from arenascope.sources.target import Span

AT = 0x7F0000400000


def words(values: Sequence[int]) -> memoryview:
    return memoryview(array("Q", values))


@pytest.mark.parametrize("spread", [1 << 12, 1 << 22, 1 << 30, 1 << 34, 1 << 42])
def test_every_word_that_leads_there(spread: int) -> None:
    """Of ranges that lie close together or not: by bytes, by halves of words, word by word."""
    numpy = optional_libraries.load("numpy")
    rng = random.Random(spread)
    starts = sorted({rng.randrange(0x5500_0000_0000, 0x5500_0000_0000 + spread, 16) for _ in range(40)})
    ends = [min(start + rng.randrange(8, 400), after - 1) for start, after in zip(starts, [*starts[1:], 1 << 63])]
    finder = Finder(starts, ends, [Span(start, end) for start, end in zip(starts, ends)], 8)
    near = [each + rng.randrange(-20, 420) for each in starts for _ in range(20)]
    # halves of such a word beside each other, as in packed structs
    askew = [each << 8 * shift & (1 << 64) - 1 for each in near for shift in (1, 2, 3)]
    values = [*near, *askew, *(rng.getrandbits(64) for _ in range(200)), 0, (1 << 64) - 1]
    rng.shuffle(values)
    for data in (values, [each for each in values if each not in askew]):
        truth = [
            (index, which)
            for index, value in enumerate(data)
            for which, (start, end) in enumerate(zip(starts, ends))
            if start <= value <= end
        ]
        assert list(finder.hits(words(data))) == truth
        if numpy is not None:
            assert list(finder_of(numpy, starts, ends, (), 8).hits(words(data))) == truth


def test_nothing_to_lead_to() -> None:
    assert list(Finder([], [], [], 8).hits(words([0, 1, 1 << 47]))) == []


def test_no_word_leads_into_no_range() -> None:
    numpy = pytest.importorskip("numpy", reason="numpy is not installed: scripts/setup.sh installs it")
    assert list(FastFinder(numpy, (), (), 8).hits(array("Q", [0, 1, 2, 1 << 40]))) == []


@pytest.mark.parametrize("by", ["python", "numpy", "upper halves"])
def test_what_words_may_mean(by: str) -> None:
    reason = "numpy is not installed: scripts/setup.sh installs it"
    numpy = pytest.importorskip("numpy", reason=reason) if by != "python" else None
    tops = [Span(0x5555, 0x5556)] if by == "upper halves" else None
    target = 0x5555_1234_5678
    values = [target | 0xABCD << 48, target << 16 | 0x77, 0, 0, target - (AT + 4 * 8) & (1 << 64) - 1, 0]
    data = bytearray(array("Q", values).tobytes())
    data[19:27] = target.to_bytes(8, "little")
    memory = Memory(lambda address, size: bytes(data)[address - AT :][:size].ljust(size, b"\0"), 8, "little")
    found = {
        (each.encoding, each.address + 8 * each.place(index))
        for each in decoded(WordWindow(AT, memoryview(bytes(data)).cast("Q")), memory, numpy, tops)
        for index, value in enumerate(each.words)
        if value == target
    }
    assert found == {
        ("tagged", AT),
        ("shifted", AT + 8),
        ("unaligned", AT + 19),
        ("relative", AT + 32),
        ("unaligned", AT + 10),
    }


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


def is_told(targets: dict[int, list[int]], found: Dominators) -> None:
    """A node stands above all that cannot be reached without it; the last of them is the one that is told."""
    all_ = reached(targets, -1)
    over = {node: {each for each in all_ if node not in reached(targets, each)} - {node} for node in all_}
    assert sorted(found.nodes) == sorted(all_)
    above = {node: found.nodes[at] for node, at in zip(found.nodes, found.above)}
    for place, at in enumerate(found.above[1:], 1):
        assert at < place
    for node in all_ - {0}:
        assert over[node] == {above[node]} | over[above[node]], (targets, node)


@pytest.mark.parametrize("seed", range(50))
def test_dominators_are_what_deletion_shows(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(20):
        count = rng.randrange(1, 24)
        targets = {node: [rng.randrange(count) for _ in range(rng.choice((0, 1, 1, 2, 3, 5)))] for node in range(count)}
        is_told(targets, dominators(count, targets.__getitem__))


@pytest.mark.parametrize("seed", full_after(15, range(50)))
def test_numpy_tells_the_same_dominators(seed: int) -> None:
    """Of graphs with owners, after few passes of each kind or all that get any further; met many at a time or not."""
    numpy = pytest.importorskip("numpy", reason="numpy is not installed: scripts/setup.sh installs it")
    from arenascope.blocks.graph.dominators import dominators_at_once

    rng = random.Random(seed)
    for round_ in range(20):
        count = rng.randrange(1, 24)
        of = [[rng.randrange(count) for _ in range(rng.choice((0, 1, 1, 2, 3, 5)))] for _ in range(count)]
        held = [[rng.randrange(count) for _ in range(rng.randrange(4))] for _ in range(rng.randrange(4))]
        offsets = array("Q", [0, *itertools.accumulate(map(len, of))])
        edges = array("I", [to << FLAGS | rng.randrange(2) for each in of for to in each])
        graph = Graph(range(count), offsets, edges, (), numpy=numpy)  # type: ignore[arg-type]
        first = 1 + len(held)
        lists = [[*range(1, first)], *([to + first for to in each] for each in (*held, *of))]
        worth, patience = (1, 1 << 30)[round_ % 2], (1, 2, 3, 1 << 30)[round_ % 4]
        parents = array("i", [-1]) * count
        Spread(graph, bytearray(count), parents, many=round_ % 3).mark([to for each in held for to in each], 1)
        found = dominators_at_once(numpy, graph, held, parents, worth=worth, patience=patience)
        is_told(dict(enumerate(lists)), found)
        marks = [bytearray(count), bytearray(count)]
        begin = held[0] if held else []
        for many, each in zip((0, 1 << 30), marks):
            Spread(graph, each, many=many).mark(begin, 2, starts_only=True)
            Spread(graph, each, many=many).mark(begin, 3)
        assert marks[0] == marks[1]


@pytest.mark.parametrize("seed", range(20))
def test_lumps_hold_each_block_once(seed: int) -> None:
    rng = random.Random(seed)
    every, count = 40, rng.randrange(1, 30)
    nodes = array("I", sorted(rng.sample(range(every), count)))
    edges = [[rng.randrange(every) << FLAGS | rng.randrange(2) for _ in range(rng.randrange(3))] for _ in range(every)]
    offsets = array("Q", itertools.accumulate(map(len, edges), initial=0))
    told = []
    for numpy, starts_only in itertools.product({None, optional_libraries.load("numpy")}, (False, True)):
        flat = array("I", itertools.chain.from_iterable(edges))
        graph = Graph(range(every), offsets, flat, (), numpy=numpy)  # type: ignore[arg-type]
        found = lumps(graph, nodes, starts_only)
        assert sorted(found.blocks()) == [*nodes]
        others = {lump.head: set(lump.others) for lump in found.hanging()}
        assert set(others) <= set(found.heads)
        assert [*found.heads] == sorted(found.heads)
        # nothing leads to a head but what it leads to itself: a cycle
        for head in found.heads:
            leads = {node for node in nodes for edge in edges[node] if edge >> FLAGS == head}
            if starts_only:
                leads = {node for node in nodes if head << FLAGS in edges[node]}
            assert leads - {head} <= others.get(head, set())
        # and something leads to each of the others
        for below in others.values():
            assert all(any(edge >> FLAGS == each for node in nodes for edge in edges[node]) for each in below)
        told.append((starts_only, [*found.heads], [(lump.head, [*lump.others]) for lump in found.hanging()]))
    # with numpy as without
    assert all(told[0:2] == told[at : at + 2] for at in range(0, len(told), 2))


def test_runs_of_marks_are_found() -> None:
    rng = random.Random(1)
    for mark in (0, 1, 2, ord("+")):
        marks = bytearray(rng.choice((0, 1, 2, ord("+"))) for _ in range(rng.randrange(300)))
        assert [*marked(marks, mark)] == [at for at, each in enumerate(marks) if each == mark]


@pytest.mark.parametrize("by", ["numpy", "hand"])
def test_who_leads_to_what_several_do(by: str) -> None:
    """Against every owner followed by itself: of what none of them alone leads to."""
    numpy = optional_libraries.load("numpy") if by == "numpy" else None
    if by == "numpy" and numpy is None:
        pytest.skip("numpy is not installed: scripts/setup.sh installs it")
    met = 0
    for seed in range(100):
        rng = random.Random(seed)
        count = rng.randrange(1, 24)
        of = [[rng.randrange(count) for _ in range(rng.choice((0, 1, 1, 2, 3)))] for _ in range(count)]
        held = [[rng.randrange(count) for _ in range(rng.randrange(3))] for _ in range(rng.choice((2, 3, 6, 12)))]
        owners, first = len(held), len(held) + 1
        lists = [[*range(1, first)], *([to + first for to in each] for each in (*held, *of))]
        tree = dominators(len(lists), lists.__getitem__)
        over = {node: tree.nodes[at] for node, at in zip(tree.nodes, tree.above)}
        shared = [node - first for node in tree.nodes if node >= first and over[node] == 0]
        tops = array("i", [NONE]) * count
        for node in tree.nodes[1:]:
            top = node
            while over[top]:
                top = over[top]
            if node >= first:
                tops[node - first] = top - 1 if top < first else owners + shared.index(top - first)
        offsets = array("Q", [0, *itertools.accumulate(map(len, of))])
        edges = array("I", [to << FLAGS for each in of for to in each])
        graph = Graph(range(count), offsets, edges, (), numpy=numpy)  # type: ignore[arg-type]
        sizes = [rng.randrange(32, 512, 16) for _ in shared]
        common = Common(graph, Tops(held, [SharedBlock(*each) for each in zip(shared, sizes)], tops))
        # each owner is asked by itself what it leads to
        leads = [reached({**dict(enumerate(lists)), 0: [owner + 1]}, -1) for owner in range(owners)]
        sums: dict[frozenset[int], int] = {}
        for at, (block, size) in enumerate(zip(shared, sizes)):
            truth = frozenset(owner for owner in range(owners) if block + first in leads[owner])
            found = common.of([at])
            assert truth.issuperset(found.owners)
            if found.whole:
                assert truth == {*found.owners}
                sums[truth] = sums.get(truth, 0) + size
            else:
                assert len(truth) >= len(found.owners) == MOST
            met += 1
        assert common.sums() == sums
    assert met > 100


@pytest.mark.parametrize("seed", range(20))
def test_some_pointers_more(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randrange(1, 30)
    of = [[rng.randrange(count) for _ in range(rng.choice((0, 1, 2, 5)))] for _ in range(count)]
    more = [Further(rng.randrange(count), rng.randrange(count)) for _ in range(rng.choice((0, 1, 40)))]
    offsets = array("Q", [0, *itertools.accumulate(map(len, of))])
    edges = array("I", itertools.chain.from_iterable(of))
    old, new = Seed(0, 16, 0), Seed(1, 32, 0)
    expected = [sorted([*each, *(edge for source, edge in more if source == block)]) for block, each in enumerate(of)]
    for numpy in (None, optional_libraries.load("numpy")):
        graph = Graph(range(count), offsets, edges, [old], numpy=numpy)  # type: ignore[arg-type]
        found = with_more(graph, [new], more)
        assert [sorted(map(int, found.of(block))) for block in range(count)] == expected
        assert found.seeds == [old, new]
        assert graph.seeds == [old]


@pytest.mark.parametrize("seed", range(20))
def test_some_pointers_less(seed: int) -> None:
    rng = random.Random(seed)
    of = [rng.sample(range(100), rng.choice((0, 1, 2, 5))) for _ in range(rng.randrange(1, 30))]
    offsets = array("Q", [0, *itertools.accumulate(map(len, of))])
    edges = array("I", itertools.chain.from_iterable(of))
    places = sorted(rng.sample(range(len(edges)), len(edges) // rng.choice((1, 2, 5))))
    left = [[edge for at, edge in enumerate(row, first) if at not in places] for row, first in zip(of, offsets)]
    for numpy in (None, optional_libraries.load("numpy")):
        graph = Graph(range(len(of)), offsets, edges, [Seed(0, 16, 0)], numpy=numpy)  # type: ignore[arg-type]
        found = without(graph, places)
        assert [[*map(int, found.of(block))] for block in range(len(of))] == left
        assert found.seeds == graph.seeds


def test_who_leads_to_a_trifle_is_not_named_for_all() -> None:
    """Two hold a great deal together, a third one a little of it with the first."""
    graph = Graph(range(2), array("Q", [0, 0, 0]), array("I"), (), numpy=None)  # type: ignore[arg-type]
    common = Common(graph, Tops([[0, 1], [0], [1]], [SharedBlock(0, 1 << 20), SharedBlock(1, 96)], array("i", [3, 4])))
    assert common.of([0, 1]) == ([0, 1], False)
    assert common.of([0]) == ([0, 1], True)
    assert common.of([1]) == ([0, 2], True)
    assert common.large() == {frozenset({0, 1})}


@pytest.mark.parametrize("seed", range(20))
def test_what_the_blocks_of_a_kind_keep(seed: int) -> None:
    """Against every block asked by itself what is above it."""
    rng = random.Random(seed)
    count, nobody = rng.randrange(1, 60), -1
    order = rng.sample(range(count), count)
    above = [nobody] * count
    for place, block in enumerate(order[1:], 1):
        above[block] = rng.choice([nobody, *order[max(0, place - 3) : place]])
    kinds = [rng.randrange(-1, 5) for _ in range(count)]
    sizes = [rng.randrange(32, 4096, 16) for _ in range(count)]
    truth: dict[int, int] = {}
    for block in range(count):
        on_the_way, at = set(), block
        while at != nobody:
            on_the_way.add(kinds[at])
            at = above[at]
        for kind in on_the_way:
            truth[kind] = truth.get(kind, 0) + sizes[block]
    assert by_kind(above, kinds, sizes) == truth


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
    assert costs_of_each(above, kinds, sizes).tolist() == truth


def test_what_one_costs_is_told_of_any_depth() -> None:
    deep = 50_000
    above = range(-1, deep - 1)
    assert set(costs_of_each(above, [7] * deep, [16] * deep)) == {16}
    by_turns = costs_of_each(above, [at % 2 for at in range(deep)], [16] * deep)
    assert by_turns.tolist() == [32] * (deep - 1) + [16]


def test_what_many_kinds_keep_is_not_told() -> None:
    """Of blocks that are each of another kind, below each other."""
    deep = 5000
    assert by_kind(range(-1, deep - 1), range(deep), [16] * deep) is None
    assert by_kind(range(-1, deep - 1), [7] * deep, [16] * deep) == {7: 16 * deep}
