"""heap waste: what of the live memory the program does not use, by the way to it, and what to change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Iterator, Optional, Sequence

from ..base.class_names import with_short_names
from ..base.heap_model import WASTE_REASONS, Statement
from ..base.printable import quoted
from ..blocks.declared.once_per_image import declared_in, waste_in
from ..present.json_documents.record import Address, Document, Record, Size, StatementRecord, statement_record
from ..present.screens.type_lines import GUESS
from ..present.screens.waste_lines import ADVICE, WHY, advice, advice_text, sentence
from ..present.shared_text.lines_and_tables import Column, column_table, cut, folded, next_lines
from ..sources.elf.modules import programs_of
from .containers import live_bytes, note_text, rows_by_path
from .framework.arguments import RULES
from .framework.command import LIMIT, WITH_VALUES, Answer, Context, always, argument, command, of_heap

if TYPE_CHECKING:
    from ..base.printable import UserData
    from ..blocks.declared.waste_rows import EqualBlocks, WasteRow
    from ..blocks.graph.pointers_to import ImageSearch
    from ..session.session import Session


class EqualContents(Record):
    """Contents that several blocks have."""

    value: Optional[str]
    """A text, as the screen has it; null without --with-values, and of what is no text."""
    blocks: Size
    """How many blocks have it."""
    bytes: Size
    """What of a block counts."""
    sample: Address
    """Where it is in one of them."""


class ListedElsewhereRecord(Record):
    """What keeps objects apart that one list has alone."""

    path: str
    """The list that does not have them."""
    member: str
    """The member that has one value in what both lists have, and another one in the others."""
    listed_value: Optional[int]
    """Its value in what both have; null without --with-values."""
    unlisted_value: Optional[int]
    """Its value in the others; null without --with-values."""


class WasteRecord(Record):
    """What is reached in one way, and not needed for one reason."""

    reason: Annotated[str, ("enum", WASTE_REASONS)]
    """Why it is not needed."""
    path: str
    """The way to it, as the program would write it; [] stands for any element."""
    type: str
    """Of the containers as they are declared, or of the blocks."""
    certain: bool
    """False: something on the way is a guess."""
    containers: Size
    """How many containers or blocks waste memory so; of duplicates those that are not the first of their kind."""
    all_containers: Size
    """How many there are on that path."""
    elements: Size
    """How many elements those have that waste memory; of destroyed objects their weak pointers, of duplicates the
    different contents, of what is unlisted the objects that are in both lists, of Python's cycles all objects that hang
    on them."""
    used_bytes: Size
    """What they use of their memory."""
    room_bytes: Size
    """What they have."""
    unused_bytes: Size
    """What they do not use."""
    unused_resident_bytes: Optional[Size]
    """What of that is in memory; null: not known."""
    sample: Address
    """A block of the largest one: what malloc returned; of CPython's containers the object."""
    hits: Optional[Size]
    """Of functools.lru_cache: how often a result was found; null: it is none."""
    mostly: Optional[str]
    """Of Python: the type whose objects take most of it; null: not told."""
    mostly_bytes: Optional[Size]
    """What these take, with what they keep apart."""
    frequent: Sequence[EqualContents]
    """Of duplicates: the most frequent contents first, three at most."""
    elsewhere: Optional[ListedElsewhereRecord]
    """Of what is unlisted; null: it is something else, or a table of shared texts has what nobody else has."""
    advice: StatementRecord
    """What to change in the program."""


class WasteDocument(Document, command="waste"):
    """The answer of waste."""

    waste: Sequence[WasteRecord]
    """What wastes most first; --limit at most."""
    left_out: Size
    """How many more rows there are."""
    live_bytes: Size
    """All live blocks."""
    notes: Sequence[StatementRecord]
    """What could not be looked at, and why; and whether more is free between the blocks than they have."""


@command(
    "where memory is",
    "waste --min 1M",
    arguments=(
        argument("--min", metavar="SIZE", help="only what wastes at least SIZE bytes"),
        argument("--match", metavar="PATTERN", help="only those with such a path or type, as in a shell: '*orders*'"),
        WITH_VALUES,
        LIMIT,
        RULES,
    ),
    copies=always,
    whole=always,
)
def waste_command(context: Context) -> Answer:
    """List what of the live memory the program does not use, by the path to it, with advice.

    Every container that debug information finds is compared with its room: vectors, strings, deques, hash tables, and
    C's arrays with a count beside them. Room that a container has because it grew (a vector doubles) does not count;
    what counts is room that is mostly empty, and the room of containers that have been emptied. Further rows are
    destroyed objects that weak pointers keep, blocks with equal contents, containers with next to no elements, nodes of
    small elements, objects for which malloc's blocks are much too large, and in Python lru_cache without bound in which
    nothing is found, and cycles that the collector has left. If each element of a container has a
    container, all of these are one row. In the shell a live process is copied, and runs on meanwhile.
    """
    look, chosen, notes, problems = rows_by_path(
        context, waste_in, lambda row: row.unused, lambda rows, search: not rows and is_unknown(search)
    )
    live = look.search.blocks.bytes
    notes = [*notes, *_mostly_free(look.session, live)]
    shown, left_out = cut(chosen, context.options.limit)
    found = WasteDocument(
        waste=[row_record(look.session, each, context.user_data) for each in shown],
        left_out=left_out,
        live_bytes=live,
        notes=[statement_record(each, note_text(each)) for each in notes],
    )
    contents = [*_frequent(look.session, shown, live)] if context.user_data.on_screen else []
    text = lines(context, chosen, live_bytes(look.search), notes, contents)
    return Answer(found, of_heap(look.session, text), problems)


MOSTLY_FREE = "mostly-free"
LEAST_FREE = 1 << 20


def _mostly_free(session: Session, live: int) -> Iterator[Statement]:
    """That more memory is free between the live blocks than they have."""
    lists = [each for usage in session.usages for each in (usage.fast, usage.bins)] if session.started else []
    size = sum(each.bytes for each in lists if each is not None)
    if size > max(live, LEAST_FREE):
        yield Statement(MOSTLY_FREE, {"free_bytes": size, "live_bytes": live})


def is_unknown(search: ImageSearch) -> bool:
    """Whether no block has a type, or the program itself has no debug information."""
    named, target = declared_in(search), search.session.target
    if named is None or not len(named.name):
        return True
    program = next(programs_of(target.regions()), None)
    return target.types is not None and program is not None and program[0].path in target.types.without()


CONTENTS = 240
"""So many bytes of a text are read."""


def text_of_contents(session: Session, each: EqualBlocks) -> Optional[str]:
    """None where it cannot be read."""
    data = session.memory.try_read(each.start, min(each.bytes, CONTENTS))
    return quoted(data.partition(b"\0")[0]) if data is not None else None


def _frequent(session: Session, rows: Sequence[WasteRow], live: int) -> Iterator[str]:
    """What equal texts are, where that is worth a line."""
    for row in rows:
        if row.is_text and _is_worth(row, live):
            told = [(text_of_contents(session, each), each.number) for each in row.frequent]
            values = ", ".join(f"{text} {number:,} times" for text, number in told if text is not None)
            if values:
                yield f"{with_short_names(row.path)}: {values}"


def row_record(session: Session, row: WasteRow, shown: UserData) -> WasteRecord:
    said = advice(row)
    frequent = [
        EqualContents.of(
            each,
            value=text_of_contents(session, each) if row.is_text and shown.in_documents else None,
            blocks=each.number,
            sample=each.start,
        )
        for each in row.frequent
    ]
    return WasteRecord.of(
        row,
        containers=row.number,
        all_containers=row.total,
        unused_resident_bytes=row.resident,
        mostly=row.mostly and row.mostly.type,
        mostly_bytes=row.mostly and row.mostly.bytes,
        frequent=frequent,
        elsewhere=None
        if row.elsewhere is None
        else ListedElsewhereRecord.of(
            row.elsewhere,
            listed_value=row.elsewhere.listed if shown.in_documents else None,
            unlisted_value=row.elsewhere.unlisted if shown.in_documents else None,
        ),
        advice=statement_record(said, advice_text(said)),
    )


WORTH = 100
"""A finding of less than one such part of the live bytes needs no advice."""


def lines(
    context: Context, rows: Sequence[WasteRow], live: int, notes: Sequence[Statement], contents: Sequence[str]
) -> Iterator[str]:
    """`live`: bytes of all blocks; `contents`: what equal texts are."""
    style, limit = context.style, context.options.limit
    if rows:
        yield style.bold(sentence(style, rows[0], live))
        yield ""
    columns = (
        Column("path", lambda row: row.path + ("" if row.certain else GUESS), name=True),
        Column("type", lambda row: row.type, name=True),
        Column("why", lambda row: WHY[row.reason], left=True),
        Column("number", lambda row: f"{row.number:,}"),
        Column("used", lambda row: style.size(row.used)),
        Column("room", lambda row: style.size(row.room)),
        Column("unused", lambda row: style.size(row.unused)),
        Column("in memory", lambda row: row.resident is not None and style.size(row.resident), optional=True),
    )
    yield from column_table(style, columns, rows, expendable=("room", "used", "type", "in memory"), limit=limit)
    ids = {each.id for each in notes}
    if not rows and "no-containers" not in ids:
        yield "no container has much more room than it uses"
    yield from map(note_text, notes)
    yield from (line for each in contents for line in folded(each, style.width, " ").splitlines())
    said = {id: row.path for row in reversed(rows[: limit or None]) for id in [advice(row).id] if _is_worth(row, live)}
    for id in sorted(said, key=lambda each: next(at for at, row in enumerate(rows) if advice(row).id == each)):
        yield from folded(f"{with_short_names(said[id])}: {ADVICE[id]}", style.width, " ").splitlines()
    if not rows and MOSTLY_FREE in ids:
        keep = style.typed("pins")
        yield from next_lines(style, f"{keep} (which blocks keep what is free)", style.typed("report"))
    if rows:
        owner = [f"{style.typed(f'owner {rows[0].sample:#x}')} (a block of the first)"]
        yield from next_lines(
            style,
            # an object of Python's may be no block
            *(owner if rows[0].mostly is None else []),
            style.typed("containers"),
            style.typed("types"),
        )


def _is_worth(row: WasteRow, live: int) -> bool:
    return row.unused * WORTH >= live
