"""Thread caches of releases that do not exist yet: other numbers of bins, other counts, counts after entries."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle
from typing import Any, Iterator

import pytest
from fake_door import run_json, run_text
from future_checks import verdict
from future_rows import UNKNOWN, future
from heap_mixtures import everything
from heap_pictures import laid, seen
from heapbuilder import HeapImage, Row
from marks import full_after, in_full

from arenascope.glibc import process_layout, release_table
from arenascope.session.session import Session

FORMS: dict[str, dict[str, Any]] = {
    "80 bins": {"bins": 80},
    "80 bins of single sizes": {"bins": 80, "small_bins": 80},
    "80 bins, counts after entries": {"bins": 80, "entries_first": True},
    "76 bins, counts after entries": {"entries_first": True},
    "counts of a byte": {"width": 1},
    "counts of a byte after entries": {"width": 1, "entries_first": True},
    "64 bins": {"bins": 64},
    "64 bins, counts of 4 bytes": {"bins": 64, "width": 4},
    "100 bins, counts of a byte": {"bins": 100, "width": 1},
    "48 bins": {"bins": 48},
}
VIEWS: list[dict[str, Any]] = [{"symbols": True}, {"symbols": False}, {"symbols": True, "structs": True}]
BASES = ["2.44-64", "2.44-i386", "2.44-arm", "2.44-s390x"]


def cached(row: Row, threads: int, **mp: int) -> HeapImage:
    image = HeapImage(row, **mp)
    image.main.mix(5)
    for number in range(threads):
        for request in (1, 1, 200, 300):
            image.thread(number).cached(row.request2size(request))
    return image


@pytest.mark.parametrize(("form", "base"), [*zip(FORMS, cycle(BASES))])
def test_form(base: str, form: str) -> None:
    image = cached(future(base, **FORMS[form]), 1 if base == "2.44-arm" else 3)
    for view in VIEWS:
        assert verdict(image, image.target(**view)) == "right"


@pytest.mark.parametrize("form", full_after(3, FORMS))
def test_counts_of_chunks_rather_than_of_free_slots(form: str) -> None:
    """As up to 2.41; mp_ there is not the newest's, and known in parts."""
    image = cached(future("2.36-64", **FORMS[form]), 3)
    for view in VIEWS:
        assert verdict(image, image.target(**view)) in ("right", "partial")
        caches = run_json(image.target(**view), "threads")["threads"]
        assert [each["tcache"]["chunks"] for each in caches] == [4, 4, 4]


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("form", ["80 bins", *in_full("80 bins of single sizes", "counts of a byte")])
def test_larger_blocks(base: str, form: str) -> None:
    """Bins above the 64 small ones hold powers of two, or one size each: the blocks tell."""
    row = future(base, **FORMS[form])
    image = cached(row, 2, tcache_max_bytes=1 << 20)
    for size in (row.minsize + 66 * row.alignment, row.minsize + 70 * row.alignment):
        image.thread(1).cached(size)
    for view in VIEWS:
        assert verdict(image, image.target(**view)) in ("right", "partial")
        caches = run_json(image.target(**view), "threads")["threads"]
        assert [each["tcache"]["chunks"] for each in caches] == [4, 6]


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("made", [True, *in_full(False)])
def test_nothing_cached_yet(base: str, made: bool) -> None:
    """Threads without a cache, and with an empty one."""
    image = HeapImage(future(base, bins=80))
    image.main.mix(5)
    for number in range(2):
        thread = image.thread(number)
        if made:
            thread._make_tcache()
    for view in VIEWS:
        assert verdict(image, image.target(**view)) == "right"


@pytest.mark.parametrize("base", BASES)
def test_plain_links(base: str) -> None:
    """A release without safe-linking again."""
    image = cached(replace(future(base, bins=80), safe_linking=False), 2)
    for view in VIEWS:
        assert verdict(image, image.target(**view)) == "right"


@pytest.mark.parametrize("base", ["2.44-64", "2.44-i386"])
def test_a_form_that_cannot_be_told(base: str) -> None:
    """Counts that agree with no list: nothing is said of the caches, nor of what is in use."""
    row = future(base, bins=80)
    image = cached(row, 2)
    for thread in image.truth.threads:
        assert thread.tcache is not None
        for index in range(80):
            image.poke(thread.tcache + 2 * index, 1000 + 7 * index, 2)
    for view in VIEWS[:2]:
        target = image.target(**view)
        assert verdict(image, target) == "partial"
        document = run_json(target, "arenas")
        assert all(arena["used_bytes"] is None for arena in document["arenas"])
        assert document["totals"]["used_bytes"] is None
        assert "caches-not-found" in [each["id"] for each in document["problem_records"]]
        assert "incomplete" in run_text(target, "arenas")


@pytest.fixture
def in_the_table(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The unknown release gets rows of its own: a thread cache's members have changed places."""
    release = release_table.parse(UNKNOWN)
    assert release is not None
    *rest, entries = release_table.TCACHE_PERTHREAD
    assert entries.name == "entries"
    rows = (entries._replace(since=release), *rest, entries._replace(until=release))
    monkeypatch.setattr(release_table, "TCACHE_PERTHREAD", rows)
    monkeypatch.setattr(release_table, "NEWEST", release)
    kept = (process_layout.from_table, process_layout._forms_of_table)
    for each in kept:
        each.cache_clear()
    yield
    for each in kept:
        each.cache_clear()


@pytest.mark.usefixtures("in_the_table")
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("told", [True, False], ids=["release told", "no release told"])
def test_a_row_whose_members_have_changed_places(base: str, told: bool) -> None:
    """Caches of both forms have one size: where no release is told, their lists tell which it is."""
    for image in (everything(base), everything(future(base, entries_first=True))):
        session = Session(image.target(symbols=told, rodata=told))
        assert seen(session) == laid(image)
        assert session.layout.newer is None
