"""heap types: what the live blocks are."""

from __future__ import annotations

from difflib import get_close_matches
from itertools import chain
from typing import (
    TYPE_CHECKING,
    Annotated,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    TypeVar,
    Union,
)

from ..analysis.arena_usage import total
from ..analysis.pinning_blocks import ORDERS, Totals, TypeRow, has_arenas_of_its_own, in_order
from ..base.argv import shell_pattern
from ..base.class_names import with_short_names
from ..base.errors import NoTypeError, UsageError
from ..base.heap_model import MEMBER_FORMS, Statement
from ..base.printable import quoted
from ..blocks.declared.conditions import Compiled, compiled
from ..blocks.declared.matching_objects import NOT_OF_PYTHON, MatchingObjects, matching_objects
from ..blocks.declared.members import TypeMembers
from ..blocks.declared.named_blocks import BY_WORDS, NamedBlocks
from ..blocks.declared.once_per_image import values_of
from ..blocks.declared.type_values import Split, TypeValues, ValuesColumn, objects_of, types_called
from ..blocks.python_objects import PythonObjects, PythonTypeSum, has_python, python_objects_of
from ..blocks.type_figures import types_of, types_of_matching, with_guesses
from ..present.json_documents.record import Address, Document, Record, Size, StatementRecord, statement_record
from ..present.json_documents.shared_records import HELD_MOST, HOLDS_BACK, MAY_BE, BlocksOfType, HolderOfMost
from ..present.screens.owner_lines import HolderNames
from ..present.screens.type_lines import A_GUESS, GUESS, is_called, may_be, name_of, note_text
from ..present.shared_text.lines_and_tables import (
    CUT,
    UNKNOWN,
    Column,
    Style,
    bar,
    column_table,
    count,
    cut,
    folded_name,
    in_memory,
    next_lines,
    share,
    table,
    word,
    worth_a_row,
)
from ..present.shared_text.missing_symbols import NOT_READ, names_of, without_debug_information
from ..session.problems import parts_differ, problems_of
from ..session.session import Session
from ..sources.types_by_engine import TypesByEngine
from .framework import live_copy
from .framework.arguments import RULES
from .framework.command import (
    ARENA,
    LIMIT,
    WITH_VALUES,
    Answer,
    Context,
    always,
    argument,
    command,
    of_heap,
    parse_size,
)
from .framework.live_copy import quick_core_search
from .framework.where import WHERE, WhereRecord, asked_where, where_key, where_line

if TYPE_CHECKING:
    from ..blocks.declared.conditions import ObjectCondition
    from ..blocks.declared.type_values import Called, Key
    from ..blocks.declared.values import Values
    from ..present.screens.owner_lines import HeldMost
    from ..sources.target import Target
    from ..sources.type_source import TypeSource
    from .framework.live_copy import CopiedImage

FEW = 5
"""How many types of one name are listed."""
LIKE = 3
"""How many similar names are suggested."""
ALIKE = 0.6
"""How similar they must be, by difflib's measure."""


class TypeRecord(BlocksOfType):
    """All live blocks of a type."""

    how: str
    """By what it was known."""
    may_be: Annotated[Sequence[str], MAY_BE]
    resident_bytes: Optional[Size]
    """What of that is in memory."""
    holds_back_bytes: Annotated[Optional[Size], HOLDS_BACK]
    owner: Optional[str]
    """Whose they are, where another block or a variable tells."""
    held_by: Annotated[Optional[HolderOfMost], HELD_MOST]
    retained_bytes: Optional[Size]
    """Their bytes with those of all that these blocks alone lead to; null without --owners."""
    samples: Sequence[Address]
    """The first of them: what malloc returned."""


class TypeTotals(Record):
    """Sums over all types."""

    blocks: Size
    """How many blocks."""
    bytes: Size
    """Their bytes."""
    resident_bytes: Optional[Size]
    """What of that is in memory."""
    used_bytes: Size
    """What arenas have from the kernel and in no list nor top."""
    mmapped_bytes: Size
    """In blocks served by mmap."""
    bookkeeping_bytes: Size
    """Headers of heaps and arenas, fenceposts."""
    foreign_bytes: Size
    """Somebody else's, by sbrk."""
    damaged_bytes: Size
    """What could not be read as chunks."""


class Frequent(Record):
    """A value that many objects have."""

    value: Optional[str]
    """As the screen has it; null without --with-values."""
    objects: Size
    """How many have it; of a member with too many values perhaps a few more."""
    guessed_objects: Size
    """Those of them in blocks that only a guess names."""


class MemberValues(Record):
    """A member, over all objects of a type."""

    member: str
    """Its name; with those of the members that it lies in."""
    type: str
    """Its type."""
    form: Annotated[str, ("enum", MEMBER_FORMS)]
    """What of it is told."""
    objects: Size
    """Of how many it could be read."""
    unreadable: Size
    """Of how many not: not in memory, damaged, or not yet made."""
    nulls: Size
    """How many pointers are null."""
    distinct: Optional[Size]
    """How many values there are; null: more than are counted."""
    least: Optional[float]
    """The least; of a text its length, of a container its elements, else the value: null without --with-values."""
    greatest: Optional[float]
    """The greatest; of a text its length, of a container its elements, else the value: null without --with-values."""
    average: Optional[float]
    """The average; of a text its length, of a container its elements, else the value: null without --with-values."""
    apart: Optional[int]
    """Of integers: all differ by multiples of this; null: they do not."""
    most_frequent: Sequence[Frequent]
    """The most frequent ones first."""


class WayRecord(Record):
    """Objects that just these paths lead to."""

    paths: Sequence[str]
    """The paths, as the program would write them; none: no variable leads there by types."""
    objects: Size
    """How many objects."""


class ValuePart(Record):
    """Objects with one value of a member."""

    value: Optional[str]
    """As the screen has it; null without --with-values."""
    objects: Size
    """How many have it."""
    reached: Sequence[WayRecord]
    """By which paths; what leads to most first, three at most."""


class SplitRecord(Record):
    """A member with one value in objects that are reached in one way, and another one in the others."""

    member: str
    """Its name."""
    parts: Sequence[ValuePart]
    """The most frequent value first."""


class ObjectValues(Record):
    """The members of all objects of a type."""

    type: str
    """The type."""
    objects: Size
    """How many there are in blocks that certainly have it."""
    blocks: Size
    """In how many blocks."""
    guessed_objects: Size
    """How many more there are in blocks that only a guess names; what is told of members counts them, too."""
    guessed_blocks: Size
    """In how many more blocks."""
    whole: bool
    """False: blocks of other types have more of them than were looked at."""
    members: Sequence[MemberValues]
    """In the order in which they lie there."""
    splits: Sequence[SplitRecord]
    """Members whose values tell objects apart that are reached by different paths."""


class PythonTypeRecord(Record):
    """All objects of a type of Python's."""

    type: str
    """Its name."""
    objects: Size
    """How many there are."""
    bytes: Size
    """What they take, with the memory that they have beside themselves."""


class TypesDocument(Document, command="types"):
    """The answer of types."""

    types: Sequence[TypeRecord]
    """What there is most of first, or as --by has it; --limit at most."""
    left_out: Size
    """How many more types there are."""
    notes: Sequence[StatementRecord]
    """What is not among them."""
    totals: TypeTotals
    """All of them, shown or not: bytes, bookkeeping, foreign and damaged ones sum to used and mmapped."""
    python: Optional[Sequence[PythonTypeRecord]]
    """CPython's objects by their types, in malloc's blocks or its own pools, as far as modules, functions that run or
    cycles lead to them: what takes most first, --limit at most. Null: it is no CPython's process, or not looked at
    (--quick, --where, --arena)."""
    values: Optional[ObjectValues] = None
    """With --values: what the objects of the type have in common."""
    where: Optional[WhereRecord] = None
    """With --where: for which objects it holds. The types are those of blocks that have such an object."""


class NamedType(NamedTuple):
    """A type that was found by its name."""

    rows: Sequence[TypeRow]
    values: Optional[TypeValues] = None
    notes: Sequence[Statement] = ()


def named_type(
    session: Session, rows: Sequence[TypeRow], name: str, with_values: bool, condition: Optional[ObjectCondition] = None
) -> NamedType:
    """Finds a type by any name that a screen shows; NoTypeError if there is none. With values if they are known, of the
    objects for which a condition holds."""
    name = _whole(rows, name)
    found = _named_type(session, rows, name, with_values=with_values, condition=condition)
    more = [
        Statement("may-be-more", {"blocks": row.blocks}, {"type": row.kind.name, "chunk": f"{row.samples[0]:#x}"})
        for row in _may_be(name, rows)
    ]
    return found._replace(notes=[*found.notes, *more])


def _named_type(
    session: Session, rows: Sequence[TypeRow], name: str, with_values: bool, condition: Optional[ObjectCondition]
) -> NamedType:
    named = session.block_results.named
    called = [row for row in rows if _plain(name) in _names(row)]
    if not with_values and called:
        return NamedType(called)
    values = values_of(session, named) if named is not None else None
    if named is None or values is None:
        if with_values:
            raise NoTypeError("the program's types are not known here", "containers tells why")
        raise _unknown(name, rows, _like(name, _all_names(rows)))
    types = types_called(named, _plain(name))
    written = sorted({named.types.text(each.type) for each in types})
    if with_values and len(types) == 1:
        only = _compiled(named, values, types[0], condition) if condition is not None else None
        with session.meter("reading values", 2 * len(named.name)) as meter:
            found = objects_of(named, values, types[0], meter, only)
        if found is not None:
            declared = [row for row in rows if row.kind.kind == "declared" and row.kind.name in found.names]
            return NamedType(declared, found)
    if called:
        note = Statement("no-values", {"types": len(types)}, {"types": ", ".join(map(word, written[:FEW]))})
        if all(row.kind.kind == "python" for row in called):
            note = Statement("no-python-values")
        return NamedType(called, notes=[note])
    if len(types) > 1:
        hint = "write the whole name" if len(written) > 1 else "two modules have different ones"
        raise NoTypeError(f"{name} may be any of {len(types)} types: {', '.join(written[:FEW])}", hint)
    if types:
        hint = f"types {word(name)} --values tells of those in other blocks"
        raise _unknown(name, rows, None if with_values else hint)
    if with_values and has_python(session):
        raise _unknown(name, rows, NOT_OF_PYTHON)
    raise _unknown(name, rows, _like(name, [*_all_names(rows), *_structs(named)]))


def _compiled(named: NamedBlocks, values: Values, called: Called, condition: ObjectCondition) -> Compiled:
    assert named.contents is not None
    return compiled(condition, TypeMembers(named.contents, values), called.type)


def _unknown(name: str, rows: Sequence[TypeRow], hint: Optional[str]) -> NoTypeError:
    """The error for an unknown name. Blocks that may be of it replace `hint`."""
    for row in _may_be(name, rows):
        hint = f"{count(row.blocks, 'block')} of {row.kind.name} may be: chunk {row.samples[0]:#x} shows one"
        break
    return NoTypeError(f"no block is known to be a {name}", hint)


def _may_be(name: str, rows: Sequence[TypeRow]) -> Iterator[TypeRow]:
    """Rows whose blocks may be of that type."""
    return (row for row in rows if _plain(name) in {*row.may_be, *map(with_short_names, row.may_be)})


def _plain(name: str) -> str:
    return name.removesuffix(GUESS).removesuffix("[]").strip()


def _names(row: TypeRow) -> set[str]:
    """All spellings of a row's type, on screens and in documents."""
    shown = name_of(row.kind)
    return {_plain(each) for each in (shown, with_short_names(shown), row.kind.name, with_short_names(row.kind.name))}


def _all_names(rows: Sequence[TypeRow]) -> Iterator[str]:
    return chain((_plain(name_of(row.kind)) for row in rows), *(row.may_be for row in rows))


def _structs(named: NamedBlocks) -> Iterator[str]:
    known = named.types.known()
    return (facts.name for _, facts in known if facts.form == "struct" and not facts.name.startswith("std::"))


def _whole(rows: Sequence[TypeRow], name: str) -> str:
    """The whole name of one that a screen has cut, if only one name fits."""
    start, cut, end = name.partition(CUT)
    start, end = start.lstrip(), _plain(end)
    found = {each for row in rows for each in _names(row) if cut and each.startswith(start) and each.endswith(end)}
    shown = {with_short_names(each) for each in found}
    return shown.pop() if len(shown) == 1 else name


def _like(name: str, names: Iterable[str]) -> str:
    """A hint with similar names."""
    by_word: dict[str, str] = {}
    for each in names:
        by_word.setdefault(each.lower(), each)
        by_word.setdefault(each.rpartition("::")[2].lower(), each)
    found = [by_word[each] for each in get_close_matches(_plain(name).lower(), by_word, LIKE, ALIKE)]
    return f"did you mean {', '.join(dict.fromkeys(found))}?" if found else "types shows what there is"


def _member(column: ValuesColumn, with_values: bool) -> MemberValues:
    measured = with_values or column.form in ("text", "elements")
    return MemberValues.of(
        column,
        member=column.place.name,
        least=column.least if measured else None,
        greatest=column.greatest if measured else None,
        average=column.average if measured else None,
        apart=column.apart if column.apart > 1 else None,
        most_frequent=[
            Frequent(
                value=key_text(column, each.key) if with_values else None,
                objects=each.objects,
                guessed_objects=each.guessed,
            )
            for each in column.frequent
        ],
    )


def _split(split: Split, with_values: bool) -> SplitRecord:
    return SplitRecord(
        member=split.column.place.name,
        parts=[
            ValuePart(
                value=key_text(split.column, each.key) if with_values else None,
                objects=each.objects,
                reached=[WayRecord.of(way) for way in each.ways],
            )
            for each in split.parts
        ],
    )


def _values(values: TypeValues, with_values: bool) -> ObjectValues:
    return ObjectValues.of(
        values,
        objects=values.objects - values.guessed_objects,
        blocks=values.blocks - values.guessed_blocks,
        whole=values.is_whole,
        members=[_member(each, with_values) for each in values.columns],
        splits=[_split(each, with_values) for each in values.splits],
    )


OWNERS = argument("--owners", action="store_true", help="who holds them (the default for a small core)")
AnyTyped = TypeVar("AnyTyped", bound=BlocksOfType)


@command(
    "where memory is",
    "types --by blocks --match '*Session*'",
    arguments=(
        argument("name", metavar="NAME", nargs="?", help="only this type, by a name that types shows"),
        argument(
            "--values", action="store_true", help="how many values each member has, the least, greatest, most frequent"
        ),
        WITH_VALUES,
        argument("--by", choices=tuple(ORDERS), default="bytes", help="the order of the rows"),
        argument(
            "--quick", action="store_true", help="judge blocks by their contents only, not by what points to them"
        ),
        OWNERS,
        ARENA,
        argument("--min", metavar="SIZE", help="only types that hold at least SIZE bytes"),
        argument("--match", metavar="PATTERN", help="only types with such a name, as in a shell: '*Session*'"),
        WHERE,
        LIMIT,
        RULES,
    ),
    copies=always,
    whole=always,
)
def types_command(context: Context) -> Answer:
    """List the types of live blocks: classes, containers, Python objects, text and others.

    C++ objects are recognised by their vtables, without symbols by RTTI in memory. A type that the contents only
    suggest is marked as a guess. Other blocks are named by what points to them: bodies of strings and vectors, nodes of
    hash tables, the buffers of an object (what Session+40 points to); the rest is listed by size. The rows and malloc's
    bookkeeping sum to what is in use, blocks served by mmap included. What a type holds back would also leave memory if
    all of its blocks were freed and malloc_trim(0) called: exact to the page, once they are really free (see pins).
    NAME --values shows what the members of all objects of a type have in common, if debug information declares it,
    wherever the objects are (blocks, arrays, nodes of containers); those in blocks that only a guess names are counted
    apart. If a member has one value in objects that are reached by one path and another in those of another path, it
    says so. CPython's objects, most of which are in no block, have a table of their own, by type. In the shell a live
    process is copied, and runs on meanwhile.
    """
    options = context.options
    if options.values and not options.name:
        raise UsageError("--values takes one type's name", "types Session --values")
    if options.where is not None and options.quick:
        raise UsageError("--where asks what points to blocks, which --quick does not", "give one of them")
    asked = asked_where(context, options.name)
    looked = live_copy.looked(context) if options.owners else None
    session = context.session
    context.check_arena(options.arena)
    wanted = _wanted(parse_size(context, options.min), options.match)
    values: Optional[TypeValues] = None
    matching: Optional[MatchingObjects] = None
    rows: Sequence[TypeRow] = []
    held_by: Mapping[int, HeldMost] = {}
    retained: Mapping[int, int] = {}
    totals = Totals(0, 0, used=0, mmapped=0, bookkeeping=0, foreign=0, damaged=0)
    problems: list[Statement] = []
    notes: list[Statement] = []
    more: Sequence[Statement] = ()
    python: Optional[Sequence[PythonTypeSum]] = None
    if session.started:
        if asked is not None:
            matching = matching_objects(session, asked)
            seen = types_of_matching(session, options.arena, matching.blocks)
        else:
            seen = types_of(session, options.arena, holders=not options.quick)
        live, rows, totals = seen.live, seen.rows, seen.totals
        if session.stopped:
            problems.append(Statement("stopped", {"chunks": totals.blocks}))
        if has_arenas_of_its_own(rows):
            notes.append(Statement("pymalloc-apart"))
        untold = not options.quick and asked is None and not any(row.kind.kind == "declared" for row in rows)
        if untold and session.target.types is not None:
            notes += without_types(session.target, session.target.types)
        if not options.quick:
            rows = with_guesses(session, rows)
        if not options.quick and asked is None and options.arena is None:
            objects = _python(context)
            if objects is not None:
                python = objects.types
                notes += objects.not_reached()
        if options.name and (asked is None or options.values):
            condition = asked.condition if asked is not None else None
            python = [each for each in python if each.type == options.name] if python is not None else None
            try:
                rows, values, more = named_type(session, rows, options.name, options.values, condition)
            except NoTypeError:
                if options.values or not python:
                    raise
                rows = []
            notes += more
        held = find_held(context, looked)
        held_by = held.kinds(live) if held is not None else {}
        retained = held.retained(live) if held is not None and not session.stopped else {}
        for header in {header.index: header for header, _ in live.heaps}.values():
            parts = sum(heap.bytes for each, heap in live.heaps if each.index == header.index)
            if parts != header.system_mem and not session.stopped:
                problems.append(parts_differ(header, parts))
    problems += looked.problems if looked is not None else []
    chosen = in_order(filter(wanted, rows), options.by)
    shown, left_out = cut(chosen, options.limit)
    resident = total(row.resident for row in rows)
    beside_rows: dict[str, object] = {}
    if values is not None:
        beside_rows["values"] = _values(values, context.user_data.in_documents)
    beside_rows.update(where_key(matching))
    found = TypesDocument.of(
        None,
        types=[_row(row, held_by.get(row.index), retained.get(row.index)) for row in shown],
        left_out=left_out,
        notes=[statement_record(each, note_text(each)) for each in notes],
        totals=TypeTotals.of(totals, resident_bytes=resident),
        python=None if python is None else [PythonTypeRecord.of(each) for each in cut(python, options.limit)[0]],
        **beside_rows,
    )
    if values is not None:
        text = values_lines(context, values, map(note_text, more), matching)
        return Answer(found, of_heap(session, text), [*problems, *problems_of(session)])
    text = lines(
        context,
        chosen,
        totals,
        every=rows,
        notes=notes,
        held_by=held_by,
        retained=retained,
        owners=looked is None and not held_by,
        matching=matching,
        python=python or (),
    )
    beside = {"who": [held_by[row.index].who if row.index in held_by else "" for row in shown]}
    return Answer(found, of_heap(session, text), [*problems, *problems_of(session)], beside=beside)


def _python(context: Context) -> Optional[PythonObjects]:
    """None: it is no CPython's process, or Ctrl-C was pressed."""
    session = context.session
    if session.stopped or session.target.image.redacted or not has_python(session):
        return None
    try:
        return python_objects_of(live_copy.looked(context).search)
    except KeyboardInterrupt:
        session.stopped = True
        return None


def without_types(target: Target, source: TypeSource) -> Sequence[Statement]:
    """Why no types of the program are known; empty if its file is not here, as a problem says so."""
    why = not_read(source)
    if why is not None:
        return [why]
    files = without_debug_information(target, source)
    return [] if files is None else [Statement("no-declared-types", {"files": len(files)}, {"files": names_of(files)})]


def not_read(source: TypeSource) -> Optional[Statement]:
    """Why the shell did not use existing debug information; None if it did."""
    if isinstance(source, TypesByEngine) and source.unread:
        return Statement(NOT_READ, {"bytes": source.unread})
    return None


def _wanted(least: Optional[int], match: Optional[str]) -> Callable[[TypeRow], bool]:
    matches = shell_pattern(match) if match else None
    return lambda row: row.bytes >= (least or 0) and (matches is None or is_called(row.kind, matches))


def find_held(context: Context, looked: Optional[CopiedImage]) -> Optional[HolderNames]:
    """Who holds the blocks. None if that was not asked for and would take long, or Ctrl-C ended it."""
    session = context.session
    try:
        session.heed_ctrl_c()
        if looked is None and context.target.kind == "core":
            looked = quick_core_search(context)
        if looked is None or not session.started:
            return None
        return HolderNames(looked.search, looked.lost, context.user_data)
    except KeyboardInterrupt:
        session.stopped = True
        return None


def _row(row: TypeRow, held_by: Optional[HeldMost], retained: Optional[int]) -> TypeRecord:
    return typed(TypeRecord, row, held_by=held_by and held_by.owner, retained_bytes=retained)


def typed(record: type[AnyTyped], row: TypeRow, *sources: object, **others: object) -> AnyTyped:
    """A record with a type and how much memory it has."""
    return record.of(*sources, row.kind, row, type=row.kind.name, **others)


HEADERS = ("member", "type", "values", "least", "greatest", "average", "most frequent")
TELLING = ("boolean", "enum", "integer", "character", "text")
"""Kinds of members whose frequent values are worth telling, the most telling first."""
MOST, FEW_VALUES = 0.75, 3
"""The share of objects that must have a value, and how many members are named."""
VALUE = "value"
"""Stands for the member's name if the object itself is a number."""
MANY = 10
"""With fewer different integers, a common distance between them means little."""


def values_lines(
    context: Context, values: TypeValues, notes: Iterable[str], where: Optional[MatchingObjects]
) -> Iterator[str]:
    style = context.style
    yield style.bold(_in_common(values))
    if where is not None:
        yield where_line(where)
    yield from map(_reached, values.splits[:FEW_VALUES])
    yield ""
    yield from table(
        style,
        HEADERS,
        [_cells(each) for each in values.columns],
        left=(0, 1, 6),
        optional=("least", "greatest", "average"),
        expendable=("average", "type"),
        limit=context.options.limit,
    )
    yield from notes
    yield from next_lines(style, *_who_holds(style, values), style.typed("containers"))


def _who_holds(style: Style, values: TypeValues) -> Iterator[str]:
    """A command that tells who holds those objects that a member tells apart."""
    for split in values.splits[:1]:
        condition = f"{values.type}: {split.column.place.name} == {key_text(split.column, split.parts[0].key)}"
        if values.type.replace("_", "").isalnum():
            yield f"{style.typed(f'owners --where {word(condition)}')} (who holds those)"


def _in_common(values: TypeValues) -> str:
    """ "session: closed = 1 in 99.7 %, state = DONE in 98.0 % of 12,345 objects", in the program's own words."""
    blocks = "" if values.blocks == values.objects else f" in {count(values.blocks, 'block')}"
    objects = f"{'' if values.is_whole else 'at least '}{count(values.objects, 'object')}{blocks}"
    if values.guessed_objects:
        objects += f" ({values.guessed_objects:,} by a guess)"
    telling = [each for each in values.columns if each.form in TELLING]
    if not telling:
        return f"{values.type}: {objects}"
    found = [(each, each.frequent[0].key, each.frequent[0].objects) for each in telling if each.frequent]
    alike = [each for each in found if each[2] >= MOST * each[0].objects]
    # a flag or a state that all objects share says more than a number that they share
    alike.sort(key=lambda each: (TELLING.index(each[0].form), -each[2]))
    told = [
        f"{column.place.name or VALUE} = {key_text(column, key)} in {share(number, column.objects)}"
        for column, key, number in alike[:FEW_VALUES]
    ]
    return f"{values.type}: {', '.join(told) or 'no value is common to most'} of {objects}"


def _reached(split: Split) -> str:
    """ "hashed = 0 in 70,875 objects, reached by names.lru alone; 1 in 8,999 objects, 8,990 of them reached by …"."""
    told = []
    for part in split.parts:
        way = part.ways[0] if part.ways else None
        paths = way.paths if way is not None else ()
        by = "no path that is known" if not paths else f"{paths[0]} alone" if len(paths) == 1 else _all(paths)
        most = f"{way.objects:,} of them " if way is not None and way.objects < part.objects else ""
        told.append(f"{key_text(split.column, part.key)} in {count(part.objects, 'object')}, {most}reached by {by}")
    return f"{split.column.place.name or VALUE} = {'; '.join(told)}"


def _all(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _cells(column: ValuesColumn) -> list[str]:
    distinct = "many" if column.distinct is None else f"{column.distinct:,}"
    measured = column.form in ("integer", "float", "elements", "text")
    unit = " long" if column.form == "text" else ""
    numbers = [
        f"{_number(each)}{unit}" if measured and each is not None else "" for each in (column.least, column.greatest)
    ]
    average = _number(column.average) if column.form in ("float", "elements", "text") else ""
    return [column.place.name or VALUE, column.type, distinct, *numbers, average, _frequent(column)]


def _frequent(column: ValuesColumn) -> str:
    told = []
    if column.form == "pointer":
        always = {column.objects: "always null", 0: "never null"}
        told.append(always.get(column.nulls, f"null in {share(column.nulls, column.objects)}"))
    else:
        told += [f"{key_text(column, each.key)} in {share(each.objects, column.objects)}" for each in column.frequent]
        if not told and column.objects:
            told.append("all differ")
    if column.apart > 1 and (column.distinct is None or column.distinct >= MANY):
        told.append(f"{column.apart:,} apart")
    if column.unreadable:
        told.append(f"{column.unreadable:,} not readable")
    return ", ".join(told)


def _number(value: Union[int, float, None]) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"


def key_text(column: ValuesColumn, key: Key) -> str:
    """A member's value as the program writes it."""
    if key is None:
        return "null"
    if isinstance(key, bytes):
        return quoted(key)
    if column.form == "enum":
        return next((name for name, value in column.enumerators.items() if value == key), str(key))
    if column.form == "pointer":
        return f"{key:#x}"
    return _number(key)


THEIRS = "retained"
EXPENDABLE = ("", "average", "resident", "module", "share", "holds back", THEIRS, "blocks")

FIRST_NOTES = ("pymalloc-apart",)
"""Notes shown first: they say why something is missing in the table."""

HELD_BACK = (
    "holds back: how much more malloc_trim(0) would return if all blocks of the type were freed: more than their own "
    "bytes where free memory lies on the same pages"
)
WITH_THEIRS = f"{THEIRS}: with all that only blocks of the type lead to, such as what their members point to"


def lines(
    context: Context,
    rows: Sequence[TypeRow],
    totals: Totals,
    *,
    every: Sequence[TypeRow],
    notes: Sequence[Statement],
    held_by: Mapping[int, HeldMost],
    retained: Mapping[int, int],
    owners: bool,
    matching: Optional[MatchingObjects],
    python: Sequence[PythonTypeSum],
) -> Iterator[str]:
    """`every`: rows of which these are chosen; `held_by`: main holder by a type's number; `retained`: bytes with all
    that only its blocks lead to, by a type's number; `owners`: --owners was not asked for but could be; `matching`: the
    objects of the blocks that are shown for which a condition holds."""
    style, options = context.style, context.options
    by, limit, asked = options.by, options.limit, options.name or ""
    live = totals.bytes + totals.bookkeeping + totals.foreign + totals.damaged
    memory = in_memory(style, totals.bytes, total(row.resident for row in every))
    caches = totals.caches
    theirs = f" ({count(caches, 'is', 'are')} glibc's thread {'cache' if caches == 1 else 'caches'})" if caches else ""
    first = f"{count(totals.blocks, 'live block')}{theirs}, {style.size(totals.bytes)}{memory}: "
    certain = sum(row.bytes for row in every if row.kind.certain and row.kind.kind not in ("size", "zeros"))
    first += f"the type of {style.size(certain)} is certain"
    by_words = sum(row.bytes for row in every if row.kind.how == BY_WORDS)
    if by_words:
        first += f", of {style.size(by_words)} more by what the blocks hold"
    what = where_line(matching) if matching is not None else asked
    if what:
        blocks, size = sum(row.blocks for row in rows), sum(row.bytes for row in rows)
        first = f"{what}: {count(blocks, 'block')}, {style.size(size)}, {share(size, totals.bytes)} of the live bytes"
    if python and not rows:
        objects, size = sum(each.objects for each in python), sum(each.bytes for each in python)
        with_theirs = f"{style.size(size)} with the memory that they have beside themselves"
        yield style.bold(f"{asked}: {count(objects, 'object')} of Python's, {with_theirs}")
        yield from next_lines(style, f"{style.typed('containers')} (what holds them)")
        return
    yield style.bold(first)
    yield from (note_text(each) for each in notes if each.id in FIRST_NOTES)
    yield ""
    if not (options.match or options.min):
        whole = totals.blocks if by == "blocks" else live
        limit = worth_a_row([ORDERS[by](row) for row in rows], whole, limit)
    folded = rows[limit:] if limit > 0 else ()
    holds_back = any(row.holds_back is not None for row in rows)
    shown = cut(rows, limit)[0]
    columns = (
        Column("type", lambda row: name_of(row.kind), name=True),
        Column("module", lambda row: row.kind.module, left=True, optional=True),
        Column("blocks", lambda row: f"{row.blocks:,}"),
        Column("bytes", lambda row: style.size(row.bytes)),
        Column(THEIRS, lambda row: retained and style.size(retained.get(row.index)), optional=True),
        Column("share", lambda row: _share(style, row.bytes, live)[0]),
        Column("", lambda row: _share(style, row.bytes, live)[1], left=True, optional=True),
        Column("average", lambda row: style.size(row.bytes // row.blocks)),
        Column("resident", lambda row: style.size(row.resident)),
        Column("holds back", lambda row: holds_back and style.size(row.holds_back), optional=True),
        Column("held by", lambda row: row.index in held_by and held_by[row.index].words, name=True, optional=True),
        Column("example", lambda row: f"{row.samples[0]:#x}" if row.samples else UNKNOWN, left=True),
    )
    table_lines = column_table(
        style,
        columns,
        shown,
        below=[*_folded(style, folded, live), *_others(style, totals, live)],
        # the column that rows are sorted by is dropped last
        expendable=sorted(EXPENDABLE, key=lambda title: title == by.replace("-", " ")),
    )
    headers = next(table_lines, "")
    yield from (headers, *table_lines)
    yield from (may_be(row.kind.name, row.may_be) for row in shown if row.may_be)
    if any(not row.kind.certain for row in shown):
        yield style.dim(A_GUESS)
    if "holds back" in headers and any((row.holds_back or 0) > row.bytes for row in shown):
        yield style.dim(HELD_BACK)
    if THEIRS in headers:
        yield style.dim(WITH_THEIRS)
    yield from (note_text(each) for each in notes if each.id not in FIRST_NOTES)
    if python and not style.form:
        yield from _of_python(style, python, limit)
    if rows:
        whose = [f"{style.typed('types --owners')} (who holds them)"] if owners else []
        if any(row.kind.kind == "declared" for row in rows):
            named = word(asked) if asked and matching is None else "NAME"
            values = style.typed(f"types {named} --values")
            whose += [style.typed("containers"), f"{values} (what they have in common)"]
        yield from next_lines(style, *whose, style.typed(f"chunk {rows[0].samples[0]:#x}"), style.typed("pins"))


def _of_python(style: Style, types: Sequence[PythonTypeSum], limit: int) -> Iterator[str]:
    """Python's objects by their types."""
    whole = sum(each.bytes for each in types)
    shown = worth_a_row([each.bytes for each in types], whole, limit)
    folded = types[shown:]
    objects, size = sum(each.objects for each in folded), sum(each.bytes for each in folded)
    below = [[folded_name(len(folded), "type"), f"{objects:,}", style.size(size)]] if folded else []
    columns = (
        Column("Python type", lambda row: row.type, name=True),
        Column("objects", lambda row: f"{row.objects:,}"),
        Column("bytes", lambda row: style.size(row.bytes)),
    )
    yield ""
    yield f"Python's objects, in pymalloc's pools and in blocks from above: {style.size(whole)}"
    yield from column_table(style, columns, types[:shown], below=below)


def _folded(style: Style, rows: Sequence[TypeRow], live: int) -> Iterator[list[str]]:
    """The row that stands for all types without a row of their own."""
    if rows:
        blocks, size = sum(row.blocks for row in rows), sum(row.bytes for row in rows)
        resident = None if any(row.resident is None for row in rows) else sum(row.resident or 0 for row in rows)
        name = folded_name(len(rows), "type")
        numbers = [f"{blocks:,}", style.size(size), "", *_share(style, size, live), style.size(size // blocks)]
        yield [name, "", *numbers, style.size(resident), "", "", ""]


def _others(style: Style, totals: Totals, live: int) -> Iterator[list[str]]:
    """Rows for memory in no block, so that the sum is complete."""
    for name, size in (
        ("malloc's bookkeeping", totals.bookkeeping),
        ("somebody else's, by sbrk", totals.foreign),
        ("what could not be read", totals.damaged),
    ):
        if size:
            yield [name, "", "", style.size(size), "", *_share(style, size, live), "", "", "", "", ""]


def _share(style: Style, size: int, live: int) -> tuple[str, str]:
    """The share as a number and as a bar."""
    return (f"{100 * size / live:.1f}%" if live else UNKNOWN, bar(style, size, live))
