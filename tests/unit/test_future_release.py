"""Releases that do not exist yet: malloc_state and heap_info changed, found right or refused in words, never misread."""

from __future__ import annotations

from typing import Any, Callable, Sequence

import pytest
from fake_door import run_json, run_text
from future_checks import compare, figures, verdict
from future_rows import Change, fill, future, insert, members, move, remove
from heap_mixtures import everything
from heapbuilder import ROWS, HeapImage, Row

from arenascope.errors import NotFoundError
from arenascope.session import Session

BASES = ["2.43-64", "2.43-i386", "2.43-arm", "2.43-s390x", "2.43-ppc32", "2.36-64"]

VIEWS: dict[str, dict[str, Any]] = {
    "symbols": {"symbols": True},
    "no symbols": {"symbols": False},
    "debug information": {"symbols": True, "structs": True},
}
VALUES: dict[str, Callable[[int], int]] = {
    "0": lambda address: 0,
    "a small number": lambda address: 1,
    "pages": lambda address: 0x21000,
    "its own address": lambda address: address,
    "noise": lambda address: 0xDEADBEEFCAFE1235,
}

STATE: dict[str, Sequence[Change]] = {
    "a word in front of top": [insert("flags", "new")],
    "an int in front of top": [insert("flags", "new", "int")],
    "two words in front of top": [insert("flags", "new"), insert("flags", "new2")],
    "an int in front of flags": [insert("mutex", "new", "int")],
    "a word at the start": [insert("", "new")],
    "a word behind top": [insert("top", "new")],
    "a word behind last_remainder": [insert("last_remainder", "new")],
    "top behind last_remainder": [move("top", "last_remainder")],
    "no last_remainder": [remove("last_remainder")],
    "a word behind bins": [insert("bins", "new")],
    "a word behind binmap": [insert("binmap", "new")],
    "a word behind next": [insert("next", "new")],
    "a word behind next_free": [insert("next_free", "new")],
    "two words behind next_free": [insert("next_free", "new"), insert("next_free", "new2")],
    "a word in front of system_mem": [insert("attached_threads", "new")],
    "no attached_threads": [remove("attached_threads")],
    "another word for attached_threads": [remove("attached_threads"), insert("next_free", "new")],
    "attached_threads at the end": [move("attached_threads", "max_system_mem")],
    "system_mem in front of attached_threads": [move("system_mem", "next_free")],
    "max_system_mem in front of system_mem": [move("system_mem", "max_system_mem")],
    "a word between system_mem and max_system_mem": [insert("system_mem", "new")],
    "a word behind max_system_mem": [insert("max_system_mem", "new")],
}
REFUSED = {"a word behind bins", "a word behind binmap"}
"""The ring and the bins' distance from it are what an arena is recognised by."""


def lone(row: Row) -> HeapImage:
    """One arena, whose peak is more than it holds."""
    image = HeapImage(row)
    image.main.peak = 1 << 20
    image.main.mix(40)
    return image


def changed(row: Row, value: str, make: Callable[[Row], HeapImage] = everything) -> HeapImage:
    """An image whose new members hold this value."""
    image = make(row)
    for name in ("new", "new2"):
        if name in row.state or name in row.heap_info:
            fill(image, name, VALUES[value])
    return image


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_an_unchanged_row_is_laid_as_it_was(row: Row) -> None:
    made = future(row)
    assert (made.state, made.heap_info, made.par) == (row.state, row.heap_info, row.par)
    assert all(size in (4, row.word) or size % row.word == 0 for _, size, _ in members(row, row.state))


def check_state(base: str, change: str, value: str, view: str, make: Callable[[Row], HeapImage]) -> None:
    image = changed(future(base, state=STATE[change]), value, make)
    found = verdict(image, image.target(**VIEWS[view]))
    if view == "debug information":
        assert found == "right"
    elif change in REFUSED:
        assert found == "refused"


@pytest.mark.parametrize("base", ["2.43-64", "2.43-i386", "2.36-64"])
@pytest.mark.parametrize("change", STATE)
def test_malloc_state(base: str, change: str) -> None:
    check_state(base, change, "a small number", "symbols", everything)
    check_state(base, change, "pages", "no symbols", everything)
    check_state(base, change, "pages", "symbols", lone)
    check_state(base, change, "noise", "debug information", everything)


@pytest.mark.fuzz
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("change", STATE)
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("make", [everything, lone])
def test_malloc_state_with_every_value(
    base: str, change: str, value: str, view: str, make: Callable[[Row], HeapImage]
) -> None:
    check_state(base, change, value, view, make)


@pytest.mark.parametrize("base", ["2.43-64", "2.43-i386", "2.43-s390x"])
@pytest.mark.parametrize(
    "change",
    ["a word in front of top", "an int in front of top", "two words in front of top", "top behind last_remainder",
     "a word behind next_free", "a word in front of system_mem", "no attached_threads", "a word behind max_system_mem"],
)  # fmt: skip
def test_what_can_be_proven_is_found(base: str, change: str) -> None:
    """Refusing everything would never misread either."""
    row = future(base, state=STATE[change])
    for value, view in (("0", "symbols"), ("noise", "no symbols")):
        image = changed(row, value)
        assert verdict(image, image.target(**VIEWS[view])) == "right"


@pytest.mark.parametrize("base", ["2.43-64", "2.36-64", "2.43-i386"])
def test_a_new_list_of_chunks_is_not_overlooked(base: str) -> None:
    """A word in front of top that leads to chunks: what hangs there may be free, so no use can be told."""
    image = everything(future(base, state=[insert("flags", "new")]))
    chunks = {arena.address: arena.used[3].address for arena in image.truth.arenas}
    fill(image, "new", lambda address: chunks[address])
    for view in VIEWS.values():
        target = image.target(**view)
        assert verdict(image, target) == "partial"
        document = run_json(target, "arenas")
        assert all(arena["used_bytes"] is None for arena in document["arenas"])
        assert any("a list of a kind" in problem for problem in document["problems"])


# heap_info

HEAP: dict[str, Sequence[Change]] = {
    "a word at the start": [insert("", "new")],
    "a word behind prev": [insert("prev", "new")],
    "a word behind size": [insert("size", "new")],
    "three words at the end": [insert("pagesize", "new"), insert("new", "new2"), insert("new2", "new3")],
    "no pagesize": [remove("pagesize")],
    "mprotect_size in front of size": [move("size", "mprotect_size")],
    "prev in front of ar_ptr": [move("ar_ptr", "prev")],
    "prev at the end": [move("prev", "pagesize")],
    "no mprotect_size": [remove("mprotect_size")],
}


@pytest.mark.parametrize("base", ["2.43-64", "2.43-arm", "2.43-s390x"])
@pytest.mark.parametrize("change", HEAP)
def test_heap_info(base: str, change: str) -> None:
    row = future(base, heap=HEAP[change])
    for value, view in (("0", "symbols"), ("pages", "symbols"), ("noise", "no symbols"), ("0", "debug information")):
        image = changed(row, value)
        found = verdict(image, image.target(**VIEWS[view]))
        if "mprotect_size" not in row.heap_info:
            assert found == "refused"
        elif value != "pages" or "new" not in row.heap_info:
            assert found == "right"


# where debug information and memory disagree


@pytest.mark.parametrize("change", STATE)
def test_debug_information_of_another_build(change: str) -> None:
    """It describes the release as it was before the change: memory is believed, or nothing."""
    plain = everything(future("2.43-64")).target(structs=True)
    image = changed(future("2.43-64", state=STATE[change]), "a small number")
    target = image.target()
    target.structs = plain.structs
    found = verdict(image, target)
    if change == "a word in front of top":
        assert found == "right"
        assert any("disagree" in note for note in Session(target).located.notes)


def test_a_known_release_with_a_vendors_member() -> None:
    """Debug information describes what the table does not: it is taken, once memory keeps it."""
    image = everything(future("2.36-64", state=[insert("next_free", "new")], version="2.36"))
    fill(image, "new", lambda address: 1)
    assert verdict(image, image.target(structs=True)) == "right"


# what is said


def test_version_counts_the_checks() -> None:
    image = everything(future("2.43-64", state=[insert("flags", "new")]))
    checks = run_json(image.target(), "version")["checks"]
    assert checks["held"] == checks["tried"] == len(checks["list"]) > 8
    assert all(each["held"] for each in checks["list"])
    text = run_text(image.target(), "version")
    assert "(newer release 2.47)" in text
    assert f"{checks['held']} of {checks['tried']} checks hold" in text
    damaged = everything("2.43-64")
    damaged.corrupt.state(damaged.thread(2).arena, "system_mem", 0x1000)
    checks = run_json(damaged.target(), "version")["checks"]
    assert [each["check"] for each in checks["list"] if not each["held"]]
    assert checks["held"] < checks["tried"]


def test_an_unchanged_new_release_is_as_good_as_a_known_one() -> None:
    for base in BASES[:5]:
        for symbols in (True, False):
            image = everything(future(base))
            assert verdict(image, image.target(symbols=symbols)) == "right"


def test_before_its_first_malloc() -> None:
    image = HeapImage(future("2.43-64", state=[insert("flags", "new")]), heap=False)
    for symbols in (True, False):
        document = run_json(image.target(symbols=symbols), "arenas")
        assert [arena["system_bytes"] for arena in document["arenas"]] == [0]
        assert run_text(image.target(symbols=symbols), "arenas").startswith("no heap yet")


def test_one_damaged_arena_among_others_proves_nothing_against_a_layout() -> None:
    image = everything(future("2.43-64", state=[insert("flags", "new")]))
    image.corrupt.wrong_top(image.thread(2).arena)
    document = run_json(image.target(), "arenas")
    assert document["complete"] is False
    given = {arena["index"]: arena for arena in document["arenas"]}
    assert given[2]["used_bytes"] is None
    for index in (0, 1, 3):
        assert compare(f"arena {index}", given[index], figures(image.truth.arenas[index]))


@pytest.mark.parametrize("value", [1 << 30, 0x20000, 0x123])
def test_system_mem_of_one_arena_overwritten(value: int) -> None:
    """Its neighbour, the peak, is then the better system_mem: which of the two it is cannot be told."""
    image = everything(future("2.43-64", state=[insert("flags", "new")]))
    image.corrupt.state(image.thread(2).arena, "system_mem", value)
    with pytest.raises(NotFoundError, match="system_mem"):
        run_json(image.target(), "arenas")


def test_what_nothing_proves_is_refused() -> None:
    """The only arena's system_mem agrees with nothing."""
    image = lone(future("2.43-64"))
    image.corrupt.state(image.main, "system_mem", 0x12345000)
    with pytest.raises(NotFoundError, match=r"2\.47.*2\.43.*system_mem") as refusal:
        run_json(image.target(), "arenas")
    assert "debug symbols" in str(refusal.value)


def test_brk_was_refused_in_the_only_arena() -> None:
    """Neither sbrk_base nor a heap tells: the regions themselves must sum to system_mem."""
    image = HeapImage(future("2.43-64", state=[insert("next_free", "new")]))
    image.main.mix(10)
    image.main.mmap_region()
    image.main.mix(10)
    fill(image, "new", lambda address: 3)
    for symbols in (True, False):
        assert verdict(image, image.target(symbols=symbols)) in ("right", "partial")
