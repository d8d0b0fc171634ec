"""`heap check` over built heaps: none of them breaks a rule; each damage is named by its rule and its place."""

from __future__ import annotations

from typing import Any, Callable, Optional

import pytest
from fake_door import FakeDoor, run_json, run_text
from heap_mixtures import everything, random_image
from heapbuilder import EACH_ROW, HeapImage, Row

from arenascope.commands.framework.command import execute
from arenascope.commands.framework.find_command import find_command
from arenascope.glibc.invariants import ChunkCheck

every_row = pytest.mark.parametrize("row", EACH_ROW, ids=str)
some_rows = pytest.mark.parametrize("row", ["2.17-64", "2.26-i386", "2.31-64", "2.36-s390x", "2.36-ppc32", "2.43-64"])


@every_row
def test_a_sound_heap(row: Row) -> None:
    image = everything(row)
    for target in (image.target(), image.target(symbols=False)):
        document = run_json(target, "check")
        assert (document["breaches"], document["problems"], document["busy"]) == ([], [], [])
    truth = image.truth
    fast = sum(len(arena.fast) for arena in truth.arenas)
    assert document["checked"] == {
        "arenas": len(truth.arenas),
        "heaps": sum(len(arena.heaps) for arena in truth.arenas),
        "chunks": document["checked"]["chunks"],
        "bin_entries": sum(len(arena.free) for arena in truth.arenas) + fast,
        "tcache_entries": sum(len(arena.cached) for arena in truth.arenas),
    }


@pytest.mark.parametrize("seed", range(10))
@some_rows
def test_a_sound_heap_by_chance(row: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At a glance: none of it is gone through chunk by chunk."""
    monkeypatch.setattr(ChunkCheck, "_run", None)
    assert run_json(random_image(row, seed).target(), "check")["breaches"] == []


PEAKS = (
    ("2.17-64", 0, 1 << 12, True),
    ("2.36-64", 0, 1 << 12, False),
    ("2.36-64", 0, 5 << 12, False),
    ("2.36-64", 0, 16, True),
    ("2.36-64", 2, 1 << 12, True),
)


@pytest.mark.parametrize(("row", "index", "behind", "named"), PEAKS)
def test_a_peak_that_malloc_trim_left_behind(row: str, index: int, behind: int, named: bool) -> None:
    """systrim, which since 2.19 makes the main arena's top longer where it is MINSIZE, does not touch the peak."""
    image = everything(row)
    arena = image.truth.arenas[index]
    image.corrupt.state(arena, "max_system_mem", arena.system_mem - behind)
    found = [(each["rule"], int(each["address"], 16)) for each in run_json(image.target(), "check")["breaches"]]
    assert found == ([("system-mem", arena.address)] if named else [])


Damage = Callable[[HeapImage], Optional[tuple[str, int]]]
"""Damages the image; the rule and the address that must be named, None where this release has nothing of the kind."""


def link_of(offset: int) -> Damage:
    """A word of a binned chunk in arena 2, from its header on."""

    def damage(image: HeapImage) -> tuple[str, int]:
        chunk = image.thread(2).arena.bins[1][1]
        image.poke(chunk.address + offset * image.row.word, 0x42424240)
        return "bin-link", chunk.address

    return damage


def used_size(change: int, name: str) -> Damage:
    def damage(image: HeapImage) -> tuple[str, int]:
        # the first used chunk after the header of arena 2's heap
        chunk = min(image.truth.arena(image.thread(2).arena.address).used, key=lambda each: each.address)
        image.poke(chunk.address + image.row.word, image.peek(chunk.address + image.row.word) ^ change)
        return name, chunk.address

    return damage


def prev_inuse(image: HeapImage) -> tuple[str, int]:
    chunk = image.thread(2).arena.bins[1][0]
    image.corrupt.flip_prev_inuse(chunk)
    return "prev-inuse", chunk.end


def prev_size(image: HeapImage) -> tuple[str, int]:
    chunk = image.thread(2).arena.bins[1][0]
    image.corrupt.prev_size(chunk)
    return "prev-size", chunk.end


def binmap(image: HeapImage) -> tuple[str, int]:
    arena = image.thread(2).arena
    for word in range(4):
        image.poke(arena.address + image.row.state["binmap"] + 4 * word, 0, 4)
    return "binmap", arena.address


def skip_list(image: HeapImage) -> tuple[str, int]:
    arena = image.thread(2).arena
    large = max(index for index, chunks in arena.bins.items() if len(chunks) == 2)
    chunk = arena.bins[large][0]
    image.poke(chunk.address + 4 * image.row.word, chunk.address + 8)
    return "bin-skip-list", chunk.address


def twice_in_fastbin(image: HeapImage) -> Optional[tuple[str, int]]:
    arena = image.thread(2).arena
    index = next((index for index, chunks in arena.fastbins.items() if len(chunks) > 1), None)
    if index is None:
        return None
    image.corrupt.link(arena.fastbins[index], "cycle", "fast")
    return "double-free", arena.fastbins[index][0].address


def twice_in_cache(image: HeapImage) -> Optional[tuple[str, int]]:
    if not image.row.has_tcache:
        return None
    thread = image.thread(2)
    index = next(index for index, chunks in thread.bins.items() if len(chunks) == 3)
    image.corrupt.link(thread.bins[index], "cycle", "cache")
    return "double-free", thread.bins[index][0].address


def key(image: HeapImage) -> Optional[tuple[str, int]]:
    if not image.row.has_tcache or not image.row.tcache_key or image.row.number < (2, 29):
        return None
    thread = image.thread(2)
    chunk = next(chunks for chunks in thread.bins.values() if len(chunks) == 3)[1]
    image.poke(image.row.user(chunk.address) + image.row.word, 1234)
    return "tcache-key", chunk.address


def cache_link(image: HeapImage) -> Optional[tuple[str, int]]:
    if not image.row.has_tcache:
        return None
    thread = image.thread(2)
    index = next(index for index, chunks in thread.bins.items() if len(chunks) == 3)
    image.corrupt.link(thread.bins[index], "misalign", "cache")
    return "tcache-link", thread.bins[index][-1].address


def owner(image: HeapImage) -> tuple[str, int]:
    arena = image.thread(2).arena
    image.corrupt.wrong_ar_ptr(arena)
    return "heap-arena", image.truth.arena(arena.address).heaps[-1].address


def sum_of_heaps(image: HeapImage) -> tuple[str, int]:
    arena = image.thread(2).arena
    image.corrupt.state(arena, "system_mem", image.truth.arena(arena.address).system_mem - image.row.page_size)
    return "system-mem", arena.address


DAMAGES = {
    "fd": link_of(2),
    "bk": link_of(3),
    "NON_MAIN_ARENA": used_size(4, "non-main-arena"),
    "IS_MMAPPED": used_size(2, "is-mmapped"),
    "P": prev_inuse,
    "prev_size": prev_size,
    "binmap": binmap,
    "skip list": skip_list,
    "fastbin": twice_in_fastbin,
    "cache": twice_in_cache,
    "key": key,
    "cache link": cache_link,
    "heap_info": owner,
    "sum": sum_of_heaps,
}


@some_rows
@pytest.mark.parametrize("name", DAMAGES)
def test_a_damage_is_named(row: str, name: str) -> None:
    image = everything(row)
    expected = DAMAGES[name](image)
    if expected is None:
        return
    target = image.target()
    document = run_json(target, "check")
    found = [(each["rule"], int(each["address"], 16)) for each in document["breaches"]]
    assert expected in found
    # a consequence or two, not a flood
    assert len(found) <= 4, document["breaches"]
    door = FakeDoor(target)
    assert execute(find_command("check"), [], door) == 1
    assert "".join(door.written).startswith("damaged: ")


def test_of_one_arena() -> None:
    image = everything("2.36-64")
    prev_inuse(image)
    assert [each["arena"] for each in run_json(image.target(), "check")["breaches"]] == [2]
    assert len(run_json(image.target(), "check", "--arena", "2")["breaches"]) == 1
    assert run_json(image.target(), "check", "--arena", "1")["breaches"] == []
    assert run_json(image.target(), "check", "--arena", "1")["checked"]["arenas"] == 1


def test_a_locked_arena_is_busy() -> None:
    image = everything("2.36-64")
    prev_inuse(image)
    image.corrupt.lock(image.thread(2).arena)
    document = run_json(image.target(), "check")
    assert [each["transient"] for each in document["breaches"]] == [True]
    assert [(each["arena"], each["locked"]) for each in document["busy"]] == [(2, True)]
    assert run_text(image.target(), "check").startswith("busy: ")


@some_rows
@pytest.mark.parametrize("arena", [0, 2])
def test_a_lock_explains_the_flag_of_a_chunk_that_is_taken(row: str, arena: int) -> None:
    """_int_malloc sets it beside the links, in whatever order the compiler chose; main_arena's chunks never have it."""
    image = everything(row)
    place = image.truth.arenas[arena]
    size = min(each.address for each in place.used) + image.row.word
    image.poke(size, image.peek(size) ^ 4)
    image.corrupt.lock(place)
    breaches: list[dict[str, Any]] = run_json(image.target(), "check")["breaches"]
    told = {each["transient"] for each in breaches if each["rule"] == "non-main-arena"}
    assert told == {arena != 0}, breaches


def test_a_lock_explains_no_double_free() -> None:
    image = everything("2.36-64")
    assert twice_in_cache(image)
    for arena in image.truth.arenas:
        image.corrupt.lock(arena)
    breaches: list[dict[str, Any]] = run_json(image.target(), "check")["breaches"]
    assert {each["rule"]: each["transient"] for each in breaches}["double-free"] is False
