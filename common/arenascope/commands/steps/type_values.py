"""types NAME --values: what the objects of one type have in common."""

from __future__ import annotations

from difflib import get_close_matches
from itertools import chain
from typing import Iterable, Iterator, NamedTuple, Optional, Sequence

from ...analysis.held_back import TypeRow
from ...base.class_names import with_short_names
from ...base.errors import NoTypeError
from ...base.model import Statement
from ...base.user_data import UserData
from ...blocks.declared.named_blocks import NamedBlocks
from ...blocks.declared.once_per_image import values_of
from ...blocks.declared.type_values import Column, TypeValues, objects_of, types_called
from ...present.json_documents import type_records
from ...present.screens.type_values import key_text
from ...present.screens.type_values import lines as values_lines
from ...present.screens.types import GUESS, name_of
from ...present.shared_text.text import CUT, count, word
from ...session.session import Session

__all__ = ("NamedType", "named_type", "record", "values_lines")
FEW = 5
"""How many types of one name are listed."""
LIKE = 3
"""How many similar names are suggested."""
ALIKE = 0.6
"""How similar they must be, by difflib's measure."""


class NamedType(NamedTuple):
    """What is known of a type by its name."""

    rows: Sequence[TypeRow]
    values: Optional[TypeValues] = None
    notes: Sequence[Statement] = ()


def named_type(session: Session, rows: Sequence[TypeRow], name: str, with_values: bool) -> NamedType:
    """Finds a type by any name that a screen shows; NoTypeError if there is none. With values if they are known."""
    name = _whole(rows, name)
    found = _named_type(session, rows, name, with_values=with_values)
    more = [
        Statement("may-be-more", {"blocks": row.blocks}, {"type": row.kind.name, "chunk": f"{row.samples[0]:#x}"})
        for row in _may_be(name, rows)
    ]
    return found._replace(notes=[*found.notes, *more])


def _named_type(session: Session, rows: Sequence[TypeRow], name: str, with_values: bool) -> NamedType:
    named = session.block_results.named
    called = [row for row in rows if _plain(name) in _names(row)]
    if not with_values and called:
        return NamedType(called)
    values = values_of(session, named) if named is not None else None
    if named is None or named.layouts is None or values is None:
        if with_values:
            raise NoTypeError("the program's types are not known here", "containers tells why")
        raise _unknown(name, rows, _like(name, _all_names(rows)))
    types = types_called(named, _plain(name))
    written = sorted({named.layouts.types.text(each.type) for each in types})
    if with_values and len(types) == 1:
        with session.meter("reading values", named.blocks.bytes) as meter:
            found = objects_of(named, values, types[0], meter)
        if found is not None:
            declared = [row for row in rows if row.kind.kind == "declared" and row.kind.name in found.names]
            return NamedType(declared, found)
    if called:
        note = Statement("no-values", {"types": len(types)}, {"types": ", ".join(map(word, written[:FEW]))})
        return NamedType(called, notes=[note])
    if len(types) > 1:
        hint = "write the whole name" if len(written) > 1 else "two modules have different ones"
        raise NoTypeError(f"{name} may be any of {len(types)} types: {', '.join(written[:FEW])}", hint)
    if types:
        hint = f"types {word(name)} --values tells of those in other blocks"
        raise _unknown(name, rows, None if with_values else hint)
    raise _unknown(name, rows, _like(name, [*_all_names(rows), *_structs(named)]))


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
    known = named.layouts.types.known() if named.layouts is not None else ()
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


def record(values: TypeValues, shown: UserData) -> type_records.ObjectValues:
    return type_records.ObjectValues.of(values, members=[_member(each, shown.in_documents) for each in values.columns])


def _member(column: Column, with_values: bool) -> type_records.MemberValues:
    measured = with_values or column.form in ("text", "elements")
    return type_records.MemberValues.of(
        column,
        member=column.place.name,
        least=column.least if measured else None,
        greatest=column.greatest if measured else None,
        average=column.average if measured else None,
        apart=column.apart if column.apart > 1 else None,
        most_frequent=[
            type_records.Frequent(value=key_text(column, key) if with_values else None, objects=number)
            for key, number in column.frequent()
        ],
    )
