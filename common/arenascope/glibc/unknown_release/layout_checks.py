"""What must hold in every release, tried on a layout: `heap version` counts it, and it makes a new release believed.

Each is tried on every arena that it concerns; one that cannot be decided (brk was refused) is not counted.
"""

from __future__ import annotations

from typing import AbstractSet, Iterator, Mapping, Sequence

from ...base.model import ArenaHeader, Finding, Heap, Statement
from ...sources.memory import Memory
from ..arena import doubt_thread_arena, doubt_top, has_heap, is_closed, walk_ring
from ..arena_scan import wrong_bins
from ..heap import walk_heaps
from ..process_layout import Check, Layout
from ..unknown_release.evidence import not_less


def prove(
    memory: Memory,
    layout: Layout,
    headers: Sequence[ArenaHeader],
    heaps: Mapping[int, Sequence[Heap]],
    bases: AbstractSet[int],
) -> list[Check]:
    """The checks; `bases` are the words that may be sbrk_base: mp_'s, or all that stand near main_arena."""
    grown = [header for header in headers if has_heap(layout, header)]
    threads = [header for header in grown if not header.main]
    parts = {header.index: heaps.get(header.index, ()) for header in headers}
    checks = [
        Check(Statement("ring-closes"), int(is_closed(headers))),
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
) -> Iterator[Check]:
    main = next((header for header in grown if header.main), None)
    if main is None:
        return
    if main.contiguous:
        yield Check(Statement("sbrk-base-is-top-end"), int(bool(main.system_mem) and main.brk_base in bases))
    elif heaps.get(0):
        yield Check(Statement("system-mem-sums-regions"), int(_sum(heaps[0]) == main.system_mem))


def _ends(header: ArenaHeader, heaps: Sequence[Heap]) -> bool:
    return bool(heaps) and header.top_bytes is not None and header.top + header.top_bytes == heaps[-1].end


def _sum(heaps: Sequence[Heap]) -> int:
    return sum(heap.bytes for heap in heaps)


def _each(what: str, answers: Sequence[bool]) -> Check:
    return Check(Statement(what), sum(answers), len(answers))


def believed(memory: Memory, layout: Layout, main_arena: int, bases: AbstractSet[int]) -> bool:
    """Whether most arenas pass each of these checks with the layout of debug information, and they prove enough."""
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
