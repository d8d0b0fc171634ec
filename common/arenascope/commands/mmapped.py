"""heap mmapped: the blocks that malloc got by mmap."""

from __future__ import annotations

from typing import Iterator, Optional, Sequence

from ..base.heap_model import Kind, MmappedBlock
from ..blocks.single_blocks import kinds_by_types
from ..present.json_documents.record import Address, ChunkTally, Document, Record, Size
from ..present.screens.type_lines import A_GUESS, name_of
from ..present.shared_text.lines_and_tables import Column, column_table, count, cut, left_out
from ..session.problems import mmapped_mismatch, mmapped_tally, problems_of
from ..session.resident import pages_of
from .framework.command import LIMIT, Answer, Context, command, of_heap


class MmappedRow(Record):
    """A block with a mapping of its own."""

    address: Address
    """Its chunk."""
    bytes: Size
    """Its mapping."""
    resident_bytes: Optional[Size]
    """What of it is in memory."""
    type: Optional[str]
    """What it is; null: known by its size alone."""
    certain: Optional[bool]
    """False for a guess, by what it holds."""


class MmappedDocument(Document, command="mmapped"):
    """The answer of mmapped."""

    blocks: Sequence[MmappedRow]
    """In address order."""
    expected: ChunkTally
    """What mp_ counts."""
    match: bool
    """Whether the two agree."""


@command(
    "arenas and lists",
    "mmapped",
    arguments=(LIMIT,),
)
def mmapped_command(context: Context) -> Answer:
    """List the blocks served by mmap, checked against glibc's own count.

    Requests of mmap_threshold and more get a mapping of their own, which free() gives back at once. glibc counts them
    and keeps no list, so they are recognised by their headers.
    """
    session = context.session
    blocks = session.mmapped if session.started else []
    expected = mmapped_tally(session)
    resident = [each.resident if each else None for each in pages_of(session, blocks)]
    problem = mmapped_mismatch(session)
    match = problem is None
    # none of these blocks can use the next chunk's prev_size
    sizes = [(each.chunk, each.base + each.bytes - each.chunk - session.layout.word) for each in blocks]
    known = kinds_by_types(session, sizes) if sizes else {}
    kinds = [known.get(each.chunk) for each in blocks]
    # the size is in the row already: it is no type
    types = [kind if kind and kind.kind != "size" else None for kind in kinds]
    problems = problems_of(session)
    if problem is not None and problem not in problems:
        problems.append(problem)
    found = MmappedDocument(
        blocks=[
            MmappedRow.of(block, kind, address=block.chunk, resident_bytes=held, type=kind and kind.name)
            for block, held, kind in zip(blocks, resident, types)
        ],
        expected=ChunkTally.of(expected),
        match=match,
    )
    return Answer(found, of_heap(session, _lines(context, blocks, resident, types, match=match)), problems)


def _lines(
    context: Context,
    blocks: Sequence[MmappedBlock],
    resident: Sequence[Optional[int]],
    types: Sequence[Optional[Kind]],
    match: bool,
) -> Iterator[str]:
    style = context.style
    size = style.size(sum(block.bytes for block in blocks))
    said = count(len(blocks), "block") + (" served by mmap" if match else " recognised as served by mmap")
    yield style.bold(f"{said}, {size}{', as glibc counts them' if match else ''}")
    if not blocks:
        return
    yield ""
    order = sorted(zip(blocks, resident, types), key=lambda row: -row[0].bytes)
    shown, more = cut(order, context.options.limit)
    columns = (
        Column("chunk", lambda row: f"{row[0].chunk:#x}", left=True),
        Column("size", lambda row: style.size(row[0].bytes)),
        Column("resident", lambda row: style.size(row[1])),
        Column("type", lambda row: row[2] and name_of(row[2]), name=True, optional=True),
    )
    yield from column_table(style, columns, shown)
    if any(kind and not kind.certain for kind in types):
        yield style.dim(A_GUESS)
    yield from left_out(style, more, "block")
