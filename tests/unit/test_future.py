"""Releases that do not exist yet: their structures are found right or refused, never misread.

A known row gets members put in, taken out or moved, laid out as a compiler would. Nothing here knows arenascope's own
layouts; the names of new members mean nothing to it either.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import cycle
from typing import Any, Callable, Mapping, Optional, Sequence, Union

import pytest
from fake_door import run_json, run_text
from fake_target import FakeTarget
from glibc_rows import BY_NAME, ROWS, Row, up
from glibc_tables import INTS
from heap_mixtures import everything
from heap_pictures import laid, seen
from heapbuilder import HeapImage
from schemas import problem_ids

from arenascope.base.errors import NotFoundError
from arenascope.session.session import Session

Member = tuple[str, int, int]
"""Name, bytes, alignment."""
Change = Callable[[list[Member], int], list[Member]]
"""Of the members and the size of a word."""
NEWEST = max(ROWS, key=lambda row: row.number).version
UNKNOWN = f"2.{int(NEWEST.partition('.')[2]) + 4}"
BASES = ["2.44-64", "2.44-i386", "2.44-arm", "2.44-s390x"]
VIEWS: dict[str, dict[str, Any]] = {
    "symbols": {"symbols": True},
    "no symbols": {"symbols": False},
    "debug information": {"symbols": True, "structs": True},
}


def insert(after: str, name: str, width: int = 0) -> Change:
    """A new member after another ("" for the first place): a word, or an int of 4 bytes."""

    def change(order: list[Member], word: int) -> list[Member]:
        place = [each[0] for each in order].index(after) + 1 if after else 0
        return [*order[:place], (name, width or word, width or word), *order[place:]]

    return change


def remove(name: str) -> Change:
    return lambda order, word: [each for each in order if each[0] != name]


def move(name: str, after: str) -> Change:
    def change(order: list[Member], word: int) -> list[Member]:
        (moved,) = [each for each in order if each[0] == name]
        rest = [each for each in order if each[0] != name]
        place = [each[0] for each in rest].index(after) + 1 if after else 0
        return [*rest[:place], moved, *rest[place:]]

    return change


def changed(row: Row, struct: Mapping[str, int], changes: Sequence[Change], pad_to: int = 0) -> dict[str, int]:
    """Offsets and sizeof; heap_info's pad makes its first chunk's user pointer aligned."""
    arrays = {"fastbinsY": row.nfastbins * row.word, "bins": 254 * row.word, "binmap": 16}
    order: list[Member] = []
    for name in sorted((name for name in struct if name != "sizeof"), key=lambda name: struct[name]):
        small = name in INTS
        order.append((name, arrays.get(name, 4 if small else row.word), 4 if small or name == "binmap" else row.word))
    for change in changes:
        order = change(order, row.word)
    offsets, end = {}, 0
    for name, size, alignment in order:
        offsets[name] = up(end, alignment)
        end = offsets[name] + size
    end = up(end, row.word)
    return {**offsets, "sizeof": up(end + 2 * row.word, pad_to) - 2 * row.word if pad_to else end}


def future(
    base: str,
    state: Sequence[Change] = (),
    heap: Sequence[Change] = (),
    par: Sequence[Change] = (),
    version: str = UNKNOWN,
    tcache: Optional[Mapping[str, int]] = None,
) -> Row:
    """A release by this version string whose structures are those of `base`, changed."""
    row = BY_NAME[base]
    return replace(
        row,
        name=f"{version} from {row.name}",
        version=version,
        state=changed(row, row.state, state),
        heap_info=changed(row, row.heap_info, heap, row.alignment),
        par=changed(row, row.par, par),
        tcache=tcache or row.tcache,
    )


def fill(image: HeapImage, value: Union[int, Callable[[int], int]]) -> None:
    """Gives new members of each structure a value, or what this makes of the structure's address."""
    row, truth = image.row, image.truth
    places = [(arena.address, row.state) for arena in truth.arenas]
    places += [(heap.address, row.heap_info) for arena in truth.arenas[1:] for heap in arena.heaps]
    places.append((image.addresses["mp_"], row.par))
    for address, struct in places:
        for name in [name for name in struct if name.startswith("new")]:
            following = min(offset for offset in struct.values() if offset > struct[name])
            given = value if isinstance(value, int) else value(address)
            image.poke(address + struct[name], given, min(following - struct[name], row.word))


def verdict(image: HeapImage, target: FakeTarget) -> str:
    """ "right", "partial" (said to be so, and what is given is right) or "refused" (in words); else it fails."""
    try:
        found, true = seen(Session(target)), laid(image)
    except NotFoundError as refusal:
        return "refused" if {image.row.version, NEWEST} <= set(re.findall(r"\d\.\d+", str(refusal))) else str(refusal)
    for arena, made in zip(found["arenas"], true["arenas"]):
        # which word is attached_threads may not be known
        assert arena in (made, {**made, "attached": None})
    assert len(found["arenas"]) == len(true["arenas"])
    assert found["mmapped"] in (true["mmapped"], [])
    assert (found["params"] or {}).items() <= true["params"].items()
    for cache, thread in zip(found["threads"], true["threads"]):
        assert cache[:2] == thread[:2]
        assert cache[2:] in (thread[2:], (None, {}))
    document = run_json(target, "arenas")
    if not document["complete"]:
        return "partial"
    assert found["threads"] == true["threads"], "missing, and not marked"
    assert document["mmapped"] == {"chunks": true["params"]["n_mmaps"], "bytes": true["params"]["mmapped_mem"]}
    return "right"


# malloc_state and heap_info

STATE: dict[str, Sequence[Change]] = {
    "a word in front of top": [insert("flags", "new")],
    "an int in front of top": [insert("flags", "new", 4)],
    "two words in front of top": [insert("flags", "new"), insert("flags", "new2")],
    "a word at the start": [insert("", "new")],
    "a word after last_remainder": [insert("last_remainder", "new")],
    "top after last_remainder": [move("top", "last_remainder")],
    "no last_remainder": [remove("last_remainder")],
    "a word after bins": [insert("bins", "new")],
    "a word after next": [insert("next", "new")],
    "a word after next_free": [insert("next_free", "new")],
    "no attached_threads": [remove("attached_threads")],
    "attached_threads at the end": [move("attached_threads", "max_system_mem")],
    "max_system_mem in front of system_mem": [move("system_mem", "max_system_mem")],
    "a word between system_mem and max_system_mem": [insert("system_mem", "new")],
    "a word after max_system_mem": [insert("max_system_mem", "new")],
}
FOUND = ("a word in front of top", "two words in front of top", "a word after next_free", "no attached_threads")
"""Refusing everything would never misread either."""


@pytest.mark.parametrize(("change", "base"), [*zip(STATE, cycle(["2.44-64", "2.44-i386", "2.36-64"]))])
def test_malloc_state(base: str, change: str) -> None:
    for value, view in ((0x21000, "symbols"), (0xDEADBEEFCAFE1235, "no symbols"), (1, "debug information")):
        image = everything(future(base, state=STATE[change]))
        fill(image, value)
        found = verdict(image, image.target(**VIEWS[view]))
        if view == "debug information" or (value == 1 and change in FOUND):
            assert found == "right"
        elif change == "a word after bins":
            # the ring and the bins' distance from it are what an arena is recognised by
            assert found == "refused"


@pytest.mark.parametrize("base", ["2.44-64", "2.36-64", "2.44-i386"])
def test_a_new_list_of_chunks_is_not_overlooked(base: str) -> None:
    """A word that leads to chunks: what hangs there may be free, so no use can be told."""
    image = everything(future(base, state=[insert("flags", "new")]))
    chunks = {arena.address: arena.used[3].address for arena in image.truth.arenas}
    fill(image, lambda address: chunks.get(address, 0))
    for view in VIEWS.values():
        document = run_json(image.target(**view), "arenas")
        assert all(arena["used_bytes"] is None for arena in document["arenas"])
        assert "list-unknown" in problem_ids(document)


@pytest.mark.parametrize("base", BASES[:2])
def test_a_longer_malloc_state_is_no_damage(base: str) -> None:
    """The first chunk of a thread's arena lies further on; damage there is told, in one arena of several."""
    image = everything(future(base, state=[insert("max_system_mem", "new"), insert("new", "new2")]))
    fill(image, 1)
    target = image.target()
    assert verdict(image, target) == "right"
    assert run_json(target, "check")["breaches"] == []
    first = image.truth.arenas[2].heaps[0].first
    image.poke(first + image.row.word, 7)
    assert {int(each["address"], 16) for each in run_json(target, "check")["breaches"]} == {first}


HEAP: dict[str, Sequence[Change]] = {
    "a word at the start": [insert("", "new")],
    "a word after size": [insert("size", "new")],
    "three words at the end": [insert("pagesize", "new"), insert("new", "new2"), insert("new2", "new3")],
    "no pagesize": [remove("pagesize")],
    "mprotect_size in front of size": [move("size", "mprotect_size")],
    "prev in front of ar_ptr": [move("ar_ptr", "prev")],
    "no mprotect_size": [remove("mprotect_size")],
}


@pytest.mark.parametrize(("change", "base"), [*zip(HEAP, cycle(["2.44-64", "2.44-arm", "2.44-s390x"]))])
def test_heap_info(base: str, change: str) -> None:
    row = future(base, heap=HEAP[change])
    for value, view in ((0, "symbols"), (0xDEADBEEFCAFE1235, "no symbols"), (0, "debug information")):
        image = everything(row)
        fill(image, value)
        assert verdict(image, image.target(**VIEWS[view])) == (
            "right" if "mprotect_size" in row.heap_info else "refused"
        )


# mp_

PAR: dict[str, Sequence[Change]] = {
    "a word at the start": [insert("", "new")],
    "a word after top_pad": [insert("top_pad", "new")],
    "a word after arena_max": [insert("arena_max", "new")],
    "an int after hp_flags": [insert("hp_flags", "new", 4)],
    "an int after n_mmaps": [insert("n_mmaps", "new", 4)],
    "a word after mmapped_mem": [insert("mmapped_mem", "new")],
    "a word after tcache_count": [insert("tcache_count", "new")],
    "no huge pages": [remove(name) for name in ("thp_mode", "thp_pagesize", "hp_pagesize", "hp_flags")],
    "no arena_max": [remove("arena_max")],
    "arena_max at the end": [move("arena_max", "tcache_count")],
    "n_mmaps after no_dyn_threshold": [move("n_mmaps", "no_dyn_threshold")],
    "sbrk_base at the start": [move("sbrk_base", "")],
    "trim_threshold after top_pad": [move("trim_threshold", "top_pad")],
}
COUNTED = ("a word after arena_max", "an int after hp_flags", "a word after top_pad", "no huge pages")
"""What releases have done to mp_ so far."""


@pytest.mark.parametrize(("change", "base"), [*zip(PAR, cycle(["2.44-64", "2.44-i386"]))])
def test_mp_is_right_or_given_in_parts(base: str, change: str) -> None:
    for view, value, settings in (
        ("symbols", 1, {}),
        ("no symbols", 0x21000, {"mmap_threshold": 0x30000, "no_dyn_threshold": 1}),
        ("debug information", 1, {"mmap_threshold": 0x30000}),
    ):
        image = HeapImage(future(base, par=PAR[change]), **settings)
        image.main.mix(8)
        for number in range(3):
            image.mmapped(200000 + 70000 * number)
        fill(image, value)
        target = image.target(**VIEWS[view])
        found = verdict(image, target)
        assert found == "right" or (found == "partial" and view != "debug information")
        if found == "partial" and change in COUNTED and not settings:
            # blocks served by mmap are still told, and what is not known is named
            document = run_json(target, "arenas")
            assert document["mmapped"] == {"chunks": 3, "bytes": image.truth.mp["mmapped_mem"]}
            (problem,) = document["problem_records"]
            assert (problem["id"], problem["names"]["newest"]) == ("mp-in-parts", NEWEST)
            assert "hp_pagesize" in problem["names"]["missing"].split(", ")


def test_only_what_needs_a_missing_member_is_incomplete() -> None:
    image = HeapImage(future("2.44-64", par=PAR["a word after arena_max"]))
    image.main.mix(8)
    target = image.target()
    for command in ("bins", "check", "chunks", "heaps", "mmapped", "stats", "threads"):
        assert (command, problem_ids(run_json(target, command))) == (command, [])
    for command in ("params", "pins", "report", "trim"):
        assert (command, problem_ids(run_json(target, command))) == (command, ["mp-in-parts"])
    target.env = {"MALLOC_ARENA_MAX": "2"}
    rows = {row["name"]: row for row in run_json(target, "params")["params"]}
    assert (rows["arena_max"]["value"], rows["arena_max"]["requested"]) == (None, "MALLOC_ARENA_MAX=2")


# thread caches


def cache(base: str, bins: int, width: int, entries_first: bool = False) -> dict[str, int]:
    """tcache_perthread_struct with this many bins and bytes of a count."""
    row = BY_NAME[base]
    entries = 0 if entries_first else up(bins * width, row.word)
    counts = bins * row.word if entries_first else 0
    size = up(bins * (width + row.word), row.word) if entries_first else entries + bins * row.word
    form = {"slots": bins, "count_size": width, "counts": counts, "entries": entries, "sizeof": size}
    return {**form, "chunk": row.request2size(size)}


FORMS = [(80, 2), (80, 2, True), (76, 2, True), (76, 1), (64, 2), (64, 4), (100, 1), (48, 2)]


def cached(row: Row) -> HeapImage:
    image = HeapImage(row)
    image.main.mix(5)
    for number in range(3):
        for request in (1, 1, 200, 300):
            image.thread(number).cached(row.request2size(request))
    return image


@pytest.mark.parametrize(("form", "base"), [*zip(FORMS, cycle(BASES))])
def test_other_forms_of_a_cache(base: str, form: Sequence[Any]) -> None:
    """Other numbers of bins, other counts, counts after entries; and a release without safe-linking again."""
    row = future(base, tcache=cache(base, *form))
    for each in (row, replace(row, safe_linking=False)):
        image = cached(each)
        for view in VIEWS.values():
            assert verdict(image, image.target(**view)) == "right"


def test_a_form_that_cannot_be_told() -> None:
    """Counts that agree with no list: nothing is said of the caches, nor of what is in use."""
    image = cached(future("2.44-64", tcache=cache("2.44-64", 80, 2)))
    for thread in image.truth.threads:
        assert thread.tcache is not None
        for index in range(80):
            image.poke(thread.tcache + 2 * index, 1000 + 7 * index, 2)
    document = run_json(image.target(), "arenas")
    assert document["totals"]["used_bytes"] is None
    assert "caches-not-found" in problem_ids(document)


# what a layout is believed by


@pytest.mark.parametrize("base", BASES[:2])
@pytest.mark.parametrize("symbols", [True, False])
@pytest.mark.parametrize("rodata", [True, False])
def test_an_unchanged_new_release_is_as_good_as_a_known_one(base: str, symbols: bool, rodata: bool) -> None:
    """Also where the image does not say its release: it is then taken for the newest."""
    image = everything(future(base))
    target = image.target(symbols=symbols, rodata=rodata)
    assert verdict(image, target) == "right"
    assert Session(target).located.version == (UNKNOWN if rodata else None)


def test_debug_information_of_another_build() -> None:
    """It describes the release as it was before the change: memory is believed."""
    image = everything(future("2.44-64", state=STATE["a word in front of top"]))
    target = image.target()
    target.structs = everything(future("2.44-64")).target(structs=True).structs
    assert verdict(image, target) == "right"
    assert any("disagree" in note for note in Session(target).located.notes)


def test_a_known_release_with_a_vendors_member() -> None:
    """Debug information describes what the table does not: it is taken, once memory keeps it."""
    image = everything(future("2.36-64", state=[insert("next_free", "new")], version="2.36"))
    fill(image, 1)
    assert verdict(image, image.target(structs=True)) == "right"


def test_version_counts_the_checks() -> None:
    image = everything(future("2.44-64", state=[insert("flags", "new")]))
    checks = run_json(image.target(), "version")["checks"]
    assert checks["held"] == checks["tried"] == len(checks["list"]) > 8
    assert f"(newer release {UNKNOWN})" in run_text(image.target(), "version")
    damaged = everything("2.44-64")
    damaged.corrupt.state(damaged.thread(2).arena, "system_mem", 0x1000)
    checks = run_json(damaged.target(), "version")["checks"]
    assert checks["held"] < checks["tried"]


def test_one_damaged_arena_among_others_proves_nothing_against_a_layout() -> None:
    image = everything(future("2.44-64", state=[insert("flags", "new")]))
    image.corrupt.wrong_top(image.thread(2).arena)
    document = run_json(image.target(), "arenas")
    given = {arena["index"]: arena["used_bytes"] for arena in document["arenas"]}
    assert [given[index] is None for index in range(4)] == [False, False, True, False]


@pytest.mark.parametrize("value", [1 << 30, 0x20000, 0x123])
def test_system_mem_of_one_arena_overwritten(value: int) -> None:
    """Its neighbour, the peak, is then the better system_mem: which of the two it is cannot be told."""
    image = everything(future("2.44-64", state=[insert("flags", "new")]))
    image.corrupt.state(image.thread(2).arena, "system_mem", value)
    with pytest.raises(NotFoundError, match="system_mem"):
        run_json(image.target(), "arenas")


def test_what_nothing_proves_is_refused() -> None:
    """The only arena's system_mem agrees with nothing."""
    image = HeapImage(future("2.44-64"))
    image.main.peak = 1 << 20
    image.main.mix(40)
    image.corrupt.state(image.main, "system_mem", 0x12345000)
    with pytest.raises(NotFoundError, match=f"{UNKNOWN} .*{NEWEST}.*system_mem"):
        run_json(image.target(), "arenas")
