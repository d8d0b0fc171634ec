"""The builder's arenas and heaps, against offsets and words worked out by hand or read from real processes."""

from __future__ import annotations

from typing import Iterator

import pytest
from heapbuilder import EACH_ROW, ArenaTruth, Chunk, HeapImage, HeapTruth, Row

rows = pytest.mark.parametrize("row", EACH_ROW, ids=str)


@pytest.mark.parametrize(
    ("row", "offset"),
    [
        ("2.17-64", 88),
        ("2.23-64", 88),
        ("2.27-64", 96),
        ("2.36-64", 96),
        ("2.43-64", 8),
        ("2.36-s390x", 96),
        ("2.17-arm", 48),
        ("2.31-arm", 52),
        ("2.26-i386", 52),
        ("2.31-i386", 56),
        ("2.43-i386", 8),
    ],
)
def test_top_is_where_the_release_keeps_it(row: str, offset: int) -> None:
    image = HeapImage(row)
    last = image.main.used(0x40)
    target = image.target()
    symbol = target.symbol("main_arena")
    assert symbol is not None
    top = int.from_bytes(target.read(symbol.address + offset, target.pointer_size), target.byte_order)
    assert top == last.end == image.truth.main.top.address
    assert image.peek(top + target.pointer_size) == image.truth.main.top.size | 1


@pytest.mark.parametrize(
    ("row", "offset"),
    [
        ("2.17-64", 0x8B0),
        ("2.23-64", 0x8B0),
        ("2.31-64", 0x8C0),
        ("2.36-64", 0x8D0),
        ("2.41-64", 0x8D0),
        ("2.43-64", 0x870),
        ("2.31-i386", 0x478),
        ("2.43-i386", 0x448),
    ],
)
def test_first_chunk_of_an_arena(row: str, offset: int) -> None:
    image = HeapImage(row)
    arena = image.arena()
    assert arena.used(0x40).address - image.truth.arenas[1].heaps[0].address == offset


@pytest.mark.parametrize(
    ("row", "offset"),
    [("2.31-64", 0x20), ("2.36-64", 0x30), ("2.31-i386", 0x18), ("2.31-arm", 0x10), ("2.35-arm", 0x18)],
)
def test_first_chunk_of_a_later_heap(row: str, offset: int) -> None:
    image = HeapImage(row)
    arena = image.arena()
    arena.new_heap()
    chunk = arena.used(0x40)
    heaps = image.truth.arenas[1].heaps
    assert chunk.address - heaps[1].address == offset
    assert image.peek(heaps[1].address + image.row.word) == heaps[0].address
    assert heaps[1].address % image.row.heap_max == 0


def test_thread_cache_comes_first_where_it_is_not_lazy() -> None:
    eager, lazy = HeapImage("2.36-64"), HeapImage("2.43-64")
    assert eager.thread(1).arena.used(0x20).address % (64 << 20) == 0xB60
    assert lazy.thread(1).arena.used(0x20).address % (64 << 20) == 0x870
    assert HeapImage("2.36-64").main.used(0x20).address % 0x1000 == 0x290
    assert HeapImage("2.31-i386").main.used(0x20).address % 0x1000 == 0x198
    assert eager.truth.threads[1].tcache % (64 << 20) == 0x8E0
    assert lazy.truth.threads[1].tcache is None


@pytest.mark.parametrize(
    ("row", "fence", "final"), [("2.36-64", 32, 16), ("2.31-i386", 24, 16), ("2.31-arm", 16, 8), ("2.17-64", 32, 16)]
)
def test_a_retired_heap_ends_in_its_fences(row: str, fence: int, final: int) -> None:
    image = HeapImage(row)
    arena = image.arena()
    arena.used(0x40)
    arena.new_heap(left=0x500)
    truth, word = image.truth.arenas[1], image.row.word
    end = truth.heaps[0].end
    remainder = truth.free[0]
    assert image.peek(remainder.address + word) == remainder.size | 1
    assert remainder.end == end - fence
    assert image.peek(end - fence + word) == 2 * word
    assert image.peek(end - fence) == remainder.size
    assert image.peek(end - final + word) == 1
    assert image.peek(end - final) == 2 * word
    assert truth.bins[1] == [remainder]


def test_a_retired_heap_may_leave_too_little() -> None:
    image = HeapImage("2.36-64")
    arena = image.arena()
    arena.used(0x20)
    arena.new_heap(left=0x30)
    truth = image.truth.arenas[1]
    end = truth.heaps[0].end
    assert truth.fences == [Chunk(end - 0x30, 0x20), Chunk(end - 0x10, 0)]
    assert image.peek(end - 0x30 + 8) == 0x21
    assert image.peek(end - 0x10 + 8) == 1


@pytest.mark.parametrize(
    ("left", "words"), [(0x20, (0x11, 0x11)), (0x30, (0x11, 0x11, 0x11)), (0x40, (0x21, 0x10, 0x11))]
)
def test_foreign_sbrk_leaves_a_double_fence(left: int, words: tuple[int, ...]) -> None:
    image = HeapImage("2.36-64")
    image.main.used(0x100)
    image.main.foreign_sbrk(100, left=left)
    after = image.main.used(0x100)
    truth = image.truth
    old_end = truth.main.heaps[0].end
    at, seen = old_end - left, []
    for _ in words:
        seen.append(image.peek(at + 8))
        at += seen[-1] & ~7
    assert tuple(seen) == words
    assert at == old_end
    assert after.address == old_end + 0x70
    assert truth.mp["sbrk_base"] + truth.main.system_mem == truth.main.top.end == truth.curbrk
    assert truth.main.contiguous


@rows
def test_fallback_to_mmap(row: Row) -> None:
    image = HeapImage(row)
    before = image.main.used(0x40)
    image.main.mmap_region()
    after = image.main.used(0x40)
    truth = image.truth.main
    assert not truth.contiguous
    assert image.peek(truth.address + row.state["flags"], 4) & 2
    assert after.address % row.page_size == (8 if row.family == "32/16" else 0)
    assert truth.system_mem == truth.heaps[0].size + (1 << 20)
    assert {before, after} <= set(truth.used)


@pytest.mark.parametrize(
    ("row", "prev", "word"), [("2.36-64", 0, 0x31002), ("2.43-64", 0, 0x30FF2), ("2.31-i386", 8, 0x30FFA)]
)
def test_mmapped_block(row: str, prev: int, word: int) -> None:
    image = HeapImage(row)
    block = image.mmapped(200000)
    assert image.peek(block.chunk) == prev
    assert image.peek(block.chunk + image.row.word) == word
    assert (block.chunk - block.base, block.total) == (prev, 0x31000)
    assert (image.truth.mp["n_mmaps"], image.truth.mp["mmapped_mem"]) == (1, 0x31000)


def test_mmapped_block_of_memalign() -> None:
    image = HeapImage("2.36-64")
    image.mmapped(0xEF00)
    block = image.mmapped(200000, align=0x10000)
    assert (image.peek(block.chunk), image.peek(block.chunk + 8)) == (0xFFF0, 0x31012)
    assert (block.chunk + 16) % 0x10000 == 0
    assert block.base + block.total == image.truth.mmapped[0].base


def walk(image: HeapImage, arena: ArenaTruth, heap: HeapTruth) -> Iterator[tuple[int, int, int]]:
    """(address, size, flags) of every header from the first to the last fence or top."""
    at, stop = heap.first, max((f.address for f in arena.fences if heap.address <= f.address < heap.end), default=0)
    while at < heap.end:
        value = image.peek(at + image.row.word)
        yield at, value & ~7, value & 7
        if at in (arena.top.address, stop):
            break
        at += value & ~7


@rows
def test_walk_meets_every_chunk(row: Row) -> None:
    image = HeapImage(row, seed=3)
    for builder in (image.main, image.arena(), image.thread(1).arena):
        builder.mix(120)
    image.main.foreign_sbrk(12344 if row.alignment == 8 else 12352)
    image.main.mix(30)
    second = image.thread(1).arena
    second.new_heap()
    second.mix(30)
    for arena in image.truth.arenas:
        walked = [header for heap in arena.heaps for header in walk(image, arena, heap)]
        in_fences = {fence.address for fence in arena.fences}
        headers = in_fences | {arena.top.address}
        met = [(address, size) for address, size, _ in walked if address not in headers]
        assert sorted(met) == [(address, size) for address, size, _ in arena.states()]
        for (address, size, _), (after, _, flags) in zip(walked, walked[1:]):
            if after == address + size:
                assert (flags & 1 == 0) == ((address, size) in arena.free)
                assert flags & 1 or image.peek(after) == size
        marked = {address for address, _, flags in walked if flags & 4}
        own = {chunk.address for chunk in (*arena.used, *arena.fast, *arena.cached)}
        assert marked == (own if arena.index else set())
        assert arena.free == sorted(chunk for chunks in arena.bins.values() for chunk in chunks)
        assert image.peek(arena.address + row.state["system_mem"]) == arena.system_mem
