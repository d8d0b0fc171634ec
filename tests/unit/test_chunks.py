"""The sweep and what sums it, on built heaps of every release: each chunk with its state, every byte accounted for."""

from __future__ import annotations

from collections import Counter
from typing import Any, Iterable

import pytest
from fake_door import run_json
from heap_mixtures import everything, random_image
from heap_truth import ArenaTruth
from heapbuilder import EACH_ROW, HeapImage, Row

from arenascope.base.heap_model import ChunkRun
from arenascope.glibc.sweep import blocks
from arenascope.session.session import Session, likely_chunks

rows = pytest.mark.parametrize("row", EACH_ROW, ids=str)
some_rows = pytest.mark.parametrize("row", EACH_ROW[:20:3], ids=str)
STATES = {"cached": "tcache"}


def states_of(arena: ArenaTruth) -> list[tuple[int, int, str]]:
    return [(address, size, STATES.get(state, state)) for address, size, state in arena.states()]


def swept(session: Session, index: int) -> tuple[list[tuple[int, int, str]], Counter[str]]:
    """An arena's chunks as the sweep gives them, and its other bytes by kind."""
    found, gaps = [], Counter[str]()
    for piece in session.sweep(session.headers[index]):
        if isinstance(piece, ChunkRun):
            assert sum(raw & ~7 for raw in piece.raws) == piece.bytes
            found += blocks(piece, session.listed)
        else:
            gaps[piece.kind] += piece.bytes
    return found, gaps


def check_image(image: HeapImage, **view: Any) -> None:
    session = Session(image.target(**view))
    for truth in image.truth.arenas:
        found, gaps = swept(session, truth.index)
        assert sorted(found) == states_of(truth)
        assert gaps["top"] == (truth.top.size if truth.top else 0)
        assert not gaps["damage"]
        assert sum(size for _, size, _ in found) + sum(gaps.values()) == truth.system_mem
    assert session.findings == []


@rows
def test_every_chunk_with_its_state(row: Row) -> None:
    check_image(everything(row))


@pytest.mark.parametrize("row", ["2.17-64", "2.26-i386", "2.36-64", "2.43-64", "2.43-arm", "2.36-s390x"])
@pytest.mark.parametrize("seed", range(12))
def test_random_heaps(row: str, seed: int) -> None:
    check_image(random_image(row, seed), symbols=bool(seed % 2))


@some_rows
@pytest.mark.parametrize("left", ["least", "least and a header", "least and two", "much"])
@pytest.mark.parametrize("main", [True, False])
def test_every_shape_of_a_retired_top(row: Row, left: str, main: bool) -> None:
    """Fenceposts: alone, with a remainder that is free, and with one that is too small for a chunk."""
    image = HeapImage(row)
    arena = image.main if main else image.thread(1).arena
    arena.used(0x100)
    size = {
        "least": row.minsize,
        "least and a header": row.minsize + row.header,
        "least and two": row.minsize + 2 * row.header,
        "much": 0x500,
    }[left]
    size = -(-size // row.alignment) * row.alignment
    if main:
        image.main.foreign_sbrk(0x3000, left=size)
    else:
        image.thread(1).arena.new_heap(left=size)
    arena.used(0x200)
    arena.free(0x300)
    check_image(image)


@rows
def test_foreign_bytes_are_told_apart(row: Row) -> None:
    image = HeapImage(row)
    image.main.used(0x100)
    image.main.foreign_sbrk(12352, left=0x500)
    image.main.mix(20)
    document = run_json(image.target(), "chunks", "--summary")
    assert (document["complete"], document["problems"]) == (True, [])
    # what aligns fenceposts before and chunks after them cannot be told from them
    assert 12352 <= document["summary"]["foreign_bytes"] < 12352 + 2 * row.alignment


def tally(chunks: Iterable[Any]) -> dict[str, int]:
    sizes = [chunk.size for chunk in chunks]
    return {"chunks": len(sizes), "bytes": sum(sizes)}


@rows
def test_the_summary_is_the_truth(row: Row) -> None:
    image = everything(row)
    document = run_json(image.target(), "chunks", "--limit", "0")
    arenas = image.truth.arenas
    summary = document["summary"]
    assert (document["complete"], document["problems"]) == (True, [])
    for state, name in (("used", "used"), ("tcache", "cached"), ("fast", "fast"), ("free", "free")):
        assert summary[state] == tally(chunk for arena in arenas for chunk in getattr(arena, name))
    assert summary["top"] == tally(arena.top for arena in arenas if arena.top)
    parts = sum(summary[state]["bytes"] for state in ("used", "tcache", "fast", "free", "top"))
    assert parts + summary["bookkeeping_bytes"] == summary["system_bytes"] == sum(arena.system_mem for arena in arenas)
    listed = [(int(each["address"], 16), each["bytes"], each["state"], each["arena"]) for each in document["chunks"]]
    tops = [(*arena.top, "top", arena.index) for arena in arenas if arena.top]
    assert sorted(listed) == sorted([(*each, arena.index) for arena in arenas for each in states_of(arena)] + tops)
    assert document["left_out"] == 0
    for name, states in (("used", ("used",)), ("free", ("tcache", "fast", "free"))):
        for unit in ("chunks", "bytes"):
            in_all = sum(summary[state][unit] for state in states)
            assert sum(each[f"{name}_{unit}"] for each in document["sizes"]) == in_all


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("--free",), lambda each: each["state"] != "used"),
        (("--used",), lambda each: each["state"] == "used"),
        (("--min", "0x200"), lambda each: each["bytes"] >= 512),
        (("--max", "1K"), lambda each: each["bytes"] <= 1024),
        (("--min", "0.5KiB", "--max", "2k"), lambda each: 512 <= each["bytes"] <= 2048),
        (("--arena", "1"), lambda each: each["arena"] == 1),
        (
            ("--free", "--min", "256", "--arena", "0"),
            lambda each: each["state"] != "used" and each["bytes"] >= 256 and each["arena"] == 0,
        ),
    ],
)
def test_filters(words: tuple[str, ...], wanted: Any) -> None:
    target = everything("2.36-64").target()
    every = run_json(target, "chunks", "--limit", "0")["chunks"]
    chosen = run_json(target, "chunks", *words, "--limit", "0")
    expected = [each for each in every if wanted(each)]
    assert expected
    assert chosen["chunks"] == expected
    cut = run_json(target, "chunks", *words, "--limit", "2")
    assert cut["chunks"] == expected[:2]
    assert cut["left_out"] == max(0, len(expected) - 2)
    assert run_json(target, "chunks", *words, "--summary")["left_out"] == len(expected)


ORDERS: dict[str, Any] = {
    "size": lambda number, row: (-row[1], number),
    "state": lambda number, row: (("used", "tcache", "fast", "free", "top").index(row[2]), number),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("words", [(), ("--free",), ("--used", "--max", "400"), ("--arena", "1")], ids=" ".join)
def test_sorted_by_size_or_state(order: str, words: tuple[str, ...]) -> None:
    """Of equals the first that is met; however few are kept, they are the first of all."""
    for image in (everything("2.36-64"), everything("2.43-64"), random_image("2.36-64", 7)):
        target = image.target()
        order_met = [int(row["address"], 16) for row in run_json(target, "chunks", "--limit", "0")["chunks"]]
        every = []
        for arena in image.truth.arenas:
            top = [(arena.top.address, arena.top.size, "top")] if arena.top and arena.top.size else []
            every += [(*row, arena.index) for row in [*states_of(arena), *top]]
        every.sort(key=lambda row: order_met.index(row[0]))
        if "--free" in words:
            every = [row for row in every if row[2] != "used"]
        if "--used" in words:
            every = [row for row in every if row[2] == "used" and row[1] <= 400]
        if "--arena" in words:
            every = [row for row in every if row[3] == 1]
        expected = [row for _, row in sorted(enumerate(every), key=lambda each: ORDERS[order](*each))]
        for limit in (1, 7, len(expected), 4000):
            document = run_json(target, "chunks", "--sort", order, "--limit", str(limit), *words)
            found = [(int(row["address"], 16), row["bytes"], row["state"], row["arena"]) for row in document["chunks"]]
            assert found == expected[:limit]
            assert document["left_out"] == max(0, len(expected) - limit)


@rows
def test_sizes_to_the_byte(row: Row) -> None:
    image = everything(row)
    used, free = Counter[int](), Counter[int]()
    for arena in image.truth.arenas:
        for _, size, state in states_of(arena):
            (used if state == "used" else free)[size] += 1
    document = run_json(image.target(), "chunks", "--summary", "--limit", "0")
    found = {each["bytes"]: (each["used_chunks"], each["free_chunks"]) for each in document["exact_sizes"]}
    assert found == {size: (used[size], free[size]) for size in {*used, *free}}
    held = [size * sum(found[size]) for size in found]
    assert held == sorted(held, reverse=True)
    cut = run_json(image.target(), "chunks", "--summary", "--limit", "2")
    assert cut["exact_sizes"] == document["exact_sizes"][:2]
    assert cut["exact_sizes_left_out"] == len(found) - 2


def test_a_smashed_size_word_hides_nothing_else() -> None:
    image = HeapImage("2.36-64")
    for _ in range(300):
        image.main.used(0x100)
    victim = image.truth.main.used[100]
    image.poke(victim.address + 8, 0x4141414141414141)
    document = run_json(image.target(), "chunks", "--limit", "0")
    assert document["complete"] is False
    assert f"{victim.address:#x}" in [each["names"].get("address") for each in document["problem_records"]]
    addresses = {int(each["address"], 16) for each in document["chunks"]}
    expected = {chunk.address for chunk in image.truth.main.used}
    assert expected - addresses == {victim.address}
    summary = document["summary"]
    parts = sum(summary[state]["bytes"] for state in ("used", "tcache", "fast", "free", "top"))
    accounted = summary["bookkeeping_bytes"] + summary["damaged_bytes"]
    assert parts + accounted == summary["system_bytes"] == image.truth.main.system_mem
    assert summary["damaged_bytes"] == victim.size


def test_a_list_that_is_not_whole_makes_used_unknown() -> None:
    image = everything("2.36-64")
    cached = image.truth.threads[0].cached[0]
    image.poke(cached.address + 8, 0x4141414141414141)
    summary = run_json(image.target(), "chunks", "--summary")["summary"]
    assert summary["used"] == summary["tcache"] == {"chunks": None, "bytes": None}


def test_how_many_there_are_is_guessed_by_the_first_of_each_heap() -> None:
    image = HeapImage("2.36-64")
    for number in range(12_000):
        image.main.used(0x80 + 0x10 * (number % 9))
    session, read = Session(image.target()), []
    chunks = sum(len(piece.raws) for piece in session.sweep(session.headers[0]) if isinstance(piece, ChunkRun))
    fill = session.memory._fill
    assert fill is not None
    session.memory._fill = lambda address, block: (read.append(len(block)), fill(address, block))[1]
    assert abs(likely_chunks(session, chunks) - chunks) < chunks // 20
    assert sum(read) < session.headers[0].system_mem // 4
