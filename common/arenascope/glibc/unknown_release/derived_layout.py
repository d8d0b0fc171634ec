"""Derives the layout of an image that no row of the table fits: by debug information, or by relations that hold in
every release. What arenas do not prove is not believed."""

from __future__ import annotations

from typing import AbstractSet, Callable, Iterator, Mapping, Optional, Sequence

from ...base.errors import NotFoundError
from ...base.heap_model import ArenaHeader, Finding, Heap, Statement
from ...glibc import release_table
from ...sources.memory import Memory
from ..arena import (
    FoundBins,
    doubt_thread_arena,
    doubt_top,
    has_heap,
    is_closed,
    walk_heaps,
    walk_ring,
    wrong_bins,
)
from ..fitting_layout import DEBUG, candidates, row_name, taken
from ..process_layout import CandidateTrail, Layout, LayoutCheck, from_table
from ..release_table import Release
from .state import Surroundings, derive_state, heap_extents, not_less, unknown_lists

RELATIONS = "members placed by what holds in every release"


def derive_layout(
    memory: Memory,
    machine: str,
    release: Optional[Release],
    hit: FoundBins,
    around: Callable[[], Surroundings],
    debug: Optional[Layout],
    row: Optional[Layout],
    trail: CandidateTrail,
) -> Layout:
    """Returns the layout that the arenas prove; NotFoundError if none is proven.

    `debug` is the layout in debug information, `row` the table's that fits. Debug information outranks the table, and
    what memory proves outranks it.
    """
    if debug is not None:
        sound = believed(memory, debug, hit.ring[0], around().near)
        said = (Statement("kept-by-most-arenas" if sound else "kept-by-too-few-arenas"),)
        trail.add("layout", DEBUG, said if sound else (), () if sound else said)
        if sound:
            layout = debug._replace(checks=(LayoutCheck(Statement("debug-information-gives-state")),))
            return taken(_with_unknown_lists(memory, layout, hit), trail, DEBUG)
    if row is not None:
        return taken(row, trail, row_name(row))
    return _by_relations(memory, machine, release, hit, around=around, trail=trail)


def _by_relations(
    memory: Memory,
    machine: str,
    release: Optional[Release],
    hit: FoundBins,
    around: Callable[[], Surroundings],
    trail: CandidateTrail,
) -> Layout:
    """Derives a malloc_state that no row describes, or one of a release newer than the table."""
    known = release is not None and release <= release_table.NEWEST
    newest = from_table(release or release_table.NEWEST, memory.pointer_size, machine)
    newest = newest._replace(newer=release_table.NEVER if known or release is None else release)
    try:
        layout = derive_state(memory, newest, hit, around())
    except NotFoundError as error:
        trail.add("layout", RELATIONS, (), (Statement("not-proven", text=error.message),))
        row = _row_of(memory, machine, release, hit) if known or release is None else None
        if row is not None:
            return taken(row, trail, row_name(row))
        what = f"glibc {release_table.text(release)}" if release else "this glibc"
        end = release_table.text(release_table.NEWEST)
        raise NotFoundError(
            f"{what} is not among the releases that arenascope knows ({release_table.text(release_table.OLDEST)} "
            f"to {end}), and memory does not prove its structures: {error.message}",
            "load this very libc's debug symbols, or use a newer arenascope",
        ) from None
    like = next((shape for shape in release_table.shapes() if _same(layout, shape, machine)), None)
    as_in = {"as_in": release_table.text(like)} if like else {}
    checks = (LayoutCheck(Statement("placed-by-relations", names=as_in)),)
    trail.add("layout", RELATIONS, (Statement("state-as-in", names=as_in), Statement("proven-by-arenas")))
    trail.choose("layout", RELATIONS)
    return _with_unknown_lists(memory, layout._replace(release=like or release_table.NEWEST, checks=checks), hit)


def _row_of(memory: Memory, machine: str, release: Optional[Release], hit: FoundBins) -> Optional[Layout]:
    """Chooses a row for a heap too damaged for any row to fit: the one whose bins are where these are; no check is
    claimed."""
    for candidate in candidates(release):
        layout = from_table(candidate, memory.pointer_size, machine)
        if layout.arena["bins"] == hit.bins - hit.ring[0]:
            return layout
    return None


def _same(layout: Layout, shape: Release, machine: str) -> bool:
    row = from_table(shape, layout.word, machine, layout.align)
    both = set(row.arena.offsets) - {"have_fastchunks", "fastbinsY"}
    return {name: layout.arena.get(name) for name in both} == {name: row.arena[name] for name in both}


def _with_unknown_lists(memory: Memory, layout: Layout, hit: FoundBins) -> Layout:
    inside = heap_extents(memory, layout, hit.ring)
    return layout._replace(unknown=(*layout.unknown, *unknown_lists(memory, layout, hit.ring, inside)))


def prove(
    memory: Memory,
    layout: Layout,
    headers: Sequence[ArenaHeader],
    heaps: Mapping[int, Sequence[Heap]],
    bases: AbstractSet[int],
) -> list[LayoutCheck]:
    """Returns the checks; `bases` are the words that may be sbrk_base: mp_'s, or all near main_arena."""
    grown = [header for header in headers if has_heap(layout, header)]
    threads = [header for header in grown if not header.main]
    parts = {header.index: heaps.get(header.index, ()) for header in headers}
    checks = [
        LayoutCheck(Statement("ring-closes"), int(is_closed(headers))),
        _each(
            "bins-lead-back",
            [wrong_bins(memory, each.address + layout.arena["bins"]) == 0 for each in headers if each.initialised],
        ),
        _each("no-heap-holds-nothing", [not each.system_mem for each in headers if each not in grown]),
        _each("top-ends-at-page", [not doubt_top(memory, layout, each) for each in grown]),
        _each("heap-info-names-arena", [not doubt_thread_arena(memory, layout, each.address) for each in threads]),
        _each("top-ends-with-heap", [_ends(each, parts[each.index]) for each in threads]),
        _each("system-mem-sums-heaps", [_sum(parts[each.index]) == each.system_mem for each in threads]),
        *_of_main(grown, heaps, bases),
        _each(
            "max-system-mem-in-pages",
            [not_less({0: each.max_system_mem}, {0: each.system_mem}, 1 << 46) for each in grown],
        ),
        _each("flags-not-contiguous", [each.flags in (2, 3, 6, 7) for each in threads]),
    ]
    return [check for check in checks if check.of]


def _of_main(
    grown: Sequence[ArenaHeader], heaps: Mapping[int, Sequence[Heap]], bases: AbstractSet[int]
) -> Iterator[LayoutCheck]:
    main = next((header for header in grown if header.main), None)
    if main is None:
        return
    if main.contiguous:
        yield LayoutCheck(Statement("sbrk-base-is-top-end"), int(bool(main.system_mem) and main.brk_base in bases))
    elif heaps.get(0):
        yield LayoutCheck(Statement("system-mem-sums-regions"), int(_sum(heaps[0]) == main.system_mem))


def _ends(header: ArenaHeader, heaps: Sequence[Heap]) -> bool:
    return bool(heaps) and header.top_bytes is not None and header.top + header.top_bytes == heaps[-1].end


def _sum(heaps: Sequence[Heap]) -> int:
    return sum(heap.bytes for heap in heaps)


def _each(what: str, answers: Sequence[bool]) -> LayoutCheck:
    return LayoutCheck(Statement(what), sum(answers), len(answers))


def believed(memory: Memory, layout: Layout, main_arena: int, bases: AbstractSet[int]) -> bool:
    """Tells whether most arenas pass each of these checks with the layout of debug information, and they prove
    enough."""
    doubts: list[Finding] = []
    headers = walk_ring(memory, layout, main_arena, doubts)
    heaps = {
        header.index: walk_heaps(memory, layout, header, doubts)
        for header in headers
        if not header.main and has_heap(layout, header)
    }
    checks = prove(memory, layout, headers, heaps, bases=bases)
    main_alone = [header for header in headers if has_heap(layout, header)][:1]
    # brk was refused, and no thread's arena shows where system_mem is either
    silent = main_alone and not heaps and not main_alone[0].contiguous
    # a ring that is broken shows when it is walked
    return all(2 * check.times > check.of for check in checks[1:]) and not silent
