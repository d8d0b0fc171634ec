"""The builder's lists: bins, fastbins and thread caches, against words that were worked out by hand."""

from __future__ import annotations

import pytest
from heapbuilder import HeapImage


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
