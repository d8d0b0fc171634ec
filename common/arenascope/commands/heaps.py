"""heap heaps: the sub-heaps of each arena."""

from __future__ import annotations

from typing import Iterator, Optional, Sequence

from ..base.heap_model import Heap
from ..present.json_documents.record import Address, Document, Record, Size
from ..present.json_documents.shared_records import Index
from ..present.shared_text.lines_and_tables import AT_LEAST, Column, column_table, count
from ..session.problems import problems_of
from .framework.command import ARENA, LIMIT, Answer, Context, command, of_heap


class HeapRow(Record):
    """A heap, or a region that the main arena grew into."""

    arena: Index
    address: Address
    """Where it starts."""
    end: Address
    """Where it ends."""
    bytes: Size
    """Its size."""
    mprotect_bytes: Optional[Size]
    """What mprotect opened; null: the main arena's."""
    resident_bytes: Optional[Size]
    """What of it is in memory."""
    last: bool
    """Whether top lies in it."""


class HeapsDocument(Document, command="heaps"):
    """The answer of heaps."""

    heaps: Sequence[HeapRow]
    """Arena by arena, in address order."""


@command(
    "arenas and lists",
    "heaps --arena 1",
    arguments=(ARENA, LIMIT),
)
def heaps_command(context: Context) -> Answer:
    """List the heaps of each arena: range, size, accessible and resident part.

    A thread's arena grows in heaps of 64 MiB of address space (1 MiB on 32-bit), chained; only the last one can be
    given back whole. The main arena's rows are the regions it grew into. accessible is what mprotect opened: more than
    size where free() shrank the heap.
    """
    session = context.session
    context.check_arena(context.options.arena)
    rows = [
        (heap, _resident(context, heap))
        for heaps in session.heaps.values()
        for heap in heaps
        if context.options.arena in (None, heap.arena)
    ]
    found = HeapsDocument(heaps=[HeapRow.of(heap, resident_bytes=resident) for heap, resident in rows])
    problems = problems_of(session)
    return Answer(found, of_heap(session, _lines(context, rows, bool(session.findings))), problems)


def _resident(context: Context, heap: Heap) -> Optional[int]:
    pages = context.session.resident_in(heap)
    return pages.resident if pages else None


def _lines(context: Context, rows: list[tuple[Heap, Optional[int]]], partial: bool) -> Iterator[str]:
    style = context.style
    arenas = len({heap.arena for heap, _ in rows})
    size = style.size(sum(heap.bytes for heap, _ in rows))
    yield style.bold(f"{AT_LEAST if partial else ''}{count(len(rows), 'heap')} of {size} in {count(arenas, 'arena')}")
    yield ""
    columns = (
        Column("arena", lambda row: str(row[0].arena), left=True),
        Column("from", lambda row: f"{row[0].address:#x}", left=True),
        Column("to", lambda row: f"{row[0].end:#x}", left=True),
        Column("size", lambda row: style.size(row[0].bytes)),
        Column("accessible", lambda row: "-" if row[0].mprotect_bytes is None else style.size(row[0].mprotect_bytes)),
        Column("resident", lambda row: style.size(row[1])),
        Column("holds", lambda row: row[0].last and "top", left=True),
    )
    limit = context.options.limit
    yield from column_table(style, columns, rows, expendable=("accessible", "to"), limit=limit, what="heap")
