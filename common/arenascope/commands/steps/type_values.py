"""types NAME --values: what the objects of one type have in common."""

from __future__ import annotations

from ...base.errors import NoTypeError
from ...base.user_data import UserData
from ...blocks.declared.named_blocks import NamedBlocks
from ...blocks.declared.once_per_image import values_of
from ...blocks.declared.type_values import Column, TypeValues, objects_of, types_called
from ...present.json_documents import value_records
from ...present.screens.type_values import key_text
from ...present.screens.type_values import lines as values_lines
from ...session.session import Session

__all__ = ("find_values", "record", "values_lines")
FEW = 5
"""So many types of one name are named."""


def find_values(session: Session, name: str) -> TypeValues:
    named = session.memo.get(NamedBlocks)
    values = values_of(session, named) if named is not None else None
    if named is None or values is None:
        raise NoTypeError("the program's types are not known here", "containers tells why")
    types = types_called(named, name)
    if len(types) > 1:
        written = {named.layouts.types.text(each) for each in types} if named.layouts else set()
        if len(written) == 1:
            hint = "ask for what is in it: Order, for make_shared<Order>"
            raise NoTypeError(f"{name} is declared {len(types)} times, which may differ", hint)
        raise NoTypeError(
            f"{name} may be any of {len(types)} types: {', '.join(sorted(written)[:FEW])}", "write the whole name"
        )
    with session.meter("reading values", named.blocks.bytes) as meter:
        found = objects_of(named, values, types[0], meter) if types else None
    if found is None:
        raise NoTypeError(f"no block certainly has a {name}", "types shows what there is")
    return found


def record(values: TypeValues, shown: UserData) -> value_records.Values:
    return value_records.Values.of(values, members=[_member(each, shown.in_documents) for each in values.columns])


def _member(column: Column, with_values: bool) -> value_records.Member:
    measured = with_values or column.form in ("text", "elements")
    return value_records.Member.of(
        column,
        member=column.place.name,
        least=column.least if measured else None,
        greatest=column.greatest if measured else None,
        average=column.average if measured else None,
        apart=column.apart if column.apart > 1 else None,
        most_frequent=[
            value_records.Frequent(value=key_text(column, key) if with_values else None, objects=number)
            for key, number in column.frequent()
        ],
    )
