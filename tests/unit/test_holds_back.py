"""What a kind holds back, on built heaps: every figure against a toy that frees all blocks of a size."""

from __future__ import annotations

import random
from typing import Iterator, Union

import pytest
from heap_mixtures import everything, random_image
from heapbuilder import EACH_ROW, HeapImage, Row
from marks import full_after
from toy_malloc import held

from arenascope.analysis.pins import Holdings, HoldSearch
from arenascope.analysis.pins import Typed as Block
from arenascope.analysis.report import Present
from arenascope.analysis.trim import TrimRules
from arenascope.base.model import ArenaHeader, ChunkRun, Heap
from arenascope.blocks.types_of_image import held_back, in_memory
from arenascope.glibc.sweep import blocks
from arenascope.session.session import Session
from arenascope.sources.target import Span


def by_size(session: Session, header: ArenaHeader, heap: Heap) -> Iterator[Block]:
    for piece in session.sweep(header, heap):
        if isinstance(piece, ChunkRun):
            for chunk, size, state in blocks(piece, session.listed):
                yield chunk, size, state, size
        else:
            yield piece.address, piece.bytes, piece.kind, -1


def compare(image: HeapImage) -> int:
    """Arena by arena; how much is held in all."""
    session = Session(image.target())
    total = 0
    for arena in image.truth.arenas:
        present = in_memory(session, arena.index)
        found = held_back(session, present, lambda header, heap: by_size(session, header, heap))
        expected = held(image, arena)
        for size, bytes_held in expected.items():
            held_by = found.of(size)
            assert held_by is not None
            assert held_by.releases == bytes_held, f"arena {arena.index}: blocks of {size}"
            assert 0 <= held_by.within <= held_by.releases
        total += sum(expected.values())
    return total


def few_sizes(row: Union[Row, str], seed: int) -> HeapImage:
    """Blocks of ten sizes beside each other and beside free pieces of all lengths, in heaps that are cut short, full
    or wholly free; with thresholds at which free() does much by itself, or nothing."""
    rng = random.Random(f"few {seed}")
    image = HeapImage(row, seed=seed)
    row = image.row
    image.mp["trim_threshold"] = rng.choice((0, 0x8000, 0x20000, 0x40000))
    image.mp["top_pad"] = rng.choice((0, 0x1000, 0x20000))
    sizes = [row.minsize + 16 * each * rng.randrange(1, 300) for each in range(9)]
    sizes.append(0x9000)

    def some(arena: object, count: int) -> None:
        size = rng.choice(sizes)
        for _ in range(rng.randrange(1, count)):
            if rng.random() < 0.3:
                size = rng.choice(sizes)
            for _ in range(rng.choice((1, 1, 1, 2, 5))):
                arena.used(size)
            if rng.random() < 0.4:
                arena.free(rng.choice((0x200, 0x1800, 0x3000, 0x11000)))
            if row.has_fastbins and rng.random() < 0.15:
                arena.fast(row.minsize)

    for number in (1, 2):
        arena = image.thread(number).arena
        for _ in range(rng.randrange(4)):
            if rng.random() < 0.3:
                for _ in range(rng.randrange(1, 4)):
                    arena.used(sizes[0])
            else:
                some(arena, 12)
            arena.new_heap(left=rng.choice((None, row.minsize)))
        some(arena, 8)
    some(image.main, 20)
    return image


CHAINS = ["2.17-64", "2.22-64", "2.23-64", "2.26-i386", "2.31-arm", "2.36-64", "2.41-64", "2.43-64", "2.43-s390x"]


@pytest.mark.parametrize("row", EACH_ROW, ids=str)
def test_everything_on_every_row(row: Row) -> None:
    assert compare(everything(row, trim_threshold=0x10000, top_pad=0))


@pytest.mark.parametrize("row", full_after(4, CHAINS))
def test_random_heaps(row: str) -> None:
    for seed in range(4):
        compare(random_image(row, seed))


@pytest.mark.parametrize("row", full_after(4, CHAINS))
def test_few_sizes(row: str) -> None:
    for seed in range(16):
        assert compare(few_sizes(row, seed))


def test_what_is_present_of_a_range() -> None:
    present = Present([Span(0x1000, 0x3000), Span(0x5000, 0x6000)])
    assert present.within(0, 0x10000) == 0x3000
    assert present.within(0x2000, 0x5000) == 0x1000
    assert present.within(0x3000, 0x5000) == present.within(0, 0x1000) == 0
    assert Present([]).within(0, 0x10000) == 0


def test_what_is_locked_stays_in_memory() -> None:
    """madvise ends at the first locked page; the figure of address space does not."""
    page, start = 4096, 0x7F0000000000
    layout = Session(HeapImage("2.36-64").target()).layout
    heap = Heap(0, start, start + 64 * page, None, True)
    blocks_of_one = [
        (start + 16, 10 * page, "used", 1),
        (start + 16 + 10 * page, 20 * page, "free", -1),
        (start + 16 + 30 * page, 2 * page, "used", 2),
        (start + 16 + 32 * page, 20 * page, "free", -1),
        (start + 16 + 52 * page, 4 * page, "used", 1),
    ]
    found = {}
    for locked in ((), [Span(start + 40 * page, start + 41 * page)], [Span(start + 31 * page, start + 32 * page)]):
        holdings = Holdings()
        search = HoldSearch(True, heap.end, TrimRules(layout, page, heap.end), None, holdings)
        search.locked = locked
        search.walk(heap, blocks_of_one, Present([Span(heap.address, heap.end)]))
        held_by = holdings.of(2)
        assert held_by is not None
        # the block's own two pages, and the one on either side that it shares
        assert held_by.releases == 3 * page
        found[len(found)] = held_by.resident
    # after a lock in the second piece nothing goes back either way; with one in the block, what lies in front of it
    assert found == {0: 3 * page, 1: 3 * page, 2: page}


def test_a_top_is_not_stranded() -> None:
    """The one block below a thread arena's large top: what goes back with it lay in no page that it shares."""
    image = HeapImage("2.36-64", trim_threshold=0x8000, top_pad=0)
    arena = image.thread(1).arena
    arena.used(0x100)
    arena.free(0x20000)
    arena.used(0x40)
    session = Session(image.target())
    held_by = held_back(session, in_memory(session, 1), lambda header, heap: by_size(session, header, heap)).of(0x40)
    assert held_by is not None
    assert held_by.releases > held_by.within
    assert held_by.within <= 0x2000
