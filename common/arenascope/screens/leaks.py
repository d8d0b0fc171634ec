"""What is lost, in words."""

from __future__ import annotations

from typing import Iterator, Sequence

from ..graph.blocks import LiveBlocks
from ..graph.leak_rows import LeakRow
from ..graph.leaks import Leaks
from ..graph.refs import Search
from ..render.json import address
from ..render.text import NO_HEAP, Style, count, cut, left_out, next_lines, table

HEADERS = ("what", "blocks", "bytes", "with what hangs on them", "", "one of them")


def tally(blocks: LiveBlocks, numbers: Sequence[int]) -> dict[str, object]:
    return {"blocks": len(numbers), "bytes": blocks.bytes_of(numbers)}


def leak_json(row: LeakRow) -> dict[str, object]:
    return {
        "type": row.type,
        "blocks": row.blocks,
        "bytes": row.bytes,
        "indirect_blocks": row.indirect_blocks,
        "indirect_bytes": row.indirect_bytes,
        "strength": row.strength,
        "samples": [address(each) for each in row.samples],
    }


def lines(style: Style, search: Search, leaks: Leaks, rows: Sequence[LeakRow], limit: int) -> Iterator[str]:
    if not search.session.started:
        yield NO_HEAP
        return
    blocks = search.blocks
    lost = [number for each in leaks.definite for number in (each.head, *each.others)]
    perhaps = [number for each in leaks.possible for number in (each.head, *each.others)]

    def size(numbers: Sequence[int]) -> str:
        return style.size(blocks.bytes_of(numbers))

    if leaks.unwatched and lost:
        yield style.bold(
            f"{size(lost)} in {count(len(lost), 'block')} perhaps lost: nothing leads there, unless epoll does"
        )
    elif leaks.doubts and lost:
        yield style.bold(f"whether {size(lost)} in {count(len(lost), 'block')} are lost is not known")
    elif lost:
        yield style.bold(f"{size(lost)} lost in {count(len(lost), 'block')}: nothing leads there")
    else:
        yield style.bold(f"nothing is lost: {count(len(blocks), 'block')}, {style.size(blocks.bytes)} in use")
    reached = leaks.reached
    yield f"reached: {style.size(reached.bytes)} of {style.size(blocks.bytes)} in {count(reached.blocks, 'block')}"
    if perhaps:
        yield f"possibly lost: {size(perhaps)} in {count(len(perhaps), 'block')}, only pointers to insides lead there"
    for encoding, numbers in leaks.saved.items():
        yield f"held by {encoding} pointers alone: {size(numbers)} in {count(len(numbers), 'block')}"
    yield ""
    shown, more = cut([_cells(style, each) for each in rows], limit)
    if shown:
        yield from table(
            HEADERS, shown, left=(0, 4, 5), width=style.width, expendable=("one of them",), form=style.form
        )
        yield from left_out(style, more, "row")
        yield ""
    typed = [style.typed(f"chunk {rows[0].samples[0]:#x}")] if rows else []
    typed += (
        [style.typed("leaks --possible")] if perhaps and not any(each.strength == "possible" for each in rows) else []
    )
    yield from next_lines(style, *typed, style.typed("types"))


def _cells(style: Style, row: LeakRow) -> list[str]:
    return [
        row.type,
        f"{row.blocks:,}",
        style.size(row.bytes),
        f"{style.size(row.all_bytes)} in {row.blocks + row.indirect_blocks:,}" if row.indirect_blocks else "",
        "" if row.strength == "definite" else "perhaps",
        f"{row.samples[0]:#x}",
    ]
