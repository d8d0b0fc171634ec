"""Every release on every architecture: what a session sees is what was laid, however it finds its way."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import pytest
from fake_door import run_json, run_text
from heap_mixtures import everything, random_image
from heap_pictures import laid, seen, tally, used_bytes
from heap_truth import ArenaTruth
from heapbuilder import EACH_ROW, HeapImage, Row
from schemas import problem_ids

from arenascope.commands.framework.find_command import COMMAND_NAMES
from arenascope.present.shared_text.lines_and_tables import NO_HEAP
from arenascope.session.session import Session

rows = pytest.mark.parametrize("row", EACH_ROW, ids=str)
views = pytest.mark.parametrize(
    "view",
    [
        {"symbols": True, "structs": True},
        {"symbols": True, "rodata": False},
        {"symbols": "exported"},
        {"symbols": False, "rodata": False},
    ],
    ids=["debug-symbols", "symbols-no-release", "exported", "nothing-told"],
)


def expected_figures(arena: ArenaTruth) -> dict[str, Any]:
    """As `arenas` has them."""
    lists = {"tcache": tally(arena.cached), "fast": tally(arena.fast), "bins": tally(arena.free)}
    return {
        "index": arena.index,
        "address": f"{arena.address:#x}",
        "system_bytes": arena.system_mem,
        "max_system_bytes": arena.max_system_mem,
        "used_bytes": used_bytes(arena),
        **{name: {"chunks": each.chunks, "bytes": each.bytes} for name, each in lists.items()},
        "top_bytes": arena.top.size if arena.top else 0,
    }


@rows
@views
def test_a_session_sees_what_was_laid(row: Row, view: dict[str, Any]) -> None:
    image = everything(row)
    session = Session(image.target(**view))
    assert seen(session) == laid(image)
    assert session.findings == []
    assert session.caches_known
    assert session.located.located_by == ("symbols" if view["symbols"] is True else "scan")
    assert session.located.version == (row.version if view.get("rodata", True) else None)
    assert session.located.params == image.addresses["mp_"]
    for arena, truth in zip(session.arenas, image.truth.arenas):
        assert arena.complete
        assert arena.header.main == (truth.index == 0)
        assert arena.header.contiguous == truth.contiguous
        # one is said to hold top
        assert [heap.address for heap in arena.heaps if heap.last] == [truth.heaps[-1].address]


@rows
def test_behaviour_is_told_where_no_release_is(row: Row) -> None:
    """What code does with lists shows in them: a release that the image does not name is not taken for an older one."""
    told = Session(everything(row).target(symbols=False, rodata=False)).layout.behaviour
    assert told.safe_linking == row.safe_linking
    if row.has_tcache:
        assert told.tcache_key == (row.tcache_key is not None)


@pytest.mark.parametrize(("row", "each"), [("2.36-64", 8), ("2.43-i386", 2), ("2.44-64", 1)])
def test_the_arena_limit_counts_the_processors_of_the_process(row: str, each: int) -> None:
    """arena_get2(); where the process runs on another machine, or ran once, nobody counts ours instead."""
    image = everything(row)
    target = image.target()
    assert run_json(target, "params")["arenas"]["limit"] is None
    target.image.online = 12
    document = run_json(target, "params")
    assert document["arenas"]["limit"] == 12 * each
    told = document["note_record"]["figures"]
    assert (told["limit"], told["processors"], told["arenas_each"]) == (12 * each, 12, each)
    target.image.online = 1
    assert run_json(target, "params")["arenas"]["limit"] == max(each, image.mp["arena_test"])


@rows
def test_arenas_sums_the_truth(row: Row) -> None:
    image = everything(row)
    document = run_json(image.target(), "arenas")
    truth, table = image.truth, document["arenas"]
    assert document["complete"] is True
    assert document["problems"] == []
    assert document["glibc"] == {
        "version": row.version,
        "located_by": "symbols",
        "main_arena": f"{truth.main.address:#x}",
    }
    for found, arena in zip(table, truth.arenas):
        figures = {name: found[name] for name in FIGURES}
        assert figures == expected_figures(arena)
        assert found["heaps"] == len(arena.heaps)
        assert [thread["tid"] for thread in found["threads"]] == sorted(
            thread.tid for thread in truth.threads if thread.arena == arena.address
        )
    assert len(table) == len(truth.arenas)
    assert document["totals"]["used_bytes"] == sum(used_bytes(arena) for arena in truth.arenas)
    for name in ("system_bytes", "max_system_bytes", "top_bytes"):
        assert document["totals"][name] == sum(expected_figures(arena)[name] for arena in truth.arenas)
    for name in ("tcache", "fast", "bins"):
        parts = [expected_figures(arena)[name] for arena in truth.arenas]
        assert document["totals"][name] == {key: sum(part[key] for part in parts) for key in ("chunks", "bytes")}
    assert document["mmapped"] == {"chunks": 3, "bytes": sum(block.total for block in truth.mmapped)}


FIGURES = ("index", "address", "system_bytes", "max_system_bytes", "used_bytes", "tcache", "fast", "bins", "top_bytes")


@rows
def test_bins_heaps_and_threads_tell_the_truth(row: Row) -> None:
    image = everything(row)
    truth, target = image.truth, image.target()
    lists = run_json(target, "bins")["bins"]
    for arena in truth.arenas:
        own_lists = [each for each in lists if each["arena"] == arena.index]
        for fast, expected in ((True, arena.fastbins), (False, arena.bins)):
            own = [each for each in own_lists if (each["kind"] == "fast") == fast]
            assert {each["index"]: (each["chunks"], each["bytes"]) for each in own} == {
                index: (len(chunks), sum(chunk.size for chunk in chunks)) for index, chunks in expected.items()
            }
            for each in own:
                assert each["tid"] is None
                sizes = [chunk.size for chunk in expected[each["index"]]]
                assert each["min_bytes"] <= min(sizes)
                assert each["max_bytes"] is None or max(sizes) <= each["max_bytes"]
    cached = {(each["tid"], each["index"]): each["chunks"] for each in lists if each["kind"] == "tcache"}
    assert cached == {
        (thread.tid, index): len(chunks) for thread in truth.threads for index, chunks in thread.bins.items()
    }
    heaps = run_json(target, "heaps")["heaps"]
    assert [(each["arena"], each["address"], each["end"], each["mprotect_bytes"]) for each in heaps] == [
        (arena.index, f"{heap.address:#x}", f"{heap.end:#x}", heap.mprotect_size)
        for arena in truth.arenas
        for heap in arena.heaps
    ]
    threads = run_json(target, "threads")
    assert threads["unattached_arenas"] == [1]
    assert [each["arena"] for each in threads["threads"]] == [0, 3, 2, 3, None]


@pytest.mark.parametrize(
    ("command", "row"),
    [
        *zip(
            (name for name in COMMAND_NAMES if name not in ("snapshot", "save", "diff", "trend")),
            cycle(["2.17-64", "2.26-i386", "2.36-64", "2.43-64", "2.43-arm", "2.36-s390x"]),
        )
    ],
)
def test_every_command_answers(row: str, command: str) -> None:
    target = everything(row).target()
    document = run_json(target, command)
    # a heap in a test has no break, its threads no registers, and nothing tells what its program asks of libc
    missing = {"trim": ["brk-not-found"], "leaks": ["registers-unknown", "epoll-unknown"]}
    assert problem_ids(document) in ([], missing.get(command, [])), document["problems"]
    assert run_text(target, command).strip()


@rows
def test_before_the_first_malloc(row: Row) -> None:
    image = HeapImage(row, heap=False)
    target = image.target(symbols=False)
    for session in (Session(image.target()), Session(target)):
        assert session.located.main_arena == image.main.address
        assert [header.index for header in session.headers] == [0]
        assert not session.started
        # 2.42 sets main_arena up at startup
        assert session.headers[0].initialised == (row.number >= (2, 42))
    document = run_json(target, "arenas")
    assert document["complete"] is True
    (arena,) = document["arenas"]
    assert (arena["system_bytes"], arena["used_bytes"], arena["heaps"]) == (0, 0, 0)
    assert NO_HEAP in run_text(image.target(), "arenas")


@rows
def test_blocks_but_no_heap(row: Row) -> None:
    image = HeapImage(row, heap=False)
    block = image.mmapped(300000)
    # as the first call leaves them: empty bins, and top the pseudo chunk of an arena without a heap
    truth = image.truth.main
    for index in range(127):
        header = truth.address + row.state["top"] + 2 * index * row.word
        image.poke(header + 2 * row.word, header)
        image.poke(header + 3 * row.word, header)
    image.poke(truth.address + row.state["top"], truth.address + row.state["top"])
    session = Session(image.target())
    assert session.started
    assert [each.chunk for each in session.mmapped] == [block.chunk]
    assert session.arenas[0].header.top_bytes == 0
    assert session.findings == []


@rows
def test_contiguous_past_foreign_bytes(row: Row) -> None:
    image = HeapImage(row)
    image.main.used(0x100)
    image.main.foreign_sbrk(12352, left=0x500)
    image.main.mix(20)
    session = Session(image.target())
    assert seen(session) == laid(image)
    assert session.findings == []
    assert session.heaps[0][0].bytes == image.truth.main.system_mem


@rows
def test_regions_once_brk_was_refused(row: Row) -> None:
    image = HeapImage(row)
    image.main.mix(20)
    image.main.mmap_region(left=0x500)
    image.main.mix(20)
    image.main.mmap_region()
    image.main.mix(20)
    image.mmapped(300000)
    for symbols in (True, False):
        session = Session(image.target(symbols=symbols))
        assert seen(session) == laid(image)
        assert session.findings == []


@rows
def test_a_static_program(row: Row) -> None:
    image = HeapImage(row, static=True)
    image.main.mix(30)
    image.thread(1).arena.mix(10)
    for symbols in (True, False):
        session = Session(image.target(symbols=symbols))
        assert seen(session) == laid(image)
        assert session.findings == []


@pytest.mark.parametrize(
    ("row", "arenas", "huge"),
    [
        ("2.35-64", 1, 1 << 20),
        ("2.36-64", 2, 2 << 20),
        ("2.41-64", 9, 32 << 20),
        ("2.42-64", 2, 1 << 20),
        ("2.43-64", 9, 2 << 20),
        ("2.43-64", 1, 32 << 20),
    ],
)
def test_heaps_of_huge_pages(row: str, arenas: int, huge: int) -> None:
    """One heap each: whether it lies where larger ones would begin is chance."""
    image = HeapImage(row, seed=arenas, hp_pagesize=huge)
    image.main.used(0x100)
    for number in range(1, arenas + 1):
        image.thread(number).arena.mix(20)
    for symbols in (True, False):
        session = Session(image.target(symbols=symbols))
        assert seen(session) == laid(image)
        assert session.findings == []
        assert session.layout.checks  # the row was proven, not taken for want of another
        assert session.layout.heap_max == image.heap_max


PROPERTY_ROWS = ["2.17-64", "2.26-i386", "2.31-arm", "2.36-64", "2.42.x-64", "2.43-64", "2.43-s390x"]


@pytest.mark.parametrize(("seed", "row"), [*zip(range(1, 50), cycle(PROPERTY_ROWS))])
def test_random_heaps(row: str, seed: int) -> None:
    image = random_image(row, seed)
    target = image.target(symbols=bool(seed % 2), rodata=bool(seed % 3))
    session = Session(target)
    assert seen(session) == laid(image)
    assert session.findings == []
    if seed % 3:
        return
    document = run_json(target, "arenas")
    assert document["complete"] is True
    found = [{name: arena[name] for name in FIGURES} for arena in document["arenas"]]
    assert found == [expected_figures(arena) for arena in image.truth.arenas]
