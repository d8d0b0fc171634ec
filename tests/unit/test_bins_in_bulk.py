"""Bins followed all at once, from both ends, say what they say link by link: of sound heaps and of damaged ones."""

from __future__ import annotations

import random
from array import array
from typing import Any

import pytest
from fake_target import FakeTarget
from heap_mixtures import everything
from heapbuilder import HeapImage
from marks import in_full
from wounds_arenas import ARENAS
from wounds_lists import LISTS

from arenascope.base.errors import MemoryReadError
from arenascope.glibc import bins_in_bulk
from arenascope.glibc.bins import ring_starts
from arenascope.glibc.bins_in_bulk import LARGEST
from arenascope.session.session import Session
from arenascope.sources.target import NodeWords

ROWS = ["2.17-64", "2.26-i386", "2.36-64", "2.43-64"]
WORDS = 40
"""Damaged at random, one at a time."""


class InBulk:
    """Reads many at once, as of a process; counts how many of these there were."""

    def __init__(self, target: FakeTarget) -> None:
        self.target, self.calls = target, 0

    def read(self, places: array[int]) -> NodeWords:
        self.calls += 1
        size, order = self.target.pointer_size, self.target.byte_order
        found: list[tuple[int, ...]] = []
        for place in places:
            try:
                data = self.target.read(place, 3 * size)
            except MemoryReadError:
                data = bytes(3 * size)
            found.append(tuple(int.from_bytes(data[at : at + size], order) for at in range(0, 3 * size, size)))
        return NodeWords(*zip(*found)) if found else NodeWords((), (), ())

    def read_pair(self, one: int, other: int) -> tuple[int, ...]:
        return tuple(word for each in zip(*self.read(array("Q", [one, other]))) for word in each)


def lists(target: FakeTarget, bulk: Any = None) -> Any:
    session = Session(target)
    session.memory.read_nodes = bulk.read if bulk is not None else None
    arenas = session.arenas
    found = [
        (each.kind, each.index, list(each.addresses), list(each.sizes), each.raw_flags, each.whole)
        for arena in arenas
        for each in arena.bins
    ]
    return found, [arena.complete for arena in arenas], session.findings


def long_lists(row: str) -> HeapImage:
    """Also lists of one, two and many chunks."""
    image = everything(row)
    for number in (1, 2, 3, 17):
        for _ in range(number):
            image.main.used(0x30)
            image.main.free(0x700 + 0x100 * number, into="bin")
    image.main.used(0x30)
    return image


@pytest.fixture(params=[LARGEST, 0], ids=["plain Python", "numpy"])
def numpy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not request.param:
        pytest.importorskip("numpy", reason="numpy is not installed: scripts/setup.sh installs it")
    monkeypatch.setattr(bins_in_bulk, "WORTH_IT", request.param)
    monkeypatch.setattr(bins_in_bulk, "LONG", request.param)


@pytest.fixture(params=[False, True], ids=["one after the other", "a thread beside"])
def beside(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param:
        monkeypatch.setattr(bins_in_bulk, "MANY", 3)
        monkeypatch.setattr(FakeTarget, "threaded_fill", FakeTarget.fill)


@pytest.mark.usefixtures("numpy", "beside")
@pytest.mark.parametrize("row", ROWS)
def test_sound_lists_are_those_that_were_built(row: str) -> None:
    image = long_lists(row)
    target = image.target()
    bulk = InBulk(target)
    found, complete, findings = lists(target, bulk)
    assert (found, complete, findings) == lists(target)
    assert all(complete)
    # the longest has some 20: each call takes two of every list
    assert 0 < bulk.calls < 30
    assert max(len(each[2]) for each in found) >= 17


@pytest.mark.usefixtures("numpy")
@pytest.mark.parametrize("row", ["2.26-i386", *in_full("2.36-64")])
def test_damage_is_told_as_link_by_link(row: str) -> None:
    for name, wound in {**LISTS, **ARENAS}.items():
        image = everything(row)
        if wound(image) is not None:
            target = image.target()
            assert lists(target, InBulk(target)) == lists(target), name


@pytest.mark.usefixtures("numpy", "beside")
@pytest.mark.parametrize("row", ["2.26-i386", *in_full("2.43-64")])
def test_any_wrong_word_is_told_as_link_by_link(row: str) -> None:
    rng = random.Random(row)
    image = long_lists(row)
    target = image.target()
    chunks = [chunk for _, _, addresses, _, _, _ in lists(target)[0] for chunk in addresses]
    size = target.pointer_size
    for _ in range(WORDS):
        place = rng.choice(chunks) + size * rng.randrange(1, 4)
        old = target.space.get(place)
        others = (0, rng.choice(chunks), old ^ 1 << rng.randrange(8 * size), old + 2 * size, rng.getrandbits(8 * size))
        target.space.put(place, rng.choice(others))
        assert lists(target, InBulk(target)) == lists(target), hex(place)
        target.space.put(place, old)


@pytest.mark.usefixtures("numpy")
@pytest.mark.parametrize("row", ["2.26-i386", "2.43-64"])
def test_what_was_met_of_a_ring_that_is_wrong_is_told(row: str) -> None:
    """Chunk by chunk up to where it is wrong, from both its ends, and of no other ring."""
    target = long_lists(row).target()
    ring = max((each[2] for each in lists(target)[0] if each[0] != "fast"), key=len)
    middle = ring[len(ring) // 2]
    target.space.put(middle + 3 * target.pointer_size, middle)
    session, broken = Session(target), array("Q")
    starts = ring_starts(session.memory, session.layout, session.headers)
    whole = bins_in_bulk.follow_rings(starts, session.layout, InBulk(target).read, len(ring), broken=broken)
    assert set(ring) == {*broken}
    assert len(whole) == len(starts) - 1


@pytest.mark.usefixtures("numpy")
@pytest.mark.parametrize("few", [1, 1000], ids=["the last of them", "all"])
@pytest.mark.parametrize("row", ["2.26-i386", "2.43-64"])
def test_rings_that_are_followed_one_by_one_are_the_same(monkeypatch: pytest.MonkeyPatch, row: str, few: int) -> None:
    """Sound ones, and such that have any wrong word: those that are told, and what was met of the others."""
    monkeypatch.setattr(bins_in_bulk, "FEW", few)
    target = long_lists(row).target()
    chunks = [chunk for each in lists(target)[0] if each[0] != "fast" for chunk in each[2]]
    session, size, rng = Session(target), target.pointer_size, random.Random(row)
    starts = ring_starts(session.memory, session.layout, session.headers)
    bulk = InBulk(target)
    for number in range(WORDS):
        place = rng.choice(chunks) + size * rng.randrange(1, 4)
        old = target.space.get(place)
        if number:
            target.space.put(place, rng.choice((0, rng.choice(chunks), old + 2 * size, rng.getrandbits(8 * size - 1))))
        found = []
        for pair in (None, bulk.read_pair):
            broken = array("Q")
            rings = bins_in_bulk.follow_rings(starts, session.layout, bulk.read, 100, broken=broken, read_pair=pair)
            found.append((rings, sorted(broken)))
        assert found[0] == found[1], hex(place)
        target.space.put(place, old)
