"""Lists that are sound in themselves and lie where the arena has no heap: no figure is made of them."""

from __future__ import annotations

import pytest
from fake_door import run_json
from fake_target import FakeTarget
from heap_mixtures import everything
from heap_writer import bin_header
from heapbuilder import HeapImage

from arenascope.sources.target import Region

ROWS = ["2.17-64", "2.31-64", "2.36-s390x", "2.43-64"]
rows = pytest.mark.parametrize("row", ROWS)
CHUNKS, BIN = 200, 9


def write_list(image: HeapImage, arena: int, start: int) -> None:
    """A small bin's list of CHUNKS chunks from `start` on: every link is returned, every size belongs there."""
    image.finish()
    row, space, word = image.row, image.space, image.row.word
    size = BIN * row.alignment
    head = bin_header(word, image.truth.arenas[arena].address + row.state["bins"], BIN)
    chunks = [start + number * 2 * size for number in range(CHUNKS)]
    ring = [head, *chunks, head]
    for before, chunk, after in zip(ring, chunks, ring[2:]):
        space.put(chunk + word, size | 1)
        space.put(chunk + 2 * word, after)
        space.put(chunk + 3 * word, before)
        space.put(chunk + size, size)
    space.put(head + 2 * word, chunks[0])
    space.put(head + 3 * word, chunks[-1])


def elsewhere(target: FakeTarget, start: int) -> None:
    target.mappings = [*target.mappings, Region(start, start + (1 << 20), True, True, False, present=True)]
    target.__post_init__()


@rows
@pytest.mark.parametrize("arena", [0, 2])
def test_a_list_outside_the_arenas_heaps(row: str, arena: int) -> None:
    image = everything(row)
    start = image.nowhere & -(1 << 20)
    write_list(image, arena, start)
    target = image.target()
    elsewhere(target, start)
    document = run_json(target, "arenas")
    assert not document["complete"]
    met = [(each["names"].get("what"), each["names"].get("address")) for each in document["problem_records"]]
    assert ("link-outside", f"{start:#x}") in met
    found = next(each for each in document["arenas"] if each["index"] == arena)
    assert found["used_bytes"] is None
    assert found["bins"] == {"chunks": None, "bytes": None}
    assert document["totals"]["used_bytes"] is None
    assert document["totals"]["bins"]["bytes"] is None
    checked = run_json(target, "check")
    links = [each["names"]["leads_to"] for each in checked["breaches"] if each["rule"] == "bin-link"]
    assert f"{start:#x}" in links
    # nor does what is looked at grow with such a list
    assert checked["checked"]["bin_entries"] < CHUNKS


@rows
def test_more_is_free_than_there_is(row: str) -> None:
    """Chunks that overlap each other, in the heap as they must be."""
    image = everything(row)
    image.finish()
    arena = image.truth.arenas[2]
    largest = arena.bins[max(arena.bins)][-1]
    image.space.put(largest.address + image.row.word, arena.system_mem - 64 | 1)
    document = run_json(image.target(), "arenas")
    assert not document["complete"]
    assert next(each for each in document["arenas"] if each["index"] == 2)["used_bytes"] is None
