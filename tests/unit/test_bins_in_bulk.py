"""Bins followed all at once, from both ends, say what they say link by link: of sound heaps and of damaged ones."""

from __future__ import annotations

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
from arenascope.session.session import Session
from arenascope.sources.target import NodeWords

ROWS = ["2.17-64", "2.26-i386", "2.36-64", "2.43-64"]


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


@pytest.mark.parametrize("row", ["2.26-i386", *in_full("2.36-64")])
def test_damage_is_told_as_link_by_link(row: str) -> None:
    for name, wound in {**LISTS, **ARENAS}.items():
        image = everything(row)
        if wound(image) is not None:
            target = image.target()
            assert lists(target, InBulk(target)) == lists(target), name
