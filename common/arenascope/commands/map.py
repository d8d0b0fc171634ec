"""heap map: the picture, occupancy of every heap by address."""

from __future__ import annotations

import time
from typing import Mapping, Optional, Sequence

from ..analysis.heap_map import LAYERS, SPLITS, Strip
from ..analysis.pins import TypeRow
from ..analysis.trim import total
from ..base.errors import UsageError
from ..base.model import Heap
from ..base.whole_file import write_whole
from ..blocks.types_of_image import HeapStrips, draw, lay_types, page_cells, page_rows, type_layer, types_of
from ..present.json_documents import block_records as records
from ..present.json_documents.block_records import BlocksOfType, Written
from ..present.json_documents.record import hexadecimal
from ..present.pages.fill_page import page
from ..present.screens.heap_map import SORTS, lines, sentences, strip_width
from ..present.screens.types import name_of
from ..present.shared_text.findings import sentences as sentences_of
from ..session.resident import problems_of
from ..session.session import Session
from ..sources.target import Target
from .framework.command import ARENA, LIMIT, Answer, Context, always, argument, command
from .types import typed

JSON_CELLS = 256
MAX_CELLS = 1 << 16


@command(
    "chunk by chunk",
    "Show the occupancy of every heap by address, in the terminal or as one self-contained page.",
    "map --sort releasable",
    "One strip for each heap, from its start on the left to its end on the right: what is in use, cached by threads, "
    "free, at an arena's end (top), what of the free is in memory and what of that malloc_trim(0) would give back. "
    "--html writes a page to zoom into, with figures to the byte; it needs no network and holds no user data. With "
    "--types it has a colour for each of the types (see types) that hold back the most, with their names. In the shell "
    "a live process is copied, and runs on meanwhile.",
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
    said = sentences(context.style, picture.strips, started=session.started, whole=not session.findings)
    written = None
    if options.html:
        rows = page_rows(session, picture, len(types or ()))
        named = [{"name": name_of(row.kind), "module": row.kind.module} for row in types or ()]
        data = page({**page_facts(session, said, sentences_of(problems), live=context.target), "types": named}, rows)
        # release first: a slow disk, or a FIFO's reader, must not keep the process standing still
        context.door.release()
        write_whole(options.html, data)
        written = Written(file=options.html, bytes=len(data))
    fold = options.cells if options.cells > 0 else JSON_CELLS
    totals = {f"{layer}_bytes": total(strip.total(layer) for strip in picture.strips) for layer in LAYERS}
    found = records.MapDocument.of(
        None,
        heaps=[_record(strip.folded(fold), types) for strip in picture.strips] if options.json else [],
        totals=records.StripTotals(**totals, splits=sum(strip.total(SPLITS) or 0 for strip in picture.strips)),
        html=written,
        **({"types": [typed(BlocksOfType, row) for row in types or ()]} if options.types else {}),
    )
    return Answer(
        found, lines(context.style, picture.strips, said, written, sort=options.sort, limit=options.limit), problems
    )


def _fineness(context: Context) -> Mapping[Heap, int]:
    """The most cells of a heap."""
    options = context.options
    heaps = [heap for index, parts in context.session.heaps.items() for heap in parts if options.arena in (None, index)]
    if options.cells > 0:
        return dict.fromkeys(heaps, min(options.cells, MAX_CELLS))
    if options.html:
        return page_cells(heaps)
    return dict.fromkeys(heaps, JSON_CELLS if options.json else strip_width(context.style))


def _record(strip: Strip, types: Optional[Sequence[TypeRow]]) -> records.StripRecord:
    layers: dict[str, object] = {layer: _listed(strip.cells(layer)) for layer in (*LAYERS, SPLITS)}
    if types is not None:
        layers["types"] = [_listed(strip.cells(type_layer(number))) for number in range(len(types))]
    return records.StripRecord.of(
        strip,
        arena=strip.heap.arena,
        address=hexadecimal(strip.heap.address),
        end=hexadecimal(strip.heap.end),
        cell_bytes=strip.cell,
        **layers,
    )


def _listed(cells: Optional[Sequence[int]]) -> Optional[list[int]]:
    return None if cells is None else list(cells)


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
