"""The text of `heap chunks`."""

from __future__ import annotations

import sys
from json import dumps
from typing import Callable, Iterable, Iterator, Mapping, NamedTuple, Optional, Sequence

from ...analysis.chunk_sums import ChunkSums, ExactSize, SizeClass, total
from ...base.heap_model import Tally
from ..shared_text.lines_and_tables import WIDEST_NAME, Style, count, in_use, number, shortened_name, table

STATE_WORDS = {
    "used": "in use",
    "tcache": "free, kept in a thread's cache",
    "fast": "free, in a fastbin",
    "free": "free",
    "top": "the top of its arena, which new blocks are cut from",
    "mmapped": "in use, served by mmap",
}
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


class SizeTable(NamedTuple):
    """How many chunks there are of each size."""

    classes: Sequence[SizeClass]
    exact: Sequence[ExactSize]
    limit: int
    """How many exact sizes are shown; 0: all."""
    alone: bool
    """Only exact sizes, no classes."""


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


def heading(style: Style, sort: str, limit: int, left_out: Optional[int], *, types: bool) -> Iterator[str]:
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


def summary_lines(
    style: Style,
    by_arena: Mapping[int, ChunkSums],
    sizes: SizeTable,
    *,
    only: Optional[str],
    doubtful: bool,
    states: bool,
) -> Iterator[str]:
    """`states`: also count chunks and bytes of each state and size."""
    sums = total(by_arena.values())
    used, free = sums.tally("used"), sums.tally("free")
    yield style.bold(
        f"{count(sums.chunks, 'chunk')} in {count(len(by_arena), 'arena')}, {style.size(sums.bytes)} in all: "
        f"{in_use(style, None if doubtful else used.bytes, sums.bookkeeping)}, {style.size(free.bytes)} free in bins, "
        f"{style.size(sums.gaps['top'])} free in tops"
    )
    if not states:
        return
    yield ""
    yield from _states(style, by_arena, sums, doubtful)
    if not sizes.classes:
        return
    if not sizes.alone:
        yield ""
        yield from _classes(style, sizes.classes, only, doubtful)
    if sizes.alone or any(row.only is None for row in sizes.classes):
        yield ""
        yield from _exact(style, sizes, only, doubtful)


def _states(style: Style, by_arena: Mapping[int, ChunkSums], sums: ChunkSums, doubtful: bool) -> Iterator[str]:
    tops = Tally(sum(1 for each in by_arena.values() if each.gaps["top"]), sums.gaps["top"])
    rows = []
    for state, meaning in MEANING.items():
        tally: Optional[Tally] = tops if state == "top" else sums.tally(state)
        if doubtful and state not in ("free", "top"):
            tally = None
        chunks, held = (tally.chunks, tally.bytes) if tally else (None, None)
        rows.append([state, number(chunks), style.size(held), meaning])
    rows.append(["bookkeeping", "", style.size(sums.bookkeeping), "headers of heaps and arenas, fenceposts"])
    for kind, meaning in (("foreign", "somebody else's, by sbrk"), ("damage", "could not be read as chunks")):
        if sums.gaps[kind]:
            rows.append([kind, "", style.size(sums.gaps[kind]), meaning])
    footer = ["all", "", style.size(sums.bytes), ""]
    yield from table(style, ("state", "chunks", "bytes", ""), rows, left=(0, 3), footer=footer)


def _classes(style: Style, classes: Sequence[SizeClass], only: Optional[str], doubtful: bool) -> Iterator[str]:
    """`only`: "used" or "free" if only these were asked for."""
    largest = max(row.used.bytes + row.free.bytes for row in classes)
    rows = []
    for row in classes:
        # if all chunks have one size, show that, not the class's limit
        label = f"≤ {style.size(row.most)}" if row.only is None else f"{row.only:,} B"
        rows.append([label, *_counts(style, row.used, row.free, only, doubtful=doubtful), _bar(row, largest)])
    yield from table(style, (*SIZE_HEADERS, "█ used ░ free"), rows, left=(5,), expendable=("bytes", "bytes "))


def _counts(style: Style, used: Tally, free: Tally, only: Optional[str], doubtful: bool) -> Iterator[str]:
    """Cells with count and bytes, of used and of free chunks."""
    for name, tally in (("used", used), ("free", free)):
        known = not doubtful and only in (None, name)
        yield number(tally.chunks) if known else ""
        yield style.size(tally.bytes) if known else ""


def _exact(style: Style, sizes: SizeTable, only: Optional[str], doubtful: bool) -> Iterator[str]:
    shown = sizes.exact[: sizes.limit] if sizes.limit > 0 else sizes.exact
    more = len(sizes.exact) - len(shown)
    rows = [
        [
            f"{row.bytes:,} B",
            *_counts(
                style,
                Tally(row.used, row.bytes * row.used),
                Tally(row.free, row.bytes * row.free),
                only,
                doubtful=doubtful,
            ),
        ]
        for row in shown
    ]
    if more:
        yield f"the {count(len(shown), 'size')} that {'hold' if len(shown) > 1 else 'holds'} most, to the byte"
    elif not sizes.alone:
        yield "every size, to the byte"
    yield from table(style, SIZE_HEADERS, rows, left=())
    if more:
        hint = "--limit 0 shows all" if sizes.alone else f"--exact shows {'it' if more == 1 else 'them'}"
        yield style.dim(f"… {count(more, 'more size')}; {hint}")


def _bar(row: SizeClass, largest: int) -> str:
    used = round(BAR * row.used.bytes / largest)
    return "█" * used + "░" * (round(BAR * (row.used.bytes + row.free.bytes) / largest) - used)
