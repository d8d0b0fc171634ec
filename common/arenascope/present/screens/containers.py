"""The text of `heap containers`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterator, Optional, Sequence

from ...base.class_names import named
from ...base.model import Statement
from ..shared_text.debug_info import NOT_READ, without_types_text
from ..shared_text.text import Style, count, next_lines, share, table, word
from .types import GUESS

if TYPE_CHECKING:
    from ...blocks.declared.container_rows import ContainerRow

HEADERS = ("container", "type", "containers", "elements", "held", "per element", "load", "longest chain")
ASKING = {
    "shell": "with --declared GDB reads them, where it is installed",
    "": "ARENASCOPE_DECLARED=0 is in the debugger's environment",
}
"""How to make types known, by door."""


def lines(
    style: Style, rows: Sequence[ContainerRow], in_use: int, *, limit: Optional[int], notes: Sequence[Statement]
) -> Iterator[str]:
    """`in_use`: bytes of all blocks."""
    if rows:
        yield style.bold(_largest(style, rows[0], in_use))
        yield ""
    yield from table(
        style,
        HEADERS,
        [_cells(style, row) for row in rows],
        left=(0, 1),
        names=(0, 1),
        optional=("load", "longest chain"),
        expendable=("load", "longest chain", "containers", "per element", "type", "elements", "held"),
        limit=limit,
    )
    yield from map(note_text, notes)
    if rows:
        element = next((named(row.element).name for row in rows if row.element and row.elements.number), "NAME")
        yield from next_lines(
            style,
            f"{style.typed(f'types {word(element)} --values')} (what they have in common)",
            f"{style.typed(f'owner {rows[0].sample:#x}')} (a block of the first)",
            style.typed("types"),
        )


def _largest(style: Style, row: ContainerRow, in_use: int) -> str:
    """ "pool->queue holds 155.0 MiB in 168,478 elements, 87 % of the live bytes", in the program's own words."""
    held, several = style.size(row.held_bytes), f" of {row.containers:,} containers" if row.containers > 1 else ""
    elements = count(row.elements.number, "element")
    return f"{row.path} holds {held} in {elements}{several}, {share(row.held_bytes, in_use)} of the live bytes" + (
        "" if row.certain else GUESS
    )


def _cells(style: Style, row: ContainerRow) -> list[str]:
    counted = row.elements
    return [
        row.path + ("" if row.certain else GUESS),
        type_text(row),
        f"{row.containers:,}",
        f"{counted.number:,}",
        style.size(row.held_bytes),
        style.size(row.held_bytes // counted.number) if counted.number else "",
        f"{counted.number / counted.buckets:.2f}" if counted.buckets else "",
        f"{counted.longest_chain:,}" if counted.longest_chain is not None else "",
    ]


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
    if said.id == "locals-not-known":
        return (
            "variables of functions are not known, as no thread's stack could be followed here: "
            "GDB or LLDB may know more, by heap containers"
        )
    if said.id in NOT_READ:
        return without_types_text(said)
    files = said.names["files"]
    missing = f"; without debug information (-g, or debug symbols) those of {files} are not known" if files else ""
    return f"no variable whose type is known leads to a container{missing}"
