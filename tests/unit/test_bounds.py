"""Work that grows with what there is, and not with its square: counted, never timed."""

from __future__ import annotations

import tracemalloc
from typing import Any, Iterator

from heapbuilder import HeapImage

from arenascope.analysis.resident_parts import picture
from arenascope.base.heap_model import ChunkRun, Ends, Heap, MmappedBlock, Tally
from arenascope.glibc.arena import follow_ring
from arenascope.glibc.invariants import ChunkCheck
from arenascope.glibc.mmapped_chunks import search_ranges, without_strangers
from arenascope.session.session import Session
from arenascope.sources.memory import Memory
from arenascope.sources.target import MappingUse, Region

PAGE = 4096
MANY = 1000


class Walked(list):  # type: ignore[type-arg]
    """Counts how often somebody begins to go through it."""

    times = 0

    def __iter__(self) -> Iterator[Any]:
        self.times += 1
        return super().__iter__()


def session_of() -> Session:
    image = HeapImage("2.36-64")
    image.main.used(0x100)
    return Session(image.target())


def test_mappings_are_not_held_against_all_heaps() -> None:
    session = session_of()
    regions = [
        Region(base, base + PAGE, True, True, False) for base in range(1 << 40, (1 << 40) + MANY * 16 * PAGE, 16 * PAGE)
    ]
    heaps = Walked(Heap(1, region.start, region.start + 1024, 2048, False) for region in regions)
    found = list(search_ranges(session.layout, regions, heaps, None))
    assert [each.start for each in found] == [region.start + 2048 for region in regions]
    assert [(each.end, each.limit) for each in found] == [(region.end, region.end) for region in regions]
    assert heaps.times == 1


class Asked(Region):
    times = 0

    def contains(self, address: int) -> bool:
        Asked.times += 1
        return super().contains(address)


def test_mappings_are_not_held_against_all_stacks() -> None:
    regions = [Asked(base, base + PAGE) for base in range(1 << 40, (1 << 40) + MANY * 16 * PAGE, 16 * PAGE)]
    stacks = [region.start + 8 for region in regions[::2]]
    found = picture([], 0, 0, [MappingUse(region, PAGE, 0, 0) for region in regions], [], stacks)
    assert found.parts["stacks"] == found.parts["other"] == MANY * PAGE // 2
    assert Asked.times <= MANY


class Block(MmappedBlock):
    compared = 0

    def __eq__(self, other: object) -> bool:
        Block.compared += 1
        return tuple.__eq__(self, other)

    __hash__ = MmappedBlock.__hash__


def test_blocks_are_not_held_against_each_other() -> None:
    blocks = [Block(base + 16, base, PAGE) for base in range(1 << 40, (1 << 40) + MANY * 16 * PAGE, 16 * PAGE)]
    assert without_strangers(blocks, Tally()) == []
    assert Block.compared <= MANY


def check_of(session: Session, binned: list[int]) -> ChunkCheck:
    return ChunkCheck(session.memory, session.layout, session.headers[0], dict.fromkeys(binned, False), {}, True)


def test_a_run_is_gone_through_once_for_all_that_lies_in_it() -> None:
    session = session_of()
    heap = session.heaps[0][0]
    raws = Walked([0x100 | 1] * MANY)
    inside = [heap.address + 0x100 * index + 0x20 for index in range(MANY)]
    check = check_of(session, inside)
    run = ChunkRun(heap, heap.address, 0x100 * MANY, raws, 1, {}, (), Ends([], [], []))
    check.find_hidden(check.hidden, [run])
    assert [breach.address for breach in check.breaches] == [heap.address + 0x100 * index for index in range(MANY)]
    assert raws.times == 1


def test_feet_of_free_chunks_are_read_with_the_headers() -> None:
    image = HeapImage("2.36-64")
    binned = []
    for _ in range(MANY):
        binned.append(image.main.free(0x400).address)
        image.main.used(0x40)
    session = Session(image.target())
    check = check_of(session, binned)
    pieces = list(session.sweep(session.headers[0]))
    reads, read = [], session.memory.read

    def counted(address: int, size: int) -> bytes:
        reads.append(address)
        return read(address, size)

    session.memory.read = counted
    check.run(pieces)
    assert (check.breaches, all(check.binned.values())) == ([], True)
    assert not reads


def test_a_list_of_many_is_kept_once() -> None:
    session = session_of()
    binned = dict.fromkeys(range(1 << 40, (1 << 40) + 100 * MANY * 32, 32), False)
    _ = session.headers
    tracemalloc.start()
    try:
        ChunkCheck(session.memory, session.layout, session.headers[0], binned, {}, True)
        assert tracemalloc.get_traced_memory()[1] < len(binned)
    finally:
        tracemalloc.stop()


def test_a_ring_of_arenas_that_lie_in_no_heap() -> None:
    """Each word leads on to the next one's place, wherever in an arena `next` is looked for."""
    reads, step = 0, 4096

    def read(address: int, size: int) -> bytes:
        nonlocal reads
        reads += 1
        return ((address // step + 1) * step + 2048).to_bytes(size, "little")

    assert follow_ring(Memory(read, 8, "little"), (1 << 40) - 4096) == ()
    assert reads <= MANY
