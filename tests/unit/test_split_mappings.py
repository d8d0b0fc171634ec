"""Blocks served by mmap that lie in several mappings, and what only seems to be one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Optional

import pytest
from fake_door import run_json
from fake_target import FakeTarget
from heap_truth import MmappedTruth
from heapbuilder import HeapImage

from arenascope.base.heap_model import Heap, MmappedBlock, Tally
from arenascope.glibc.mmapped_chunks import MAX_CHOICES, Within, search_ranges, some_split
from arenascope.session.session import Session
from arenascope.sources.target import Region

ROWS = ("2.17-64", "2.36-64", "2.26-i386", "2.43-64")
SIZE = 300000


def relaid(target: FakeTarget, start: int, end: int, **flags: Any) -> FakeTarget:
    """Something else is mapped from `start` to `end`: nothing, without flags."""
    regions = []
    for region in target.mappings:
        low, high = max(region.start, start), min(region.end, end)
        if low >= high:
            regions.append(region)
            continue
        parts = [region._replace(end=low), region._replace(start=high)]
        regions += [each for each in parts if each.start < each.end]
        if flags:
            regions.append(region._replace(start=low, end=high, **flags))
    return replace(target, mappings=regions)


def found(target: FakeTarget) -> list[tuple[int, int, int]]:
    return sorted(tuple(each) for each in Session(target).mmapped)


def laid(*blocks: MmappedTruth) -> list[tuple[int, int, int]]:
    return sorted((each.chunk, each.base, each.total) for each in blocks)


def image_of(name: str) -> HeapImage:
    image = HeapImage(name)
    image.main.mix(10)
    return image


OTHERWISE: dict[str, dict[str, Any]] = {
    "read-only": {"writable": False},
    "inaccessible": {"readable": False, "writable": False},
    "not dumped": {"present": False},
    "named": {"path": "[anon:numbers]"},
    "a file": {"path": "/usr/bin/app", "writable": False},
    "shared": {"shared": True},
    "nothing": {},
}


@pytest.mark.parametrize("flags", OTHERWISE.values(), ids=OTHERWISE)
@pytest.mark.parametrize("name", ROWS)
def test_part_of_a_block_is_otherwise(name: str, flags: dict[str, Any]) -> None:
    for low, high in ((1, 2), (3, 70), (60, None)):
        image = image_of(name)
        blocks = [image.mmapped(SIZE), image.mmapped(SIZE, align=4096), image.mmapped(2 * SIZE), image.mmapped(SIZE)]
        page = image.row.page_size
        end = blocks[2].base + (high * page if high else blocks[2].total)
        target = relaid(image.target(), blocks[2].base + low * page, end, **flags)
        assert found(target) == laid(*blocks)


@pytest.mark.parametrize("name", ROWS)
def test_the_headers_own_page_is_read_only(name: str) -> None:
    image = image_of(name)
    blocks = [image.mmapped(SIZE), image.mmapped(SIZE)]
    base = blocks[1].base
    assert found(relaid(image.target(), base, base + image.row.page_size, writable=False)) == laid(*blocks)


@pytest.mark.parametrize("name", ROWS)
def test_a_stranger_that_reaches_over_blocks(name: str) -> None:
    """What begins like a block and would end in another mapping takes none from what lies there."""
    image = image_of(name)
    row = image.row
    blocks = [image.mmapped(SIZE) for _ in range(3)]
    stranger = image.map_anonymous(row.page_size)
    header_less = row.header if row.new_mmap_form else 0
    chunk = row.user(stranger) - row.header
    image.space.put(chunk + row.word, row.page_size + 2 * blocks[0].total - (chunk - stranger) - header_less | 2)
    image.space.put(chunk, chunk - stranger)
    target = relaid(image.target(), stranger, stranger + row.page_size, executable=True)
    assert found(target) == laid(*blocks)


@pytest.mark.parametrize("name", ROWS)
def test_without_a_way_to_tell_it_is_said(name: str) -> None:
    """A block of which the first page is gone is not recognised, and the count says so."""
    image = image_of(name)
    blocks = [image.mmapped(SIZE), image.mmapped(SIZE)]
    base = blocks[1].base
    target = relaid(image.target(), base, base + image.row.page_size)
    assert found(target) == laid(blocks[0])
    for command in ("types", "leaks", "owners", "mmapped", "report"):
        document = run_json(target, command)
        assert not document["complete"], command
        assert len([each for each in document["problems"] if "recognised, mp_ counts 2 of" in each]) == 1, command
    check = run_json(target, "check")
    assert (check["breaches"], check["judgement"]["id"]) == ([], "no-breach-in-part")
    assert len([each for each in check["problems"] if "recognised, mp_ counts 2 of" in each]) == 1


@pytest.mark.parametrize("name", ROWS)
def test_damage_only_where_a_block_of_that_size_could_lie(name: str) -> None:
    """Its size word is gone; beside it lies what no block could be."""
    image = image_of(name)
    blocks = [image.mmapped(SIZE), image.mmapped(2 * SIZE), image.mmapped(SIZE)]
    image.space.put(blocks[1].chunk + image.row.word, 0)
    target = image.target()
    assert found(target) == laid(blocks[0], blocks[2])
    (breach,) = run_json(target, "check")["breaches"]
    assert (breach["rule"], run_json(target, "check")["judgement"]["id"]) == ("mmapped-count", "damaged")
    page = image.row.page_size
    check = run_json(relaid(target, blocks[1].base, blocks[1].base + page), "check")
    assert (check["breaches"], check["judgement"]["id"]) == ([], "no-breach-in-part")


def test_none_reaches_into_an_arena() -> None:
    """Side by side: two mappings, two of a heap's, another, a file, and after a gap one more."""
    layout = Session(image_of("2.36-64").target()).layout
    places = [(0, 10, ""), (10, 20, ""), (20, 30, ""), (30, 40, ""), (40, 50, ""), (50, 60, "/lib/a"), (70, 80, "")]
    regions = [Region(start << 12, end << 12, path=path) for start, end, path in places]
    heaps = [Heap(1, 20 << 12, 40 << 12, 20 << 12, False)]
    limits = {
        within: [(each.start >> 12, each.limit >> 12) for each in search_ranges(layout, regions, heaps, None, within)]
        for within in Within
    }
    assert limits[Within.ONE] == [(0, 10), (10, 20), (40, 50), (70, 80)]
    assert limits[Within.PRIVATE] == [(0, 20), (10, 20), (40, 50), (70, 80)]
    assert limits[Within.ANY] == [(0, 20), (10, 20), (40, 80), (70, 80)]


def block(base: int, size: int) -> MmappedBlock:
    return MmappedBlock(base, base, size)


WHOLE = [block(100, 10), block(200, 10), block(300, 10)]


@pytest.mark.parametrize(
    ("split", "counted", "chosen"),
    [
        ([block(400, 50), block(500, 60)], (4, 90), [block(500, 60)]),
        ([block(400, 50), block(500, 60), block(600, 70)], (5, 140), [block(400, 50), block(500, 60)]),
        ([block(150, 100), block(400, 50)], (3, 120), [block(150, 100)]),  # in place of one that lies in it
        ([block(400, 50), block(500, 50)], (4, 80), None),  # two ways
        ([block(400, 50)], (5, 100), None),
        ([block(400, 50)], (2, 20), None),
    ],
)
def test_some_are_split(
    split: list[MmappedBlock], counted: tuple[int, int], chosen: Optional[list[MmappedBlock]]
) -> None:
    taken = some_split(WHOLE, split, Tally(*counted))
    if chosen is None:
        assert taken is None
        return
    assert taken is not None
    assert sum(each.bytes for each in taken) == counted[1]
    assert [each for each in taken if each not in WHOLE] == chosen


def test_many_possible_splits_end_the_search() -> None:
    many = [block(1000 * at, 10 + at) for at in range(1, 300)]
    assert MAX_CHOICES < 10**9
    assert some_split(WHOLE, many, Tally(150, 10**6)) is None
    assert some_split(WHOLE, [block(50, 500), *many], Tally(150, 10**6)) is None
