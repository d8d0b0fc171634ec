"""Releases that do not exist yet: malloc_state and heap_info changed, found right or refused, never misread."""

from __future__ import annotations

from functools import partial
from itertools import cycle
from typing import Callable, Sequence

import pytest
from fake_door import run_json
from future_changes import BASES, REFUSED, STATE, VALUES, VIEWS, changed, lone
from future_checks import every, verdict
from future_rows import Change, fill, future, insert, members, move, remove
from heap_mixtures import everything
from heapbuilder import EACH_ROW, ROWS, HeapImage, Row
from marks import full_after, in_full


@pytest.mark.parametrize("row", EACH_ROW, ids=str)
def test_an_unchanged_row_is_laid_as_it_was(row: Row) -> None:
    made = future(row)
    assert (made.state, made.heap_info, made.par) == (row.state, row.heap_info, row.par)
    assert all(size in (4, row.word) or size % row.word == 0 for _, size, _ in members(row, row.state))


def check_state(base: str, change: str, value: str, view: str, make: Callable[[Row], HeapImage]) -> None:
    image = changed(future(base, state=STATE[change]), value, make)
    found = verdict(image, image.target(**VIEWS[view]))
    if view == "debug information":
        assert found == "right"
    elif change in REFUSED and make is everything:
        assert found == "refused"


@pytest.mark.parametrize(("change", "base"), [*zip(STATE, cycle(["2.44-64", "2.44-i386", "2.36-64"]))])
def test_malloc_state(base: str, change: str) -> None:
    check_state(base, change, "a small number", "symbols", everything)
    check_state(base, change, "pages", "no symbols", everything)
    check_state(base, change, "pages", "symbols", lone)
    check_state(base, change, "noise", "debug information", everything)


@pytest.mark.fuzz
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("change", STATE)
def test_malloc_state_with_every_value(base: str, change: str) -> None:
    every(partial(check_state, base, change), VALUES, VIEWS, [everything, lone])


@pytest.mark.parametrize("base", ["2.44-64", *in_full("2.44-i386", "2.44-s390x")])
@pytest.mark.parametrize(
    "change",
    [
        "a word in front of top",
        "two words in front of top",
        "a word after next_free",
        "no attached_threads",
    ],
)
def test_what_can_be_proven_is_found(base: str, change: str) -> None:
    """Refusing everything would never misread either."""
    row = future(base, state=STATE[change])
    for value, view in (("0", "symbols"), ("noise", "no symbols")):
        image = changed(row, value)
        assert verdict(image, image.target(**VIEWS[view])) == "right"


@pytest.mark.parametrize("base", ["2.44-64", "2.36-64", "2.44-i386"])
@pytest.mark.parametrize("place", ["flags", *in_full("max_system_mem")])
def test_a_new_list_of_chunks_is_not_overlooked(base: str, place: str) -> None:
    """A word that leads to chunks: what hangs there may be free, so no use can be told."""
    image = everything(future(base, state=[insert(place, "new")]))
    chunks = {arena.address: arena.used[3].address for arena in image.truth.arenas}
    fill(image, "new", lambda address: chunks[address])
    for view in VIEWS.values():
        target = image.target(**view)
        assert verdict(image, target) == "partial"
        document = run_json(target, "arenas")
        assert all(arena["used_bytes"] is None for arena in document["arenas"])
        assert "list-unknown" in [each["id"] for each in document["problem_records"]]


def appended(base: str, words: int) -> Row:
    """New members behind the last that is known: the first chunk of a thread's arena lies further on."""
    names = ["max_system_mem", *(f"new{number}" for number in range(words))]
    return future(base, state=[insert(*each) for each in zip(names, names[1:])])


@pytest.mark.parametrize("base", full_after(2, BASES[:5]))
@pytest.mark.parametrize("words", [1, *in_full(2, 7)])
def test_a_longer_malloc_state_is_no_damage(base: str, words: int) -> None:
    row = appended(base, words)
    for value, view in (("0", "symbols"), ("a small number", "no symbols"), ("noise", "symbols")):
        image = everything(row)
        for name in set(row.state) - set(ROWS[0].state):
            fill(image, name, VALUES[value])
        target = image.target(**VIEWS[view])
        assert verdict(image, target) == "right"
        document = run_json(target, "check")
        assert (document["complete"], document["breaches"]) == (True, [])


def test_damage_behind_a_longer_malloc_state_is_told() -> None:
    """In one arena of several."""
    image = everything(appended("2.44-64", 2))
    firsts = [arena.heaps[0].address + 48 + image.row.state["sizeof"] for arena in image.truth.arenas if arena.index]
    firsts = [image.row.align_chunk(first) for first in firsts]
    image.poke(firsts[1] + 8, 7, 8)
    breaches = run_json(image.target(), "check")["breaches"]
    assert {int(each["address"], 16) for each in breaches} == {firsts[1]}


# heap_info

HEAP: dict[str, Sequence[Change]] = {
    "a word at the start": [insert("", "new")],
    "a word after prev": [insert("prev", "new")],
    "a word after size": [insert("size", "new")],
    "three words at the end": [insert("pagesize", "new"), insert("new", "new2"), insert("new2", "new3")],
    "no pagesize": [remove("pagesize")],
    "mprotect_size in front of size": [move("size", "mprotect_size")],
    "prev in front of ar_ptr": [move("ar_ptr", "prev")],
    "prev at the end": [move("prev", "pagesize")],
    "no mprotect_size": [remove("mprotect_size")],
}


@pytest.mark.parametrize(("change", "base"), [*zip(HEAP, cycle(["2.44-64", "2.44-arm", "2.44-s390x"]))])
def test_heap_info(base: str, change: str) -> None:
    row = future(base, heap=HEAP[change])
    for value, view in (("0", "symbols"), ("pages", "symbols"), ("noise", "no symbols"), ("0", "debug information")):
        image = changed(row, value)
        found = verdict(image, image.target(**VIEWS[view]))
        if "mprotect_size" not in row.heap_info:
            assert found == "refused"
        elif value != "pages" or "new" not in row.heap_info:
            assert found == "right"
