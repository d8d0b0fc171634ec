"""Collects data for `report`: every resident byte of malloc's, and every other mapping."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from contextlib import suppress
from functools import partial
from typing import Callable, Iterable, Iterator, Mapping, NamedTuple, Optional, Sequence

from ..analysis.arena_usage import ArenaUsage, header_usage, total
from ..analysis.pinning_blocks import Thresholds
from ..analysis.resident_parts import ArenaResident, Extent, ResidentPicture, arena_resident, covered, picture
from ..analysis.trim_prediction import ArenaTrim, Residents, Trim, TrimRules, plan_trim, until_locked
from ..base.errors import ArenascopeError
from ..base.heap_model import (
    NOT_AS_COUNTED,
    REPLACED,
    SHELL_CALLS_INTO,
    ArenaHeader,
    Heap,
    Means,
    MmappedBlock,
    Range,
    Statement,
    Tally,
)
from ..engine import is_there
from ..glibc import mmapped_chunks, regular_bins, release_table
from ..glibc.find.inside_malloc import LOAD_SYMBOLS, UNKNOWN_CODE, MallocCode, lies_in_libc
from ..glibc.find.libc_file import current_brk
from ..glibc.find.main_arena import Located
from ..glibc.find.other_allocators import maker_of
from ..sources.target import MappingUse, PageUse, Region, Residency, Runs, Span, Target
from .session import Session


def parts_of(blocks: Iterable[MmappedBlock], regions: Sequence[Region]) -> Iterator[list[Span]]:
    """Yields the parts of each block, one for every mapping; the whole block if mappings are not known."""
    spans = [Span(block.base, block.base + block.bytes) for block in blocks]
    return split(spans, regions, lambda region: not (region.is_file or region.shared))


def split(
    spans: Iterable[Span], regions: Sequence[Region], wanted: Callable[[Region], bool] = lambda region: True
) -> Iterator[list[Span]]:
    """Yields the parts of each span, one for every mapping of a kind."""
    starts = [region.start for region in regions]
    for span in spans:
        parts = [] if regions else [span]
        # there may be as many of both
        for at in range(max(bisect_right(starts, span.start) - 1, 0), bisect_left(starts, span.end)):
            region = regions[at]
            if region.end > span.start and wanted(region):
                parts.append(Span(max(region.start, span.start), min(region.end, span.end)))
        yield parts


def pages_of(session: Session, blocks: Sequence[MmappedBlock]) -> list[Optional[PageUse]]:
    """Counts the pages of each block in memory; None if not known."""
    residency = session.residency
    if residency is None:
        return [None] * len(blocks)
    sums: list[Optional[PageUse]] = []
    for parts in parts_of(blocks, session.regions):
        pages = [residency.count(part.start, part.end) for part in parts]
        known = [each for each in pages if each is not None]
        whole = len(known) == len(pages)
        sums.append(
            PageUse(sum(each.resident for each in known), sum(each.swapped for each in known)) if whole else None
        )
    return sums


class _Everything:
    """Treats all pages as resident, for an image that does not tell."""

    exact = False

    def count(self, start: int, end: int) -> Optional[PageUse]:
        return PageUse(end - start)

    def resident_ranges(self, start: int, end: int) -> Optional[Sequence[Span]]:
        return [Span(start, end)]


def resident_spans(session: Session, heap: Heap) -> Optional[Sequence[Span]]:
    """Returns the resident spans of a heap in address order. None if unknown, or if its first page is absent: that page
    was written."""
    if session.residency is None or session.memory.try_word(heap.address) is None:
        return None
    return session.residency.resident_ranges(heap.address, heap.end)


def resident_picture(session: Session, plans: Sequence[Trim]) -> Optional[ResidentPicture]:
    """Splits resident memory; None if mappings are not known."""
    read = read_resident(session, plans)
    return read.picture() if read is not None else None


class ResidentRead(NamedTuple):
    """The data for a ResidentPicture. Computing the figures of 65,000 mappings takes longer than reading them."""

    session: Session
    ground: _Ground
    arenas: Sequence[ArenaResident] = ()
    unread: int = 0
    mmapped: int = 0
    extents: Sequence[Extent] = ()

    def picture(self) -> ResidentPicture:
        session = self.session
        return picture(
            self.arenas,
            unread=self.unread,
            mmapped=self.mmapped,
            extents=self.extents,
            uses=self.ground.uses,
            stacks=[thread.stack_pointer for thread in session.target_threads if thread.stack_pointer],
            space=self.ground.space,
            maker_of=partial(maker_of, allocators=session.located.allocators),
            bss=session.bss_ends,
        )


def read_resident(session: Session, plans: Sequence[Trim]) -> Optional[ResidentRead]:
    """Reads what is in memory; None if mappings are not known."""
    residency, uses = session.residency, session.target.image.mapping_use()
    if residency is not None and uses is not None:
        # `uses` may still be read in the background
        return _read(session, plans, _Ground(session.regions, uses, residency))
    regions = [each for each in session.regions if each.present and each.writable and not each.is_file]
    if not regions:
        return None
    everything = [MappingUse(each, each.size) for each in regions]
    return _read(session, plans, _Ground(regions, everything, _Everything(), space=True))


class _Ground(NamedTuple):
    """The mappings, and how much of them is in memory."""

    regions: Sequence[Region]
    uses: Sequence[MappingUse]
    residency: Residency
    space: bool = False


def _read(session: Session, plans: Sequence[Trim], ground: _Ground) -> ResidentRead:
    # the session keeps what the picture will ask it for
    _ = session.target_threads, session.located, session.bss_ends
    if not session.started:
        return ResidentRead(session, ground)
    regions, residency = ground.regions, ground.residency
    pages = heap_pages(session, regions, residency)
    alone = mmapped_extents(session, regions, residency)
    extents = [*pages.extents, *alone]
    cached = _cached_ranges(session)
    arenas: list[ArenaResident] = []
    unread = 0
    threshold = (session.params.get("mmap_threshold") if session.params else None) or 0
    # every thread is read for this: once, not for each arena
    known = session.caches_known
    for arena, trim in zip(session.arenas, plans):
        here = pages.resident[arena.header.index]
        if arena.complete and trim.plan.madvise is not None and trim.plan.top is not None and known:
            arenas.append(
                arena_resident(arena, trim.plan, cached.get(arena.header.index, ()), here, mmap_threshold=threshold)
            )
        else:
            unread += sum(each.bytes for each in here)
    mapped = sum(each.resident for each in alone)
    return ResidentRead(session, ground, arenas, unread=unread, mmapped=mapped, extents=extents)


class HeapPages(NamedTuple):
    """The resident pages of every arena's heaps."""

    resident: Mapping[int, Sequence[Span]]
    """By arena, in order."""
    extents: Sequence[Extent]


def mmapped_extents(session: Session, regions: Sequence[Region], residency: Optional[Residency] = None) -> list[Extent]:
    """Returns one extent for every part of a block in one of these mappings."""
    extents = []
    for parts in parts_of(session.mmapped, regions):
        for part in parts:
            pages = residency.count(part.start, part.end) if residency is not None else None
            first = part is parts[0]
            extents.append(Extent(part.start, part.end, pages.resident if pages else 0, first=first))
    return extents


def heap_pages(session: Session, regions: Sequence[Region], residency: Residency) -> HeapPages:
    """Reads the pages of heaps, before lists are walked (Session.measure_residency). It makes one extent for every part
    of a heap in one of these mappings."""
    by_arena: dict[int, list[Span]] = {index: [] for index in session.heaps}
    extents: list[Extent] = []
    heaps = [(heap.address, heap.end, index) for index, heaps in session.heaps.items() for heap in heaps]
    heaps.sort()
    spans = (Span(start, end) for start, end, _ in heaps)
    for (start, end, index), parts in zip(heaps, split(spans, regions)):
        present = Runs(residency.resident_ranges(start, end) or ())
        by_arena[index] += present.spans_in(start, end)
        extents += [Extent(*part, present.bytes_in(*part), index) for part in parts]
    return HeapPages(by_arena, extents)


def _cached_ranges(session: Session) -> dict[Optional[int], list[Range]]:
    """Returns the chunks in thread caches, by the arena that they came from."""
    by_arena: dict[Optional[int], list[Range]] = {}
    for cache in session.thread_caches:
        for cached in cache.bins:
            for chunk, size in zip(cached.addresses, cached.sizes):
                by_arena.setdefault(session.arena_of(chunk), []).append(Range(chunk, size))
    return by_arena


def replaced(session: Session) -> Optional[Statement]:
    """Reports that malloc does not lead to glibc's heap: how much that heap holds, and which tool to use instead."""
    others = [each for each in session.located.allocators if each.replaces_malloc]
    if not others:
        return None
    names = " and ".join(f"{each.name} ({each.how})" for each in others)
    ask = "; ".join(f"{each.name}: {each.instead}" for each in others)
    return Statement(REPLACED, {"glibc_bytes": _heap_bytes(session)}, {"allocators": names, "ask": ask})


def _heap_bytes(session: Session) -> Optional[int]:
    """Returns what glibc's malloc has from the system, free or in use."""
    if not session.started:
        return 0
    mapped = session.params.values.get("mmapped_mem") if session.params else None
    return total([mapped, *(header.system_mem for header in session.headers)], session.all_arenas)


class GlibcShare(NamedTuple):
    """Resident bytes of glibc's malloc, and of the process."""

    glibc: Optional[int]
    rss: Optional[int]


def share_of(session: Session, walk: bool = True) -> Optional[GlibcShare]:
    """Returns glibc's share of resident memory; None if there is no other allocator."""
    if not session.located.allocators:
        return None
    return GlibcShare(resident_of_glibc(session, walk), resident_of_process(session))


def resident_of_glibc(session: Session, walk: bool = True) -> Optional[int]:
    """Returns the resident bytes of arenas and mmapped blocks; None unless they are known exactly."""
    if session.residency is None:
        return None
    pages = list(session.resident.values()) if session.started else []
    blocks = session.params.values["n_mmaps"] if session.params else None
    if blocks is None or any(each is None for each in pages) or (blocks and not walk):
        return None
    resident = sum(each.resident for each in pages if each is not None)
    if not blocks:
        return resident
    # what another allocator has mapped can look like a block of malloc's
    if len(session.mmapped) != blocks:
        return None
    for here in pages_of(session, session.mmapped):
        if here is None:
            return None
        resident += here.resident
    return resident


def resident_of_process(session: Session) -> Optional[int]:
    """Returns RSS; None if the image does not tell (a core, for pages of files)."""
    use = session.target.image.memory_use()
    if use is not None:
        return use.rss
    sizes = [each.rss for each in session.target.image.mapping_use() or ()]
    return sum(size for size in sizes if size is not None) if sizes and None not in sizes else None


def quick_usages(session: Session) -> list[ArenaUsage]:
    return header_usage(session.headers, session.heaps, session.thread_owners, session.resident)


def mmapped_tally(session: Session) -> Optional[Tally]:
    params = session.params
    return Tally(params.values["n_mmaps"], params.values["mmapped_mem"]) if params else None


def mmapped_mismatch(session: Session) -> Optional[Statement]:
    """Reports that the blocks found are not those that glibc counts."""
    blocks = session.mmapped if session.started else []
    expected = mmapped_tally(session)
    if expected is None:
        return Statement("blocks-uncounted")
    if mmapped_chunks.agree(session.layout, blocks, expected):
        return None
    tally = mmapped_chunks.counts(blocks)
    return Statement(
        NOT_AS_COUNTED,
        {"found_blocks": tally.chunks, "found_bytes": tally.bytes, "blocks": expected.chunks, "bytes": expected.bytes},
    )


STACK_WORDS = 32
"""The innermost frames of a waiting thread hold return addresses."""


RUN_ON = "threads-run-on"


def problems_of(session: Session) -> list[Statement]:
    """Returns the problems that a reader must know before trusting a figure, in the order in which they were met."""
    image = session.target.image
    problems = [*image.shortage(), *([image.cut] if image.cut is not None else [])]
    problems += [finding.statement for finding in session.findings]
    problems += _absent(session)
    strange = session.other_files() if session.asks_names else None
    problems += [strange] if strange is not None else []
    problems += session.rules.doubts
    past = replaced(session)
    if past:
        problems.append(past)
    if session.params is None:
        problems.append(Statement("mp-not-found"))
    # what no figure depends on raises no doubt
    thread_words = session.thread_words if session.has_read("threads_found") else ()
    threads = session.target_threads if thread_words else ()
    running = sum(each.runs for each in threads)
    if running:
        figures = {"threads": running, "held": len(threads) - running}
        problems.append(Statement(RUN_ON, figures, {"pid": str(session.target.pid)}))
    if session.has_read("thread_caches") and not session.caches_known:
        problems.append(Statement("caches-not-found"))
    if session.has_read("cached_by_arena") and None in session.cached_by_arena.values():
        problems.append(Statement("cached-chunks-unowned"))
    if session.started and any(each.arena is None for each in thread_words):
        problems += [Statement("thread-arenas-not-found"), *_without_stacks(session)]
    return [*problems, *miscounted(session)]


def depends_on_mp(session: Session, *members: str) -> None:
    """Records that a figure needs these members of mp_, or all: only then is it a problem that some of a new release's
    were not found."""
    layout = session.located.layout
    lacking = layout.mp_in_parts
    needed = not members or any(each not in layout.params for each in members)
    if lacking is not None and needed and lacking not in session.findings:
        session.findings.append(lacking)


def miscounted(session: Session) -> list[Statement]:
    """Reports a wrong count of mmapped blocks, if they were searched: one too many or too few is in the wrong row, or
    in none."""
    if not session.has_read("mmapped") or session.params is None:
        return []
    problem = mmapped_mismatch(session)
    return [problem] if problem is not None else []


def _without_stacks(session: Session) -> Iterator[Statement]:
    """Explains threads without arenas by a core that has only zeros for their stacks."""
    if session.target.kind != "core":
        return
    size = STACK_WORDS * session.target.pointer_size
    lost = [each.thread for each in session.thread_words if each.arena is None and each.thread.stack_pointer]
    empty = [
        thread for thread in lost if not (session.memory.try_read(thread.stack_pointer or 0, size) or b"?").strip(b"\0")
    ]
    if empty:
        yield Statement("stacks-empty", {"threads": len(session.thread_words), "empty": len(empty)})


def _absent(session: Session) -> Iterator[Statement]:
    """Reports heaps that a core holds only in part: it was cut, or the program withheld pages (MADV_DONTDUMP)."""
    if session.target.kind != "core" or not session.regions:
        return
    present = [region for region in session.regions if region.present]
    starts = [region.start for region in present]
    heaps = session.heaps if session.has_read("heaps") else {}
    for heap in [heap for parts in heaps.values() for heap in parts]:
        there, index = heap.address, bisect_right(starts, heap.address) - 1
        while 0 <= index < len(present) and present[index].start <= there < heap.end and present[index].end > there:
            there, index = present[index].end, index + 1
        if there < heap.end:
            yield Statement("heap-absent", {"arena": heap.arena}, {"address": f"{heap.address:#x}"})


def parts_differ(header: ArenaHeader, parts_bytes: int) -> Statement:
    return Statement(
        "parts-differ", {"arena": header.index, "parts_bytes": parts_bytes, "system_bytes": header.system_mem}
    )


def top_differs(header: ArenaHeader, to_end_bytes: int) -> Statement:
    return Statement(
        "top-differs", {"arena": header.index, "top_bytes": header.top_bytes, "to_end_bytes": to_end_bytes}
    )


def listed_not_met(header: ArenaHeader, chunks: int) -> Statement:
    return Statement("listed-not-met", {"arena": header.index, "chunks": chunks})


def inexact(session: Session) -> Optional[Statement]:
    """Explains why a text of glibc's own cannot be written as glibc would; None if nothing in it is missing."""
    sound = session.all_arenas and all(arena.complete for arena in session.arenas) and session.params is not None
    return None if sound else problems_of(session)[0]


def unknown_release(session: Session) -> list[Statement]:
    """Reports an unknown release, for what differs between releases. It is no problem for figures: memory tells the
    layout."""
    if session.located.version is not None:
        return []
    layout = session.layout
    alike = release_table.alike(layout.release)
    names = {
        "taken_for": release_table.text(layout.release),
        "layout_of": alike if layout.newer is None else f"a release newer than {alike}",
    }
    return [Statement("release-unknown", names=names)]


MANY = 256
"""At least so many ranges are intersected with resident pages, rather than looked up one by one."""


def trims(session: Session, bounds: bool = False) -> list[Trim]:
    """Plans malloc_trim(0), arena by arena; with `bounds`, lower bounds count if nothing exact can be known."""
    if not session.started:
        return []
    usages = session.usages
    rules = trim_rules(session)
    planned = []
    for arena, usage in zip(session.arenas, usages):
        plan = plan_trim(arena, usage.tcache.bytes if usage.tcache else None, rules)
        if session.residency is not None:
            planned.append(Trim(plan, _residents(session, plan)))
        else:
            # counting the pages of a dense core that are not all zero reads all of them
            unknown = Residents(None, None, None)
            planned.append(Trim(plan, unknown, _residents(session, plan) if bounds else unknown))
    return planned


def trim_rules(session: Session) -> TrimRules:
    located, params = session.located, session.params
    brk = current_brk(session.target, session.memory, located.libc, session.regions, main=session.headers[0])
    depends_on_mp(session, "thp_pagesize")
    thp = params.get("thp_pagesize") if params else None
    return TrimRules(session.layout, session.target.page_size, brk, thp or 0)


def thresholds_of(session: Session, header: ArenaHeader, rules: TrimRules) -> Optional[Thresholds]:
    """Returns the thresholds that free() compares at an arena's end; None if mp_ or top is not known."""
    params = session.params
    depends_on_mp(session, "trim_threshold", "top_pad")
    if params is None or header.top_bytes is None or not {"trim_threshold", "top_pad"} <= params.values.keys():
        return None
    page = None
    heaps = session.heaps[header.index]
    if not header.main and heaps and "pagesize" in session.layout.heap:
        page = session.memory.try_word(heaps[-1].address + session.layout.heap["pagesize"])
    return Thresholds(params.values["trim_threshold"], params.values["top_pad"], page or rules.page)


def _residents(session: Session, plan: ArenaTrim) -> Residents:
    """Counts what the plan would free in memory. The break moves back over locked pages; madvise does not free them."""
    going = tops = None
    if plan.madvise is not None and plan.brk_bytes is not None:
        going = [*until_locked(plan.madvise, session.locked), *([plan.brk_range] if plan.brk_range else [])]
    if plan.tops_bytes is not None:
        tops = [*until_locked([plan.tops] if plan.tops else [], session.locked)]
    return Residents(
        resident_bytes(session, going), _within(session, plan.top) if plan.top else None, resident_bytes(session, tops)
    )


def _within(session: Session, top: Range) -> Optional[int]:
    """Returns the resident bytes of this top, without what shares its first page."""
    first, page = Range(top.address, min(top.bytes, 1)), session.target.page_size
    pages, shared = (resident_bytes(session, [each] if each.bytes else []) for each in (top, first))
    return None if pages is None else max(pages - (top.address % page if shared else 0), 0)


def resident_bytes(session: Session, ranges: Optional[Iterable[Range]]) -> Optional[int]:
    """Returns how much of these ranges is in memory; None if that, or the ranges, are not known."""
    residency = session.any_residency
    if residency is None or ranges is None:
        return None
    resident = 0
    ranges = sorted(ranges)
    if len(ranges) >= MANY and residency.exact:
        resident, ranges = _in_heaps(session, residency, ranges)
    for each in ranges:
        pages = residency.count(each.address, each.end)
        if pages is None:
            return None
        resident += pages.resident
    return resident


def _in_heaps(session: Session, residency: Residency, ranges: Sequence[Range]) -> tuple[int, Sequence[Range]]:
    """Counts the resident bytes of ranges within heaps with one query for each heap; also returns the remaining
    ranges."""
    page, in_memory, at = session.target.page_size, 0, 0
    left: list[Range] = []
    for start, end in sorted((heap.address, heap.end) for heaps in session.heaps.values() for heap in heaps):
        first = bisect_left(ranges, (start, 0), at)
        last = bisect_left(ranges, (end, 0), first)
        left += ranges[at:first]
        at = last
        inside = ranges[first:last]
        resident = residency.resident_ranges(start, end) if inside and inside[-1].end <= end else None
        if resident is None:
            left += inside
        else:
            # partial pages count in full, as when each is asked for
            whole = (Span(each.address // page * page, -(-each.end // page) * page) for each in inside)
            in_memory += covered(((each.start, each.bytes) for each in whole), resident)
    return in_memory, [*left, *ranges[at:]]


def code_of(session: Session) -> MallocCode:
    located = session.located
    return MallocCode(
        session.target, session.memory, located.libc, session.regions, symbols=located.located_by == "symbols"
    )


def find_means(session: Session, target: Optional[Target] = None) -> Means:
    """Finds how the process can be called into. `target`: the process itself, if the session looks at a copy of it."""
    target = target or session.target
    if target.kind != "live" or not session.started:
        return Means()
    shell = target.machine in SHELL_CALLS_INTO and target.pointer_size == 8
    if lies_in_libc(session.located.libc) or code_of(session).known:
        return Means(shell)
    # a static program: the shell knows few of its symbols, a debugger knows all
    if session.located.located_by == "symbols":
        return Means(shell=False)
    return Means(shell, lacks=f"{UNKNOWN_CODE} ({LOAD_SYMBOLS})")


def look_up(target: Target, libc: int) -> Optional[Located]:
    """Reads what a process's files tell, while it still runs: symbols, the release, the engine. Returns where malloc is
    if it was never called, which takes a search."""
    is_there()
    session = Session(target, libc)
    # it changes meanwhile
    with suppress(ArenascopeError, OSError):
        if session.started:
            regular_bins.ring_starts(session.memory, session.layout, session.headers[:1])
            trim_rules(session)
            # threads are asked while they are held: there may be many
            _ = session.max_fast, session.perturb
        elif len(session.located.copies) == 1:
            return session.located
    return None


def read_lists(session: Session, mappings: bool) -> None:
    """Reads all that commands need which follow lists and walk no heap. Residency comes first, as in any look.
    `mappings`: also how each mapping is used."""
    session.measure_residency()
    _ = session.any_residency
    if mappings:
        session.target.image.mapping_use()
    # their registers cannot be read after the release
    _ = session.target_threads, session.locked
    session.target.environment()
    session.target.is_secure()
    if not session.started:
        _ = session.arenas
        share_of(session)
        return
    lists = session.followed_bins
    _ = session.fastbins
    if lists.odd or not lists.whole:
        # link by link, which tells what is wrong
        _ = session.arenas
    session.read_params()
    for cache in session.thread_caches:
        for chunk in (chunk for cached in cache.bins for chunk in cached.addresses):
            session.arena_of(chunk)
    rules, main, residency = trim_rules(session), session.headers[0], session.any_residency
    if residency is not None and main.top_bytes is not None:
        # malloc_trim may let it grow by a page
        residency.count(main.top, main.top + main.top_bytes + rules.page)
    share_of(session)
    _ = session.bss_ends, session.max_fast, session.perturb
    if session.residency is not None:
        heap_pages(session, session.regions, session.residency)
        mmapped_extents(session, session.regions, session.residency)
