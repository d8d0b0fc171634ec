"""mp_ of releases that do not exist yet: members put in, taken out or moved, with default and with other values."""

from __future__ import annotations

from functools import partial
from itertools import cycle
from typing import Sequence

import pytest
from fake_door import run_json, run_text
from future_changes import VIEWS
from future_checks import every, verdict
from future_rows import NEWEST, Change, fill, future, insert, move, remove
from heapbuilder import HeapImage, Row
from marks import in_full

PAR: dict[str, Sequence[Change]] = {
    "as it was": [],
    "a word at the start": [insert("", "new")],
    "a word after trim_threshold": [insert("trim_threshold", "new")],
    "a word after top_pad": [insert("top_pad", "new")],
    "a word after arena_test": [insert("arena_test", "new")],
    "a word after arena_max": [insert("arena_max", "new")],
    "an int after arena_max": [insert("arena_max", "new", "int")],
    "an int after hp_flags": [insert("hp_flags", "new", "int")],
    "an int after n_mmaps": [insert("n_mmaps", "new", "int")],
    "an int after n_mmaps_max": [insert("n_mmaps_max", "new", "int")],
    "an int after no_dyn_threshold": [insert("no_dyn_threshold", "new", "int")],
    "a word after no_dyn_threshold": [insert("no_dyn_threshold", "new")],
    "a word after mmapped_mem": [insert("mmapped_mem", "new")],
    "a word after max_mmapped_mem": [insert("max_mmapped_mem", "new")],
    "a word after sbrk_base": [insert("sbrk_base", "new")],
    "a word after tcache_bins": [insert("tcache_bins", "new")],
    "a word after tcache_count": [insert("tcache_count", "new")],
    "no thp_mode": [remove("thp_mode")],
    "no huge pages": [remove(name) for name in ("thp_mode", "thp_pagesize", "hp_pagesize", "hp_flags")],
    "no tcache_count": [remove("tcache_count")],
    "no arena_max": [remove("arena_max")],
    "arena_max at the end": [move("arena_max", "tcache_count")],
    "arena_max after thp_pagesize": [move("arena_max", "thp_pagesize")],
    "arena_test after arena_max": [move("arena_test", "arena_max")],
    "no_dyn_threshold in front of n_mmaps": [move("no_dyn_threshold", "hp_flags")],
    "n_mmaps after no_dyn_threshold": [move("n_mmaps", "no_dyn_threshold")],
    "sbrk_base at the start": [move("sbrk_base", "")],
    "sbrk_base at the end": [move("sbrk_base", "tcache_count")],
    "max_mmapped_mem first": [move("mmapped_mem", "max_mmapped_mem")],
    "trim_threshold after top_pad": [move("trim_threshold", "top_pad")],
    "trim_threshold after mmap_threshold": [move("trim_threshold", "mmap_threshold")],
    "tcache_count at the start": [move("tcache_count", "")],
}
SETTINGS: dict[str, dict[str, int]] = {
    "defaults": {},
    "grown": {"mmap_threshold": 0x50000, "trim_threshold": 0xA0000, "max_n_mmaps": 4, "max_mmapped_mem": 8 << 20},
    "set": {"arena_max": 4, "mmap_threshold": 0x30000, "no_dyn_threshold": 1, "trim_threshold": 0x100000},
    "huge pages": {"thp_mode": 1, "thp_pagesize": 2 << 20},
    "a small cache": {"tcache_count": 5},
}


def small(row: Row, setting: str, blocks: int = 1) -> HeapImage:
    """An arena and some blocks that mmap served."""
    image = HeapImage(row, **{name: value for name, value in SETTINGS[setting].items() if name in row.par})
    image.main.mix(8)
    for number in range(blocks):
        image.mmapped(200000 + 70000 * number)
    return image


def check(base: str, change: str, setting: str, value: int, view: str, blocks: int = 1) -> str:
    image = small(future(base, par=PAR[change]), setting, blocks)
    if "new" in image.row.par:
        fill(image, "new", lambda address: value)
    return verdict(image, image.target(**VIEWS[view]))


def right_or_partial(base: str, change: str, setting: str, value: int, view: str) -> None:
    if not (base == "2.36-64" and ("thp_mode" in change or "huge" in change)):
        found = check(base, change, setting, value, view)
        assert found == "right" or (found == "partial" and view != "debug information")


@pytest.mark.parametrize(("change", "base"), [*zip(PAR, cycle(["2.44-64", "2.44-i386", "2.36-64"]))])
def test_mp_is_right_or_given_in_parts(base: str, change: str) -> None:
    right_or_partial(base, change, "defaults", 1, "symbols")
    right_or_partial(base, change, "set", 0x21000, "no symbols")
    right_or_partial(base, change, "grown", 0, "symbols")
    right_or_partial(base, change, "set", 1, "debug information")


@pytest.mark.fuzz
@pytest.mark.parametrize("base", ["2.44-64", "2.44-i386", "2.44-s390x", "2.36-64"])
@pytest.mark.parametrize("change", PAR)
def test_mp_with_every_value(base: str, change: str) -> None:
    every(partial(right_or_partial, base, change), SETTINGS, [0, 1, 3, 0x21000], VIEWS)


@pytest.mark.parametrize("base", ["2.44-64", "2.44-i386", "2.44-s390x"])
@pytest.mark.parametrize("blocks", [0, *in_full(1, 3)])
def test_an_unchanged_mp_is_whole(base: str, blocks: int) -> None:
    for setting in ("defaults", "grown"):
        for view in VIEWS:
            if (setting, blocks) != ("grown", 0):
                assert check(base, "as it was", setting, 0, view, blocks) == "right"


@pytest.mark.parametrize("base", ["2.44-64", "2.44-i386", "2.44-s390x"])
@pytest.mark.parametrize(
    "change", ["a word after arena_max", "an int after hp_flags", "a word after top_pad", "no huge pages"]
)
def test_a_change_in_the_middle_leaves_the_counters(base: str, change: str) -> None:
    """What releases have done to mp_ so far: blocks served by mmap are still told, and what is not known is named."""
    for view in ("symbols", "no symbols"):
        image = small(future(base, par=PAR[change]), "defaults", 3)
        document = run_json(image.target(**VIEWS[view]), "arenas")
        assert document["mmapped"] == {"chunks": 3, "bytes": image.truth.mp["mmapped_mem"]}
        (problem,) = document["problem_records"]
        assert problem["id"] == "mp-in-parts"
        assert problem["names"]["newest"] == NEWEST
        missing = problem["names"]["missing"].split(", ")
        assert "hp_pagesize" in missing
        assert "sbrk_base" not in missing


@pytest.mark.parametrize("setting", ["defaults", "set"])
@pytest.mark.parametrize("view", ["symbols", "no symbols"])
def test_only_what_needs_a_missing_member_is_incomplete(setting: str, view: str) -> None:
    """With "set" the thresholds are missing, too: nothing tells which is which."""
    target = small(future("2.44-64", par=PAR["a word after arena_max"]), setting, 3).target(**VIEWS[view])
    for command in ("bins", "check", "chunks", "heaps", "mmapped", "stats", "threads"):
        document = run_json(target, command)
        assert (command, document["complete"], document["problem_records"]) == (command, True, [])
    for command in ("params", "pins", "report", "trim"):
        document = run_json(target, command)
        assert (command, [each["id"] for each in document["problem_records"]]) == (command, ["mp-in-parts"])


def test_a_count_that_no_block_bears_out() -> None:
    """A new int where n_mmaps was: it would pass for one block of the size of three."""
    image = small(future("2.44-64", par=PAR["an int after n_mmaps"]), "defaults", 3)
    fill(image, "new", lambda address: 1)
    for view in ("symbols", "no symbols"):
        document = run_json(image.target(**VIEWS[view]), "arenas")
        assert document["mmapped"] == {"chunks": None, "bytes": None}
        assert document["complete"] is False


def test_a_request_for_what_is_not_known() -> None:
    image = small(future("2.44-64", par=PAR["a word after arena_max"]), "defaults")
    target = image.target()
    target.env = {"MALLOC_ARENA_MAX": "2"}
    rows = {row["name"]: row for row in run_json(target, "params")["params"]}
    assert rows["arena_max"]["value"] is None
    assert rows["arena_max"]["requested"] == "MALLOC_ARENA_MAX=2"
    assert rows["mmap_threshold"]["value"] == 131072


@pytest.mark.parametrize("change", ["as it was", "a word at the start"])
def test_where_it_begins_is_told_by_a_symbol_alone(change: str) -> None:
    """Without one, what is shown is where its first known member stands."""
    image = HeapImage(future("2.44-64", par=PAR[change]))
    image.main.mix(5)
    place = image.addresses["mp_"]
    assert f"mp_ {place:#x}" in run_text(image.target(), "version")
    threshold = place + image.row.par["trim_threshold"]
    assert f"mp_.trim_threshold {threshold:#x}" in run_text(image.target(symbols=False), "version")
