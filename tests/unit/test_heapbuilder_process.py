"""The builder's processes: the ring of arenas, threads, symbols, mappings, and damage done to them."""

from __future__ import annotations

import pytest
from heapbuilder import EACH_ROW, HeapImage, Row

from arenascope.base.errors import MemoryReadError, UsageError

rows = pytest.mark.parametrize("row", EACH_ROW, ids=str)


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
    bins = state.fields["bins"]
    assert (bins.offset, bins.size) == (row.state["top"] + 2 * row.word, 254 * row.word)
    assert state.fields["binmap"].offset == bins.offset + bins.size
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
