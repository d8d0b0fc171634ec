"""heap pins: the rules of the releases, with figures worked out by hand from free(), systrim and heap_trim."""

from __future__ import annotations

from typing import Any

import pytest
from fake_door import run_json
from heapbuilder import HeapImage

EVERY = ("--own", "--ranges", "--limit", "0")


def thread_top(row: str, **mp: int) -> tuple[HeapImage, int]:
    """A thread's arena: a free chunk, a block of 0x500 bytes, top; and the size that top would have without it."""
    image = HeapImage(row, **mp)
    arena = image.thread(1).arena
    arena.used(0x100)
    free = arena.free(0x1F000)
    pin = arena.used(0x500)
    top = image.truth.arenas[1].top
    assert top is not None
    assert pin.end == top.address
    return image, top.end - free.address


def pins_of(image: HeapImage) -> list[dict[str, Any]]:
    document = run_json(image.target(), "pins", *EVERY)
    assert document["complete"], document["problems"]
    pins: list[dict[str, Any]] = document["pins"]
    return pins


def released(image: HeapImage) -> int:
    pins = [pin for pin in pins_of(image) if pin["by"] == "free"]
    assert len(pins) <= 1
    return pins[0]["releases_bytes"] if pins else 0


def whole_pages(spare: int) -> int:
    return spare // 4096 * 4096


@pytest.mark.parametrize(("row", "over"), [("2.23-64", 0), ("2.36-64", 0), ("2.43-64", 0), ("2.36-64", 16)])
def test_from_2_23_on_top_must_reach_the_threshold(row: str, over: int) -> None:
    _, size = thread_top(row)
    for threshold in (size, size + 16):
        image, size = thread_top(row, trim_threshold=threshold, top_pad=0x2000 + over)
        expected = whole_pages(size - 0x20 - 1 - 0x2000 - over) if size >= threshold else 0
        assert released(image) == expected


def test_in_2_22_what_goes_back_must_reach_it() -> None:
    _, size = thread_top("2.22-64")
    extra = whole_pages(size - 0x20 - 1 - 0x2000)
    for threshold, expected in ((extra, extra), (extra + 1, 0), (size, 0)):
        image, _ = thread_top("2.22-64", trim_threshold=threshold, top_pad=0x2000)
        assert released(image) == expected


def test_before_2_22_there_was_no_threshold() -> None:
    for threshold in (0, 1 << 40):
        image, size = thread_top("2.17-64", trim_threshold=threshold, top_pad=0)
        # top itself would have gone at any other free()
        already = whole_pages(image.truth.arenas[1].top.size - 0x20 - 1)
        assert released(image) == whole_pages(size - 0x20 - 1) - already


@pytest.mark.parametrize(
    ("below", "fast", "size", "pad", "goes"),
    [
        (0x10000 - 0x500, 0, 0x500, 0, True),
        (0x10000 - 0x500, 0, 0x500, 16, False),  # a page less would be free there than heap_trim wants
        (0x10000 - 0x510, 0, 0x500, 0, False),  # FASTBIN_CONSOLIDATION_THRESHOLD, asked of the chunk that free() made
        (0x10000, 0x40, 0x10000 - 0x40, 0, False),  # which no fast chunk has joined yet
    ],
)
def test_coming_back_to_a_full_heap(below: int, fast: int, size: int, pad: int, goes: bool) -> None:
    """The last block of a heap that is full otherwise: with it free, there is room enough to give the next one up."""
    free = below + fast + size
    image = HeapImage("2.36-64", trim_threshold=1 << 30, top_pad=free - 0x1000 + pad)
    arena = image.thread(1).arena
    row, segment = image.row, arena.segments[-1]
    arena.used(image.heap_max - (segment.cursor - segment.address) - free - row.minsize)
    arena.free(below)
    if fast:
        arena.fast(fast)
    arena.used(size)
    arena.new_heap(left=row.minsize)
    heap = arena.segments[-1].floor - arena.segments[-1].address
    pins = [(pin["by"], pin["releases_bytes"]) for pin in pins_of(image) if pin["bytes"] == size]
    assert [pin for pin in pins if pin[0] == "free"] == ([("free", heap)] if goes else [])


@pytest.mark.parametrize("threshold", [0x1000, 1 << 30])
def test_the_break(threshold: int) -> None:
    image = HeapImage("2.36-64", trim_threshold=threshold, top_pad=0x2000)
    image.main.used(0x100)
    free = image.main.free(0x1F000)
    image.main.used(0x500)
    (pin,) = pins_of(image)
    top = image.truth.main.top
    assert top is not None
    assert (pin["arena"], pin["reason"]) == (0, "top")
    if threshold == 0x1000:
        assert pin["by"] == "free"
        assert pin["releases_bytes"] == whole_pages(top.end - free.address - 0x20 - 1 - 0x2000)
    else:
        # malloc_trim takes the pages inside the free chunk as it is: those at its edges are all that is gained
        assert pin["by"] == "trim"
        assert 0 < pin["releases_bytes"] <= 0x2000


def test_the_break_is_not_known() -> None:
    image = HeapImage("2.36-64", trim_threshold=0x1000, top_pad=0)
    image.main.free(0x1F000)
    image.main.used(0x500)
    assert len(run_json(image.target(), "pins")["pins"]) == 1
    # neither the variable nor the mappings tell
    target = image.target(regions=False)
    target.symbols = {name: value for name, value in target.symbols.items() if name != "__curbrk"}
    document = run_json(target, "pins")
    assert document["pins"] == []
    assert "brk-not-found-for-pins" in [each["id"] for each in document["problem_records"]]
