"""Damaged heaps: what can be read is shown and marked as partial, every walk ends, no wrong figure passes for right."""

from __future__ import annotations

import random
from itertools import cycle
from typing import Any

import pytest
from fake_door import run_json, run_text
from fake_target import FakeTarget
from heap_mixtures import everything
from heap_pictures import tally, used_bytes
from heapbuilder import Chunk, HeapImage
from marks import full_after, in_full
from wounds import Hurt, victim
from wounds_arenas import ARENAS
from wounds_lists import LISTS, cached_bin

from arenascope.base.errors import ArenascopeError
from arenascope.commands.all_commands import COMMAND_NAMES
from arenascope.session.session import Session

READS = 20_000
"""What all of one command may read: an undamaged image takes a tenth of it."""
ROWS = ["2.17-64", "2.26-i386", "2.31-64", "2.36-s390x", "2.43-64"]
rows = pytest.mark.parametrize("row", ROWS)
WOUNDS = {**LISTS, **ARENAS}


@pytest.mark.parametrize(("name", "row"), [*zip(WOUNDS, cycle(ROWS))])
def test_a_wound_shows_and_stays_where_it_is(row: str, name: str) -> None:
    image = everything(row)
    hurt = WOUNDS[name](image)
    if hurt is None:
        return
    target = image.target()
    document = run_json(target, "arenas")
    assert target.reads < READS
    assert document["complete"] is False
    assert document["problems"]
    if hurt.address is not None:
        named = {name for each in document["problem_records"] for name in each["names"].values()}
        assert f"{hurt.address:#x}" in named, document["problems"]
    found = {arena["index"]: arena for arena in document["arenas"]}
    assert set(found) == {0, 1, 2, 3} - hurt.lost
    check_figures(image, found, hurt)
    totals = document["totals"]["used_bytes"]
    if hurt.arenas or hurt.caches:
        assert totals is None


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.full if at % 12 else ()) for at, name in enumerate(WOUNDS)]
)
def test_a_wound_ends_no_command(name: str) -> None:
    image = everything("2.43-64")
    if WOUNDS[name](image) is not None:
        run_everything(image.target())


def check_figures(image: HeapImage, found: dict[int, Any], hurt: Hurt) -> None:
    """What is not hurt is right; what is hurt is not derived from."""
    for index, arena in found.items():
        truth = image.truth.arenas[index]
        if hurt.caches:
            assert arena["used_bytes"] is None
            assert arena["tcache"] == {"chunks": None, "bytes": None}
        if index in hurt.arenas:
            assert arena["used_bytes"] is None
            continue
        for key, chunks in (("bins", truth.free), ("fast", truth.fast)):
            expected = tally(chunks)
            assert arena[key] == {"chunks": expected.chunks, "bytes": expected.bytes}
        assert truth.top is not None
        assert (arena["system_bytes"], arena["top_bytes"]) == (truth.system_mem, truth.top.size)
        if not hurt.caches:
            # a cached chunk may lie in what is hurt; of this arena all are known
            assert arena["used_bytes"] in (used_bytes(truth), None if hurt.lost else used_bytes(truth))


def run_everything(target: FakeTarget) -> None:
    """Every command, as text and as JSON: each answers, marks itself as partial, and ends."""
    for command in COMMAND_NAMES:
        target.reset_counts()
        try:
            text = run_text(target, command)
        except ArenascopeError:
            continue
        assert text.strip()
        assert target.reads < READS, command


@pytest.mark.parametrize(("name", "row"), [*zip(WOUNDS, cycle(["2.31-i386", "2.43-64"]))])
def test_a_wound_without_symbols(row: str, name: str) -> None:
    image = everything(row)
    hurt = WOUNDS[name](image)
    if hurt is None:
        return
    target = image.target(symbols=False, rodata=False)
    document = run_json(target, "arenas")
    assert target.reads < READS
    assert document["complete"] is False
    found = {arena["index"]: arena for arena in document["arenas"]}
    # where neither the release nor a whole ring tells, it is a guess how far in front of its bins main_arena begins
    if not hurt.lost and name != "ring: loop":
        check_figures(image, found, hurt)


# damages that these figures do not depend on


@rows
def test_marks_that_no_list_needs(row: str) -> None:
    """Neighbours' bits and feet are `check`'s to look at: nothing is derived from them here."""
    image = everything(row)
    chunk = victim(image).bins[1][0]
    image.corrupt.flip_prev_inuse(chunk)
    image.corrupt.prev_size(chunk)
    document = run_json(image.target(), "arenas")
    assert document["complete"] is True
    check_figures(image, {arena["index"]: arena for arena in document["arenas"]}, Hurt())


@rows
def test_a_locked_arena_is_walked_all_the_same(row: str) -> None:
    image = everything(row)
    image.corrupt.lock(victim(image))
    session = Session(image.target())
    assert [header.mutex for header in session.headers] == [0, 0, 1, 0]
    assert session.findings == []


@pytest.mark.parametrize("row", ["2.31-64", "2.36-64", "2.43-64"])
def test_a_count_that_is_one_behind(row: str) -> None:
    """tcache_put and tcache_get change the list first: the list is right, and it is said that the two differ."""
    image = everything(row)
    thread, index = image.thread(1), cached_bin(image)
    image.corrupt.tcache_count(thread, index, 12 if row == "2.43-64" else 2)
    document = run_json(image.target(), "arenas")
    check_figures(image, {arena["index"]: arena for arena in document["arenas"]}, Hurt())
    assert all(arena["used_bytes"] is not None for arena in document["arenas"])


# whatever may come


@pytest.mark.parametrize("row", ["2.17-64", "2.36-64", *in_full("2.31-i386", "2.42.x-64", "2.43-64", "2.43-arm")])
@pytest.mark.parametrize("seed", full_after(1, range(3)))
def test_scribbles_never_end_in_an_exception(row: str, seed: int) -> None:
    image, rng = everything(row), random.Random(f"{row} {seed}")
    word = image.row.word
    places = [heap.address for arena in image.truth.arenas for heap in arena.heaps]
    places += [image.main.address] * 4 + [image.addresses["mp_"]]
    chunks = [chunk for arena in image.truth.arenas for chunk in (*arena.free, *arena.fast, *arena.cached, *arena.used)]
    for _ in range(rng.choice((1, 3, 30, 300))):
        if rng.random() < 0.6:
            at = rng.choice(chunks).address + word * rng.randrange(6)
        else:
            at = rng.choice(places) + word * rng.randrange(300)
        image.poke(at, scribble(rng, chunks, word))
    target = image.target(symbols=bool(seed % 2), structs=seed == 3)
    run_everything(target)


def scribble(rng: random.Random, chunks: list[Chunk], word: int) -> int:
    """What lands in a heap by mistake: text, small numbers, other pointers, noise."""
    kind = rng.randrange(5)
    if kind == 0:
        return 0
    if kind == 1:
        return rng.choice(chunks).address + word * rng.randrange(4)
    if kind == 2:
        return rng.randrange(1 << 12)
    if kind == 3:
        return int.from_bytes(b"AAAAAAAA"[:word], "little")
    return rng.getrandbits(8 * word)
