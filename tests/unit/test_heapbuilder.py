"""The builder itself, against offsets and words that were worked out by hand or read from real processes."""

from __future__ import annotations

from typing import Iterator

import pytest
from heapbuilder import ROWS, ArenaTruth, Chunk, HeapImage, HeapTruth, Row

from arenascope.errors import MemoryReadError, UsageError

rows = pytest.mark.parametrize("row", ROWS, ids=str)


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
    behind = image.main.used(0x100)
    truth = image.truth
    old_end = truth.main.heaps[0].end
    at, seen = old_end - left, []
    for _ in words:
        seen.append(image.peek(at + 8))
        at += seen[-1] & ~7
    assert tuple(seen) == words
    assert at == old_end
    assert behind.address == old_end + 0x70
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


def test_bins_are_joined_both_ways() -> None:
    image = HeapImage("2.36-64")
    older, newer = image.main.free(0x500), image.main.free(0x90)
    arena = image.truth.main
    header = arena.address + 96
    assert arena.bins == {1: [newer, older]}
    assert [image.peek(header + 16), image.peek(header + 24)] == [newer.address, older.address]
    assert [image.peek(newer.address + 16), image.peek(newer.address + 24)] == [older.address, header]
    assert [image.peek(older.address + 16), image.peek(older.address + 24)] == [header, newer.address]
    assert [image.peek(older.address + 32), image.peek(older.address + 40)] == [0, 0]
    assert image.peek(older.end) == 0x500
    assert image.peek(older.end + 8) & 1 == 0
    assert image.peek(arena.address + 112 + 16 * 126) == arena.address + 96 + 16 * 126, "bin 127 stays empty"


def test_large_bin_is_sorted_and_skips_by_size() -> None:
    image = HeapImage("2.36-64")
    small = image.main.free(0x410, into="bin")
    first, big, second, third = (image.main.free(size, into="bin") for size in (0x420, 0x430, 0x420, 0x420))
    assert image.truth.main.bins == {64: [big, first, third, second, small]}
    assert [image.peek(c.address + 32) for c in (big, first, small)] == [first.address, small.address, big.address]
    assert [image.peek(c.address + 40) for c in (big, first, small)] == [small.address, big.address, first.address]
    assert [image.peek(c.address + 32) for c in (second, third)] == [0, 0]
    assert image.peek(image.truth.main.address + 2144 + 8, 4) == 1


@pytest.mark.parametrize(
    ("row", "size", "index"),
    [
        ("2.36-64", 4096, 99),
        ("2.31-arm", 4096, 99),
        ("2.31-i386", 16384, 114),
        ("2.36-64", 65536, 121),
        ("2.36-64", 32, 2),
        ("2.36-64", 1008, 63),
        ("2.31-arm", 504, 63),
        ("2.31-i386", 992, 63),
        ("2.31-arm", 512, 64),
        ("2.31-i386", 1008, 64),
        ("2.36-64", 1 << 30, 126),
        ("2.36-64", 3136, 97),
    ],
)
def test_bin_index(row: str, size: int, index: int) -> None:
    assert HeapImage(row).row.bin_index(size) == index


def test_fastbins_are_plain_until_2_31() -> None:
    for name, mask in (("2.31-64", 0), ("2.32-64", ~0)):
        image = HeapImage(name)
        older, newer = image.main.fast(0x30), image.main.fast(0x30)
        head = image.truth.main.address + 16 + 8
        field = newer.address + 16
        assert image.truth.main.fastbins == {1: [newer, older]}
        assert image.peek(head) == newer.address
        assert image.peek(field) == older.address ^ (field >> 12 & mask)
        assert image.peek(older.address + 16) == (older.address + 16) >> 12 & mask
        assert image.peek(image.truth.main.address + 8, 4) == 1, "have_fastchunks"
    with pytest.raises(ValueError, match="fastbin"):
        HeapImage("2.43-64").main.fast(0x30)


@pytest.mark.parametrize(
    ("row", "count", "width", "entries", "expected"),
    [("2.26-64", 0, 1, 64, 2), ("2.36-64", 0, 2, 128, 2), ("2.43-64", 0, 2, 152, 14), ("2.42-arm", 0, 2, 152, 5)],
)
def test_thread_cache(row: str, count: int, width: int, entries: int, expected: int) -> None:
    image = HeapImage(row)
    thread = image.thread(1)
    older, newer = thread.cached(0x40), thread.cached(0x40, of=image.main)
    truth = image.truth.threads[1]
    index = {8: 2, 4: 6}[image.row.word]
    assert truth.bins == {index: [newer, older]}
    assert image.peek(truth.tcache + count + index * width, width) == expected
    first = image.peek(truth.tcache + entries + index * image.row.word)
    assert first == newer.address + image.row.header
    mask = first >> 12 if image.row.safe_linking else 0
    assert image.peek(first) ^ mask == older.address + image.row.header
    assert newer in image.truth.main.cached
    assert older in image.truth.arenas[1].cached
    if row == "2.36-64":
        assert image.peek(first + 8) == image.tcache_key


def test_thread_cache_has_limits() -> None:
    thread = HeapImage("2.36-64").thread(0)
    assert thread.cached(0x410).size == 0x410
    with pytest.raises(ValueError, match="takes no"):
        thread.cached(0x420)
    assert not HeapImage("2.42-64").thread(0).accepts(0x410)
    assert HeapImage("2.42.x-64").thread(0).accepts(0x410)
    big = HeapImage("2.43-64", tcache_max_bytes=1 << 20).thread(0)
    larger, large = big.cached(0x1000), big.cached(0x900)
    assert big.bins == {65: [large], 66: [larger]}
    assert big.cached_mmapped(300000).size & 7 == 0


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


@rows
def test_arenas_form_a_ring_newest_first(row: Row) -> None:
    image = HeapImage(row)
    made = [image.thread(number).arena.address for number in (1, 2, 3)]
    image.thread(4, arena=image.thread(2).arena)
    image.thread(5, arena="none")
    arenas = image.truth.arenas
    assert [arena.address for arena in arenas] == [image.main.address, *reversed(made)]
    at, seen = image.main.address, []
    for _ in arenas:
        at = image.peek(at + row.state["next"])
        seen.append(at)
    assert seen == [*reversed(made), image.main.address]
    assert [arena.attached_threads for arena in arenas] == [1, 1, 2, 1]
    assert image.truth.threads[5].arena is None
    thread = image.target().threads()[2]
    assert image.peek(thread.thread_pointer + row.tls_arena) == made[1]


def test_process_before_its_first_malloc() -> None:
    old, new = HeapImage("2.36-64", heap=False), HeapImage("2.42-64", heap=False)
    assert old.truth.main.top is None
    assert old.peek(old.main.address + 96) == 0
    assert old.peek(old.main.address + 2160) == old.main.address
    assert new.peek(new.main.address + 96) == new.main.address + 96
    assert new.peek(new.main.address + 112) == new.main.address + 96
    assert old.truth.mp["sbrk_base"] == 0


def test_target_reads_what_is_mapped_and_counts() -> None:
    image = HeapImage("2.36-64")
    image.thread(1)
    target = image.target()
    heap = image.truth.arenas[1].heaps[0]
    assert target.read(heap.address, 8) == image.truth.arenas[1].address.to_bytes(8, "little")
    assert (target.reads, target.bytes_read) == (1, 8)
    for address in (image.nowhere, heap.end - 4):
        with pytest.raises(MemoryReadError):
            target.read(address, 8)
    tail = next(region for region in target.regions() if region.start == heap.end)
    assert not tail.readable
    assert tail.end == heap.address + (64 << 20)
    assert target.evaluate("0x10") == 16
    with pytest.raises(UsageError):
        target.evaluate("main")


@rows
def test_structs_and_symbols(row: Row) -> None:
    image = HeapImage(row)
    target = image.target(structs=True)
    state = target.struct("malloc_state")
    assert state.fields["bins"] == (row.state["top"] + 2 * row.word, 254 * row.word)
    assert state.fields["binmap"][0] == sum(state.fields["bins"])
    assert state.size == row.state["max_system_mem"] + row.word
    assert ("fastbinsY" in state.fields) == row.has_fastbins
    assert (target.struct("tcache_perthread_struct") is not None) == row.has_tcache
    assert target.symbol("main_arena").address == image.main.address
    assert image.target(symbols="exported").symbol("main_arena") is None
    assert image.target(symbols="exported").symbol("__curbrk") is not None
    assert image.target(symbols=False).symbol("__curbrk") is None
    starts = [region.start for region in target.regions()]
    assert starts == sorted(starts)
    assert all(a.end <= b.start for a, b in zip(target.regions(), target.regions()[1:]))


def test_big_endian_words() -> None:
    image = HeapImage("2.36-s390x")
    top = image.main.used(0x40).end
    assert image.target().read(image.main.address + 96, 8) == top.to_bytes(8, "big")


def test_damage_is_done_to_memory_not_to_truth() -> None:
    image = HeapImage("2.36-64")
    first, second = image.main.free(0x100), image.main.free(0x100)
    thread = image.thread(0)
    thread.cached(0x20)
    thread.cached(0x20)
    image.corrupt.loop_bin(image.main, 1)
    assert image.peek(first.address + 16) == second.address
    assert image.truth.main.bins[1] == [second, first]
    image.corrupt.cycle_tcache(thread, 0)
    last, head = (image.row.user(chunk.address) for chunk in reversed(thread.bins[0]))
    assert image.peek(last) == head ^ (last >> 12)
    image.corrupt.oversize(first)
    assert image.peek(first.address + 8) == 1 << 62 | 1
    heap = image.truth.main.heaps[0]
    image.corrupt.cut(heap.address + 0x1000, heap.end)
    target = image.target()
    assert target.read(heap.address, 0x1000)
    with pytest.raises(MemoryReadError):
        target.read(heap.address + 0x1000, 1)
    with pytest.raises(RuntimeError):
        image.main.used(0x20)
