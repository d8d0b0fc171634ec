"""heap chunks: every chunk in address order, or how many there are of each size."""

from __future__ import annotations

import sys
from argparse import Namespace
from heapq import heappush, heapreplace
from itertools import chain
from json import dumps
from typing import Annotated, Callable, Iterable, Iterator, Mapping, NamedTuple, Optional, Sequence, Union

from ..analysis import chunk_sums
from ..analysis.chunk_sums import WITH_TOP, ChunkSums, ExactSize, SizeClass
from ..base.argv import Matches, shell_pattern
from ..base.errors import UsageError
from ..base.heap_model import ArenaHeader, ChunkRun, Piece, Statement, Tally
from ..base.progress_bar import metered
from ..blocks.declared.matching_objects import MatchingObjects, matching_objects
from ..blocks.name_all_blocks import live_kinds
from ..glibc.malloc_chunk import SIZE_BITS
from ..glibc.sweep import Block, blocks
from ..present.json_documents.record import Address, ChunkTally, Document, Record, Size, Spool
from ..present.json_documents.shared_records import Index
from ..present.screens.type_lines import is_called, name_in_documents, name_of
from ..present.shared_text.lines_and_tables import WIDEST_NAME, Style, count, cut, in_use, number, shortened_name, table
from ..session.problems import listed_not_met, parts_differ, problems_of, top_differs
from ..session.session import Session
from .framework.command import ARENA, LIMIT, Answer, Context, always, argument, command, of_heap, parse_size
from .framework.where import WHERE, WhereRecord, asked_where, where_key, where_line

Row = tuple[int, int, str, int]
"""(chunk address, bytes, state, arena)."""
Wants = Callable[[int, str], bool]
"""Whether a chunk of this size and state was asked for."""


State = Annotated[Optional[str], ("enum", WITH_TOP), "What it is; null: not known"]


class Summary(Record):
    """All swept chunks, by state."""

    used: ChunkTally
    """In the program's hands."""
    tcache: ChunkTally
    """In thread caches."""
    fast: ChunkTally
    """In fastbins."""
    free: ChunkTally
    """In bins."""
    top: ChunkTally
    """At arenas' ends."""
    bookkeeping_bytes: Size
    """Headers of heaps and arenas, fenceposts."""
    foreign_bytes: Size
    """Somebody else's, by sbrk."""
    damaged_bytes: Size
    """What could not be read as chunks."""
    system_bytes: Size
    """What these arenas took from the kernel."""


class SizeRow(Record):
    """Chunks of one class of sizes."""

    min_bytes: Size
    """From this size on."""
    max_bytes: Size
    """Up to this size."""
    used_chunks: Optional[Size]
    """In use; null: not asked for, or not known."""
    used_bytes: Optional[Size]
    """Their bytes."""
    free_chunks: Optional[Size]
    """Not in use."""
    free_bytes: Optional[Size]
    """Their bytes."""


class ExactSizeRecord(Record):
    """Chunks of one size."""

    bytes: Size
    """The size."""
    used_chunks: Optional[Size]
    """In use; null: not asked for, or not known."""
    free_chunks: Optional[Size]
    """Not in use."""


class ChunkRow(Record):
    """A chunk; a Spool has these as they are written."""

    address: Address
    """Its header."""
    bytes: Size
    """Its size."""
    state: State
    arena: Index
    type: str = ""
    """With --type: its type."""


class ChunksDocument(Document, command="chunks"):
    """The answer of chunks."""

    summary: Summary
    sizes: Sequence[SizeRow]
    """A histogram."""
    chunks: Union[Sequence[ChunkRow], Spool]
    """Arena by arena in address order, or as --sort has them; --limit at most."""
    left_out: Optional[Size]
    """How many more there are; null where it was stopped."""
    exact_sizes: Sequence[ExactSizeRecord]
    """What holds most first, --limit at most."""
    exact_sizes_left_out: Size
    """How many more sizes there are."""
    where: Optional[WhereRecord] = None
    """With --where: for which objects it holds. The chunks are those that have any."""


def chunks_of(piece: Piece, listed: Mapping[int, str]) -> Iterable[Block]:
    if isinstance(piece, ChunkRun):
        return blocks(piece, listed)
    return [(piece.address, piece.bytes, "top")] if piece.kind == "top" and piece.bytes else []


class Foremost:
    """Keeps the `limit` chunks of the highest rank; of equal ones, those met first."""

    def __init__(
        self, limit: int, wants: Wants, rank: Callable[[int, str], int], best: Callable[[ChunkRun], int]
    ) -> None:
        """`rank`: the rank for a size and state; `best`: an upper bound of the ranks in a run."""
        self._limit, self._wants, self._rank, self._best = limit, wants, rank, best
        self._met = 0
        self._heap: list[tuple[int, int, int, int, str, int]] = []

    def add(self, piece: Piece, listed: Mapping[int, str]) -> None:
        # most runs have no chunk of a rank high enough
        if isinstance(piece, ChunkRun) and self._is_beaten(self._best(piece)):
            return
        for chunk, size, state in chunks_of(piece, listed):
            rank = self._rank(size, state)
            if self._is_beaten(rank) or not self._wants(size, state):
                continue
            self._met += 1
            entry = (rank, -self._met, chunk, size, state, piece.heap.arena)
            if len(self._heap) < self._limit:
                heappush(self._heap, entry)
            else:
                heapreplace(self._heap, entry)

    def _is_beaten(self, rank: int) -> bool:
        return len(self._heap) == self._limit and rank <= self._heap[0][0]

    def rows(self) -> list[Row]:
        return [(chunk, size, state, arena) for _, _, chunk, size, state, arena in sorted(self._heap, reverse=True)]


ORDERS: Mapping[str, tuple[Callable[[int, str], int], Callable[[ChunkRun], int]]] = {
    "size": (lambda size, _: size, lambda run: max(run.counts, default=0) & ~SIZE_BITS),
    "state": (lambda _, state: -chunk_sums.WITH_TOP.index(state), lambda run: 0),
}
"""Of each order the rank of a chunk, and the upper bound of the ranks in a run: see Foremost."""


class Filter(NamedTuple):
    """Which chunks to show."""

    arena: Optional[int]
    free: bool
    used: bool
    least: Optional[int]
    most: Optional[int]
    type: Optional[Matches] = None

    @property
    def only(self) -> Optional[str]:
        return "free" if self.free else "used" if self.used else None

    def wants(self, size: int, state: str) -> bool:
        large, small = self.least is None or size >= self.least, self.most is None or size <= self.most
        return large and small and self.wants_state(state)

    def wants_state(self, state: str) -> bool:
        return not (self.free if state == "used" else self.used)

    def how_many(self, sums: ChunkSums, top_bytes: int) -> int:
        """How many of the counted chunks the filter selects."""
        kept = chunk_sums.within(sums, self.least, self.most)
        tops = int(top_bytes > 0 and self.wants(top_bytes, "top"))
        return tops + sum(kept.tally(state).chunks for state in kept.sizes if self.wants_state(state))


class SizesInHeaps:
    """The result of sweeping the heaps."""

    def __init__(self, session: Session, options: Namespace, only: Optional[str]) -> None:
        """`only`: "used" or "free" if only these were asked for."""
        self.limit = 0 if options.summary or options.exact else options.limit if options.limit > 0 else None
        """How many rows there are at most; None: all."""
        self.sums: dict[int, ChunkSums] = {}
        self.rows = Spool()
        self.wanted = 0
        self.problems: list[Statement] = []
        self.chosen: Optional[ChunkSums] = None
        """With --type or --where: sums of blocks whose type matches, and that have such objects."""
        self.matching: Optional[MatchingObjects] = None
        """With --where."""
        self.doubtful = session.started and not (session.caches_known and session.fast_known)
        """Some thread caches or fastbins could not be read: a chunk that looks used may be in one."""
        self.told = () if self.doubtful else (only,) if only is not None else ("used", "free")
        """Which of used and free chunks are told by size."""

    @property
    def tops(self) -> Tally:
        """At arenas' ends."""
        tops = [each.gaps["top"] for each in self.sums.values() if each.gaps["top"]]
        return Tally(len(tops), sum(tops))


@command(
    "chunk by chunk",
    "chunks --free --min 64K --summary",
    arguments=(
        ARENA,
        argument("--free", action="store_true", help="only free and cached chunks"),
        argument("--used", action="store_true", help="only blocks in use"),
        argument("--min", metavar="SIZE", help="only chunks of at least SIZE bytes (4096, 64K, 1MiB, an expression)"),
        argument("--max", metavar="SIZE", help="only chunks of at most SIZE bytes"),
        argument(
            "--type", metavar="PATTERN", help="only blocks in use whose type (see types) has such a name: '*Session*'"
        ),
        WHERE,
        argument("--summary", action="store_true", help="only counts by state and size"),
        argument("--exact", action="store_true", help="only counts by exact size"),
        argument("--sort", choices=("address", *ORDERS), default="address", help="the order of the rows"),
        LIMIT,
    ),
    copies=always,
    whole=lambda options: options.type is not None or options.where is not None,
)
def chunks_command(context: Context) -> Answer:
    """List every chunk in address order, or count them by size.

    free chunks are those of the bins; tcache and fast ones look in use and are in a thread cache or fastbin. --free
    shows all that the program does not hold, --used what it holds. Used, cached, fast and free chunks, top and the
    allocator's own bookkeeping sum to what each arena took from the kernel, and are checked against that each time.
    Sorted by size or state no more chunks are kept than --limit shows, so that such a list has a limit. In the shell a
    live process is copied, and runs on meanwhile.
    """
    options = context.options
    if options.free and options.used:
        raise UsageError("--free and --used leave nothing", "give one of them, or neither")
    if options.sort != "address" and options.limit <= 0:
        raise UsageError(
            f"--sort {options.sort} needs a limit", f"--limit 1000 shows the first 1,000 by {options.sort}"
        )
    if options.free and options.type is not None:
        raise UsageError("--type is of blocks in use: --free leaves none", "give one of them")
    if options.free and options.where is not None:
        raise UsageError("--where is of blocks in use: --free leaves none", "give one of them")
    asked = asked_where(context)
    session = context.session
    context.check_arena(options.arena)
    wanted = Filter(
        options.arena,
        options.free,
        used=options.used,
        least=parse_size(context, options.min),
        most=parse_size(context, options.max),
        type=shell_pattern(options.type) if options.type is not None else None,
    )
    if asked is not None and wanted.type is None:
        wanted = wanted._replace(type=shell_pattern("*"))
    sweep = SizesInHeaps(session, options, wanted.only)
    if session.started:
        sweep.matching = matching_objects(session, asked) if asked is not None else None
        (_sweep_types if wanted.type else _sweep)(context, wanted, sweep)
    sums = chunk_sums.total(sweep.sums.values())
    counted = chunk_sums.within(sweep.chosen or sums, wanted.least, wanted.most)
    classes = chunk_sums.histogram(counted, session.layout.min_size, session.layout.align)
    shown = options.limit if options.limit > 0 else None
    exact = chunk_sums.exact_sizes(counted)
    left_out = None if session.stopped else max(0, sweep.wanted - sweep.rows.count)
    found = ChunksDocument.of(
        None,
        summary=_summary(session, sweep, sums),
        sizes=[_size_row(each, sweep) for each in classes],
        chunks=sweep.rows if options.json else [],
        left_out=left_out,
        exact_sizes=[_exact_size(each, sweep) for each in exact[:shown]],
        exact_sizes_left_out=len(exact[shown:]) if shown else 0,
        **where_key(sweep.matching),
    )
    lines: Iterable[str] = ()
    if sweep.rows.count:
        lines = _heading(context, left_out, types=wanted.type is not None)
    summary = _summary_lines(context, sweep, sums, classes, exact)
    where = [context.style.bold(where_line(sweep.matching)), ""] if sweep.matching is not None else []
    text = [*of_heap(session, chain(where, summary)), *lines]
    rows: Optional[Iterable[str]] = None if options.json else sweep.rows
    if rows is not None and context.style.form:
        rows = table_of(sweep.rows, context.style, types=wanted.type is not None)
    return Answer(found, text, [*sweep.problems, *problems_of(session)], rows=rows)


def _sweep(context: Context, wanted: Filter, sweep: SizesInHeaps) -> None:
    session, options = context.session, context.options
    listed = session.listed
    headers = [header for header in session.headers if wanted.arena in (None, header.index)]
    limit = sweep.limit
    foremost: Optional[Foremost] = None
    if limit and options.sort in ORDERS:
        foremost = Foremost(limit, wanted.wants, *ORDERS[options.sort])
    bytes_in_all = sum(part.bytes for header in headers for part in session.heaps[header.index])
    adding: Optional[chunk_sums.SweepSums] = None
    counting: Optional[ArenaHeader] = None
    try:
        with session.meter("sweeping", bytes_in_all) as meter:
            for header in headers:
                adding, counting = chunk_sums.SweepSums(listed), header
                for piece in metered(session.sweep(header), meter):
                    adding.add(piece)
                    if foremost is not None:
                        foremost.add(piece, listed)
                    elif limit is None or sweep.rows.count < limit:
                        _list(sweep.rows, piece, listed, wanted, limit=limit, context=context)
                adding.keep()
                _close(session, header, adding, wanted, sweep=sweep)
                adding = None
    except KeyboardInterrupt:
        session.stopped = True
        if adding is not None and counting is not None:
            sweep.sums[counting.index] = adding.sums()
        done = sum(each.chunks for each in sweep.sums.values())
        sweep.problems.append(Statement("stopped", {"chunks": done}))
    for chunk, size, state, arena in foremost.rows() if foremost is not None else ():
        sweep.rows.add(chunk_row(context.style, options.json, arena)(chunk, size, state))


def _sweep_types(context: Context, wanted: Filter, sweep: SizesInHeaps) -> None:
    """Like _sweep, for blocks whose type has such a name."""
    session, options = context.session, context.options
    assert wanted.type is not None
    limit = sweep.limit
    live = live_kinds(session, wanted.arena)
    first = live.mark(sweep.matching.blocks) if sweep.matching is not None else 0
    called = name_in_documents if options.json else name_of
    names = {
        index: called(kind) for index, kind in enumerate(live.kinds) if index >= first and is_called(kind, wanted.type)
    }
    sweep.chosen = ChunkSums()
    rows: list[tuple[int, int, int, str]] = []
    try:
        with session.meter("sweeping", sum(heap.bytes for _, heap in live.heaps)) as meter:
            for header, heap in live.heaps:
                sums = sweep.sums.setdefault(header.index, ChunkSums())
                for chunk, size, state, kind in live.sweep(header, heap, meter):
                    if state not in sums.sizes:
                        sums.gaps[state] += size
                        continue
                    sums.sizes[state][size] += 1
                    if kind in names and wanted.wants(size, state):
                        sweep.wanted += 1
                        sweep.chosen.sizes[state][size] += 1
                        # the largest may come last
                        if limit is None or len(rows) < limit or (limit and options.sort == "size"):
                            rows.append((chunk, size, header.index, names[kind]))
    except KeyboardInterrupt:
        session.stopped = True
    if session.stopped:
        sweep.problems.append(Statement("stopped", {"chunks": sum(each.chunks for each in sweep.sums.values())}))
    if options.sort == "size":
        rows.sort(key=lambda row: (-row[1], row[0]))
    for chunk, size, arena, name in rows[:limit]:
        sweep.rows.add(chunk_row(context.style, options.json, arena, types=True)(chunk, size, "used", name))


def _close(
    session: Session, header: ArenaHeader, adding: chunk_sums.SweepSums, wanted: Filter, sweep: SizesInHeaps
) -> None:
    """Adds an arena's sums, and checks them against system_mem."""
    sums = sweep.sums[header.index] = adding.sums()
    sweep.wanted += wanted.how_many(sums, sums.gaps["top"])
    say = sweep.problems.append
    if sums.bytes != header.system_mem:
        say(parts_differ(header, sums.bytes))
    if header.top_bytes is not None and sums.gaps["top"] != header.top_bytes:
        say(top_differs(header, sums.gaps["top"]))
    inside = sum(
        chunk_sums.count_between(session.listed_order, part.address, part.end) for part in session.heaps[header.index]
    )
    if inside != adding.met:
        say(listed_not_met(header, inside - adding.met))


def _list(
    rows: Spool, piece: Piece, listed: dict[int, str], wanted: Filter, limit: Optional[int], context: Context
) -> None:
    row = chunk_row(context.style, context.options.json, piece.heap.arena)
    for chunk, size, state in chunks_of(piece, listed):
        if wanted.wants(size, state):
            rows.add(row(chunk, size, state))
            if limit is not None and rows.count >= limit:
                return


def _summary(session: Session, sweep: SizesInHeaps, sums: ChunkSums) -> Summary:
    """The sums by state; None for states that an unread list may hide."""

    def tally(state: str) -> ChunkTally:
        return ChunkTally.of(None if sweep.doubtful and state != "free" else sums.tally(state))

    return Summary(
        used=tally("used"),
        tcache=tally("tcache"),
        fast=tally("fast"),
        free=tally("free"),
        top=ChunkTally.of(sweep.tops),
        bookkeeping_bytes=sums.bookkeeping,
        foreign_bytes=sums.gaps["foreign"],
        damaged_bytes=sums.gaps["damage"],
        system_bytes=sum(header.system_mem for header in session.headers if header.index in sweep.sums),
    )


def _size_row(row: SizeClass, sweep: SizesInHeaps) -> SizeRow:
    used = row.used if "used" in sweep.told else None
    free = row.free if "free" in sweep.told else None
    return SizeRow(
        min_bytes=row.least,
        max_bytes=row.most,
        used_chunks=used and used.chunks,
        used_bytes=used and used.bytes,
        free_chunks=free and free.chunks,
        free_bytes=free and free.bytes,
    )


def _exact_size(row: ExactSize, sweep: SizesInHeaps) -> ExactSizeRecord:
    return ExactSizeRecord(
        bytes=row.bytes,
        used_chunks=row.used.chunks if "used" in sweep.told else None,
        free_chunks=row.free.chunks if "free" in sweep.told else None,
    )


BAR = 24
MEANING = {
    "used": "in the program's hands",
    "tcache": "kept by a thread",
    "fast": "in a fastbin",
    "free": "in bins",
    "top": "at an arena's end",
}
FEW = 8
"""How many exact sizes are shown below the classes."""
HEADERS = ("chunk", "size", "state", "arena")
SIZE_HEADERS = ("chunk size", "used", "bytes", "free", "bytes ")
BETWEEN = "  "
CELLS = "\t"
"""Separates the cells of a row until --table formats it."""
ROW = "{:<18}  {:>14}  {:<6}  {:>5}"
NARROW = "{:<14} {:>10} {:<6} {:>5}"
"""For a narrow terminal."""
NAMED = "{:<14} {:>10}"
"""For a terminal too narrow for a type beside all other columns."""
LEAST = 20
"""How much of a type's name must fit."""


def _row(style: Style, types: bool = False) -> str:
    """The widest row format that fits, with room for a type's name."""
    room = (style.width or sys.maxsize) - (LEAST + len(BETWEEN) if types else 0)
    forms = (ROW, NARROW, NAMED) if types else (ROW, NARROW)
    return next((each for each in forms if len(each.format("", "", "", "")) <= room), forms[-1])


def chunk_row(style: Style, as_json: bool, arena: int, types: bool = False) -> Callable[..., str]:
    """Writes the row of a chunk, by its address, size and state; with `types` it ends with a type's name."""
    row = _row(style, types)
    room = style.width - len(row.format("", "", "", "")) - len(BETWEEN) if style.width else WIDEST_NAME

    def as_object(chunk: int, size: int, state: Optional[str], name: str = "") -> str:
        what, kind = f'"{state}"' if state else "null", f', "type": {dumps(name)}' if types else ""
        return f'{{"address": "{chunk:#x}", "bytes": {size}, "state": {what}, "arena": {arena}{kind}}}'

    def cells(chunk: int, size: int, state: Optional[str], name: str = "") -> str:
        plain = CELLS.join((f"{chunk:#x}", style.size(size), state or "?", str(arena)))
        return f"{plain}{CELLS}{name}" if types else plain

    def line(chunk: int, size: int, state: Optional[str], name: str = "") -> str:
        plain = row.format(f"{chunk:#x}", style.size(size), state or "?", arena)
        return f"{plain}{BETWEEN}{shortened_name(name, room)}" if types else plain

    return as_object if as_json else cells if style.form else line


def _heading(context: Context, left_out: Optional[int], *, types: bool) -> Iterator[str]:
    style, sort, limit = context.style, context.options.sort, context.options.limit
    yield ""
    if left_out:
        first = f"the {limit:,} largest" if sort == "size" else f"the first {limit:,}"
        more = "--limit 0 shows all" if sort == "address" else "--limit shows more"
        yield style.dim(f"{first}; {count(left_out, 'more chunk')} left out; {more}")
        yield ""
    if style.form:
        return
    row = _row(style, types)
    rule = row.format("-" * 18, "-" * 14, "-" * 6, "-" * 5) if row is ROW else "-" * len(row.format("", "", "", ""))
    yield row.format(*HEADERS) + (f"{BETWEEN}type" if types else "")
    yield rule + (f"{BETWEEN}----" if types else "")


def table_of(rows: Iterable[str], style: Style, *, types: bool) -> Iterator[str]:
    """Rows of chunk_row as a table, for --table, which must measure all before it prints any."""
    headers, names = (*HEADERS, "type") if types else HEADERS, (len(HEADERS),) if types else ()
    return table(style, headers, [row.split(CELLS) for row in rows], left=(0, 2, 4), names=names)


def _summary_lines(
    context: Context, sweep: SizesInHeaps, sums: ChunkSums, classes: Sequence[SizeClass], exact: Sequence[ExactSize]
) -> Iterator[str]:
    style, options = context.style, context.options
    used, free = sums.tally("used"), sums.tally("free")
    yield style.bold(
        f"{count(sums.chunks, 'chunk')} in {count(len(sweep.sums), 'arena')}, {style.size(sums.bytes)} in all: "
        f"{in_use(style, None if sweep.doubtful else used.bytes, sums.bookkeeping)}, {style.size(free.bytes)} free in "
        f"bins, {style.size(sums.gaps['top'])} free in tops"
    )
    if not (options.summary or options.exact):
        return
    yield ""
    yield from _states(style, sweep, sums)
    if not classes:
        return
    if not options.exact:
        yield ""
        yield from _classes(style, sweep, classes)
    if options.exact or any(row.only is None for row in classes):
        yield ""
        yield from _exact(context, sweep, exact)


def _states(style: Style, sweep: SizesInHeaps, sums: ChunkSums) -> Iterator[str]:
    rows = []
    for state, meaning in MEANING.items():
        tally: Optional[Tally] = sweep.tops if state == "top" else sums.tally(state)
        if sweep.doubtful and state not in ("free", "top"):
            tally = None
        chunks, held = (tally.chunks, tally.bytes) if tally else (None, None)
        rows.append([state, number(chunks), style.size(held), meaning])
    rows.append(["bookkeeping", "", style.size(sums.bookkeeping), "headers of heaps and arenas, fenceposts"])
    for kind, meaning in (("foreign", "somebody else's, by sbrk"), ("damage", "could not be read as chunks")):
        if sums.gaps[kind]:
            rows.append([kind, "", style.size(sums.gaps[kind]), meaning])
    footer = ["all", "", style.size(sums.bytes), ""]
    yield from table(style, ("state", "chunks", "bytes", ""), rows, left=(0, 3), footer=footer)


def _classes(style: Style, sweep: SizesInHeaps, classes: Sequence[SizeClass]) -> Iterator[str]:
    largest = max(row.used.bytes + row.free.bytes for row in classes)
    rows = []
    for row in classes:
        # if all chunks have one size, show that, not the class's limit
        label = f"≤ {style.size(row.most)}" if row.only is None else f"{row.only:,} B"
        rows.append([label, *_counts(style, sweep, row), _bar(row, largest)])
    yield from table(style, (*SIZE_HEADERS, "█ used ░ free"), rows, left=(5,), expendable=("bytes", "bytes "))


def _counts(style: Style, sweep: SizesInHeaps, row: Union[SizeClass, ExactSize]) -> Iterator[str]:
    """Cells with count and bytes, of used and of free chunks."""
    for name, tally in (("used", row.used), ("free", row.free)):
        known = name in sweep.told
        yield number(tally.chunks) if known else ""
        yield style.size(tally.bytes) if known else ""


def _exact(context: Context, sweep: SizesInHeaps, exact: Sequence[ExactSize]) -> Iterator[str]:
    style, alone = context.style, context.options.exact
    shown, more = cut(exact, context.options.limit if alone else FEW)
    rows = [[f"{row.bytes:,} B", *_counts(style, sweep, row)] for row in shown]
    if more:
        yield f"the {count(len(shown), 'size')} that {'hold' if len(shown) > 1 else 'holds'} most, to the byte"
    elif not alone:
        yield "every size, to the byte"
    yield from table(style, SIZE_HEADERS, rows, left=())
    if more:
        hint = "--limit 0 shows all" if alone else f"--exact shows {'it' if more == 1 else 'them'}"
        yield style.dim(f"… {count(more, 'more size')}; {hint}")


def _bar(row: SizeClass, largest: int) -> str:
    used = round(BAR * row.used.bytes / largest)
    return "█" * used + "░" * (round(BAR * (row.used.bytes + row.free.bytes) / largest) - used)
