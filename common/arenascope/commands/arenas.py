"""heap arenas: which arenas there are, whose they are, what each holds."""

from __future__ import annotations

from typing import Annotated, Callable, Iterable, Iterator, Mapping, Optional, Sequence

from ..analysis.arena_usage import ArenaUsage, orphans, total, total_tally
from ..analysis.trim_prediction import Trim
from ..base.heap_model import REPLACED, Allocator, Tally
from ..present.json_documents.record import ChunkTally, Document, Record, Size
from ..present.json_documents.shared_records import (
    ALLOCATORS,
    SHARE,
    ArenaIndex,
    ArenaThread,
    GlibcShareRecord,
    OtherAllocator,
    other_allocators,
    share_record,
)
from ..present.shared_text.lines_and_tables import AT_MOST, NO_HEAP, Style, count, cut, next_lines, number, table
from ..session.problems import mmapped_tally, problems_of
from ..session.resident import GlibcShare, quick_usages, share_of
from ..session.trims import trims
from .framework.command import LIMIT, Answer, Context, argument, command

Plans = Mapping[int, Trim]

SORTS = {
    "index": lambda usage: usage.header.index,
    "system": lambda usage: -usage.header.system_mem,
    "used": lambda usage: -(usage.used or 0),
    "free": lambda usage: -(usage.bins.bytes if usage.bins else 0) - (usage.header.top_bytes or 0),
    "top": lambda usage: -(usage.header.top_bytes or 0),
    "resident": lambda usage: -(usage.resident or 0),
}


class ArenaPlace(ArenaIndex):
    """An arena, its heaps and threads."""

    main: bool
    """Whether it is main_arena."""
    heaps: Optional[Size]
    """How many heaps it has."""
    attached_threads: Optional[int]
    """How many threads it counts."""
    threads: Sequence[ArenaThread]
    """Those that use it."""


class ArenaFigures(Record):
    """The figures of one arena, or of all."""

    system_bytes: Optional[Size]
    """What it took from the kernel (system_mem)."""
    max_system_bytes: Optional[Size]
    """Its maximum so far."""
    used_bytes: Optional[int]
    """Blocks in the program's hands, with malloc's bookkeeping."""
    tcache: ChunkTally
    """Chunks that thread caches keep of it."""
    fast: ChunkTally
    """Chunks in fastbins."""
    bins: ChunkTally
    """Chunks in unsorted, small and large bins."""
    top_bytes: Optional[Size]
    """The chunk at its end, which new blocks are cut from."""
    resident_bytes: Optional[Size]
    """What of it is in memory."""
    trim_bytes: Optional[Size]
    """What malloc_trim(0) would give back, of address space."""
    trim_resident_bytes: Optional[Size]
    """How much RSS would fall."""


class ArenaRecord(ArenaPlace, ArenaFigures):
    """An arena."""


class ArenasDocument(Document, command="arenas"):
    """The answer of arenas."""

    arenas: Sequence[ArenaRecord]
    """In the ring's order."""
    mmapped: ChunkTally
    """Blocks served by mmap, by mp_."""
    totals: ArenaFigures
    """The same of all arenas; null where one is not known."""
    allocators: Annotated[Sequence[OtherAllocator], ALLOCATORS]
    share: Annotated[Optional[GlibcShareRecord], SHARE]


@command(
    "arenas and lists",
    "arenas --sort free",
    arguments=(
        argument(
            "--quick",
            action="store_true",
            help="read arena headers alone, walk no lists: a shorter hold, fewer figures",
        ),
        argument("--sort", choices=sorted(SORTS), default="index", help="the order of the rows"),
        LIMIT,
    ),
    lists=lambda options: not options.quick,
)
def arenas_command(context: Context) -> Answer:
    """List the arenas: whose threads use them, what each holds.

    system is what an arena took from the kernel; of that, tcache, fast, bins and top are free, the rest is in use.
    """
    session = context.session
    usages = quick_usages(session) if context.options.quick else session.usages
    plans = None if context.options.quick else {trim.plan.arena: trim for trim in trims(session)}
    usages = sorted(usages, key=SORTS[context.options.sort])
    mmapped = mmapped_tally(session)
    share = share_of(session, plans is not None)
    found = ArenasDocument(
        arenas=[_row(usage, plans) for usage in sorted(usages, key=SORTS["index"])],
        mmapped=ChunkTally.of(mmapped),
        totals=_totals(usages, plans, session.all_arenas),
        allocators=other_allocators(session.located.allocators),
        share=share_record(share),
    )
    beside = list(allocators_lines(context.style, session.located.allocators, share))
    lines = _lines(context, usages, plans, mmapped, beside=beside)
    return Answer(found, lines, problems_of(session), told=[REPLACED])


def _row(usage: ArenaUsage, plans: Optional[Plans]) -> ArenaRecord:
    header, (released, resident) = usage.header, _trimmed(plans, usage.header.index)
    return ArenaRecord.of(
        header,
        usage,
        threads=[ArenaThread.of(cache) for cache in usage.threads],
        system_bytes=header.system_mem,
        max_system_bytes=header.max_system_mem,
        tcache=ChunkTally.of(usage.tcache),
        fast=ChunkTally.of(usage.fast),
        bins=ChunkTally.of(usage.bins),
        trim_bytes=released,
        trim_resident_bytes=resident,
    )


def _totals(usages: Sequence[ArenaUsage], plans: Optional[Plans], whole: bool) -> ArenaFigures:
    """Sums over all arenas; a lower bound if not `whole`."""
    each = [_trimmed(plans, usage.header.index) for usage in usages]
    return ArenaFigures(
        system_bytes=total((usage.header.system_mem for usage in usages), whole),
        max_system_bytes=total((usage.header.max_system_mem for usage in usages), whole),
        used_bytes=total((usage.used for usage in usages), whole),
        tcache=ChunkTally.of(total_tally((usage.tcache for usage in usages), whole)),
        fast=ChunkTally.of(total_tally((usage.fast for usage in usages), whole)),
        bins=ChunkTally.of(total_tally((usage.bins for usage in usages), whole)),
        top_bytes=total((usage.header.top_bytes for usage in usages), whole),
        resident_bytes=total((usage.resident for usage in usages), whole),
        trim_bytes=total((released for released, _ in each), whole),
        trim_resident_bytes=total((resident for _, resident in each), whole),
    )


def _trimmed(plans: Optional[Plans], index: int) -> tuple[Optional[int], Optional[int]]:
    """(bytes released, resident part): 0 if there is no heap to trim, None if it was not examined."""
    if plans is None:
        return None, None
    trim = plans.get(index)
    return (trim.plan.release_bytes, trim.resident.returned) if trim else (0, 0)


def _lines(
    context: Context,
    usages: Sequence[ArenaUsage],
    plans: Optional[Plans],
    mmapped: Optional[Tally],
    beside: Sequence[str],
) -> Iterator[str]:
    """`beside`: lines about other allocators."""
    style, session = context.style, context.session
    if any(each.replaces_malloc for each in session.located.allocators):
        yield from (*beside, "")
        beside = ()
    if not session.started:
        yield NO_HEAP
        yield from beside
        return
    yield style.bold(_sentence(style, usages, session.all_arenas))
    yield ""
    rows = [[_name(usage), _who(usage), *_figures(style, [usage], plans)] for usage in usages]
    threads = sum(len(usage.threads) for usage in usages)
    # not "all": the list of arenas breaks off
    footer = ["all", count(threads, "thread"), *_figures(style, usages, plans)] if len(rows) > 1 else None
    footer = footer if session.all_arenas else None
    yield from table(
        style,
        HEADERS,
        rows,
        left=(0, 1),
        footer=footer,
        expendable=("fast", "heaps", "tcache", "bins", "threads", "resident", "top", "trim", "used"),
        limit=context.options.limit,
        what="arena",
    )
    if any(row[-1].startswith(AT_MOST) for row in cut(rows, context.options.limit)[0]):
        yield f"trim {AT_MOST}so much address space; how much of it was resident: {style.typed('trim')}"
    if mmapped is not None and mmapped.chunks:
        yield ""
        yield f"beside the arenas: {count(mmapped.chunks, 'block')} served by mmap, {style.size(mmapped.bytes)}"
    yield from (line for each in beside for line in ("", each))
    yield ""
    yield from next_lines(style, *map(style.typed, ("trim", "bins", "threads", "params")))


Column = Callable[[Style, Sequence[ArenaUsage]], str]
"""Makes the cell of a column: for one arena in its row, for all in the last row."""
COLUMNS: Mapping[str, Column] = {
    "heaps": lambda style, usages: number(total(usage.heaps for usage in usages)),
    "system": lambda style, usages: style.size(sum(usage.header.system_mem for usage in usages)),
    "used": lambda style, usages: style.size(total(usage.used for usage in usages)),
    "tcache": lambda style, usages: _bytes(style, (usage.tcache for usage in usages)),
    "fast": lambda style, usages: _bytes(style, (usage.fast for usage in usages)),
    "bins": lambda style, usages: _bytes(style, (usage.bins for usage in usages)),
    "top": lambda style, usages: style.size(total(usage.header.top_bytes for usage in usages)),
    "resident": lambda style, usages: style.size(total(usage.resident for usage in usages)),
}
HEADERS = ("arena", "threads", *COLUMNS, "trim")


def _bytes(style: Style, tallies: Iterable[Optional[Tally]]) -> str:
    tally = total_tally(tallies)
    return style.size(tally.bytes if tally else None)


def _figures(style: Style, usages: Sequence[ArenaUsage], plans: Optional[Plans]) -> list[str]:
    return [*(cell(style, usages) for cell in COLUMNS.values()), _trim_cell(style, plans, usages)]


def _trim_cell(style: Style, plans: Optional[Plans], usages: Sequence[ArenaUsage]) -> str:
    """The fall of RSS after a trim; if that is not known, the address space that would be released."""
    each = [_trimmed(plans, usage.header.index) for usage in usages]
    resident = total(resident for _, resident in each)
    released = total(released for released, _ in each)
    return style.size(resident) if resident is not None or released is None else f"{AT_MOST}{style.size(released)}"


def _name(usage: ArenaUsage) -> str:
    return f"{usage.header.index} main" if usage.header.main else str(usage.header.index)


def _who(usage: ArenaUsage) -> str:
    """The threads' names if they are few, else their number."""
    if not usage.threads:
        attached = usage.header.attached_threads
        return "none" if not attached else f"{attached} not seen"
    names = [f"{thread.name} {thread.tid}" if thread.name else str(thread.tid) for thread in usage.threads]
    if len(names) <= 2:
        return ", ".join(names)
    return f"{names[0]} and {len(names) - 1} more"


def _sentence(style: Style, usages: Sequence[ArenaUsage], whole: bool) -> str:
    """The answer in a sentence."""
    if not whole:
        return f"more than {count(len(usages), 'arena')}: the rest cannot be read"
    system = sum(usage.header.system_mem for usage in usages)
    used = total(usage.used for usage in usages)
    binned = total_tally(usage.bins for usage in usages)
    top = total(usage.header.top_bytes for usage in usages)
    resident = total(usage.resident for usage in usages)
    parts = [f"{count(len(usages), 'arena')}, {style.size(system)} in all"]
    if used is not None and top is not None and binned is not None:
        parts.append(
            f"{style.size(used)} in use, {style.size(binned.bytes)} free in bins, {style.size(top)} free in tops"
        )
    else:
        parts.append(f"{style.size(top)} free in tops")
    if resident is not None:
        parts.append(f"{style.size(resident)} of the {style.size(system)} resident")
    alone = orphans(usages)
    if alone:
        held = style.size(sum(usage.header.system_mem for usage in alone))
        parts.append(f"{count(len(alone), 'arena')} without a thread {'holds' if len(alone) == 1 else 'hold'} {held}")
    return "; ".join(parts)


def allocators_lines(style: Style, allocators: Sequence[Allocator], share: Optional[GlibcShare]) -> Iterator[str]:
    """One line for each allocator; the first also says how much memory glibc's arenas have."""
    of_it = _share_text(style, share)
    for place, each in enumerate(allocators):
        does = {
            True: "serves malloc here, glibc only what bypasses it",
            False: "has a heap of its own beside malloc",
            None: "may serve malloc here",
        }[each.replaces_malloc]
        if each.shadowed_by:
            does = "is loaded, yet malloc does not lead to it"
        yield f"{each.name} ({each.how}) {does}{'' if place else of_it}; {each.instead}"


def _share_text(style: Style, share: Optional[GlibcShare]) -> str:
    """ ": glibc's arenas hold 0.1% of the 84.2 MiB resident", or what is known of it; "" if nothing is."""
    ours, rss = share or (None, None)
    if ours is None:
        return ""
    if not rss:
        return f": glibc's arenas have {style.size(ours)} resident"
    return f": glibc's arenas hold {100 * ours / rss:.1f} % of the {style.size(rss)} resident"
