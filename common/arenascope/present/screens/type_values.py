"""The text of `heap types NAME --values`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterable, Iterator, Optional, Union

from ...base.printable import quoted
from ..shared_text.text import Style, count, next_lines, share, table

if TYPE_CHECKING:
    from ...blocks.declared.type_values import Column, Key, TypeValues

HEADERS = ("member", "type", "values", "least", "greatest", "average", "most frequent")
TELLING = ("boolean", "enum", "integer", "character", "text")
"""Kinds of members whose frequent values are worth telling, the most telling first."""
MOST, FEW = 0.75, 3
"""The share of objects that must have a value, and how many members are named."""
VALUE = "value"
"""Stands for the member's name if the object itself is a number."""
MANY = 10
"""With fewer different integers, a common distance between them means little."""


def lines(style: Style, values: TypeValues, limit: Optional[int], notes: Iterable[str]) -> Iterator[str]:
    yield style.bold(_in_common(values))
    yield ""
    yield from table(
        style,
        HEADERS,
        [_cells(each) for each in values.columns],
        left=(0, 1, 6),
        optional=("least", "greatest", "average"),
        expendable=("average", "type"),
        limit=limit,
    )
    yield from notes
    yield from next_lines(style, style.typed("containers"))


def _in_common(values: TypeValues) -> str:
    """ "session: closed = 1 in 99.7 %, state = DONE in 98.0 % of 12,345 objects", in the program's own words."""
    blocks = "" if values.blocks == values.objects else f" in {count(values.blocks, 'block')}"
    objects = f"{count(values.objects, 'object')}{blocks}"
    telling = [each for each in values.columns if each.form in TELLING]
    if not telling:
        return f"{values.type}: {objects}"
    found = [(column, *column.frequent()[0]) for column in telling if column.frequent()]
    alike = [each for each in found if each[2] >= MOST * each[0].objects]
    # a flag or a state that all objects share says more than a number that they share
    alike.sort(key=lambda each: (TELLING.index(each[0].form), -each[2]))
    told = [
        f"{column.place.name or VALUE} = {key_text(column, key)} in {share(number, column.objects)}"
        for column, key, number in alike[:FEW]
    ]
    return f"{values.type}: {', '.join(told) or 'no value is common to most'} of {objects}"


def _cells(column: Column) -> list[str]:
    distinct = "many" if column.distinct is None else f"{column.distinct:,}"
    measured = column.form in ("integer", "float", "elements", "text")
    unit = " long" if column.form == "text" else ""
    numbers = [
        f"{_number(each)}{unit}" if measured and each is not None else "" for each in (column.least, column.greatest)
    ]
    average = _number(column.average) if column.form in ("float", "elements", "text") else ""
    return [column.place.name or VALUE, column.type, distinct, *numbers, average, _frequent(column)]


def _frequent(column: Column) -> str:
    told = []
    if column.form == "pointer":
        always = {column.objects: "always null", 0: "never null"}
        told.append(always.get(column.nulls, f"null in {share(column.nulls, column.objects)}"))
    else:
        told += [f"{key_text(column, key)} in {share(number, column.objects)}" for key, number in column.frequent()]
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


def key_text(column: Column, key: Key) -> str:
    """A member's value as the program writes it."""
    if key is None:
        return "null"
    if isinstance(key, bytes):
        return quoted(key)
    if column.form == "enum":
        name = next((name for name, value in column.facts.enumerators.items() if value == key), "")
        return name.rpartition("::")[2] or str(key)
    if column.form == "pointer":
        return f"{key:#x}"
    return _number(key)
