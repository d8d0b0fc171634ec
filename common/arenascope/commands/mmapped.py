"""heap mmapped: the blocks that malloc got by mmap."""

from __future__ import annotations

from typing import Iterator, Optional, Sequence

from ..command import LIMIT, Answer, Context, command
from ..gather.problems import problems_of
from ..gather.usage import mmapped_tally
from ..glibc.layout import Layout
from ..glibc.mmapped import counts_headers_twice
from ..model import MmappedBlock, Statement, Tally
from ..render.json import address, tally_json
from ..render.problems import NOT_AS_COUNTED
from ..render.text import NO_HEAP, count, cut, left_out, table
from ..session import Session


@command(
    "arenas and lists",
    "List the blocks served by mmap, checked against glibc's own count.",
    "mmapped",
    "Requests of mmap_threshold and more get a mapping of their own, which free() gives back at once. glibc counts "
    "them and keeps no list, so they are recognised by their headers.",
    (LIMIT,),
)
def mmapped_command(context: Context) -> Answer:
    session = context.session
    blocks = session.mmapped if session.started else []
    expected = mmapped_tally(session)
    residency = session.residency
    pages = [residency.count(block.base, block.base + block.bytes) if residency else None for block in blocks]
    resident = [each.resident if each else None for each in pages]
    problem = mismatch(session)
    match = problem is None
    problems = [*problems_of(session), *([problem] if problem else [])]
    keys = {
        "blocks": [
            {"address": address(block.chunk), "bytes": block.bytes, "resident_bytes": held}
            for block, held in zip(blocks, resident)
        ],
        "expected": tally_json(expected),
        "match": match,
    }
    return Answer(keys, _lines(context, blocks, resident, match), problems)


def _explained(layout: Layout, found: Tally, expected: Tally) -> bool:
    """The sum is too large, the number is right."""
    return found.chunks == expected.chunks and counts_headers_twice(layout, expected.bytes, found.bytes)


def mismatch(session: Session) -> Optional[Statement]:
    """The problem, where the blocks found are not those that glibc counts."""
    blocks = session.mmapped if session.started else []
    found, expected = Tally(len(blocks), sum(block.bytes for block in blocks)), mmapped_tally(session)
    if expected is not None and (found == expected or _explained(session.layout, found, expected)):
        return None
    if expected is None:
        return Statement("blocks-uncounted")
    return Statement(
        NOT_AS_COUNTED,
        {"found_blocks": found.chunks, "found_bytes": found.bytes, "blocks": expected.chunks, "bytes": expected.bytes},
    )


def _lines(
    context: Context, blocks: Sequence[MmappedBlock], resident: Sequence[Optional[int]], match: bool
) -> Iterator[str]:
    style = context.style
    if not context.session.started:
        yield NO_HEAP
        return
    size = style.size(sum(block.bytes for block in blocks))
    said = count(len(blocks), "block") + (" served by mmap" if match else " recognised as served by mmap")
    yield style.bold(f"{said}, {size}{', as glibc counts them' if match else ''}")
    if not blocks:
        return
    yield ""
    order = sorted(zip(blocks, resident), key=lambda pair: -pair[0].bytes)
    rows = [[f"{block.chunk:#x}", style.size(block.bytes), style.size(held)] for block, held in order]
    shown, more = cut(rows, context.options.limit)
    yield from table(("chunk", "size", "resident"), shown, width=style.width, form=style.form)
    yield from left_out(style, more, "block")
