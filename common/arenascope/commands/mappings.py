"""heap mappings: every mapping of the process, what of it is in memory, and whose it is."""

from __future__ import annotations

from typing import Annotated, Iterator, Mapping, Optional, Sequence

from ..analysis.arena_usage import total
from ..analysis.resident_parts import MALLOC, USES, Extent, Mapped, mapped, part_sums
from ..present.json_documents.record import Address, Document, Record, Size
from ..present.json_documents.shared_records import Index
from ..present.shared_text.lines_and_tables import Column, Style, column_table, count, next_lines
from ..session.problems import problems_of
from ..session.resident import heap_pages, mmapped_extents
from ..session.session import Session
from ..sources.target import MappingUse
from .framework.command import LIMIT, Answer, Context, argument, command

UNKNOWN_HERE = "what is mapped is not known here"
WORDS = {
    MALLOC: "malloc's",
    "stacks": "stacks",
    "files": "files",
    "shared": "shared memory",
    "other": "other anonymous memory",
    "kernel": "the kernel's",
}
SORTS = {
    "address": lambda row: row.use.region.start,
    "size": lambda row: -row.use.region.size,
    "resident": lambda row: (-(row.resident or 0), row.use.region.start),
}


class MappingRow(Record):
    """A mapping."""

    address: Address
    """Where it starts."""
    end: Address
    """Where it ends."""
    bytes: Size
    """Its size."""
    resident_bytes: Optional[Size]
    """What of it is in memory; null: not known."""
    swap_bytes: Optional[Size]
    """What of it is in swap."""
    access: str
    """As in /proc/PID/maps: r, w, x, and p for private or s for shared."""
    part: Annotated[str, ("enum", USES)]
    """Whose it is; what lies beside malloc's own in one of malloc's is other."""
    malloc_bytes: Optional[Size]
    """What of it is in memory and malloc's."""
    arenas: Sequence[Index]
    """The arenas that have a heap in it, or that it is reserved for."""
    mmapped_blocks: Size
    """Blocks with a mapping of their own that begin in it."""
    reserve: bool
    """Address space after a heap, for it to grow into."""
    tid: Optional[int]
    """The thread whose stack it holds."""
    name: Optional[str]
    """The file, the kernel's name for it, or whose zeroed variables it holds."""


class MappedPart(Record):
    """A part of memory."""

    part: Annotated[str, ("enum", USES)]
    """Which."""
    bytes: Optional[int]
    """In memory."""


class MappingTotals(Record):
    """Sums over all mappings."""

    mappings: Size
    """How many."""
    bytes: Size
    """Address space."""
    resident_bytes: Optional[Size]
    """In memory; null: not known of each."""
    parts: Sequence[MappedPart]
    """They sum to resident_bytes; malloc's is the sum of the parts of report that are malloc's, the others are
    report's."""


class MappingsDocument(Document, command="mappings"):
    """The answer of mappings."""

    mappings: Optional[Sequence[MappingRow]]
    """In address order; null: what is mapped is not known."""
    totals: Optional[MappingTotals]


@command(
    "where memory is",
    "mappings --sort size",
    arguments=(
        argument(
            "--sort",
            choices=sorted(SORTS),
            default="resident",
            help="the order of the rows (resident; size where that is not known)",
        ),
        LIMIT,
    ),
)
def mappings_command(context: Context) -> Answer:
    """List every mapping of the process: its size, what of it is resident, and whose it is.

    A mapping is an arena's heaps, blocks served by mmap, the stack of a thread, a file, shared memory, or other
    anonymous memory, which did not come from this malloc. What is resident of each sums to the parts of report. The
    kernel makes one mapping of neighbours: what then lies beside malloc's own is told apart.
    """
    session = context.session
    rows = _rows(session)
    if rows is None:
        return Answer(MappingsDocument(mappings=None, totals=None), [UNKNOWN_HERE], problems_of(session))
    sums = part_sums(rows)
    found = MappingsDocument(
        mappings=[_record(row) for row in rows],
        totals=MappingTotals(
            mappings=len(rows),
            bytes=sum(row.use.region.size for row in rows),
            resident_bytes=total(row.resident for row in rows),
            parts=[MappedPart(part=name, bytes=size) for name, size in sums.items()],
        ),
    )
    in_memory = any(row.resident is not None for row in rows)
    by = context.options.sort if in_memory or context.options.sort == "address" else "size"
    rows.sort(key=SORTS[by])
    return Answer(found, _lines(context, rows, sums, by), problems_of(session))


def _rows(session: Session) -> Optional[list[Mapped]]:
    """The mappings in address order; None if they are not known."""
    # before heaps are read, as that can map zero pages
    residency, uses = session.residency, session.target.image.mapping_use()
    known = residency is not None and uses is not None
    if residency is None or uses is None:
        uses = [MappingUse(region, None) for region in session.regions]
    if not uses:
        return None
    extents: Sequence[Extent] = []
    if session.started:
        mapped_now = [use.region for use in uses]
        if residency is not None and known:
            extents = [
                *heap_pages(session, mapped_now, residency).extents,
                *mmapped_extents(session, mapped_now, residency),
            ]
        else:
            heaps = [heap for parts in session.heaps.values() for heap in parts]
            extents = [
                *(Extent(heap.address, heap.end, 0, heap.arena) for heap in heaps),
                *mmapped_extents(session, mapped_now),
            ]
    stacks = {each.stack_pointer: each.tid for each in session.target_threads if each.stack_pointer}
    return mapped(uses, extents, stacks, known=known, bss=session.bss_ends)


def _access(row: Mapped) -> str:
    region = row.use.region
    flags = ((region.readable, "r"), (region.writable, "w"), (region.executable, "x"))
    return "".join(letter if has else "-" for has, letter in flags) + ("s" if region.shared else "p")


def _record(row: Mapped) -> MappingRow:
    region = row.use.region
    return MappingRow.of(
        row,
        address=region.start,
        end=region.end,
        bytes=region.size,
        swap_bytes=row.use.swapped,
        access=_access(row),
        mmapped_blocks=row.blocks,
        name=row.name or None,
    )


def _lines(context: Context, rows: Sequence[Mapped], sums: Mapping[str, Optional[int]], by: str) -> Iterator[str]:
    """`by`: the order of the rows; by address each mapping has its own row."""
    style, session, limit = context.style, context.session, context.options.limit
    names = {cache.tid: cache.name for cache in session.thread_owners} if session.started else {}
    space = sum(row.use.region.size for row in rows)
    resident = total(row.resident for row in rows)
    where = f"{count(len(rows), 'mapping')} of {style.size(space)} of address space"
    known = [(name, size) for name, size in sums.items() if size]
    known.sort(key=lambda each: -each[1])
    parts = ", ".join(f"{style.size(size)} {WORDS[name]}" for name, size in known)
    if resident is None and not parts:
        yield style.bold(f"{where}; how much is resident is not known")
    else:
        yield style.bold(f"{where}, {style.size(resident)} resident: {parts}")
    yield ""
    groups = _alike(style, rows, names, by)
    columns = (
        Column("from", lambda alike: f"{min(row.use.region.start for row in alike):#x}", left=True),
        Column("to", lambda alike: f"{alike[0].use.region.end:#x}" if len(alike) == 1 else "…", left=True),
        Column("size", lambda alike: style.size(alike[0].use.region.size * len(alike))),
        Column("resident", lambda alike: style.size(total(row.resident for row in alike))),
        Column("access", lambda alike: _access(alike[0]), left=True),
        Column("whose", lambda alike: _whose_all(style, alike, names), left=True),
    )
    what = "row" if len(groups) < len(rows) else "mapping"
    yield from column_table(style, columns, groups, expendable=("access", "to", "resident"), limit=limit, what=what)
    yield ""
    each = f"{style.typed('mappings --sort address')} (each in a row of its own)"
    more_rows = [each] if len(groups) < len(rows) else []
    yield from next_lines(style, *more_rows, *map(style.typed, ("report", "heaps", "mmapped")))


def _alike(
    style: Style, rows: Sequence[Mapped], names: Mapping[int, Optional[str]], by: str
) -> Sequence[Sequence[Mapped]]:
    """Groups of mappings without a file that differ only in their addresses, the largest group first."""
    if by == "address":
        return [[row] for row in rows]
    groups: dict[object, list[Mapped]] = {}
    for row in rows:
        region = row.use.region
        looks = (region.size, row.resident, _access(row), _whose(style, row, names))
        groups.setdefault(region.start if region.path else looks, []).append(row)

    def most(alike: Sequence[Mapped]) -> int:
        return -len(alike) * (alike[0].use.region.size if by == "size" else alike[0].resident or 0)

    return sorted(groups.values(), key=most)


def _whose_all(style: Style, alike: Sequence[Mapped], names: Mapping[int, Optional[str]]) -> str:
    each = "" if len(alike) == 1 else f"{len(alike):,} of {style.size(alike[0].use.region.size)} each: "
    return each + _whose(style, alike[0], names)


def _whose(style: Style, row: Mapped, names: Mapping[int, Optional[str]]) -> str:
    if row.part == "stacks":
        name = names.get(row.tid) if row.tid is not None else None
        return "a stack" if row.tid is None else f"stack of thread {row.tid}{f' {name}' if name else ''}"
    arenas = " and ".join(f"arena {each}{' main' if each == 0 else ''}" for each in row.arenas[:3])
    arenas += f" and {len(row.arenas) - 3} more" if len(row.arenas) > 3 else ""
    if row.reserve:
        return f"{arenas}: reserved to grow into"
    if row.part != MALLOC:
        return row.name or ("shared memory" if row.part == "shared" else "other anonymous memory")
    words = [arenas] if arenas else []
    words += [count(row.blocks, "mmapped block")] if row.blocks else []
    words += ["the rest of a mmapped block"] if not (row.blocks or row.arenas) else []
    words += [f"{style.size(row.other_bytes)} outside malloc"] if row.other_bytes else []
    return ", ".join(words)
