"""The text of `heap types`."""

from __future__ import annotations

from typing import Iterator, Mapping, Optional, Sequence

from ...analysis.pinning_blocks import ORDERS, Totals, TypeRow
from ...base.argv import Matches
from ...base.class_names import named, type_words
from ...base.heap_model import Kind, Statement
from ...blocks.python_objects import PythonTypeSum
from ..shared_text.lines_and_tables import (
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
    word,
    worth_a_row,
)
from ..shared_text.missing_symbols import without_types_text

THEIRS = "retained"
EXPENDABLE = ("", "average", "resident", "module", "share", "holds back", THEIRS, "blocks")
GUESS = " ?"
"""Marks a name that is a guess."""
NOTES = {
    "pymalloc-apart": "Python's objects of up to 512 bytes are no blocks: pymalloc has them beside malloc",
    "no-python-values": "no values of members are known: these are told of C, C++ and Rust types, not of Python's",
}
NOT_REACHED = "python-not-reached"
FIRST_NOTES = ("pymalloc-apart",)
"""Notes shown first: they say why something is missing in the table."""
NO_VALUES = (
    "no values of members are known: debug information does not give these blocks a certain type, or they are empty"
)
HELD_BACK = (
    "holds back: how much more malloc_trim(0) would return if all blocks of the type were freed: more than their own "
    "bytes where free memory lies on the same pages"
)
WITH_THEIRS = f"{THEIRS}: with all that only blocks of the type lead to, such as what their members point to"
A_GUESS = f"{GUESS.strip()} a guess, by what is in the blocks, or points to them"


def lines(
    style: Style,
    rows: Sequence[TypeRow],
    totals: Totals,
    limit: Optional[int],
    *,
    named: int,
    by_words: int,
    resident: Optional[int],
    notes: Sequence[Statement],
    held_by: Mapping[int, str],
    retained: Mapping[int, int],
    owners: bool,
    by: str,
    fold: bool,
    asked: str = "",
    where: str = "",
    python: Sequence[PythonTypeSum] = (),
) -> Iterator[str]:
    """`named`: bytes of blocks whose type is certain; `by_words`: of more whose type what they hold shows; `resident`:
    bytes of all blocks in memory; `held_by`: main holder by a type's number; `retained`: bytes with all that only its
    blocks lead to, by a type's number; `owners`: --owners was not asked for but could be; `by`: the order of the rows;
    `fold`: small types share one row; `asked`: only this type is shown; `where`: says for which
    objects of the blocks that are shown a condition holds."""
    live = totals.bytes + totals.bookkeeping + totals.foreign + totals.damaged
    memory = in_memory(style, totals.bytes, resident)
    caches = totals.caches
    theirs = f" ({count(caches, 'is', 'are')} glibc's thread {'cache' if caches == 1 else 'caches'})" if caches else ""
    first = f"{count(totals.blocks, 'live block')}{theirs}, {style.size(totals.bytes)}{memory}: "
    first += f"the type of {style.size(named)} is certain"
    if by_words:
        first += f", of {style.size(by_words)} more by what the blocks hold"
    if asked:
        blocks, size = sum(row.blocks for row in rows), sum(row.bytes for row in rows)
        first = f"{asked}: {count(blocks, 'block')}, {style.size(size)}, {share(size, totals.bytes)} of the live bytes"
    if python and not rows:
        objects, size = sum(each.objects for each in python), sum(each.bytes for each in python)
        with_theirs = f"{style.size(size)} with the memory that they have beside themselves"
        yield style.bold(f"{asked}: {count(objects, 'object')} of Python's, {with_theirs}")
        yield from next_lines(style, f"{style.typed('containers')} (what holds them)")
        return
    if where:
        blocks, size = sum(row.blocks for row in rows), sum(row.bytes for row in rows)
        first = f"{where}: {count(blocks, 'block')}, {style.size(size)}, {share(size, totals.bytes)} of the live bytes"
    yield style.bold(first)
    yield from (note_text(each) for each in notes if each.id in FIRST_NOTES)
    yield ""
    if fold:
        whole = totals.blocks if by == "blocks" else live
        limit = worth_a_row([ORDERS[by](row) for row in rows], whole, limit or 0)
    folded = rows[limit:] if limit and limit > 0 else ()
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
        Column("held by", lambda row: held_by.get(row.index), name=True, optional=True),
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
        yield from _of_python(style, python, limit or 0)
    if rows:
        whose = [f"{style.typed('types --owners')} (who holds them)"] if owners else []
        if any(row.kind.kind == "declared" for row in rows):
            values = style.typed(f"types {word(asked) if asked else 'NAME'} --values")
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


def may_be(name: str, structs: Sequence[str]) -> str:
    """A guess at the type of blocks of which only the size is known."""
    return f"{name} may be: {', '.join(map(type_words, structs))} (a guess, by their size and contents)"


def note_text(said: Statement) -> str:
    if said.id == "no-values":
        several = int(said.figures["types"] or 0) > 1
        return f"values are told of one type: {said.names['types']}" if several else NO_VALUES
    if said.id == "may-be-more":
        blocks, names = count(int(said.figures["blocks"] or 0), "block"), said.names
        return f"{blocks} of {names['type']} may be more of them (a guess): chunk {names['chunk']} shows one"
    if said.id == NOT_REACHED:
        return not_reached_text(said)
    return NOTES.get(said.id) or without_types_text(said)


def not_reached_text(said: Statement) -> str:
    missing, whole = (Style().size(int(said.figures[name] or 0)) for name in ("bytes", "pool_bytes"))
    return (
        f"no way led to {missing} of the {whole} that pymalloc has handed out: only modules in C lead there, or "
        "nothing does any more"
    )


def is_called(kind: Kind, matches: Matches) -> bool:
    """Whether the type's name on screens or in documents matches."""
    return matches(name_of(kind)) or matches(kind.name)


def name_of(kind: Kind) -> str:
    return _whole_name(kind, short_name(kind))


def name_in_documents(kind: Kind) -> str:
    """The type's name as rows in documents have it."""
    return _whole_name(kind, named(kind.name).name if kind.kind == "declared" else kind.name)


def _whole_name(kind: Kind, name: str) -> str:
    owner = f" of {kind.owner}" if kind.owner and kind.kind != "holder" else ""
    return name + owner + ("" if kind.certain else GUESS)


def short_name(kind: Kind) -> str:
    """The name as people write it; documents have it as debug information spells it."""
    return type_words(kind.name)


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
