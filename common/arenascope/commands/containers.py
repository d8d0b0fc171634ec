"""heap containers: what grows, by the way to it: maps, queues, lists, hash tables, arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Callable, Iterator, Optional, Sequence, TypeVar

from ..base.argv import shell_pattern
from ..base.class_names import named
from ..base.errors import RedactedError
from ..base.heap_model import CONTAINER_FORMS, Statement
from ..blocks.declared.matching_objects import MatchingObjects, matching_objects
from ..blocks.declared.once_per_image import containers_in, declared_in
from ..blocks.python_objects import python_objects_of
from ..present.json_documents.record import Address, Document, Record, Size, StatementRecord, statement_record
from ..present.screens.type_lines import GUESS, NOT_REACHED, not_reached_text
from ..present.shared_text.lines_and_tables import (
    Column,
    Style,
    column_table,
    count,
    cut,
    known,
    next_lines,
    say,
    share,
    word,
)
from ..present.shared_text.missing_symbols import NOT_READ, names_of, without_debug_information, without_types_text
from ..session.problems import problems_of
from .framework.arguments import RULES
from .framework.command import LIMIT, Answer, Context, always, argument, command, of_heap, parse_size
from .framework.live_copy import CopiedImage, looked
from .framework.where import WHERE, WhereRecord, asked_where, where_key, where_line
from .types import not_read

if TYPE_CHECKING:
    from ..blocks.declared.container_rows import ContainerRow
    from ..blocks.declared.waste_rows import WasteRow
    from ..blocks.graph.pointers_to import ImageSearch


AnyRow = TypeVar("AnyRow", bound="ContainerRow | WasteRow")
NAMED = 3
"""How many damaged types are named."""


class ContainerRecord(Record):
    """All containers with the same path."""

    path: str
    """The way to them, as the program would write it; [] stands for any element."""
    type: str
    """As it is declared; of lists and trees that of their elements."""
    form: Annotated[str, ("enum", CONTAINER_FORMS)]
    """What it is."""
    links: Sequence[str]
    """By which its elements lead to each other, where the program links them."""
    certain: bool
    """False: something on the way is a guess."""
    containers: Size
    """How many of them have blocks."""
    elements: Size
    """How many elements they have together."""
    largest_elements: Size
    """How many the largest of them has."""
    held_bytes: Size
    """What lies below them: their blocks, and all to which these lead."""
    held_blocks: Size
    """The same in blocks."""
    buckets: Optional[Size]
    """Of hash tables: how many chains there is room for."""
    longest_chain: Optional[Size]
    """Of hash tables: the most elements in one bucket; null: not known."""
    sample: Address
    """A block of the largest one: what malloc returned; of CPython's the object."""
    matching_blocks: Optional[Size] = None
    """With --where: how many blocks that it leads to have an object for which the condition holds. What several
    containers lead to, if by weak pointers, counts in each, so that it may be more than one of them holds."""
    matching_bytes: Optional[Size] = None
    """With --where: their bytes."""


class ContainersDocument(Document, command="containers"):
    """The answer of containers."""

    containers: Sequence[ContainerRecord]
    """What holds most first; --limit at most."""
    left_out: Size
    """How many more rows there are."""
    notes: Sequence[StatementRecord]
    """What is not among them, and why."""
    where: Optional[WhereRecord] = None
    """With --where: for which objects it holds. The containers are those that hold any, those with most first."""


@command(
    "where memory is",
    "containers --min 1M",
    arguments=(
        argument("--min", metavar="SIZE", help="only containers that hold at least SIZE bytes"),
        argument("--match", metavar="PATTERN", help="only those with such a path or type, as in a shell: '*orders*'"),
        WHERE,
        LIMIT,
        RULES,
    ),
    copies=always,
    whole=always,
)
def containers_command(context: Context) -> Answer:
    """List the largest containers by the path to them: how many elements, and what they hold.

    Containers are found by the program's debug information, and those of Python (CPython 3.8 to 3.14) by its own
    structures: dicts, lists, sets, deques, lru_cache, from modules and the variables of functions that run. If each
    element of a container has a container, all of these are one row: g_sessions[].second.requests. Besides the standard
    libraries' containers there are C's arrays, lists and trees of structs that point to their own type, and hash tables
    of these. A container holds its blocks, and all blocks that the first path found reaches through them; what a
    container inside another one holds is part of what the outer one holds. owner shows the path to one block. With
    --where each row also shows how many blocks reached from the container have an object for which the condition holds;
    a block that several containers lead to counts for each of them. A live process is copied, and runs on meanwhile.
    """
    asked = asked_where(context)
    matching: Optional[MatchingObjects] = None

    def find(search: ImageSearch) -> list[ContainerRow]:
        nonlocal matching
        if asked is None or not search.session.started:
            return containers_in(search)
        matching = matching_objects(search.session, asked)
        rows = [row for row in containers_in(search, matching.blocks) if row.matching_blocks]
        return sorted(rows, key=lambda row: (-row.matching_bytes, row.path))

    look, chosen, notes, problems = rows_by_path(
        context, find, lambda row: row.held_bytes, lambda rows, search: not rows and asked is None
    )
    shown, left_out = cut(chosen, context.options.limit)
    found = ContainersDocument.of(
        None,
        containers=[row_record(each, asked is not None) for each in shown],
        left_out=left_out,
        notes=[statement_record(each, note_text(each)) for each in notes],
        **where_key(matching),
    )
    text = lines(context, chosen, live_bytes(look.search), notes, matching)
    return Answer(found, of_heap(look.session, text), problems)


def rows_by_path(
    context: Context,
    find: Callable[[ImageSearch], list[AnyRow]],
    size: Callable[[AnyRow], int],
    none: Callable[[list[AnyRow], ImageSearch], bool],
) -> tuple[CopiedImage, list[AnyRow], Sequence[Statement], Sequence[Statement]]:
    """The image that was searched, the rows that --min and --match choose, why some are missing, and the problems.
    `none`: whether all are missing."""
    options = context.options
    least, matches = parse_size(context, options.min) or 0, shell_pattern(options.match or "*")
    if context.target.image.redacted:
        raise RedactedError("what they are")
    look = looked(context)
    rows: list[AnyRow] = []
    notes: Sequence[Statement] = ()
    problems = look.problems
    try:
        rows = find(look.search)
        notes = missing_containers(context, look.search, none(rows, look.search))
    except KeyboardInterrupt:
        look.session.stopped = True
        problems.append(Statement("stopped", {"containers": 0}))
    chosen = [row for row in rows if size(row) >= least and (matches(row.path) or matches(row.type))]
    return look, chosen, notes, [*problems, *problems_of(look.session)]


def live_bytes(search: ImageSearch) -> int:
    """Of malloc's blocks and of Python's objects."""
    python = search.session.block_results.python
    return search.blocks.bytes + (python.in_pools if python is not None else 0)


def row_record(row: ContainerRow, has_matches: bool = False) -> ContainerRecord:
    """`has_matches`: it is known which blocks match."""
    counted = row.elements
    matches = {"matching_blocks": row.matching_blocks, "matching_bytes": row.matching_bytes} if has_matches else {}
    return ContainerRecord.of(
        row,
        elements=counted.number,
        largest_elements=counted.largest,
        buckets=counted.buckets,
        longest_chain=counted.longest_chain,
        **matches,
    )


def missing_containers(context: Context, search: ImageSearch, none: bool) -> Sequence[Statement]:
    """Why some containers are missing; `none`: all are."""
    session = search.session
    if not session.started:
        return ()
    source, named, python = session.target.types, declared_in(search), python_objects_of(search)
    notes: list[Statement] = []
    if python is not None:
        notes += [python.problem] if python.problem is not None else python.not_reached()
    elif source is None:
        return [Statement("types-not-asked", names={"door": context.door.name})]
    else:
        why = not_read(source)
        if why is not None:
            return [why]
        # if main's variables hold the containers, this is the main reason
        if context.door.name == "shell" and not source.locals():
            notes.append(Statement("locals-not-known"))
        if none:
            without = without_debug_information(session.target, source) or ()
            notes.append(Statement("no-containers", {"files": len(without)}, {"files": names_of(without)}))
    if named is not None and named.damaged:
        kinds = ", ".join(name for name, _ in named.damaged.most_common(NAMED))
        figures = {"containers": sum(named.damaged.values())}
        notes.append(Statement("damaged-containers", figures, {"types": kinds}))
    return notes


ASKING = {
    "shell": "--declared reads them",
    "": "ARENASCOPE_DECLARED=0 is in the debugger's environment",
}
"""How to make types known, by door."""


def lines(
    context: Context,
    rows: Sequence[ContainerRow],
    in_use: int,
    notes: Sequence[Statement],
    where: Optional[MatchingObjects],
) -> Iterator[str]:
    """`in_use`: bytes of all blocks and objects; `where`: the objects that the rows have matches of."""
    style, limit = context.style, context.options.limit
    if where is not None:
        yield style.bold(where_line(where))
        yield ""
    elif rows:
        yield style.bold(_largest(style, rows[0], in_use))
        yield ""
    columns = (
        Column("container", lambda row: row.path + ("" if row.certain else GUESS), name=True),
        Column("type", type_text, name=True),
        Column("matching", lambda row: where and f"{row.matching_blocks:,}", optional=True),
        Column("their bytes", lambda row: where and style.size(row.matching_bytes), optional=True),
        Column("containers", lambda row: f"{row.containers:,}"),
        Column("elements", lambda row: f"{row.elements.number:,}"),
        Column("held", lambda row: style.size(row.held_bytes)),
        Column("per element", lambda row: row.elements.number and style.size(row.held_bytes // row.elements.number)),
        Column("load", _load, optional=True),
        Column("longest chain", lambda row: known(row.elements.longest_chain), optional=True),
    )
    expendable = ("load", "longest chain", "containers", "per element")
    yield from column_table(style, columns, rows, expendable=expendable, limit=limit)
    yield from map(note_text, notes)
    if rows:
        element = next((named(row.element).name for row in rows if row.element and row.elements.number), "NAME")
        asked = [
            f"{style.typed(f'types {word(element)} --values')} (what they have in common)",
            f"{style.typed(f'owner {rows[0].sample:#x}')} (a block of the first)",
        ]
        yield from next_lines(
            style,
            *([] if rows[0].is_python else asked),
            style.typed("types"),
        )


def _largest(style: Style, row: ContainerRow, in_use: int) -> str:
    """ "pool->queue holds 155.0 MiB in 168,478 elements, 87 % of the live bytes", in the program's own words."""
    several = f"{row.containers:,} containers with " if row.containers > 1 else ""
    held = f"{style.size(row.held_bytes)}, {share(row.held_bytes, in_use)} of the live bytes"
    elements = count(row.elements.number, "element")
    return f"{row.path} holds {held}{'' if row.certain else GUESS}, in {several}{elements}"


def _load(row: ContainerRow) -> str:
    return f"{row.elements.number / row.elements.buckets:.2f}" if row.elements.buckets else ""


def type_text(row: ContainerRow) -> str:
    """The type's text; a list's is "list of request (next)"."""
    links = f" ({', '.join(row.links)})" if row.links else ""
    return f"{row.form} of {row.type}{links}" if row.form in ("list", "tree") else f"{row.type}{links}"


def note_text(said: Statement) -> str:
    if said.id == "types-not-asked":
        return f"the program's types are not known: {ASKING.get(said.names['door'], ASKING[''])}"
    if said.id == "damaged-containers":
        number = count(int(said.figures["containers"] or 0), "container")
        return f"{number} not followed, as what they say of themselves does not agree: {said.names['types']}"
    if said.id == "python-not-known":
        version = said.names["version"]
        return f"of this Python ({version}) objects are not known: they are of 3.8 to 3.14, 64 bits, with the GIL"
    if said.id == "python-no-modules":
        return f"this Python ({said.names['version']}) has no modules that could be found"
    if said.id == NOT_REACHED:
        return not_reached_text(said)
    if said.id == "locals-not-known":
        return (
            "variables of functions are not known, as no thread's stack could be followed here: "
            "GDB or LLDB may know more, by heap containers"
        )
    if said.id == "mostly-free":
        free, live = (say(int(said.figures[name] or 0)) for name in ("free_bytes", "live_bytes"))
        return f"most of the heap is free memory: {free} between live blocks, which have {live}"
    if said.id == NOT_READ:
        return without_types_text(said)
    files = said.names["files"]
    missing = f"; without debug information (-g, or debug symbols) those of {files} are not known" if files else ""
    return f"no variable whose type is known leads to a container{missing}"
