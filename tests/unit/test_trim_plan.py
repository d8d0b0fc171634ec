"""The plan of a trim, on arenas put down chunk by chunk; the figures are worked out by hand from mtrim and systrim."""

from __future__ import annotations

import random
from typing import Iterable, Optional, Sequence

import pytest

from arenascope.analysis.resident_parts import all_inside
from arenascope.analysis.trim_prediction import (
    ArenaTrim,
    Chunk,
    Residents,
    Trim,
    TrimRules,
    consolidate,
    plan_trim,
    reasons,
    systrim,
    until_locked,
)
from arenascope.base.heap_model import Arena, ArenaHeader, Bin, Range
from arenascope.glibc.process_layout import Layout, from_table
from arenascope.glibc.release_table import parse
from arenascope.sources.target import Span, covered

HEAP = 0x5000_0000_0000
PAGE = 0x1000
HUGE = 0x20_0000
MINSIZE = 0x20
NOTHING = Residents(0, 0, 0)


def layout_of(version: str, word: int = 8, machine: str = "x86_64") -> Layout:
    release = parse(version)
    assert release is not None
    return from_table(release, word, machine)


NOW = layout_of("2.36")


def arena_of(
    binned: Iterable[Chunk] = (),
    fast: Iterable[Chunk] = (),
    top: Chunk = (HEAP + 0x1000000, 0x10000),
    main: bool = True,
) -> Arena:
    header = ArenaHeader(
        index=0 if main else 1,
        address=0x7000,
        main=main,
        mutex=0,
        flags=0,
        top=top[0],
        top_bytes=top[1],
        next=0x7000,
        attached_threads=1,
        system_mem=1 << 24,
        max_system_mem=1 << 24,
        initialised=True,
    )

    def lists(kind: str, chunks: Iterable[Chunk]) -> tuple[Bin, ...]:
        # one list for each chunk, last first: no order may matter
        return tuple(Bin(kind, 2, 0, None, [address], [size]) for address, size in reversed(list(chunks)))

    return Arena(header, lists("large", binned), lists("fast", fast), ())


def plan(
    arena: Arena,
    *,
    layout: Layout = NOW,
    page: int = PAGE,
    brk: Optional[int] = 0,
    tcache: Optional[int] = 0,
) -> ArenaTrim:
    return plan_trim(arena, tcache, TrimRules(layout, page, brk, 0))


def merged(arena: Arena) -> tuple[list[Chunk], Chunk]:
    free, top = consolidate(arena, least=0)
    return sorted(free), top


# malloc_consolidate


def test_top_that_grew_so_is_trimmed_further() -> None:
    top = HEAP + 0x1000
    before = plan(arena_of(top=(top, 0x1030)), brk=top + 0x1030)
    after = plan(arena_of(fast=[(top - 0x80, 0x80)], top=(top, 0x0FD0)), brk=top + 0x0FD0)
    # 0x0fd0 + 0x80 = 0x1050 bytes of top are MINSIZE, a page and some more; 0x0fd0 alone are not
    assert (before.brk_bytes, after.brk_bytes) == (PAGE, PAGE)
    assert after.top == (top - 0x80, 0x50)


@pytest.mark.parametrize("seed", range(20))
def test_merging_is_what_a_map_of_the_heap_shows(seed: int) -> None:
    """Every 16 bytes painted with what they are; runs of free paint are the chunks."""
    rng = random.Random(seed)
    paint, binned, fast = [], [], []
    at, last = HEAP, "used"
    for _ in range(400):
        kind = rng.choice(["used", "free", "fast", "fast"] if last != "free" else ["used", "fast"])
        size = 16 * rng.randint(2, 8 if kind == "fast" else 600)
        paint += [kind != "used"] * (size // 16)
        {"used": [], "free": binned, "fast": fast}[kind].append((at, size))
        at, last = at + size, kind
    top = (at, 0x5000)
    painted = "".join("x" if free else "." for free in paint)
    runs = [
        (HEAP + 16 * sum(map(len, pieces[:index])), 16 * len(piece))
        for pieces in [_pieces(painted)]
        for index, piece in enumerate(pieces)
        if piece[0] == "x"
    ]
    if runs and sum(runs[-1]) == at:
        start, size = runs.pop()
        top = (start, size + 0x5000)
    assert merged(arena_of(binned, fast, (at, 0x5000))) == (runs, top)


def _pieces(painted: str) -> list[str]:
    found: list[str] = []
    for mark in painted:
        if found and found[-1][0] == mark:
            found[-1] += mark
        else:
            found.append(mark)
    return found


# mtrim


@pytest.mark.parametrize(
    ("chunk", "expected"),
    [
        ((0x0000, 0x3000), [(0x1000, 0x2000)]),
        ((0x0000, 0x3010), [(0x1000, 0x2000)]),
        ((0x0FD0, 0x1030), [(0x1000, 0x1000)]),  # struct malloc_chunk ends where the page begins
        ((0x0FD0, 0x1020), []),
        ((0x0FE0, 0x1FE0), []),  # it reaches into the page by 16 bytes, and what is left is less than one
        ((0x0FE0, 0x2020), [(0x2000, 0x1000)]),
        ((0x0010, 0x0FF0), []),
        ((0x0010, 0x1FE0), []),
        ((0x0010, 0x1FF0), [(0x1000, 0x1000)]),
    ],
)
def test_whole_pages_after_the_chunks_own_fields(chunk: Chunk, expected: list[Chunk]) -> None:
    found = plan(arena_of(binned=[(HEAP + chunk[0], chunk[1])]))
    assert found.madvise == [(HEAP + low, size) for low, size in expected]
    assert found.stranded_bytes == chunk[1] - sum(size for _, size in expected)


def test_64_kib_pages() -> None:
    big = 0x10000
    arena = arena_of(binned=[(HEAP, 0x30000), (HEAP + 0x100000, 0x1FFF0), (HEAP + 0x1FFFD0, big + 0x30)])
    assert plan(arena, page=big).madvise == [(HEAP + big, 0x20000), (HEAP + 0x200000, big)]


def test_32_bit() -> None:
    """struct malloc_chunk is 24 bytes there, MINSIZE 16."""
    layout = layout_of("2.36", 4, "i386")
    heap = 0x56000000
    arena = arena_of(binned=[(heap + 0xFE8, 0x1018), (heap + 0x3FE8, 0x1008)], top=(heap + 0x8000, 0x2020))
    found = plan(arena, layout=layout, brk=heap + 0xA020)
    assert found.madvise == [(heap + 0x1000, 0x1000)]
    assert found.brk_bytes == 0x2000


# systrim

TOP = HEAP + 0x1010


@pytest.mark.parametrize(
    ("top_bytes", "expected"),
    [
        (0x21000, 0x20000),
        (MINSIZE + PAGE, 0),
        (MINSIZE + PAGE + 0x10, PAGE),
        (MINSIZE + 0x10, 0),
        (MINSIZE, -PAGE),
    ],
)
def test_the_break(top_bytes: int, expected: int) -> None:
    rules = TrimRules(NOW, PAGE, TOP + top_bytes)
    assert systrim(TOP, top_bytes, rules) == expected
    # the break is elsewhere: somebody else's sbrk, or top in a mapping
    assert systrim(TOP, top_bytes, TrimRules(NOW, PAGE, TOP + top_bytes + 0x10)) == 0
    # and where it is not known, only what would be tried at all is not known either
    assert systrim(TOP, top_bytes, TrimRules(NOW, PAGE, None)) == (None if expected else 0)


@pytest.mark.parametrize(
    ("top_bytes", "expected"),
    [(0x21000, 0), (HUGE + MINSIZE, 0), (HUGE + MINSIZE + 0x10, HUGE), (0x500000, 2 * HUGE), (MINSIZE, -HUGE)],
)
def test_the_break_in_huge_pages(top_bytes: int, expected: int) -> None:
    assert systrim(TOP, top_bytes, TrimRules(NOW, PAGE, TOP + top_bytes, HUGE)) == expected


def test_pad_stays_on_top() -> None:
    rules = TrimRules(NOW, PAGE, TOP + 0x41000)
    assert systrim(TOP, 0x41000, rules, pad=0x20000) == 0x20000
    assert systrim(TOP, 0x41000, rules, pad=0x41000) == 0


@pytest.mark.parametrize("version", ["2.17", "2.18"])
def test_the_old_rule_compared_signed(version: str) -> None:
    layout = layout_of(version)
    for top_bytes, expected in ((0x21000, 0x20000), (MINSIZE + PAGE, 0), (MINSIZE + PAGE + 0x10, PAGE), (MINSIZE, 0)):
        assert systrim(TOP, top_bytes, TrimRules(layout, PAGE, TOP + top_bytes)) == expected


# the whole


def test_what_is_not_known_is_none() -> None:
    found = plan(arena_of(binned=[(HEAP, 0x3000)], top=(TOP, 0x21000)), brk=None, tcache=None)
    assert (found.brk_bytes, found.release_bytes, found.kept_bytes) == (None, None, None)
    assert (found.madvise_bytes, found.top) == (0x2000, (TOP, 0x21000))


def test_an_arena_that_was_never_used_has_no_top() -> None:
    assert plan(arena_of(top=(0, 0)), brk=0).brk_bytes == 0


@pytest.mark.parametrize(
    ("locked", "released"),
    [
        ([], [(0x1000, 0x4000)]),
        ([(0x2000, 0x3000)], [(0x1000, 0x1000)]),
        ([(0x0000, 0x2000)], []),
        ([(0x4000, 0x9000)], [(0x1000, 0x3000)]),
        ([(0x5000, 0x6000), (0x0000, 0x1000)], [(0x1000, 0x4000)]),
        ([(0x4000, 0x5000), (0x3000, 0x3800)], [(0x1000, 0x2000)]),
    ],
)
def test_madvise_ends_at_the_first_lock(locked: list[tuple[int, int]], released: list[Chunk]) -> None:
    ranges = [Range(0x1000, 0x4000), Range(0x10000, 0x1000)]
    assert list(until_locked(ranges, [Span(*each) for each in locked])) == [*released, (0x10000, 0x1000)]


# why something stays


def why(*plans: Trim, whole: bool = True, locked: Sequence[Span] = ()) -> dict[str, object]:
    return {each.id: each.figures for each in reasons(plans, whole, locked)}


def test_why_it_stays() -> None:
    """Of three arenas: each kind of memory once, with what all of them have of it."""
    top = (HEAP + 0x20FF0, 0x5010)
    thread = plan(arena_of(binned=[(HEAP + 0x1000, 0x3000)], top=top, main=False), brk=sum(top), tcache=0x500)
    main = plan(arena_of(top=(TOP, MINSIZE)), brk=TOP + MINSIZE, tcache=0x40)
    assert why(Trim(main, NOTHING), Trim(thread, Residents(0, 0, 0x3000)), Trim(thread, NOTHING)) == {
        "tops-untouched": {"bytes": 2 * 0x5000, "resident_bytes": 0x3000},
        "pages-shared": {"bytes": 2 * 0x1000},
        "cached-by-threads": {"bytes": 0x40 + 2 * 0x500},
        "break-grows": {"bytes": PAGE},
    }


def test_why_it_stays_where_not_all_is_known() -> None:
    thread = plan(arena_of(top=(HEAP, 0x5010), main=False), brk=0, tcache=0x500)
    unknown = Trim(thread._replace(tcache_bytes=None, stranded_bytes=None), Residents(None, None, None))
    assert why(unknown, Trim(thread, NOTHING)) == {
        "tops-untouched": {"bytes": 2 * 0x4000, "resident_bytes": None},
        "cached-by-threads": {"bytes": None},
    }
    assert why(Trim(thread, NOTHING))["tops-untouched"] == {"bytes": 0x4000, "resident_bytes": 0}
    assert why(unknown) == {"tops-untouched": {"bytes": 0x4000, "resident_bytes": None}}
    # an arena that was not reached
    assert why(Trim(thread, NOTHING._replace(tops=0x4000)), whole=False)["tops-untouched"] == {
        "bytes": None,
        "resident_bytes": None,
    }


def test_what_is_locked_stays() -> None:
    found = plan(arena_of(binned=[(HEAP, 0x6000)], top=(0, 0)), brk=0)
    assert found.madvise == [(HEAP + 0x1000, 0x5000)]
    assert why(Trim(found, NOTHING), locked=[Span(HEAP + 0x3000, HEAP + 0x4000)])["pages-locked"] == {"bytes": 0x3000}
    assert "pages-locked" not in why(Trim(found, NOTHING), locked=[Span(HEAP + 0x6000, HEAP + 0x7000)])


def test_what_lies_in_resident_pages_is_counted_the_same_by_either_way() -> None:
    """A list of which all is resident is summed; any other is laid over the pages, chunk by chunk."""
    rng = random.Random(7)
    whole = 0
    for _ in range(2000):
        edges = sorted(rng.sample(range(60), rng.choice([0, 2, 4, 8, 10])))
        resident = [Span(start, end) for start, end in zip(edges[::2], edges[1::2])]
        edges = sorted(rng.sample(range(60), rng.choice([2, 4, 8])))
        chunks = [(start, rng.choice([1, end - start])) for start, end in zip(edges[::2], edges[1::2])]
        pages = {page for span in resident for page in range(span.start, span.end)}
        expected = sum(place in pages for start, size in chunks for place in range(start, start + size))
        assert covered(chunks, resident) == expected
        inside = all_inside([start for start, _ in chunks], [size for _, size in chunks], resident)
        whole += inside
        assert inside == (expected == sum(size for _, size in chunks))
    assert whole > 50
