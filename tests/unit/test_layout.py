"""Layouts and index formulae against numbers typed from compiled structs (glibc_tables), and against themselves."""

from __future__ import annotations

import re
from typing import Mapping, Optional

import pytest
from heapbuilder import EACH_ROW, ROWS, HeapImage, Row

from arenascope.glibc import release_table
from arenascope.glibc.fitting_layout import candidates
from arenascope.glibc.process_layout import Layout, disagreements, from_table
from arenascope.glibc.regular_bins import bin_index, bin_kind, bin_sizes, fastbin_index, fastbin_size
from arenascope.glibc.tcache import chunk_sizes, tcache_index, tcache_sizes
from arenascope.session.session import Session

rows = pytest.mark.parametrize("row", EACH_ROW, ids=str)

# branches whose structures are a later tag's
BACKPORTS = {"2.22.x": (2, 23), "2.26.x": (2, 27), "2.28.x": (2, 30)}


def layout_of(row: Row) -> Layout:
    machine = HeapImage(row).target().machine
    release = BACKPORTS.get(row.name.split("-")[0], row.number)
    return from_table(release, row.word, machine)


def without_size(offsets: Mapping[str, int]) -> dict[str, int]:
    return {name: offset for name, offset in offsets.items() if name != "sizeof"}


@rows
def test_structures_are_where_the_compiler_put_them(row: Row) -> None:
    layout = layout_of(row)
    for struct, typed in ((layout.arena, row.state), (layout.heap, row.heap_info), (layout.params, row.par)):
        assert dict(struct.offsets) == without_size(typed)
        assert struct.size == typed["sizeof"]
    assert (layout.align, layout.min_size, layout.heap_max) == (row.alignment, row.minsize, row.heap_max)
    assert layout.fastbins == row.nfastbins
    assert layout.behaviour.safe_linking == row.safe_linking
    assert layout.behaviour.tcache_count == (row.tcache_count if row.has_tcache else 7)
    assert layout.behaviour.mmapped_size_less_header == row.new_mmap_form


def test_every_release_that_the_table_names_is_typed() -> None:
    """The steps of "Adding a release" in docs/derivation.md: none is left out."""
    structs = (
        release_table.MALLOC_STATE,
        release_table.HEAP_INFO,
        release_table.MALLOC_PAR,
        release_table.TCACHE_PERTHREAD,
    )
    moved = {release for struct in structs for field in struct for release in (field.since, field.until)}
    moved -= {release_table.OLDEST, release_table.NEVER}
    typed = {row.number for row in ROWS}
    assert not moved - typed, "a release that moved a field has no row in tests/unit/glibc_tables.py"
    named = moved | typed | {change.release for change in release_table.CHANGES}
    assert max(named) == release_table.NEWEST, "NEWEST is the last release that was looked through"


@rows
def test_thread_cache_form(row: Row) -> None:
    layout = layout_of(row)
    form = layout.tcache
    assert (form is not None) == row.has_tcache
    if form is None:
        return
    typed = row.tcache
    assert (form.bins, form.count_bytes, form.counts) == (typed["slots"], typed["count_size"], typed["counts"])
    assert (form.entries, form.size) == (typed["entries"], typed["sizeof"])
    assert form.counts_free_slots == (row.counts_free_slots)
    assert chunk_sizes(form, layout)[0] == typed["chunk"]


@pytest.mark.parametrize(
    ("release", "word", "machine", "sizes"),
    [
        # x86-64, i386 and arm; the second of 2.43 is the path that pads twice
        ((2, 26), 8, "x86_64", (0x250,)),
        ((2, 30), 8, "x86_64", (0x290,)),
        ((2, 42), 8, "x86_64", (0x300, 0x310)),
        ((2, 29), 4, "i386", (0x150,)),
        ((2, 36), 4, "i386", (0x190,)),
        ((2, 43), 4, "i386", (0x1D0, 0x1E0)),
        ((2, 43), 4, "arm", (0x1D0, 0x1D8)),
    ],
)
def test_chunk_of_a_thread_cache(
    release: release_table.Release, word: int, machine: str, sizes: tuple[int, ...]
) -> None:
    layout = from_table(release, word, machine)
    assert layout.tcache is not None
    # and what is left along where it would be less than a chunk
    along = range(0, layout.min_size, layout.align)
    assert set(chunk_sizes(layout.tcache, layout)) == {size + more for size in sizes for more in along}


@rows
def test_debug_information_agrees(row: Row) -> None:
    layout, target = layout_of(row), HeapImage(row).target(structs=True)
    for struct, name in ((layout.arena, "malloc_state"), (layout.heap, "_heap_info"), (layout.params, "malloc_par")):
        info = target.struct(name)
        assert info is not None
        assert disagreements(struct, info) == []
    assert Session(HeapImage(row).target(structs=True)).located.notes == ()


VARIANTS = pytest.mark.parametrize(
    ("name", "word", "machine"), [("2.36-64", 8, "x86_64"), ("2.31-arm", 4, "arm"), ("2.36-ppc32", 4, "ppc")]
)


def variant(name: str, word: int, machine: str) -> tuple[Row, Layout]:
    row = next(row for row in ROWS if row.name == name)
    return row, from_table(row.number, word, machine)


@VARIANTS
def test_every_size_has_its_bin(name: str, word: int, machine: str) -> None:
    row, layout = variant(name, word, machine)
    last, least, most = 0, 0, -1
    for size in range(layout.min_size, 2 << 20, layout.align):
        index = bin_index(layout, size)
        assert index == row.bin_index(size)
        if index != last:
            assert index > last
            assert most == size - layout.align or not last, "one bin ends where the next begins"
            last = index
            least, upper = bin_sizes(layout, index)
            assert least == size
            assert (upper is None) == (index == 126)
            most = upper if upper is not None else 2 << 20
            assert bin_kind(layout, index) == ("small" if size < row.min_large else "large")
            assert least == most or bin_kind(layout, index) == "large"
        assert least <= size <= most
    assert last == 126


@rows
def test_thread_cache_index(row: Row) -> None:
    if not row.has_tcache:
        return
    layout = layout_of(row)
    assert layout.tcache is not None
    # the 2.42 tag counted large sizes from user bytes: on i386 one bin further; nothing tells it from its branch
    top = 64 * row.alignment if row.name == "2.42-i386" else 1 << 21
    last, most = -1, 0
    for size in range(row.minsize, top, row.alignment):
        index = tcache_index(layout, size)
        if row.counts_free_slots or index < 64:
            assert index == row.tcache_index(size)
        if index >= layout.tcache.bins:
            break
        if index != last:
            assert index == last + 1
            least, most = tcache_sizes(layout, index)
            assert least == size
            last = index
        assert size <= most


@rows
def test_fastbin_index(row: Row) -> None:
    layout = layout_of(row)
    for size in range(row.minsize, row.max_fast + 1, row.alignment):
        index = fastbin_index(layout, size)
        assert index == row.fastbin_index(size)
        assert index < layout.fastbins
        assert fastbin_size(layout, index) == size
        if row.family == "32/16":
            assert index % 2 == 0, "the shift stays 3"


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("2.36", (2, 36)),
        (" 2.17\n", (2, 17)),
        ("2.42.9000", (2, 42)),
        ("2.9", (2, 9)),
        ("", None),
        ("2", None),
        ("2.x", None),
        ("glibc 2.36", None),
    ],
)
def test_parse_a_release(text: str, release: Optional[tuple[int, int]]) -> None:
    assert release_table.parse(text) == release
    if release is not None:
        assert release_table.parse(release_table.text(release)) == release


def test_a_release_is_tried_before_its_neighbours() -> None:
    assert candidates((2, 36))[:2] == [(2, 36), (2, 35)]
    assert candidates((2, 999))[:2] == [(2, 999), release_table.NEWEST]
    assert candidates((2, 5))[0] == (2, 5)
    assert candidates(None)[0] == release_table.NEWEST
    assert set(release_table.shapes()) <= set(candidates((2, 31)))


def test_there_is_a_shape_for_every_change_and_none_beside() -> None:
    """What differs between two releases differs between their shapes; 2.29 began with tcache_key alone."""
    shapes = release_table.shapes()
    assert list(shapes) == sorted(set(shapes), reverse=True)
    assert (2, 29) in shapes

    def all_of(release: release_table.Release) -> list[Layout]:
        machines = ((8, "x86_64"), (4, "i386"), (4, "arm"), (4, "ppc"), (4, "x32"))
        return [from_table(release, word, machine)._replace(release=(0, 0)) for word, machine in machines]

    for minor in range(17, release_table.NEWEST[1] + 1):
        changed = minor == 17 or all_of((2, minor)) != all_of((2, minor - 1))
        assert changed == ((2, minor) in shapes), minor


def test_rows_of_behaviour_are_in_order_and_cite_a_commit() -> None:
    assert [change.release for change in release_table.CHANGES] == sorted(
        change.release for change in release_table.CHANGES
    )
    assert all(re.fullmatch("[0-9a-f]{10}|malloc: .+", change.commit) for change in release_table.CHANGES)
    assert all(change.release <= release_table.NEWEST for change in release_table.CHANGES)
