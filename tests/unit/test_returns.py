"""What goes back with an owner's blocks, on built heaps, by the rules of analysis/pins.py."""

from __future__ import annotations

import random
from array import array
from typing import Iterator, Mapping, Sequence

import pytest
from heap_mixtures import random_image

from arenascope.analysis.pins import Typed
from arenascope.analysis.report import Present
from arenascope.base.model import ArenaHeader, ChunkRun, Heap
from arenascope.blocks.graph.blocks import NOBODY, LiveBlocks, OwnerPages, live_blocks
from arenascope.blocks.graph.returns import pages_of_owners
from arenascope.blocks.types_of_image import InMemory, held_back
from arenascope.engine import Join
from arenascope.glibc.sweep import blocks
from arenascope.session.session import Session
from arenascope.sources.target import Span

OWNERS = 4


def heaps(session: Session) -> list[tuple[ArenaHeader, Heap]]:
    return [(header, heap) for header in session.headers for heap in session.heaps[header.index]]


def pages_of(rng: random.Random, heap: Heap) -> list[Span]:
    """Some of it is in memory."""
    bounds = sorted(rng.sample(range(heap.address >> 12, (heap.end >> 12) + 1), 2 * min(4, heap.bytes >> 14)))
    return [Span(start << 12, end << 12) for start, end in zip(bounds[::2], bounds[1::2])]


def told(
    session: Session,
    found: LiveBlocks,
    whose: Sequence[int],
    join: Join,
    there: Mapping[Heap, Sequence[Span]],
    owners: int = OWNERS,
) -> list[OwnerPages]:
    every = sorted(Span(heap.address, heap.end) for _, heap in heaps(session))
    present = sorted(span for spans in there.values() for span in spans)
    return pages_of_owners(session, found, every, present, array("i", whose), owners, join)


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
def test_what_goes_back_with_each_owner(row: str) -> None:
    for seed in range(1, 6):
        rng = random.Random(seed)
        session = Session(random_image(row, seed).target())
        found = live_blocks(session)
        owner, whose = 0, []
        for _ in found.starts:
            # neighbours are often of one
            owner = owner if rng.random() < 0.7 else rng.randrange(NOBODY, OWNERS)
            whose.append(owner)
        there = {heap: pages_of(rng, heap) for _, heap in heaps(session)}
        memory = {heap: Present(spans) for heap, spans in there.items()}
        # there no heap is freed whole: free() does that by itself, and then it is nobody's
        alone = told(session, found, whose, "nobody", there)
        assert [each.returns for each in alone] == freed(session, found, whose, memory)
        assert any(each.returns for each in alone) or len(found) < 30
        # the first owner is above all others: it has what any two of them have something on
        tree = told(session, found, whose, [NOBODY, 0, 0, 0], there)
        assert tree[1:] == alone[1:]
        every = [NOBODY if owner == NOBODY else 0 for owner in whose]
        assert sum(each.returns for each in tree) == freed(session, found, every, memory)[0]


@pytest.mark.parametrize("row", ["2.31-64", "2.43-i386"])
def test_what_goes_back_only_with_several(row: str) -> None:
    """A bit for each owner: what goes with some of them is what has the bits of these alone."""
    beside = 0
    for seed in range(1, 5):
        rng = random.Random(seed)
        session = Session(random_image(row, seed).target())
        found = live_blocks(session)
        owners = [rng.randrange(NOBODY, OWNERS) if rng.random() < 0.2 else rng.randrange(2) for _ in found.starts]
        whose = [owner if owner == NOBODY else 1 << owner for owner in owners]
        there = {heap: pages_of(rng, heap) for _, heap in heaps(session)}
        memory = {heap: Present(spans) for heap, spans in there.items()}
        kept = told(session, found, whose, "sets", there, 1 << OWNERS)
        for some in range(1, 1 << OWNERS):
            theirs = [0 if owner != NOBODY and some >> owner & 1 else NOBODY for owner in owners]
            goes = [each.returns for who, each in enumerate(kept) if who and who & some == who]
            assert sum(goes) == freed(session, found, theirs, memory)[0]
        beside += kept[3].returns
    assert beside
