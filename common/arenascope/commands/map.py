"""heap map: the picture, occupancy of every heap by address."""

from __future__ import annotations

import math
import os
import time
from itertools import groupby
from typing import Annotated, Callable, Iterator, Mapping, NamedTuple, Optional, Sequence

from ..analysis.arena_usage import total
from ..analysis.heap_map import LAYERS, PARTS, SPLITS, Strip
from ..analysis.pinning_blocks import TypeRow
from ..base.errors import UsageError
from ..base.heap_model import Heap
from ..base.printable import PLAIN
from ..base.whole_file import write_whole
from ..blocks.heap_strips import HeapStrips, draw, lay_types, page_cells, page_rows, type_layer
from ..blocks.type_figures import types_of
from ..present.json_documents.record import Address, Document, Record, Size
from ..present.json_documents.shared_records import BlocksOfType, Index, Written
from ..present.pages.fill_page import filled, packed, title_of
from ..present.screens.type_lines import name_of
from ..present.shared_text.lines_and_tables import (
    AT_LEAST,
    AT_MOST,
    NO_HEAP,
    UNKNOWN,
    Painted,
    Part,
    Style,
    count,
    in_use,
    laid,
    left_out,
    table,
)
from ..present.shared_text.problem_sentences import sentences as sentences_of
from ..session.problems import problems_of
from ..session.session import Session
from ..sources.target import Target
from .framework.command import ARENA, LIMIT, Answer, Context, always, argument, command
from .types import typed

PIPE_CELLS = 64
ONE_LINE = 112
"""Terminal width from which strip and figures share a line."""
STRIP_BEGINS = "{:<6} {:<14} {:>9}  "
FIGURES = 82
"""Columns that the figures take: beside a strip, and without one."""
FIGURES_ALONE = 79
SORTS: Mapping[str, Callable[[Strip], tuple[int, ...]]] = {
    "index": lambda strip: (strip.heap.arena,),
    "releasable": lambda strip: (-(strip.total("releasable_resident") or 0), -(strip.total("releasable") or 0)),
    "resident": lambda strip: (-(strip.total("resident") or 0),),
    "size": lambda strip: (-strip.heap.bytes,),
    "splits": lambda strip: (-(strip.total(SPLITS) or 0),),
    "used": lambda strip: (-(strip.total("used") or 0),),
}
Cells = Optional[Sequence[Size]]


class StripRecord(Record):
    """The strip of a heap."""

    arena: Index
    address: Address
    """Where it starts."""
    end: Address
    """Where it ends."""
    cell_bytes: Size
    """What a cell stands for."""
    types: Sequence[Sequence[Size]] = ()
    """With --types: for each type its bytes in each cell."""
    used: Cells
    """In use: bytes in each cell; null: not known."""
    cached: Cells
    """In a thread cache or fastbin: bytes in each cell; null: not known."""
    free: Cells
    """In bins: bytes in each cell; null: not known."""
    top: Cells
    """At an arena's end: bytes in each cell; null: not known."""
    bookkeeping: Cells
    """malloc's own: bytes in each cell; null: not known."""
    foreign: Cells
    """Somebody else's, by sbrk: bytes in each cell; null: not known."""
    damaged: Cells
    """What could not be read as chunks: bytes in each cell; null: not known."""
    resident: Cells
    """In memory: bytes in each cell; null: not known."""
    releasable: Cells
    """What malloc_trim(0) would give back: bytes in each cell; null: not known."""
    releasable_resident: Cells
    """What of that is in memory: bytes in each cell; null: not known."""
    tops: Cells
    """What only trim --tops gives back: bytes in each cell; null: not known."""
    splits: Sequence[Annotated[Size, "How many"]]
    """Stretches in use that split free memory, and are smaller than what is free on their two sides: those that begin
    in each cell."""


class StripTotals(Record):
    """Sums over all heaps."""

    used_bytes: Optional[Size]
    """In use."""
    cached_bytes: Optional[Size]
    """In a thread cache or fastbin."""
    free_bytes: Optional[Size]
    """In bins."""
    top_bytes: Optional[Size]
    """At an arena's end."""
    bookkeeping_bytes: Optional[Size]
    """malloc's own."""
    foreign_bytes: Optional[Size]
    """Somebody else's, by sbrk."""
    damaged_bytes: Optional[Size]
    """What could not be read as chunks."""
    resident_bytes: Optional[Size]
    """In memory."""
    releasable_bytes: Optional[Size]
    """What malloc_trim(0) would give back."""
    releasable_resident_bytes: Optional[Size]
    """What of that is in memory."""
    tops_bytes: Optional[Size]
    """What only trim --tops gives back."""
    splits: Size
    """Stretches in use that split free memory, and are smaller than what is free on their two sides."""


class MapDocument(Document, command="map"):
    """The answer of map."""

    heaps: Sequence[StripRecord]
    """A strip of cells for each."""
    totals: StripTotals
    html: Optional[Written]
    """The page that was written."""
    types: Sequence[Annotated[BlocksOfType, "All live blocks of a type, mmapped ones included"]] = ()
    """With --types: those that hold back the most, 8 at most."""


class CellMark(NamedTuple):
    """The mark of a cell: letter, colour and meaning."""

    letter: str
    colour: int
    meaning: str


USED = (
    (0.95, CellMark("█", 34, "nearly all")),
    (0.5, CellMark("▓", 34, "half and more")),
    (0.1, CellMark("▒", 34, "a tenth and more")),
)
"""Marks by the least share of the cell that is in use."""
OTHER = {
    "cached": CellMark("c", 33, "in a thread cache or fastbin"),
    "releasable": CellMark("r", 32, "free, malloc_trim returns it"),
    "free": CellMark("f", 31, "free, stays"),
    "top": CellMark("t", 35, "top, an arena's end"),
    "absent": CellMark(".", 90, "free, not resident"),
    "bookkeeping": CellMark("h", 36, "malloc's own"),
    "foreign": CellMark("x", 36, "somebody else's sbrk"),
    "damaged": CellMark("!", 91, "could not be read as chunks"),
}
SPLIT_MARKS = ((0, " "), (9, ""), (99, "+"), (math.inf, "#"))
"""Marks by the most cuts in a cell; "": the number itself."""
CAPITAL = {".": ":"}
"""Marks that stand for a capital where a letter has none."""


def strip_width(style: Style) -> int:
    """How many cells fit on a line."""
    if not style.width:
        return PIPE_CELLS
    return max(16, style.width - FIGURES if style.width >= ONE_LINE else style.width - 2)


def sentences(style: Style, session: Session, strips: Sequence[Strip]) -> list[str]:
    """What the heaps hold, and what could be returned."""
    if not session.started:
        return [NO_HEAP]
    size = sum(strip.heap.bytes for strip in strips)
    sums = {layer: total(strip.total(layer) for strip in strips) for layer in LAYERS}
    used = in_use(style, sums["used"], sums["bookkeeping"])
    cached = f", {style.size(sums['cached'])} cached" if sums["cached"] != 0 else ""
    memory = "" if sums["resident"] is None else f", {style.size(sums['resident'])} resident"
    back = f"malloc_trim(0) would return {style.size(sums['releasable'])}"
    if sums["releasable_resident"] == 0:
        back = "malloc_trim(0) would return no resident memory"
    elif sums["releasable_resident"] is not None:
        back += f", {style.size(sums['releasable_resident'])} of it resident"
    tops = f", trim --tops {style.size(sums['tops'])} more" if sums["tops"] != 0 else ""
    arenas = len({strip.heap.arena for strip in strips})
    heaps = f"{count(len(strips), 'heap')} of {style.size(size)} in {count(arenas, 'arena')}"
    said = [f"{AT_LEAST if session.findings else ''}{heaps}: {used}{cached}{memory}", f"{back}{tops}"]
    splits = sum(strip.total(SPLITS) or 0 for strip in strips)
    if splits:
        said.append(f"blocks in use cut free memory up in {count(splits, 'place')}")
    return said


def lines(context: Context, strips: Sequence[Strip], said: Sequence[str], written: Optional[Written]) -> Iterator[str]:
    """`said`: the result of sentences()."""
    style, limit = context.style, context.options.limit
    yield from map(style.bold, said)
    if written is not None:
        size = written.bytes
        assert isinstance(size, int)
        yield f"{written.file}: {style.size(size)} written; a browser shows it"
        return
    if not strips:
        return
    unicode = _unicode()
    order = sorted(strips, key=SORTS[context.options.sort])
    shown = order[:limit] if limit > 0 else order
    marks = [_marks(strip) for strip in shown]
    yield ""
    split = any(strip.total(SPLITS) for strip in shown) and not style.form
    yield from _legend(style, unicode, {mark for row in marks for mark in row}, split)
    yield ""
    beside = max(map(len, marks)) if not style.width or style.width >= ONE_LINE else 0
    figures = ("arena", "from", "size", "a cell", "used", "resident", "trim", "cuts")
    if style.form:
        cells = [[*_figures(style, strip), _coloured(style, unicode, row)] for strip, row in zip(shown, marks)]
        yield from table(style, (*figures, "occupancy"), cells, left=(0, 1, 8))
        yield from left_out(style, len(order) - len(shown), "heap")
        return
    # on a narrow terminal each heap's figures stand by name above its strip
    narrow = not beside and 0 < style.width < FIGURES_ALONE
    if not narrow:
        yield style.dim(_row(figures, f"{'occupancy':<{beside}}" if beside else "").rstrip())
    for strip, row in zip(shown, marks):
        text = _coloured(style, unicode, row)
        if narrow:
            yield ", ".join(f"{name} {figure}" for name, figure in zip(figures, _figures(style, strip)))
        else:
            yield laid(_row(_figures(style, strip), text + " " * (beside - len(row)) if beside else ""))
        if not beside:
            yield laid(text)
        yield from _splits(style, strip, len(STRIP_BEGINS.format("", "", "")) if beside else 0)
    yield from left_out(style, len(order) - len(shown), "heap")


def _row(figures: Sequence[str], text: str) -> str:
    arena, start, size, *others = figures
    cell, used, resident, frees, splits = others
    after = f"{'  ' if text else ''}{cell:>9} {used:>6} {resident:>9} {frees:>11} {splits:>7}"
    return STRIP_BEGINS.format(arena, start, size) + text + after


def _splits(style: Style, strip: Strip, before: int) -> Iterator[str]:
    """A line below the strip: in how many places of each cell blocks in use cut free memory up."""
    counts = strip.cells(SPLITS) or ()
    if any(counts):
        text = "".join(next(mark for most, mark in SPLIT_MARKS if each <= most) or str(each) for each in counts)
        yield laid(style.dim((" " * before + text).rstrip()))


def _figures(style: Style, strip: Strip) -> list[str]:
    heap, frees = strip.heap, strip.total("releasable_resident")
    return [
        "0 main" if heap.arena == 0 else str(heap.arena),
        f"{heap.address:#x}",
        style.size(heap.bytes),
        style.size(strip.cell),
        _percent(strip.total("used"), heap.bytes),
        style.size(strip.total("resident")),
        f"{AT_MOST}{style.size(strip.total('releasable'))}" if frees is None else style.size(frees),
        f"{strip.total(SPLITS) or 0:,}",
    ]


def _marks(strip: Strip) -> list[CellMark]:
    cells = {layer: strip.cells(layer) for layer in (*PARTS, "resident", "releasable")}
    if cells["used"] is None:
        # used and cached bytes are known only together
        cells["used"] = strip.held()
    return [
        _mark({layer: each[at] for layer, each in cells.items() if each}, strip.length(at)) for at in range(strip.count)
    ]


def _mark(cell: Mapping[str, int], size: int) -> CellMark:
    """The mark of a cell. Damage comes first; then blocks in use, however few, as they keep the rest."""
    if cell["damaged"]:
        return OTHER["damaged"]
    for share, mark in USED:
        if cell["used"] >= share * size:
            return mark
    rest = OTHER[_rest(cell, size)]
    if not cell["used"]:
        return rest
    capital = CAPITAL.get(rest.letter, rest.letter.upper())
    return rest._replace(letter=capital)


def _rest(cell: Mapping[str, int], size: int) -> str:
    """The layer that fills most of a cell with little in use."""
    largest = max(("cached", "free", "top", "bookkeeping", "foreign"), key=lambda layer: cell.get(layer, 0))
    if largest not in ("free", "top"):
        return largest
    if 2 * cell.get("resident", size) < size:
        return "absent"
    return "releasable" if 2 * cell.get("releasable", 0) >= size else largest


def _legend(style: Style, unicode: bool, met: set[CellMark], split: bool) -> Iterator[str]:
    """The marks that occur, with their meanings."""
    used = [mark for _, mark in USED if mark in met]
    letters = {mark.letter.lower().replace(":", ".") for mark in met}
    words = [_coloured(style, unicode, [mark]) + f" {mark.meaning}" for mark in used]
    if words:
        words[0] += " in use"
    others = [mark for mark in OTHER.values() if mark.letter in letters]
    words += [_coloured(style, unicode, [mark]) + f" {mark.meaning}" for mark in others]
    if any(mark.letter.isupper() or mark.letter == ":" for mark in met):
        words.append("capital or : the same, with less than a tenth in use")
    if split:
        words.append("beneath: in how many places blocks in use cut free memory up (+ 10 and more, # 100 and more)")
    line = ""
    for each in words:
        if line and len(line) + 3 + len(each) > (style.width or 120):
            yield _laid(line, style)
            line = ""
        line += ("   " if line else "") + each
    yield _laid(line, style)


def _laid(line: str, style: Style) -> str:
    """A line of the legend. It may wrap if one meaning is longer than the terminal is wide."""
    return laid(line) if not style.width or len(line) <= style.width else line


def _coloured(style: Style, unicode: bool, marks: Sequence[CellMark]) -> str:
    parts = []
    for colour, run in groupby(marks, key=lambda mark: mark.colour):
        letters = "".join(mark.letter if unicode else PLAIN.get(mark.letter, mark.letter) for mark in run)
        parts.append(Part(letters, str(colour) if style.colour else ""))
    return Painted(*parts)


def _percent(part: Optional[int], whole: int) -> str:
    if part is None or not whole:
        return UNKNOWN
    return "<1 %" if 0 < 100 * part < whole else f"{100 * part // whole} %"


def _unicode() -> bool:
    """Whether the locale is UTF-8. (A debugger's output stream does not tell.)"""
    told = next((value for name in ("LC_ALL", "LC_CTYPE", "LANG") for value in [os.environ.get(name)] if value), "")
    return "utf-8" in told.lower() or "utf8" in told.lower()


JSON_CELLS = 256
MAX_CELLS = 1 << 16


@command(
    "chunk by chunk",
    "map --sort releasable",
    arguments=(
        argument("--html", metavar="FILE", help="write a page for a browser instead"),
        argument("--types", action="store_true", help="with --html or --json: also which type is where"),
        ARENA,
        argument("--sort", choices=sorted(SORTS), default="index", help="the order of the rows"),
        argument("--cells", type=int, default=0, metavar="N", help="divide each heap into at most N cells"),
        LIMIT,
    ),
    copies=always,
    whole=lambda options: bool(options.types),
)
def map_command(context: Context) -> Answer:
    """Show the occupancy of every heap by address, in the terminal or as one self-contained page.

    One strip for each heap, from its start on the left to its end on the right: what is in use, cached by threads,
    free, at an arena's end (top), what of the free is in memory and what of that malloc_trim(0) would give back. --html
    writes a page to zoom into, with figures to the byte; it needs no network and holds no user data. With --types it
    has a colour for each of the types (see types) that hold back the most, with their names. In the shell a live
    process is copied, and runs on meanwhile.
    """
    options = context.options
    if options.types and not (options.html or options.json):
        raise UsageError("--types is for the page: there are not enough characters for it here", "--html FILE --types")
    session = context.session
    context.check_arena(options.arena)
    picture, types = HeapStrips(), None
    if session.started:
        draw(session, options.arena, _fineness(context), picture)
        if options.types and not session.stopped:
            types = lay_types(types_of(session, options.arena), picture)
    problems = [*picture.problems, *problems_of(session)]
    said = sentences(context.style, session, picture.strips)
    written = None
    if options.html:
        facts = page_facts(session, said, sentences_of(problems), live=context.target)
        strips = strips_of_page(session, picture, types)
        data = filled("heap_map", {**facts, **strips}, title_of("heap map", facts))
        # release first: a slow disk, or a FIFO's reader, must not keep the process standing still
        context.door.release()
        write_whole(options.html, data)
        written = Written(file=options.html, bytes=len(data))
    fold = options.cells if options.cells > 0 else JSON_CELLS
    totals = {f"{layer}_bytes": total(strip.total(layer) for strip in picture.strips) for layer in LAYERS}
    found = MapDocument.of(
        None,
        heaps=[_record(strip.folded(fold), types) for strip in picture.strips] if options.json else [],
        totals=StripTotals(**totals, splits=sum(strip.total(SPLITS) or 0 for strip in picture.strips)),
        html=written,
        **({"types": [typed(BlocksOfType, row) for row in types or ()]} if options.types else {}),
    )
    return Answer(found, lines(context, picture.strips, said, written), problems)


def _fineness(context: Context) -> Mapping[Heap, int]:
    """The most cells of a heap."""
    options = context.options
    heaps = [heap for index, parts in context.session.heaps.items() for heap in parts if options.arena in (None, index)]
    if options.cells > 0:
        return dict.fromkeys(heaps, min(options.cells, MAX_CELLS))
    if options.html:
        return page_cells(heaps)
    return dict.fromkeys(heaps, JSON_CELLS if options.json else strip_width(context.style))


def _record(strip: Strip, types: Optional[Sequence[TypeRow]]) -> StripRecord:
    layers: dict[str, object] = {layer: _listed(strip.cells(layer)) for layer in (*LAYERS, SPLITS)}
    if types is not None:
        layers["types"] = [_listed(strip.cells(type_layer(number))) for number in range(len(types))]
    return StripRecord.of(strip.heap, strip, **layers)


def _listed(cells: Optional[Sequence[int]]) -> Optional[list[int]]:
    return None if cells is None else list(cells)


def strips_of_page(
    session: Session, picture: HeapStrips, types: Optional[Sequence[TypeRow]]
) -> Mapping[str, Sequence[object]]:
    """The strips as the script that draws them takes them, with the types that are laid over them."""
    return {
        "types": [{"name": name_of(row.kind), "module": row.kind.module} for row in types or ()],
        "heaps": [packed(row) for row in page_rows(session, picture, len(types or ()))],
    }


def page_facts(
    session: Session, said: Sequence[str], problems: Sequence[str], live: Optional[Target] = None
) -> dict[str, object]:
    """Facts shown on the page. `live`: the process, if the session reads its copy."""
    target = live or session.target
    return {
        "sentence": "; ".join(said),
        "pid": target.pid,
        "kind": target.kind,
        "glibc": session.located.version,
        "taken": time.time() if target.kind == "live" else None,
        "problems": problems,
    }
