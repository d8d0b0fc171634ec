"""heap bins: every list of free chunks that is not empty."""

from __future__ import annotations

from typing import Annotated, Iterator, NamedTuple, Optional, Sequence

from ..base.heap_model import Bin
from ..present.json_documents.record import Document, Record, Size
from ..present.shared_text.lines_and_tables import AT_LEAST, Column, column_table, count, cut, left_out, number
from ..session.problems import problems_of
from .framework.command import ARENA, LIMIT, Answer, Context, always, command, of_heap


class BinRow(Record):
    """A list of free chunks."""

    arena: Optional[int]
    """Its owner; null: a thread's cache."""
    tid: Optional[int]
    """Whose cache it is; null: an arena's."""
    kind: Annotated[str, ("enum", ("tcache", "fast", "unsorted", "small", "large"))]
    """Which kind."""
    index: int
    """Its index among those of its kind."""
    min_bytes: Size
    """The smallest chunk that belongs there."""
    max_bytes: Optional[Size]
    """The largest; null: any."""
    chunks: Optional[Size]
    """How many; null where it could not be read to its end."""
    bytes: Optional[Size]
    """Their bytes."""


class BinsDocument(Document, command="bins"):
    """The answer of bins."""

    bins: Sequence[BinRow]
    """Bins that are not empty."""


class OwnedBin(NamedTuple):
    """A bin and its owner: an arena, or a thread's cache."""

    arena: Optional[int]
    tid: Optional[int]
    bin: Bin


@command(
    "arenas and lists",
    "bins --arena 0",
    arguments=(ARENA, LIMIT),
    lists=always,
)
def bins_command(context: Context) -> Answer:
    """List the free chunks by thread cache, fast, unsorted, small and large bin.

    Thread-cache and fast chunks look in use to malloc and never merge; what lies in the other bins is merged with its
    free neighbours. Thread caches are a thread's, whatever arena their chunks came from.
    """
    context.check_arena(context.options.arena)
    rows = list(_rows(context))
    found = BinsDocument(bins=[_record(row) for row in rows])
    partial = bool(context.session.findings) or (context.session.started and not context.session.caches_known)
    return Answer(found, of_heap(context.session, _lines(context, rows, partial)), problems_of(context.session))


def _rows(context: Context) -> Iterator[OwnedBin]:
    session, wanted = context.session, context.options.arena
    for arena in session.arenas:
        if wanted in (None, arena.header.index):
            for each in (*arena.fastbins, *arena.bins):
                yield OwnedBin(arena.header.index, None, each)
    for cache in session.thread_caches if session.started else ():
        if wanted in (None, cache.arena):
            for each in cache.bins:
                yield OwnedBin(None, cache.tid, each)


def _record(row: OwnedBin) -> BinRow:
    whole = row.bin.whole
    return BinRow.of(
        row.bin,
        arena=row.arena,
        tid=row.tid,
        chunks=row.bin.chunks if whole else None,
        bytes=row.bin.bytes if whole else None,
    )


def _lines(context: Context, rows: list[OwnedBin], partial: bool) -> Iterator[str]:
    style = context.style
    chunks = sum(row.bin.chunks for row in rows)
    size = sum(row.bin.bytes for row in rows)
    cached = sum(row.bin.bytes for row in rows if row.tid is not None)
    # on other screens 'in bins' excludes these lists
    part = f"{style.size(cached) if cached < size else 'all'} of it in thread caches; " if cached else ""
    yield style.bold(
        f"{AT_LEAST if partial else ''}{count(chunks, 'free chunk')} of {style.size(size)} "
        f"in {count(len(rows), 'list')} ({part}tops not counted)"
    )
    yield ""
    ordered = sorted(rows, key=lambda row: -row.bin.bytes) if context.options.limit else rows
    shown, more = cut(ordered, context.options.limit)
    columns = (
        Column("of", lambda row: f"thread {row.tid}" if row.arena is None else f"arena {row.arena}", left=True),
        Column("kind", lambda row: row.bin.kind, left=True),
        Column("bin", lambda row: str(row.bin.index)),
        Column("from", lambda row: style.size(row.bin.min_bytes)),
        Column("to", lambda row: "any" if row.bin.max_bytes is None else style.size(row.bin.max_bytes)),
        # the list could not be followed to its end
        Column("chunks", lambda row: ("" if row.bin.whole else "≥ ") + number(row.bin.chunks)),
        Column("bytes", lambda row: ("" if row.bin.whole else "≥ ") + style.size(row.bin.bytes)),
        Column("average", lambda row: style.size(row.bin.bytes // row.bin.chunks if row.bin.chunks else None)),
    )
    yield from column_table(style, columns, shown, expendable=("average", "bin", "to", "chunks"))
    if more:
        yield style.dim("largest first")
    yield from left_out(style, more, "bin")
