"""The text of `heap leaks`."""

from __future__ import annotations

from typing import Iterator, Sequence

from ...analysis.diff import NAMELESS
from ...base.class_names import type_words
from ...blocks.graph.blocks import LiveBlocks
from ...blocks.graph.encodings import ALIKE
from ...blocks.graph.leaks import LeakRow, Leaks
from ...blocks.graph.pointer_facts import StaleRow
from ..json_documents.block_records import BlockSum, Leak
from ..json_documents.record import address
from ..shared_text.text import Style, count, cut, left_out, next_lines, table
from .refs import STALE_WORDS
from .types import may_be

SURE = 4
FEW = 5
"""How many stale words are named."""


def some(blocks: LiveBlocks, numbers: Sequence[int]) -> BlockSum:
    return BlockSum(blocks=len(numbers), bytes=blocks.bytes_of(numbers))


def leak_record(row: LeakRow) -> Leak:
    return Leak.of(row, samples=[address(each) for each in row.samples])


def lines(
    style: Style,
    blocks: LiveBlocks,
    leaks: Leaks,
    rows: Sequence[LeakRow],
    *,
    stale: Sequence[StaleRow] = (),
    limit: int,
    with_possible: bool,
) -> Iterator[str]:
    """`stale`: stale words that are the only way to some blocks."""
    lost, perhaps = leaks.definite.blocks(), leaks.possible.blocks()

    def size(numbers: Sequence[int]) -> str:
        return style.size(blocks.bytes_of(numbers))

    if leaks.unwatched and lost:
        yield style.bold(
            f"{size(lost)} possibly lost in {count(len(lost), 'block')} that no pointer leads to, unless epoll has one"
        )
    elif leaks.doubts and lost:
        yield style.bold(f"whether {size(lost)} in {count(len(lost), 'block')} is lost is not known")
    elif lost:
        yield style.bold(f"{size(lost)} lost in {count(len(lost), 'block')} that no pointer leads to")
    else:
        yield style.bold(f"nothing is lost: {count(len(blocks), 'block')}, {style.size(blocks.bytes)} in use")
    reached = leaks.reached
    part = (
        "all of it"
        if reached.blocks == len(blocks) and not lost
        else (f"{style.size(reached.bytes)} of {style.size(blocks.bytes)} in {count(reached.blocks, 'block')}")
    )
    yield f"reached: {part}"
    if perhaps:
        yield f"possibly lost: {size(perhaps)} in {count(len(perhaps), 'block')} to whose insides alone pointers lead"
    if leaks.stale.blocks:
        said = f"{style.size(leaks.stale.bytes)} in {count(leaks.stale.blocks, 'block')}"
        yield f"perhaps lost: {said} that only stale words (probably no pointers) lead to{':' * bool(stale)}"
        few, left = cut(stale, FEW if limit > 0 else None)
        for each in few:
            held = f"{style.size(each.bytes)} in {count(each.blocks, 'block')}"
            yield f"  {type_words(each.name or NAMELESS)} ({STALE_WORDS[each.why]}): {held}, as {each.samples[0]:#x}"
        yield from left_out(style, left, "such word")
    for encoding, numbers in leaks.saved.items():
        alone = "reached by pointers to one offset inside, like most blocks of their size"
        said = alone if encoding == ALIKE else f"held by {encoding} pointers alone"
        yield f"{said}: {size(numbers)} in {count(len(numbers), 'block')}"
    yield ""
    shown, more = cut([_cells(style, each) for each in rows], limit)
    if shown:
        yield from _table(style, shown)
        yield from left_out(style, more, "row")
        yield from (may_be(each.type, each.may_be) for each in cut(rows, limit)[0] if each.may_be)
        yield ""
    typed = [style.typed(f"chunk {rows[0].samples[0]:#x}")] if rows else []
    typed += [style.typed("leaks --possible")] if perhaps and not with_possible else []
    yield from next_lines(style, *typed, style.typed("types"))


def _table(style: Style, rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The table of lost blocks. An empty column would take the room of the examples, so it is left out."""
    sure = "sure" if any(row[SURE] for row in rows) else ""
    retained = "retained"
    headers = ("what", "blocks", "bytes", retained, sure, "one of them")
    left = (0, SURE, SURE + 1)
    yield from table(style, headers, rows, left=left, names=(0,), optional=(retained,), expendable=("one of them",))


def _cells(style: Style, row: LeakRow) -> list[str]:
    return [
        type_words(row.type),
        f"{row.blocks:,}",
        style.size(row.bytes),
        f"{style.size(row.all_bytes)} in {row.blocks + row.indirect_blocks:,}" if row.indirect_blocks else "",
        "" if row.strength == "definite" else "perhaps",
        f"{row.samples[0]:#x}",
    ]
