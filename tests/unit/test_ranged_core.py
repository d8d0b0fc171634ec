"""Bytes that are fetched when they are asked for: the same as of the file, each once, and none after an error."""

from __future__ import annotations

import os
import random

import pytest

from arenascope.base.errors import TargetError
from arenascope.sources.core import ranged_core
from arenascope.sources.core.ranged_core import RangedBytes

BLOCK = 64
SIZE = 40 * BLOCK + 7


class Store:
    def __init__(self) -> None:
        self.data = os.urandom(SIZE)
        self.fetched: list[tuple[int, int]] = []
        self.ends = SIZE

    def fetch(self, offset: int, size: int) -> bytes:
        if offset + size > self.ends:
            raise TargetError("it ends there")
        self.fetched.append((offset, size))
        return self.data[offset : offset + size]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr(ranged_core, "BLOCK", BLOCK)
    return Store()


@pytest.mark.parametrize("seed", range(5))
def test_they_are_the_file_and_each_is_fetched_once(seed: int, store: Store) -> None:
    chosen, held = random.Random(seed), RangedBytes(SIZE, store.fetch)
    for _ in range(200):
        at, size = chosen.randrange(SIZE), chosen.choice((1, 8, BLOCK, 5 * BLOCK, SIZE))
        assert held.read(at, size) == store.data[at : at + size]
        block = memoryview(bytearray(size))
        assert bytes(block[: held.fill(block, at)]) == store.data[at : at + size]
    bounds = sorted((at, at + size) for at, size in store.fetched)
    assert all(end <= start for (_, end), (start, _) in zip(bounds, bounds[1:]))
    assert held.fetched == sum(size for _, size in store.fetched) <= SIZE
    held.close()


def test_little_is_fetched_for_little(store: Store) -> None:
    held = RangedBytes(SIZE, store.fetch)
    for at in (20 * BLOCK, 20 * BLOCK + 1, 5 * BLOCK):
        held.read(at, 8)
    assert store.fetched == [(20 * BLOCK, BLOCK), (5 * BLOCK, BLOCK)]


def test_what_is_read_in_turn_comes_in_ever_larger_pieces(store: Store) -> None:
    held = RangedBytes(SIZE, store.fetch)
    for at in range(0, SIZE, 8):
        held.read(at, 8)
    sizes = [size // BLOCK for _, size in store.fetched]
    assert sizes[:4] == [2, 4, 8, 16]
    assert held.fetched == SIZE


def test_whoever_wants_all_of_it_gets_larger_pieces(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranged_core, "SAME", 4)
    held = RangedBytes(SIZE, store.fetch)
    for at in range(SIZE - 1, -1, -BLOCK):
        held.read(at, 1)
    sizes = [size // BLOCK for _, size in store.fetched]
    assert sizes[1:4] == [1, 1, 1]
    assert max(sizes) >= 4
    assert held.fetched == SIZE


def test_after_an_error_there_is_nothing_more(store: Store) -> None:
    held = RangedBytes(SIZE, store.fetch)
    start = held.read(0, 8)
    store.ends = 20 * BLOCK
    with pytest.raises(TargetError) as first:
        held.read(30 * BLOCK, 8)
    store.ends = SIZE
    with pytest.raises(TargetError) as second:
        held.read(30 * BLOCK, 8)
    assert held.failure is first.value is second.value
    assert held.read(0, 8) == start
