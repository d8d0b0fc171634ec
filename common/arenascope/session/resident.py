"""Measures what is in memory: every resident byte of malloc's, and every other mapping; reads lists before a process
runs on."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from contextlib import suppress
from functools import partial
from typing import Callable, Iterable, Iterator, Mapping, NamedTuple, Optional, Sequence

from ..analysis.arena_usage import ArenaUsage, header_usage
from ..analysis.resident_parts import ArenaResident, Extent, ResidentPicture, arena_resident, picture
from ..analysis.trim_prediction import Trim
from ..base.errors import ArenascopeError
from ..base.heap_model import (
    SHELL_CALLS_INTO,
    Heap,
    Means,
    MmappedBlock,
    Range,
)
from ..engine import is_there
from ..glibc import regular_bins
from ..glibc.find.inside_malloc import LOAD_SYMBOLS, UNKNOWN_CODE, MallocCode
from ..glibc.find.libc_file import lies_in_libc
from ..glibc.find.main_arena import Located
from ..glibc.find.other_allocators import maker_of
from ..sources.target import MappingUse, PageUse, Region, Residency, Runs, Span, Target, added
from .session import Session
from .trims import trim_rules


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
    return [added([residency.count(*part) for part in parts]) for parts in parts_of(blocks, session.regions)]


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
    arenas = added(session.resident.values()) if session.started else PageUse(0)
    count = session.params.values["n_mmaps"] if session.params else None
    if count is None or arenas is None or (count and not walk):
        return None
    if not count:
        return arenas.resident
    # what another allocator has mapped can look like a block of malloc's
    if len(session.mmapped) != count:
        return None
    blocks = added(pages_of(session, session.mmapped))
    return arenas.resident + blocks.resident if blocks is not None else None


def resident_of_process(session: Session) -> Optional[int]:
    """Returns RSS; None if the image does not tell (a core, for pages of files)."""
    use = session.target.image.memory_use()
    if use is not None:
        return use.rss
    sizes = [each.rss for each in session.target.image.mapping_use() or ()]
    return sum(size for size in sizes if size is not None) if sizes and None not in sizes else None


def quick_usages(session: Session) -> list[ArenaUsage]:
    return header_usage(session.headers, session.heaps, session.thread_owners, session.resident)


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
