"""heap chunk, on built heaps: from any address of a block to the block, and in words to what else is there."""

from __future__ import annotations

import re
from typing import Any, Optional

import pytest
from fake_door import run_json, run_text
from heap_mixtures import everything
from heap_truth import Chunk
from heapbuilder import HeapImage

from arenascope.base.errors import UsageError

# one for each form of chunk, list and heap: test_chunks.py has the sweep of all
rows = pytest.mark.parametrize("row", ["2.17-64", "2.26-i386", "2.36-64", "2.43-64", "2.43-arm", "2.36-s390x"])


def look(image: HeapImage, place: int) -> dict[str, Any]:
    document = run_json(image.target(), "chunk", f"{place:#x}")
    assert (document["complete"], document["problems"]) == (True, []), document
    return document["chunk"]


def complain(image: HeapImage, place: int) -> str:
    document = run_json(image.target(), "chunk", f"{place:#x}")
    assert document["chunk"] is None
    assert document["complete"] is False
    return document["problem_records"][0]["id"]


def neighbour(chunks: list[Chunk], end: Optional[int] = None, start: Optional[int] = None) -> Optional[str]:
    return next((f"{each.address:#x}" for each in chunks if each.end == end or each.address == start), None)


@rows
def test_any_address_leads_to_its_chunk(row: str) -> None:
    image = everything(row)
    for arena in image.truth.arenas:
        every = [Chunk(address, size) for address, size, _ in arena.states()] + ([arena.top] if arena.top else [])
        for address, size, state in arena.states()[:: max(1, len(arena.states()) // 6)]:
            for place in (address, address + size // 2, address + size - 1):
                found = look(image, place)
                assert (found["address"], found["bytes"]) == (f"{address:#x}", size)
                assert found["user_address"] == f"{address + image.row.header:#x}"
                assert found["state"] == {"cached": "tcache"}.get(state, state)
                assert found["arena"] == arena.index
            assert found["previous"] == neighbour(every, end=address)
            assert found["next"] == neighbour(every, start=address + size)
        assert arena.top is not None
        assert look(image, arena.top.address + 100)["state"] == "top"


@rows
def test_the_list_that_a_chunk_hangs_in(row: str) -> None:
    image = everything(row)
    target = image.target()
    for arena in image.truth.arenas:
        for index, chunks in arena.bins.items():
            for chunk in chunks:
                found = run_json(target, "chunk", f"{chunk.address:#x}")["chunk"]
                assert (found["bin"] or "").split()[-1:] == ["unsorted" if index == 1 else str(index)]
        for index, chunks in arena.fastbins.items():
            assert {look(image, chunk.address)["bin"] for chunk in chunks} == {f"fast {index}"}
    for thread in image.truth.threads:
        for index, chunks in thread.bins.items():
            for chunk in chunks:
                found = look(image, chunk.address)
                assert (found["bin"], found["tid"]) == (f"tcache {index}", thread.tid)


@rows
def test_mmapped_blocks(row: str) -> None:
    image = everything(row)
    for block in image.truth.mmapped:
        for place in (block.chunk, block.chunk + image.row.header, block.base + block.total - 1):
            found = look(image, place)
            assert (found["address"], found["state"], found["arena"]) == (f"{block.chunk:#x}", "mmapped", None)


def test_where_an_address_lies_that_no_chunk_holds() -> None:
    image = everything("2.36-64")
    first = image.truth.arenas[1]
    assert complain(image, first.heaps[0].address + 8) == "in-heap-header"
    fence = next(arena.fences[0] for arena in image.truth.arenas if arena.fences)
    assert complain(image, fence.address) == "in-fencepost"
    shrunk = next(
        heap
        for arena in image.truth.arenas
        for heap in arena.heaps
        if heap.mprotect_size and heap.mprotect_size > heap.size
    )
    assert complain(image, shrunk.end + 16) == "behind-heap-end"
    thread = next(thread for thread in image.threads.values() if thread.number == 1)
    assert complain(image, thread.stack_pointer) == "in-stack"
    assert complain(image, 16) == "not-mapped"
    assert complain(image, image.truth.main.address) == "in-file"


def test_foreign_bytes() -> None:
    image = HeapImage("2.36-64")
    image.main.used(0x100)
    image.main.foreign_sbrk(12352, left=0x500)
    image.main.used(0x100)
    start, size = image.main.foreign[0]
    assert complain(image, start + size // 2) == "in-foreign-sbrk"


def test_the_first_words_and_what_they_name() -> None:
    image = HeapImage("2.36-64")
    block = image.main.used(0x40)
    image.finish()
    image.poke(block.address + 16, image.truth.main.address)
    image.poke(block.address + 24, int.from_bytes(b"letters!", "little"))
    words = look(image, block.address)["words"]
    # up to the successor's prev_size, which is this block's as well
    assert len(words) == (0x40 - 8) // 8
    assert words[0] == {"offset": 0, "value": f"{image.truth.main.address:#x}", "symbol": "main_arena"}
    assert words[1]["symbol"] is None
    assert "letters!" in run_text(image.target(), "chunk", f"{block.address:#x}")


@rows
def test_several_are_answered_as_each_alone(row: str) -> None:
    """In the order in which they were asked for, twice where one was; whatever they are."""
    image = everything(row)
    target = image.target()
    # the first, the last and the one in front of top, in which a search can end too early, and what is no chunk
    places = [
        address + size // 2
        for arena in image.truth.arenas
        for address, size, _ in (*arena.states()[:2], *arena.states()[-2:], *arena.states()[::9])
    ]
    places += [arena.top.address + 40 for arena in image.truth.arenas if arena.top]
    places += [arena.heaps[0].address + 8 for arena in image.truth.arenas]
    places += [block.base + block.total - 1 for block in image.truth.mmapped] + [16]
    places = [*places[::-1], places[3]]
    alone = [run_json(target, "chunk", f"{place:#x}") for place in places]
    document = run_json(target, "chunk", *(f"{place:#x}" for place in places))
    assert [int(each["asked"], 16) for each in document["answers"]] == places
    assert [each["chunk"] for each in document["answers"]] == [each["chunk"] for each in alone]
    assert document["chunk"] == alone[0]["chunk"]
    for each, one in zip(document["answers"], alone):
        assert (each["problem"] is None) is (each["chunk"] is not None)
        assert each["problem"] in (None, *one["problem_records"])
    assert document["complete"] is False  # one of them lies in no chunk
    text = run_text(target, "chunk", *(f"{place:#x}" for place in places))
    assert re.findall(r"^block (\w+),", text, re.MULTILINE) == [
        one["chunk"]["user_address"] for one in alone if one["chunk"]
    ]
    assert re.search(r"^0x10 ", text, re.MULTILINE)


def test_as_many_words_as_are_asked_for() -> None:
    image = HeapImage("2.36-64")
    block = image.main.used(0x2010)
    image.finish()
    values = [image.truth.main.address if at % 3 else at for at in range((0x2010 - 8) // 8)]
    for at, value in enumerate(values):
        image.poke(block.address + 16 + 8 * at, value)
    for words in (0, 1, 8, 600, len(values), 5000):
        document = run_json(image.target(), "chunk", f"{block.address:#x}", "--words", str(words))
        found = document["chunk"]["words"]
        assert [int(each["value"], 16) for each in found] == values[:words]
        assert [each["offset"] for each in found] == [8 * at for at in range(len(found))]
        assert {each["symbol"] for at, each in enumerate(found) if at % 3} <= {"main_arena"}
    for wrong in (-1, 1 << 20):
        with pytest.raises(UsageError, match=f"--words {wrong}: from 0 to 65,536"):
            run_json(image.target(), "chunk", f"{block.address:#x}", "--words", str(wrong))


@pytest.mark.parametrize("row", ["2.36-aarch64", "2.43-aarch64"])
def test_a_tagged_pointer(row: str) -> None:
    image = HeapImage(row)
    block = image.main.used(0x40)
    image.finish()
    assert look(image, block.address + 16 | 0xB << 56)["address"] == f"{block.address:#x}"
