"""What `heap chunks` looks like."""

from __future__ import annotations

from typing import Callable, Iterable, Iterator, Mapping, Optional, Sequence

from ..analysis.chunks import SizeClass, Sums, total
from ..model import Tally
from ..render.text import NO_HEAP, Style, count, number, table

BAR = 24
MEANING = {
    "used": "in the program's hands",
    "tcache": "kept by a thread",
    "fast": "in a fastbin",
    "free": "in bins",
    "top": "at an arena's end",
}
HEADERS = ("chunk", "size", "state", "arena")
CELLS = "\t"
"""Between the cells of a row that waits for --table."""
ROW = "{:<18}  {:>14}  {:<6}  {:>5}"
NARROW = "{:<14} {:>10} {:<6} {:>5}"
"""For a terminal that is not as wide."""


def _row(style: Style) -> str:
    return NARROW if 0 < style.width < len(ROW.format("", "", "", "")) else ROW


def chunk_row(style: Style, as_json: bool, arena: int) -> Callable[[int, int, Optional[str]], str]:
    if as_json:
        return lambda chunk, size, state: (
            f'{{"address": "{chunk:#x}", "bytes": {size}, "state": {_quoted(state)}, "arena": {arena}}}'
        )
    if style.form:
        return lambda chunk, size, state: CELLS.join((f"{chunk:#x}", style.size(size), state or "?", str(arena)))
    row = _row(style)
    return lambda chunk, size, state: row.format(f"{chunk:#x}", style.size(size), state or "?", arena)


def _quoted(state: Optional[str]) -> str:
    return f'"{state}"' if state else "null"


def heading(style: Style, limit: int, left_out: Optional[int]) -> Iterator[str]:
    yield ""
    if left_out:
        yield style.dim(f"the first {limit:,}; {count(left_out, 'more chunk')} left out; --limit 0 shows all")
        yield ""
    if style.form:
        return
    row = _row(style)
    yield row.format(*HEADERS)
    yield row.format("-" * 18, "-" * 14, "-" * 6, "-" * 5) if row is ROW else "-" * 38


def table_of(rows: Iterable[str], style: Style) -> Iterator[str]:
    """What chunk_row made of them, for --table, which measures all before it writes any."""
    return table(HEADERS, [row.split(CELLS) for row in rows], left=(0, 2), width=style.width, form=style.form)


def summary_lines(
    style: Style,
    by_arena: Mapping[int, Sums],
    classes: Sequence[SizeClass],
    *,
    started: bool,
    only: Optional[str],
    doubtful: bool,
    states: bool,
) -> Iterator[str]:
    """`states`: also how much there is of each state and size."""
    if not started:
        yield NO_HEAP
        return
    sums = total(by_arena.values())
    used, free = sums.tally("used"), sums.tally("free")
    yield style.bold(
        f"{count(sums.chunks, 'chunk')} in {count(len(by_arena), 'arena')} of {style.size(sums.bytes)}: "
        f"{style.size(None if doubtful else used.bytes)} in use, {style.size(free.bytes)} free in bins, "
        f"{style.size(sums.gaps['top'])} free in tops"
    )
    if not states:
        return
    yield ""
    yield from _states(style, by_arena, sums, doubtful)
    if classes:
        yield ""
        yield from _classes(style, classes, only, doubtful)


def _states(style: Style, by_arena: Mapping[int, Sums], sums: Sums, doubtful: bool) -> Iterator[str]:
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
    yield from table(
        ("state", "chunks", "bytes", ""),
        rows,
        left=(0, 3),
        footer=["all", "", style.size(sums.bytes), ""],
        width=style.width,
        form=style.form,
    )


def _classes(style: Style, classes: Sequence[SizeClass], only: Optional[str], doubtful: bool) -> Iterator[str]:
    """`only`: "used" or "free", where nothing else was asked for."""
    largest = max(row.used.bytes + row.free.bytes for row in classes)
    rows = []
    for row in classes:
        shown = {"used": row.used, "free": row.free}
        known = {name: None if doubtful or only not in (None, name) else tally for name, tally in shown.items()}
        cells = [style.size(row.most)]
        for name in shown:
            tally = known[name]
            cells += [number(tally.chunks), style.size(tally.bytes)] if tally else ["", ""]
        rows.append([*cells, _bar(row, largest)])
    yield from table(
        ("size to", "used", "bytes", "free", "bytes ", "█ used ░ free"),
        rows,
        left=(5,),
        width=style.width,
        expendable=("bytes", "bytes "),
        form=style.form,
    )


def _bar(row: SizeClass, largest: int) -> str:
    used = round(BAR * row.used.bytes / largest)
    return "█" * used + "░" * (round(BAR * (row.used.bytes + row.free.bytes) / largest) - used)
