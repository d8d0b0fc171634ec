"""Formats a table's cells as lines: for a screen, or in one of tabulate's formats (only these need tabulate)."""

from __future__ import annotations

from typing import Any, Iterator, Sequence

from ...base import optional_libraries
from ...base.argv import with_suggestion
from ...base.errors import UsageError


def ruled(headers: Sequence[str], rows: Sequence[Sequence[str]], align: Sequence[str]) -> Iterator[str]:
    """The table of a screen: the headers, a rule, and the rows."""
    widths = [max(len(cell) for cell in column) for column in zip(headers, *rows)]

    def line(cells: Sequence[str]) -> str:
        return "  ".join(
            cell.ljust(width) if side == "left" else cell.rjust(width)
            for cell, width, side in zip(cells, widths, align)
        )

    yield line(headers)
    yield "  ".join("-" * width for width in widths)
    for row in rows:
        yield line(row)


MARKDOWN = ("github", "pipe")


def known_form(form: str) -> str:
    """Checks that it is one of tabulate's formats; UsageError if not, or if tabulate is missing."""
    tabulate: Any = optional_libraries.load("tabulate")
    if tabulate is None:
        raise UsageError(
            "--table needs tabulate, which is not installed for this Python",
            "pip install 'arenascope[table]', or Debian's package python3-tabulate",
        )
    known = tabulate.tabulate_formats
    if form not in known:
        raise UsageError(
            f"there is no table format {form!r}", with_suggestion(form, known, f"one of: {', '.join(known)}")
        )
    return form


def in_form(headers: Sequence[str], rows: Sequence[Sequence[str]], align: Sequence[str], form: str) -> Iterator[str]:
    tabulate: Any = optional_libraries.load("tabulate")
    if form in MARKDOWN:
        rows = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    if form == "tsv":
        # tabulate pads columns with spaces and drops trailing empty cells: neither suits programs
        yield from ("\t".join(row) for row in (headers, *rows))
        return
    text: str = tabulate.tabulate(rows, headers, tablefmt=form, disable_numparse=True, colalign=align)
    yield from text.splitlines()
