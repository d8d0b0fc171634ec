"""What goes back with what an owner holds, on built heaps: one by one, all at once with numpy, and by the rules of
analysis/pins.py, which free every block of a kind."""

from __future__ import annotations

import random
from operator import or_
from typing import Any, Iterator, Mapping, Sequence, Union

import pytest
from heap_mixtures import everything, random_image

from arenascope.analysis.pins import Typed
from arenascope.analysis.report import Present
from arenascope.base.model import ArenaHeader, ChunkRun, Heap
from arenascope.blocks.graph.blocks import NOBODY, Join, LiveBlocks, OwnerPages, live_blocks, nobodys
from arenascope.blocks.graph.returns import AtOnce, OneByOne
from arenascope.blocks.types_of_image import InMemory, held_back
from arenascope.glibc.sweep import blocks
from arenascope.session.session import Session
from arenascope.sources.target import Span

OWNERS = 4
WHOLE = 0
"""The owner of what any two of the others have something on."""


def together(one: int, other: int) -> int:
    return NOBODY if NOBODY in (one, other) else one if one == other else WHOLE


def heaps(session: Session) -> list[tuple[ArenaHeader, Heap]]:
    return [(header, heap) for header in session.headers for heap in session.heaps[header.index]]


def pages_of(rng: random.Random, heap: Heap) -> Present:
    """Some of it is in memory."""
    bounds = sorted(rng.sample(range(heap.address >> 12, (heap.end >> 12) + 1), 2 * min(4, heap.bytes >> 14)))
    return Present([Span(start << 12, end << 12) for start, end in zip(bounds[::2], bounds[1::2])])


def told(
    numpy: Any,
    session: Session,
    found: LiveBlocks,
    whose: Sequence[int],
    join: Join,
    there: Mapping[Heap, Present],
    owners: int = OWNERS,
) -> list[OwnerPages]:
    by: Union[OneByOne, AtOnce]
    if numpy is None:
        by = OneByOne(session, found, whose, owners, join)
    else:
        by = AtOnce(numpy, session, found, whose=whose, owners=owners, join=join)
    for _, heap in heaps(session):
        by.add_heap(there[heap], heap)
    return by.kept


def freed(session: Session, found: LiveBlocks, whose: Sequence[int], there: InMemory) -> list[int]:
    """What is among blocks of what goes once all of an owner's are free."""

    def stream(header: ArenaHeader, heap: Heap) -> Iterator[Typed]:
        for piece in session.sweep(header, heap):
            if not isinstance(piece, ChunkRun):
                yield piece.address, piece.bytes, piece.kind, NOBODY
                continue
            for chunk, size, state in blocks(piece, session.listed):
                number = found.find(chunk + session.layout.header)
                yield chunk, size, state, whose[number] if number >= 0 and state == "used" else NOBODY

    holdings = held_back(session, there, stream)
    return [holdings.within[owner, True] for owner in range(OWNERS)]


@pytest.mark.parametrize("row", ["2.31-64", "2.43-64", "2.43-i386"])
def test_all_tell_the_same(row: str) -> None:
    numpy = pytest.importorskip("numpy", reason="numpy is not installed: scripts/setup.sh installs it")
    for seed in range(6):
        rng = random.Random(seed)
        session = Session((random_image(row, seed) if seed else everything(row)).target())
        found = live_blocks(session)
        owner, whose = 0, []
        for _ in found.starts:
            # neighbours are often of one
            owner = owner if rng.random() < 0.7 else rng.randrange(NOBODY, OWNERS)
            whose.append(owner)
        there = {heap: pages_of(rng, heap) for _, heap in heaps(session)}
        for join in (nobodys, together):
            plain = told(None, session, found, whose, join, there)
            assert told(numpy, session, found, whose, join, there) == plain
        if seed:
            # there no heap is freed whole: free() does that by itself, and then it is nobody's
            alone = told(None, session, found, whose, nobodys, there)
            assert [each.returns for each in alone] == freed(session, found, whose, there)
            assert any(each.returns for each in alone) or len(found) < 30


@pytest.mark.parametrize("row", ["2.31-64", "2.43-i386"])
def test_what_goes_back_only_with_several(row: str) -> None:
    """A bit for each owner: what goes with some of them is what has the bits of these alone."""
    numpy = pytest.importorskip("numpy", reason="numpy is not installed: scripts/setup.sh installs it")
    beside = 0
    for seed in range(1, 5):
        rng = random.Random(seed)
        session = Session(random_image(row, seed).target())
        found = live_blocks(session)
        owners = [rng.randrange(NOBODY, OWNERS) if rng.random() < 0.2 else rng.randrange(2) for _ in found.starts]
        whose = [owner if owner == NOBODY else 1 << owner for owner in owners]
        there = {heap: pages_of(rng, heap) for _, heap in heaps(session)}
        kept = told(None, session, found, whose, or_, there, 1 << OWNERS)
        assert told(numpy, session, found, whose, or_, there, 1 << OWNERS) == kept
        for some in range(1, 1 << OWNERS):
            theirs = [0 if owner != NOBODY and some >> owner & 1 else NOBODY for owner in owners]
            goes = [each.returns for who, each in enumerate(kept) if who and who & some == who]
            assert sum(goes) == freed(session, found, theirs, there)[0]
        beside += kept[3].returns
    assert beside
