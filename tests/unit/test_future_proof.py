"""What a layout of a release to come is believed by: debug information, checks, and what is refused without proof."""

from __future__ import annotations

import pytest
from fake_door import run_json, run_text
from future_changes import BASES, STATE, changed, lone
from future_checks import compare, figures, verdict
from future_rows import NEWEST, UNKNOWN, fill, future, insert
from heap_mixtures import everything
from heap_pictures import laid, seen
from heapbuilder import HeapImage
from marks import full_after

from arenascope.base.errors import NotFoundError
from arenascope.present.shared_text.text import NO_HEAP
from arenascope.session.session import Session

# where debug information and memory disagree


@pytest.mark.parametrize("change", STATE)
def test_debug_information_of_another_build(change: str) -> None:
    """It describes the release as it was before the change: memory is believed, or nothing."""
    plain = everything(future("2.44-64")).target(structs=True)
    image = changed(future("2.44-64", state=STATE[change]), "a small number")
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
    image = everything(future("2.44-64", state=[insert("flags", "new")]))
    checks = run_json(image.target(), "version")["checks"]
    assert checks["held"] == checks["tried"] == len(checks["list"]) > 8
    assert all(each["held"] for each in checks["list"])
    text = run_text(image.target(), "version")
    assert f"(newer release {UNKNOWN})" in text
    assert f"{checks['held']} of {checks['tried']} checks hold" in text
    damaged = everything("2.44-64")
    damaged.corrupt.state(damaged.thread(2).arena, "system_mem", 0x1000)
    checks = run_json(damaged.target(), "version")["checks"]
    assert [each["check"] for each in checks["list"] if not each["held"]]
    assert checks["held"] < checks["tried"]


@pytest.mark.parametrize("base", full_after(2, BASES[:5]))
@pytest.mark.parametrize("symbols", [True, False])
@pytest.mark.parametrize("rodata", [True, False])
def test_an_unchanged_new_release_is_as_good_as_a_known_one(base: str, symbols: bool, rodata: bool) -> None:
    """Also where the image does not say its release: it is then taken for the newest."""
    image = everything(future(base))
    target = image.target(symbols=symbols, rodata=rodata)
    assert verdict(image, target) == "right"
    session = Session(target)
    assert session.located.version == (UNKNOWN if rodata else None)
    assert seen(session) == laid(image)
    assert session.findings == []


def test_before_its_first_malloc() -> None:
    image = HeapImage(future("2.44-64", state=[insert("flags", "new")]), heap=False)
    for symbols in (True, False):
        document = run_json(image.target(symbols=symbols), "arenas")
        assert [arena["system_bytes"] for arena in document["arenas"]] == [0]
        assert NO_HEAP in run_text(image.target(symbols=symbols), "arenas")


def test_one_damaged_arena_among_others_proves_nothing_against_a_layout() -> None:
    image = everything(future("2.44-64", state=[insert("flags", "new")]))
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
    image = everything(future("2.44-64", state=[insert("flags", "new")]))
    image.corrupt.state(image.thread(2).arena, "system_mem", value)
    with pytest.raises(NotFoundError, match="system_mem"):
        run_json(image.target(), "arenas")


def test_what_nothing_proves_is_refused() -> None:
    """The only arena's system_mem agrees with nothing."""
    image = lone(future("2.44-64"))
    image.corrupt.state(image.main, "system_mem", 0x12345000)
    with pytest.raises(NotFoundError, match=f"{UNKNOWN} .*{NEWEST}.*system_mem") as refusal:
        run_json(image.target(), "arenas")
    assert "debug symbols" in str(refusal.value)


def test_brk_was_refused_in_the_only_arena() -> None:
    """Neither sbrk_base nor a heap tells: the regions themselves must sum to system_mem."""
    image = HeapImage(future("2.44-64", state=[insert("next_free", "new")]))
    image.main.mix(10)
    image.main.mmap_region()
    image.main.mix(10)
    fill(image, "new", lambda address: 3)
    for symbols in (True, False):
        assert verdict(image, image.target(symbols=symbols)) in ("right", "partial")
