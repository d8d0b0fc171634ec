"""The picture: what stands in the cells, on built heaps, against the list of their chunks."""

from __future__ import annotations

import base64
import errno
import json
import os
import random
import re
from pathlib import Path
from typing import Any, Sequence

import pytest
from fake_door import run_json, run_text
from heap_mixtures import everything, random_image
from heap_truth import ArenaTruth, Chunk
from heapbuilder import EACH_ROW, HeapImage, Row
from marks import in_full

from arenascope.analysis.heap_map import Strip, between, cell_bytes, overlap
from arenascope.base.errors import ArenascopeError
from arenascope.base.model import Heap
from arenascope.commands.map import OTHER
from arenascope.present.pages.fill_page import pack, page
from arenascope.sources.target import Span

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


@pytest.mark.parametrize("row", ["2.26-i386", "2.36-64", "2.43-64"])
def test_small_blocks_in_free_memory_show(row: str) -> None:
    """Four kinds of cells: with none, some, tens and hundreds of places where a block splits free memory."""
    image = HeapImage(row)
    image.main.used(0x100)
    for pieces in (1, 8, 60, 500):
        for _ in range(pieces):
            image.main.free(0x40000 // pieces & -0x100)
            image.main.used(0x20)
    image.main.used(0x40000)
    text = run_text(image.target(), "map", "--cells", "16")
    lines = text.splitlines()
    assert re.search(r" 5\d\d places$", text, re.MULTILINE)
    assert re.search(r"\+ 10 .*# 100 ", text)
    (strip,) = [at for at, line in enumerate(lines) if line.startswith("0 main")]
    assert set(lines[strip + 1].split()[0]) >= {"#", "+"}
    assert lines[strip].split()[-1].startswith("5")
    # nothing free, nothing split
    image = HeapImage(row)
    image.main.used(0x4000)
    assert "cut" not in run_text(image.target(), "map").replace("cuts", "")


def test_rows_left_out_and_their_order() -> None:
    target = everything("2.36-64").target()
    heaps = run_json(target, "map")["heaps"]
    by_size = [
        int(line.split()[2 if line.startswith("0 main") else 1], 16)
        for line in run_text(target, "map", "--sort", "size", "--limit", "2").splitlines()
        if " 0x" in line
    ]
    sizes = {int(heap["address"], 16): int(heap["end"], 16) - int(heap["address"], 16) for heap in heaps}
    assert [sizes[each] for each in by_size] == sorted(sizes.values(), reverse=True)[:2]
    assert f"{len(heaps) - 2} more heaps; --limit 0 shows all" in run_text(target, "map", "--limit", "2")


@pytest.mark.parametrize(
    ("size", "most", "cell"),
    [
        (1, 64, 4096),
        (4096 * 64, 64, 4096),
        (4096 * 64 + 1, 64, 8192),
        (64 << 20, 4096, 16384),
        (64 << 20, 1, 64 << 20),
        ((64 << 20) + 16, 1, 128 << 20),
    ],
)
def test_cells_are_powers_of_two_and_not_too_many(size: int, most: int, cell: int) -> None:
    assert cell_bytes(size, 4096, most) == cell


def test_larger_cells_are_sums_of_smaller_ones() -> None:
    rng = random.Random("fold")
    heap = Heap(1, 0x7000, 0x7000 + 37 * 4096 + 640, None, True)
    fine, coarse = Strip(heap, 4096), Strip(heap, cell_bytes(heap.bytes, 1, 5))
    for _ in range(200):
        start = rng.randrange(heap.address, heap.end)
        size = rng.randrange(1, heap.end - start + 1)
        fine.add("free", start, size)
        coarse.add("free", start, size)
    folded = fine.folded(5)
    assert (folded.cell, folded.cells("free")) == (coarse.cell, coarse.cells("free"))
    assert folded.total("free") == fine.total("free")


def test_overlaps() -> None:
    rng = random.Random("overlap")
    for _ in range(50):
        edges = [sorted(rng.sample(range(100), 2 * rng.randrange(1, 12))) for _ in range(2)]
        one, other = ([*map(Span, each[::2], each[1::2])] for each in edges)
        covered = {at for low, high in overlap(one, other) for at in range(low, high)}
        assert covered == {at for low, high in one for at in range(low, high)} & {
            at for low, high in other for at in range(low, high)
        }
        assert [span for span in one if span.end > 30 and span.start < 60] == [*between(one, 30, 60)]


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
    text = page({"pid": 7, "kind": "live", "problems": ["<!--"]}, [row]).decode()
    data = re.search(r'id="data">(.*?)</script>', text).group(1)
    assert "<" not in data
    read = json.loads(data)
    assert (read["heaps"][0]["threads"], read["problems"]) == ([*row["threads"][:2], "\ufffd", 'a"b'], ["<!--"])
    assert read["heaps"][0]["layers"] == {"used": pack([1])}
    assert re.search("<title>.* 7</title>", text)


def test_a_page_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    target = everything("2.36-64").target()
    with pytest.raises(ArenascopeError, match=os.strerror(errno.ENOENT)):
        run_text(target, "map", "--html", str(tmp_path / "none" / "map.html"))
    document = run_json(target, "map", "--html", str(tmp_path / "map.html"))
    assert document["html"] == {"file": str(tmp_path / "map.html"), "bytes": (tmp_path / "map.html").stat().st_size}
    assert [each.name for each in tmp_path.iterdir()] == ["map.html"]


def test_a_page_of_gigabytes_stays_small() -> None:
    """An eighth of 5 GiB in which every cell differs; a page of all of it is to stay below 5 MB."""
    rng = random.Random("page")
    heaps = []
    for index in range(10):
        used = [16 * rng.randrange(1024) for _ in range(4096)]
        free = [16384 - each for each in used]
        back = [each // 4096 * 4096 for each in free]
        layers = {
            "used": used,
            "free": free,
            "top": [0] * 4096,
            "resident": [16384] * 4096,
            "releasable": back,
            "releasable_resident": back,
        }
        heaps.append({"arena": index, "threads": [], "layers": layers})
    data = page({"pid": 7, "kind": "core"}, heaps)
    assert len(data) - len(page({"pid": 7, "kind": "core"}, [])) < 5_000_000 / 8
