"""The picture: what stands in the cells, on built heaps, against the list of their chunks."""

from __future__ import annotations

import base64
import json
import re
from typing import Any, Sequence

import pytest
from fake_door import run_json, run_text
from heap_mixtures import everything, random_image
from heap_truth import ArenaTruth, Chunk
from heapbuilder import EACH_ROW, HeapImage, Row
from marks import in_full

from arenascope.commands.map import OTHER
from arenascope.present.pages.fill_page import filled, pack, packed, title_of

rows = pytest.mark.parametrize("row", EACH_ROW, ids=str)
PARTS = ("used", "cached", "free", "top", "bookkeeping", "foreign", "damaged")


def inside(chunks: Sequence[tuple[int, int]], low: int, high: int) -> int:
    return sum(max(0, min(start + size, high) - max(start, low)) for start, size in chunks)


def splits(arena: ArenaTruth) -> list[int]:
    """Where each stretch in use begins that lies between two free chunks, or one and top, and is smaller than both."""
    free = sorted(
        [*((each.address, each.end) for each in arena.free), *((top.address, top.end) for top in tops(arena))]
    )
    taken = sorted((each.address, each.end) for each in (*arena.used, *arena.cached, *arena.fast))
    found = []
    for (start, end), (following, last) in zip(free, free[1:]):
        between = [each for each in taken if end <= each[0] < following]
        # anything else in between, a fencepost or another heap's header, is the end of what was one piece
        if sum(stop - first for first, stop in between) == following - end:
            smaller = following - end < end - start + last - following
            found += [end] if between and smaller else []
    return found


def tops(arena: ArenaTruth) -> list[Chunk]:
    return [arena.top] if arena.top and arena.top.size else []


def check_cells(image: HeapImage, document: dict[str, Any]) -> None:
    """Every cell of every heap, part by part."""
    assert (document["complete"], document["problems"]) == (True, [])
    met = 0
    for arena in image.truth.arenas:
        chunks = {
            "used": arena.used,
            "cached": sorted([*arena.cached, *arena.fast]),
            "free": arena.free,
            "top": [arena.top] if arena.top else [],
        }
        for heap in (each for each in document["heaps"] if each["arena"] == arena.index):
            start, end, cell = int(heap["address"], 16), int(heap["end"], 16), heap["cell_bytes"]
            for at, low in enumerate(range(start, end, cell)):
                high = min(low + cell, end)
                assert sum(heap[part][at] for part in PARTS) == high - low
                for part, truth in chunks.items():
                    assert heap[part][at] == inside(truth, low, high), (part, hex(low))
            assert all(len(heap[part]) == -(-(end - start) // cell) for part in PARTS)
            met += end - start
            begin = [sum(low <= place < low + cell for place in splits(arena)) for low in range(start, end, cell)]
            assert heap["splits"] == begin
    assert met == sum(arena.system_mem for arena in image.truth.arenas)
    assert document["totals"]["splits"] == sum(len(splits(arena)) for arena in image.truth.arenas)


@rows
@pytest.mark.parametrize("cells", ["7", *in_full("1", "4096")])
def test_every_cell_holds_what_its_chunks_cover(row: Row, cells: str) -> None:
    image = everything(row)
    check_cells(image, run_json(image.target(), "map", "--cells", cells))


@pytest.mark.parametrize("row", ["2.17-64", "2.26-i386", "2.36-64", "2.43-64", "2.36-s390x"])
@pytest.mark.parametrize("seed", range(6))
def test_random_heaps(row: str, seed: int) -> None:
    image = random_image(row, seed)
    check_cells(image, run_json(image.target(), "map", "--cells", "64"))


@rows
def test_releasable_is_what_trim_lists(row: Row) -> None:
    target = everything(row).target()
    drawn, trim = run_json(target, "map"), run_json(target, "trim", "--ranges")
    assert drawn["totals"]["releasable_bytes"] == trim["totals"]["release_bytes"] > 0
    assert drawn["totals"]["tops_bytes"] == trim["totals"]["tops_bytes"]
    for heap in drawn["heaps"]:
        plan = trim["arenas"][heap["arena"]]
        ranges = [(int(start, 16), size) for start, size in plan["madvise_ranges"]]
        start, end, cell = int(heap["address"], 16), int(heap["end"], 16), heap["cell_bytes"]
        if heap["arena"]:
            assert heap["releasable"] == [inside(ranges, low, min(low + cell, end)) for low in range(start, end, cell)]


def test_unknown_lists_make_used_unknown_and_are_drawn() -> None:
    image = everything("2.36-64")
    image.poke(image.truth.threads[0].cached[0].address + 8, 0x4141414141414141)
    document = run_json(image.target(), "map")
    assert document["complete"] is False
    assert (document["totals"]["used_bytes"], document["totals"]["cached_bytes"]) == (None, None)
    assert document["totals"]["free_bytes"] is not None
    assert all(heap["used"] is heap["cached"] is None for heap in document["heaps"])
    assert re.search(r"^0 main .*[▓▒█#%+]", run_text(image.target(), "map"), re.MULTILINE)


def test_damage_is_shown_and_still_sums() -> None:
    image = HeapImage("2.36-64")
    for _ in range(300):
        image.main.used(0x100)
    victim = image.truth.main.used[100]
    image.poke(victim.address + 8, 0x4141414141414141)
    document = run_json(image.target(), "map", "--cells", "4096")
    (heap,) = document["heaps"]
    assert document["complete"] is False
    assert document["totals"]["damaged_bytes"] == victim.size
    assert heap["damaged"][(victim.address - int(heap["address"], 16)) // heap["cell_bytes"]] > 0
    text = run_text(image.target(), "map")
    row = next(line for line in text.splitlines() if line.startswith("0 main"))
    assert "!" in row
    assert f"! {OTHER['damaged'].meaning}" in text


def unpack(text: str) -> list[int]:
    """As the page's own script does."""
    data, cells = iter(base64.b64decode(text)), []

    def number(value: int = 0, shift: int = 0) -> int:
        while True:
            byte = next(data)
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while True:
        try:
            head = number()
        except StopIteration:
            return cells
        cells += [head // 2] * (number() if head % 2 else 1)


@pytest.mark.parametrize("cells", [[0], [5] * 300, [0, 1, 1, 2, 16384, 16384, 1 << 40], [1 << 35] * 5000])
def test_what_is_packed_can_be_unpacked(cells: list[int]) -> None:
    assert unpack(pack(cells)) == cells


def test_a_page_is_safe_from_thread_names() -> None:
    row = {"arena": 0, "threads": ["</script><b>", "@DATA@", "\udcff", 'a"b'], "layers": {"used": [1], "free": [0]}}
    facts = {"pid": 7, "kind": "live", "problems": ["<!--"]}
    text = filled("heap_map", {**facts, "heaps": [packed(row)]}, title_of("heap map", facts)).decode()
    data = re.search(r'id="data">(.*?)</script>', text).group(1)
    assert "<" not in data
    read = json.loads(data)
    assert (read["heaps"][0]["threads"], read["problems"]) == ([*row["threads"][:2], "\ufffd", 'a"b'], ["<!--"])
    assert read["heaps"][0]["layers"] == {"used": pack([1])}
    assert re.search("<title>.* 7</title>", text)
