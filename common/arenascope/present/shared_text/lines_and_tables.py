"""Sizes, tables and colours, used by every screen."""

from __future__ import annotations

import os
import re
import textwrap
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple, Optional, Sequence, TypeVar

from ...analysis.held_sums import is_unnamed
from ...base import optional_libraries
from ...base.about import PROGRAM
from ...base.argv import with_suggestion
from ...base.class_names import with_short_names
from ...base.errors import UsageError
from ...base.heap_model import SHELL_CALLS_INTO
from ...base.printable import clean_line, one_line


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


UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
UNKNOWN = "?"
CUT = "…"
"""Stands for what was cut off a text."""
AT_LEAST = "at least "
"""Prefix of a sum if some rows could not be read."""
AT_MOST = "≤ "
"""Prefix of address space if it is not known which pages are resident."""
NO_HEAP = "no heap: glibc's malloc has not been called in this process"
"""Another allocator may serve malloc: then a problem says which."""


def wants_colour() -> bool:
    """Whether the environment allows colours, for every door."""
    return "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


Row = TypeVar("Row")
GAP = 2
"""Spaces between columns of a table."""
SHORT = 10
NAME = 16
"""Texts and row names are not cut shorter than this."""
ENOUGH, FURTHER = 40, 28
"""How much of a name, cut in the middle, is worth dropping other columns for: of the first in a row, and of others."""
WIDEST_NEXT = 200
"""Width of the line of next commands without a terminal."""
WIDEST_NAME = 60
"""Width of a name without a terminal. (Documents have all of it.)"""
_ADDRESS = re.compile(r"(?:0x[0-9a-f]+)?|\?")
_ADDRESS_FIRST = re.compile(r"0x[0-9a-f]+ ")
_BESIDE = re.compile(r"(.+?) \((?!--)((?:[^()]|\([^()]*\))*)\)")
"""A name followed by its type in brackets."""
_INDENT = re.compile(r"\s*(?:(?:[-→]|\d+\.|next:|note:) )?")


class Part(NamedTuple):
    text: str
    colour: str = ""
    """The number of a terminal's colour; "": none."""

    def cleaned(self, shortened: bool) -> Part:
        return Part(clean_line(with_short_names(self.text) if shortened else self.text), self.colour)

    def with_codes(self) -> str:
        return f"\033[{self.colour}m{self.text}\033[0m" if self.colour else self.text


class Painted(str):
    """A text with parts in colour.

    Colour codes are added only in `written`: any other code in a text comes from the program under examination and is
    never written. An f-string turns a painted text into a plain one; `+` keeps the colours.
    """

    parts: Sequence[Part]

    def __new__(cls, *parts: Part) -> Painted:
        made = super().__new__(cls, "".join(part.text for part in parts))
        made.parts = parts
        return made

    def __add__(self, other: str) -> Painted:
        return Painted(*self.parts, *parts_of(other))

    def __radd__(self, other: str) -> Painted:
        return Painted(*parts_of(other), *self.parts)


class Laid(Painted):
    """A line with aligned columns: it is not wrapped."""


def laid(line: str) -> Painted:
    return Laid(*parts_of(line))


def parts_of(text: str) -> Sequence[Part]:
    return text.parts if isinstance(text, Painted) else (Part(text),)


def safe_lines(line: str, width: int) -> list[str]:
    """Turns a line into terminal lines of that width: control codes removed, wrapped, coloured. All output passes
    here."""
    is_laid = isinstance(line, Laid)
    first, *others = (part.cleaned(shortened=not is_laid) for part in parts_of(line))
    text = first.text + "".join(part.text for part in others)
    pieces = [text] if is_laid else fitted(text, width)
    if not others:
        return [first._replace(text=piece).with_codes() for piece in pieces]
    if len(pieces) == 1:
        return ["".join(part.with_codes() for part in (first, *others))]
    if pieces[0].startswith(first.text):
        pieces[0] = first.with_codes() + pieces[0][len(first.text) :]
    return pieces


def fitted(line: str, width: int) -> list[str]:
    """Wraps a line between words, with its own indentation."""
    if not width or len(line) <= width:
        return [line]

    mark = _INDENT.match(line)
    indent = " " * min(len(mark[0]) if mark else 0, width // 2)
    return textwrap.wrap(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def folded(text: str, width: int, before: str = "") -> str:
    """Wraps an error message for the terminal. `before`: the debugger's own prefix."""
    return "\n".join(fitted(before + text, width))[len(before) :]


HELP_WIDTH = 79
BOLD, DIM, YELLOW = "1", "2", "33"
"""Numbers of terminal colours."""


class Style(NamedTuple):
    """How a door wants its text."""

    width: int = 80
    """Columns of the terminal; 0: unlimited."""
    colour: bool = False
    exact: bool = False
    """--bytes: sizes without units."""
    form: str = ""
    """--table: one of tabulate's formats; "" for ours."""
    program: str = "heap"
    """What a user types before a command."""
    subject: str = ""
    """What a user types after a command to name the process or core; "" in a debugger."""
    core: bool = False
    """The target is a core: it never changes, and nothing can be applied to it."""
    shell_calls: bool = True
    """The shell can make this process call functions."""
    lacks: str = ""
    """Why no door can apply a change; "" if one can."""

    @property
    def elsewhere(self) -> Style:
        """For a page, which others read on other machines: without the path of this arenascope."""
        return self._replace(program=PROGRAM) if self.subject else self

    @property
    def running(self) -> bool:
        """Whether the process runs on once it was read, as the shell then lets it go."""
        return self.subject.isdigit() and not self.core

    def typed(self, words: str) -> str:
        """The command as a user can paste it here."""
        name, _, rest = words.partition(" ")
        return " ".join(filter(None, (self.program, name, self.subject, rest)))

    def typed_to_apply(self, words: str) -> str:
        """The command that changes a process, with a remark for a core."""
        return f"{self.applied(words)} (in the process, while it runs)" if self.core else self.applied(words)

    def applied(self, words: str) -> str:
        """The command that changes a process, without remarks."""
        if self.core:
            return self._replace(subject=self.subject and "PID").typed(words)
        if not self.subject or (self.shell_calls and os.uname().machine in SHELL_CALLS_INTO):
            return self.typed(words)
        return f"gdb -p {self.subject} -x \"$({self.program} --gdb-path)\" -ex 'heap {words}'"

    def size(self, value: Optional[int]) -> str:
        """1536 -> "1.5 KiB"; unknown is "?"."""
        if value is None:
            return UNKNOWN
        if self.exact:
            return f"{value:,}"
        amount = float(value)
        for unit in UNITS:
            if abs(amount) < 1023.95 or unit == UNITS[-1]:
                return f"{int(amount)} B" if unit == "B" else f"{amount:.1f} {unit}"
            amount /= 1024
        raise AssertionError("unreachable")

    def bold(self, text: str) -> str:
        return self.painted(text, BOLD)

    def dim(self, text: str) -> str:
        return self.painted(text, DIM)

    def warn(self, text: str) -> str:
        return self.painted(text, YELLOW)

    def painted(self, text: str, colour: str) -> str:
        return Painted(Part(text, colour)) if self.colour else text


def say(size: Optional[int]) -> str:
    """The size with units, also with --bytes: documents have the same sentences."""
    return Style().size(size)


def signed(style: Style, change: Optional[int]) -> str:
    """ "+1.5 KiB", "-1.5 KiB"."""
    return style.size(change) if change is None or change < 0 else f"+{style.size(change)}"


def in_memory(style: Style, size: int, resident: Optional[int], bound: str = "") -> str:
    """How much of the blocks is resident, if that is clearly less than their size."""
    much = resident is not None and 10 * resident < 9 * size
    return f" ({bound}{style.size(resident)} of it resident)" if much else ""


def held_size(style: Style, size: int, alone: int) -> str:
    """The bytes that an owner holds, and how many of them nobody else leads to."""
    if not alone:
        return f"{style.size(size)} (others lead to it as well)"
    much = style.size(size)
    return much if style.size(alone) == much else f"{much} ({style.size(alone)} of it alone)"


def next_lines(style: Style, *commands: str) -> Iterator[str]:
    """Lines of next commands. They break only between commands, so that each can be pasted."""
    line, width = "next: ", style.width or WIDEST_NEXT
    for number, command in enumerate(commands):
        tail = command + ("," if number + 1 < len(commands) else "")
        if number and len(line) + len(tail) > width:
            yield style.dim(line.rstrip())
            line = " " * len("next: ")
        line += f"{tail} "
    yield style.dim(line.rstrip())


def count(number: Optional[int], one: str, many: Optional[str] = None) -> str:
    """ "1 arena", "3 arenas"."""
    if number is None:
        return f"{UNKNOWN} {many or one + 's'}"
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def number(value: Optional[int]) -> str:
    return UNKNOWN if value is None else f"{value:,}"


def known(value: Optional[int]) -> str:
    """The number; "" if there is none."""
    return "" if value is None else f"{value:,}"


def in_use(style: Style, used: Optional[int], bookkeeping: Optional[int]) -> str:
    """Bytes in use as every screen shows them: with malloc's bookkeeping, which only a sweep of the heaps can
    separate."""
    if used is None or bookkeeping is None:
        return f"{UNKNOWN} in use"
    own = f" ({style.size(bookkeeping)} of it malloc's bookkeeping)" if bookkeeping else ""
    return f"{style.size(used + bookkeeping)} in use{own}"


def share(part: int, whole: int) -> str:
    """ "98.4 %". 0 % and 100 % are shown only if they are exact."""
    percent = 100 * part / whole if whole else 0.0
    if part == whole or not part:
        return f"{percent:.0f} %"
    return f"{min(99.9, max(0.1, percent)):.1f} %"


BAR = 6
"""Cells of a full bar in a table."""


def bar(style: Style, part: int, whole: int, cells: int = BAR) -> str:
    """A share as a bar; "" in a table for other programs."""
    return "█" * round(cells * part / whole) if whole and not style.form else ""


def word(text: str) -> str:
    """Quotes an argument, for the shell and for this debugger's prompt."""
    return text if re.fullmatch(r"[\w:./-]+", text) else "'" + text.replace("'", "'\\''") + "'"


def duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{max(1, round(seconds * 1000))} ms"


def table(
    style: Style,
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    left: Sequence[int] = (0,),
    names: Sequence[int] = (),
    footer: Optional[Sequence[str]] = None,
    below: Iterable[Sequence[str]] = (),
    optional: Sequence[str] = (),
    expendable: Sequence[str] = (),
    limit: Optional[int] = None,
    what: str = "row",
    many: Optional[str] = None,
) -> Iterator[str]:
    """Lines of a table. Columns in `left` are aligned to the left, others to the right. A rule stands above the footer.

    The first `limit` rows are shown, then the rows `below`; `what` and `many` name what is left out. Columns in `names`
    hold names of types, variables or programs; a class's name is shown as people write it. A column in `optional` is
    left out if it is empty in all rows.

    On a narrow terminal, columns in `expendable` are dropped, the first named first. Then texts are cut, those in
    `names` in the middle. At last columns are dropped from the right. Addresses are never cut. Without a terminal all
    columns stay, and names are cut to WIDEST_NAME. A bar (a column without a title in `expendable`) stays only if all
    other columns do.
    """
    used = [at for at, name in enumerate(headers) if name not in optional or any(row[at] for row in rows)]
    shown, more = cut(rows, limit)
    every = [
        [one_line(with_short_names(row[at]) if at in names else row[at]) for at in used]
        for row in (headers, *shown, *below, *([footer] if footer else []))
    ]
    if len(every) == 1:
        return
    align = ["left" if at in left else "right" for at in used]
    middle = [used.index(at) for at in names if at in used]
    kept, gone = _columns(every, style.width, expendable, texts=_texts(every, align), names=middle)
    every = [[row[column] for column in kept] for row in every]
    align = [align[column] for column in kept]
    shorter = [column for column, at in enumerate(kept) if used[at] in names]
    if style.width:
        _shorten(every, _texts(every, align), style.width, shorter)
    elif not style.form:
        for row in every:
            for column in shorter:
                row[column] = shortened_name(row[column], WIDEST_NAME)
    if style.form:
        yield from in_form(every[0], every[1:], align, style.form)
    else:
        lines = list(ruled(every[0], every[1:], align))
        if footer:
            lines.insert(len(lines) - 1, lines[1])
        for line in lines:
            yield laid(line.rstrip())
        if any(gone):
            yield f"({', '.join(filter(None, gone))}: left out at a width of {style.width} columns)"
    yield from left_out(style, more, what, many)


class Column(NamedTuple):
    """A column of a table, with what it shows of a row: an empty cell for "", 0 and None. See table()."""

    title: str
    cell: Callable[[Any], object]
    left: bool = False
    name: bool = False
    optional: bool = False


def column_table(
    style: Style, columns: Sequence[Column], rows: Iterable[object], footer: Optional[object] = None, **how: Any
) -> Iterator[str]:
    """A table of these columns, with a line for each of `rows`, and a last one for `footer`."""

    def cells(row: object) -> list[str]:
        return [str(each.cell(row) or "") for each in columns]

    return table(
        style,
        [each.title for each in columns],
        list(map(cells, rows)),
        footer=cells(footer) if footer is not None else None,
        left=[at for at, each in enumerate(columns) if each.left or each.name],
        names=[at for at, each in enumerate(columns) if each.name],
        optional=[each.title for each in columns if each.optional],
        **how,
    )


def _texts(every: Sequence[Sequence[str]], align: Sequence[str]) -> dict[int, int]:
    """Columns that may be cut, and their least width. Figures and leading addresses are never cut."""
    least = {}
    for column, (side, cells) in enumerate(zip(align, zip(*every))):
        if side == "left" and (not column or not all(map(_ADDRESS.fullmatch, cells[1:]))):
            addresses = [found.end() + 1 for found in map(_ADDRESS_FIRST.match, cells) if found]
            least[column] = max(SHORT if column else NAME, *addresses, 0)
    return least


def _columns(
    every: Sequence[Sequence[str]], width: int, expendable: Sequence[str], texts: dict[int, int], names: Sequence[int]
) -> tuple[list[int], list[str]]:
    """The columns that fit, and the titles of those that do not."""
    widths = [max(map(len, column)) for column in zip(*every)]
    least = [min(size, texts.get(column, size)) for column, size in enumerate(widths)]
    enough = {column: FURTHER if column else ENOUGH for column in names}
    wanted = [min(size, enough.get(column, size)) for column, size in enumerate(widths)]
    if not width:
        return list(range(len(widths))), []

    def fit(sizes: Sequence[int], columns: Sequence[int]) -> bool:
        return sum(sizes[column] + GAP for column in columns) - GAP <= width

    titles = list(every[0])
    kept = [column for column, title in enumerate(titles) if title not in expendable]
    for title in reversed(expendable):
        if title in titles and fit(wanted, [*kept, titles.index(title)]) and (title or len(kept) + 1 == len(titles)):
            kept.append(titles.index(title))
    kept.sort()
    while len(kept) > 1 and not fit(least, kept):
        kept.pop()
    return kept, [title for column, title in enumerate(titles) if column not in kept]


def _shorten(every: Sequence[list[str]], texts: dict[int, int], width: int, names: Sequence[int]) -> None:
    """Cuts the longest texts until all columns fit. The first column names the row: unless it is cut in the middle, it
    is cut last."""
    widths = [max(map(len, column)) for column in zip(*every)]
    over = sum(widths) + GAP * (len(widths) - 1) - width
    while over > 0:
        longer = [column for column, least in texts.items() if widths[column] > least]
        longer = longer if 0 in names else [column for column in longer if column] or longer
        if not longer:
            return
        widths[max(longer, key=lambda column: widths[column])] -= 1
        over -= 1
    for row in every:
        row[:] = [
            shortened_name(cell, size) if column in names else shortened(cell, size)
            for column, (cell, size) in enumerate(zip(row, widths))
        ]


def shortened(text: str, width: int) -> str:
    """The text cut to a width; 0: unlimited."""
    return text if not width or len(text) <= width else f"{text[: width - 1]}{CUT}"


def shortened_name(text: str, width: int) -> str:
    """The name cut in its middle, as its end matters too: "std::map<std::string, std…>> node"."""
    if not width or len(text) <= width:
        return text
    address = _ADDRESS_FIRST.match(text)
    if address and address.end() < width:
        return address[0] + shortened_name(text[address.end() :], width - address.end())
    beside = _BESIDE.fullmatch(text)
    if beside:
        if beside[2][:1].isdigit():
            # a cut number would look like another number
            first = f"{beside[1]} ({beside[2].partition(', ')[0]})"
            return first if len(first) <= width else shortened_name(beside[1], width)
        # cut the type by itself: cut together, its end would look like the name's
        room = width - len(beside[1]) - len(" ()")
        return f"{beside[1]} ({shortened_name(beside[2], room)})" if room >= SHORT else shortened_name(beside[1], width)
    end = (width - 1) // 3
    return f"{text[: width - 1 - end]}{CUT}{text[len(text) - end :]}"


FEW_ROWS = 10
"""At least so many rows are shown, however small."""


def cut(rows: Sequence[Row], limit: Optional[int]) -> tuple[Sequence[Row], int]:
    """The first `limit` rows, and how many were left out."""
    if limit is None or limit <= 0 or len(rows) <= limit:
        return rows, 0
    return rows[:limit], len(rows) - limit


def worth_a_row(sizes: Sequence[int], whole: int, limit: int) -> int:
    """How many rows, the largest first, are shown before the small ones are folded into one."""
    if limit <= 0:
        return len(sizes)
    large = sum(100 * size >= whole for size in sizes)
    return min(limit, len(sizes), max(large, FEW_ROWS))


def folded_name(rows: int, what: str) -> str:
    """The name of the row that stands for the small ones."""
    return f"{count(rows, f'other {what}')} (--limit 0)"


def left_out(style: Style, rows: int, what: str, many: Optional[str] = None) -> Iterator[str]:
    if rows:
        yield style.dim(f"… {count(rows, f'more {what}', f'more {many}' if many else None)}; --limit 0 shows all")


MARK = "`"


def marked(name: str) -> str:
    return f"{MARK}{name.replace(MARK, chr(39))}{MARK}"


def unmarked(words: str) -> str:
    """The text without marks, for documents and other programs."""
    return words.replace(MARK, "")


def with_verb(called: str, verb: str) -> str:
    """An owner with a verb: "`cache` holds", "unnamed variables of git hold"."""
    return f"{called} {verb if is_unnamed(called) else verb + 's'}"


def unmarked_names(names: Mapping[str, str]) -> dict[str, str]:
    return {key: unmarked(value) if key in ("owner", "owners") else value for key, value in names.items()}
