"""arenascope top: this machine's processes by the free memory in their malloc, read from the headers of their arenas.
No process is stopped, except that those of --exact are held once each."""

from __future__ import annotations

import argparse
import json
import os
import struct
import sys
import termios
import time
import tty
from contextlib import suppress
from pwd import getpwuid
from select import select
from shutil import get_terminal_size
from typing import (
    Annotated,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
)

from ..base.errors import ArenascopeError, UsageError
from ..base.printable import one_line
from ..commands.framework.arguments import argument, outline_of, seconds
from ..commands.framework.command import EXACT
from ..present.json_documents.record import ChunkTally, Document, Record, Size, envelope_of, plain
from ..present.screens.verdict import OtherScreen
from ..present.shared_text.lines_and_tables import (
    Column,
    Style,
    column_table,
    count,
    duration,
    next_lines,
    number,
    safe_lines,
)
from ..session.header_look import HeaderLook, HeaderReader
from ..sources.live.proc_tables import barrier
from ..sources.live.processes_by_name import ListedProcess, list_processes
from .shell import ShellDoor, unbroken
from .subjects import typed_pids
from .watch import Wanted, look_at

HOW_SURE = (EXACT_FIGURES, ESTIMATE, AT_LEAST) = ("exact", "estimate", "at-least")
"""How the figures were obtained: from a held process; from a running one, with all lists followed to the end; or only
as far as they were followed."""
QUIT = (b"q", b"Q")


class WholeLook(Record):
    """Exact figures of a process, which was held once for them."""

    time: float
    """When that was, in seconds since 1970."""
    held_seconds: float
    """For how long it was held."""
    rss_bytes: Optional[Size]
    """RSS."""
    used_bytes: Optional[Size]
    """In use, and resident."""
    free_bytes: Optional[Size]
    """Free in malloc, and resident."""
    trim_bytes: Optional[Size]
    """Of that: what malloc_trim(0) would return."""
    tops_bytes: Optional[Size]
    """Of that: tops of thread arenas, which malloc_trim leaves alone."""
    stranded_bytes: Optional[Size]
    """Of that: in pages that also hold something in use."""


class RunningProcess(Record):
    """A process that may be read. Figures of its malloc are null if it has no glibc malloc."""

    pid: int
    """Its pid."""
    user: str
    """Whose it is: a name, or the number where there is none."""
    name: str
    """As the kernel has it."""
    rss_bytes: Size
    """RSS, as ps shows it: it may lag behind by some pages."""
    allocators: Sequence[str]
    """What serves malloc in place of glibc, as far as that is known."""
    arenas: Optional[Size]
    """How many."""
    system_bytes: Optional[Size]
    """What the arenas have taken from the kernel and not returned."""
    mmapped: ChunkTally
    """Blocks with mappings of their own."""
    tops_bytes: Optional[Size]
    """Free in the arenas' tops."""
    bins_bytes: Optional[Size]
    """Free in bins, as far as they were followed."""
    free_bytes: Optional[Size]
    """Both: address space, without thread caches and fastbins; see free_whole."""
    free_resident_bytes: Optional[Size]
    """What of that is in memory, as far as it was looked at."""
    stranded_bytes: Optional[Size]
    """Of bins_bytes: in pages that also hold something else; see free_whole."""
    free_whole: Optional[bool]
    """Whether all tops were read and all bins followed to their ends; else these are lower bounds."""
    exact: Optional[WholeLook]
    """With --exact: what a whole look found, once; null: it was not asked for."""
    figures: Annotated[Optional[str], ("enum", HOW_SURE)]
    """What tells how much it has free, and its place: what is in exact; an estimate, read to the end of all lists while
    it ran on; or at-least, lower bounds (free_whole is false). null: not known."""


class TopDocument(Document, command="top"):
    """The answer of top: one look at all processes, while they ran on."""

    time: float
    """When, in seconds since 1970."""
    processes: Sequence[RunningProcess]
    """Up to --limit as sorted, and those of --exact."""
    left_out: Size
    """How many more there are, beyond --limit."""
    uncertain_pids: Sequence[int]
    """Those that may belong further up, also of what is left out: not all of their free chunks were followed."""
    unread: Size
    """How many could not be read: most of them are not permitted."""


DEFAULT = "free"
SORTS: Mapping[str, Callable[[RunningProcess], int]] = {
    "free": lambda each: _known(
        each.exact.free_bytes if each.exact else None, each.free_resident_bytes, each.free_bytes
    ),
    "stranded": lambda each: _known(each.exact.stranded_bytes if each.exact else None, each.stranded_bytes),
    "system": lambda each: _known(each.system_bytes),
    "rss": lambda each: each.rss_bytes,
}
ALWAYS_KNOWN = ("system", "rss")


def _known(*sizes: Optional[int]) -> int:
    """Returns the first known size; if there is none, a value that sorts last."""
    return next((size for size in sizes if size is not None), -1)


def how_sure(exact: Optional[WholeLook], whole: Optional[bool]) -> Optional[str]:
    """Returns one of HOW_SURE; `whole`: whether free lists were followed to their end."""
    if exact is not None and exact.free_bytes is not None:
        return EXACT_FIGURES
    return None if whole is None else ESTIMATE if whole else AT_LEAST


def at_most(row: RunningProcess, sort: str) -> int:
    """Returns an upper bound: all arena memory that was not seen to be free may be free, too."""
    seen = SORTS[sort](row)
    if row.figures != AT_LEAST or sort in ALWAYS_KNOWN:
        return seen
    return seen + max(0, (row.system_bytes or 0) - (row.free_bytes or 0))


class Order:
    """Processes sorted by the lower bound, or by the figures of --exact. `limit` are shown (0: all), and those of
    --exact."""

    def __init__(self, rows: Sequence[RunningProcess], sort: str, limit: int) -> None:
        self._rows = sorted(rows, key=lambda row: (-SORTS[sort](row), row.pid))
        self._sort = sort
        self._room = limit or len(rows)

    @property
    def shown(self) -> list[RunningProcess]:
        """The processes to show. Any that may be the largest of all replaces the last."""
        shown, hidden = self._rows[: self._room], self._rows[self._room :]
        if hidden:
            largest = SORTS[self._sort](shown[0])
            above = [row for row in hidden if at_most(row, self._sort) > largest]
            above = sorted(above, key=lambda row: -at_most(row, self._sort))[: len(shown) - 1]
            shown = shown[: len(shown) - len(above)] + above
        pids = {row.pid for row in shown}
        return [row for row in self._rows if row.pid in pids or row.exact is not None]

    @property
    def uncertain(self) -> list[RunningProcess]:
        """The processes that may belong further up, including hidden ones that may belong among the shown."""
        found = []
        for place, row in enumerate(self._rows):
            above = min(place, self._room) - 1
            if above >= 0 and at_most(row, self._sort) > SORTS[self._sort](self._rows[above]):
                found.append(row)
        return found

    @property
    def to_follow(self) -> list[RunningProcess]:
        """The processes to follow further: shown ones, or ones that may have to be, that were not followed to their
        ends. The one that may be largest comes first."""
        least = SORTS[self._sort](self._rows[self._room - 1]) if len(self._rows) > self._room else -1
        parts = [
            row
            for place, row in enumerate(self._rows)
            if row.figures == AT_LEAST and (place < self._room or at_most(row, self._sort) > least)
        ]
        return sorted(parts, key=lambda row: -at_most(row, self._sort))


class Keyboard:
    """Reads single keys without echo until it is left. Without a terminal there are no keys."""

    def __init__(self) -> None:
        self._file = 0 if os.isatty(0) and sys.stdout.isatty() else -1
        self._before: Optional[list[object]] = None

    def __enter__(self) -> Keyboard:
        if self._file >= 0:
            self._before = termios.tcgetattr(self._file)
            tty.setcbreak(self._file)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            termios.tcsetattr(self._file, termios.TCSADRAIN, self._before)  # type: ignore[arg-type]

    def wait(self, seconds: float) -> bool:
        """Waits so long, or until q is pressed; returns whether it was."""
        end = time.monotonic() + seconds
        while self._file >= 0 and select([self._file], [], [], max(0.0, end - time.monotonic()))[0]:
            key = os.read(self._file, 1)
            if key in QUIT:
                return True
            if not key:
                self._file = -1  # the terminal is gone
        time.sleep(max(0.0, end - time.monotonic()))
        return False


SECONDS = 3.0
CHUNKS, FEWEST = 60_000, 200
"""The most free chunks that a look follows in all (a third of a second), and the least for each process."""
MOST = 2_000
"""The most for a process."""
FURTHER, A_SECOND = 400_000, 40_000
"""The most free chunks followed beyond these (about two seconds). If looks repeat: for each second between them, a
fifth of that second."""
STEP = 4
"""Each further round follows a process so many times as far."""
TRIES = 3
"""For a process whose lists change while they are read."""
ROWS = 20
AROUND = 17
"""Lines of the screen besides the table's rows, some of them wrapped."""
OUTLINE = outline_of(
    "List this machine's processes by the free memory that their malloc holds; none is stopped.",
    "Of each process the headers of its arenas and the first chunks of its bins are read while it runs on. Those that "
    f"may be among the shown ones are followed further, by {FURTHER:,} chunks in all, which takes about two seconds "
    '(where looks are repeated: a fifth of the interval). "≥" marks what even so was not followed to its end. If that '
    "may change the order, the first line says so, and which command settles it. Thread caches and fastbins do not "
    "count as free, but in exact figures. On a terminal the list is renewed until q or Ctrl-C; in a pipe it is printed "
    "once.",
    "top\ntop --once --limit 5\ntop --exact 1234 5678\ntop --json --once | jq '.processes[0].pid'",
    argument(
        "--exact",
        metavar="PID",
        nargs="+",
        default=[],
        help="exact figures of these, by pid or name, as `report` has them: each is held once, briefly",
    ),
    argument(
        "--sort",
        choices=tuple(SORTS),
        default=DEFAULT,
        help="the order: by what is free and resident (free), by its stranded part, by system or rss",
    ),
    argument(
        "--limit",
        type=int,
        metavar="N",
        help=f"show N processes at most (0: all; {ROWS}, or as many as the screen has room for)",
    ),
    argument("--once", action="store_true", help="one list, also on a terminal"),
    argument(
        "--interval",
        type=seconds,
        metavar="TIME",
        help=f"time between two looks ({SECONDS:g}s); in a pipe, too, it goes on then",
    ),
    argument("--count", type=int, default=0, metavar="N", help="stop after N looks (0: none)"),
    argument("--json", action="store_true", help="one JSON document a line, for each look"),
    EXACT,
    names_pids="--exact",
)


def run(options: argparse.Namespace) -> int:
    interval = SECONDS if options.interval is None else options.interval
    if interval <= 0:
        raise UsageError("--interval must be more than 0")
    if (options.limit or 0) < 0 or options.count < 0:
        raise UsageError("--limit and --count are 0 or more")
    goes_on = not options.once and (options.interval is not None or options.count > 0 or _is_screen(options))
    exact = [int(pid) for pid in typed_pids(options.exact)]
    whole = _whole_looks(exact)
    looks = Looks(whole, options.sort, min(FURTHER, int(interval * A_SECOND)) if goes_on else FURTHER)
    show = _show(options, interval, goes_on)
    number = 0
    try:
        with Keyboard() as keyboard:
            while True:
                began = time.monotonic()
                found = looks.look(show.rows(len(whole)) if options.limit is None else options.limit)
                show.draw(found, time.monotonic() - began)
                number += 1
                if not goes_on or number == options.count or keyboard.wait(began + interval - time.monotonic()):
                    break
    finally:
        show.close()
    return 0 if len(whole) == len(set(exact)) else 2


def _is_screen(options: argparse.Namespace) -> bool:
    return sys.stdout.isatty() and not options.json and os.environ.get("TERM", "dumb") != "dumb"


FAILURES = (ArenascopeError, OSError, LookupError, ValueError, struct.error)
"""The process ended, may not be read, or became another program: the other processes go on."""


class Looks:
    """Looks at all processes again and again."""

    def __init__(self, whole: Mapping[int, WholeLook], sort: str = DEFAULT, further: int = FURTHER) -> None:
        """`further`: how many free chunks are followed beyond the first ones of each process."""
        self._whole, self._sort, self._further = whole, sort, further
        self._reader = HeaderReader()
        self._users: dict[int, str] = {}

    def look(self, limit: int = 0) -> TopDocument:
        """Looks at all processes, and returns the first `limit`; 0: all."""
        listed = list(list_processes(os.sysconf("SC_PAGE_SIZE")))
        self._reader.forget_all_but(each.pid for each in listed)
        chunks = max(FEWEST, min(MOST, CHUNKS // max(1, len(listed))))
        rows: dict[int, RunningProcess] = {}
        unread = 0
        for each in listed:
            try:
                look = self._reader.look(each.pid, (each.started, each.program), chunks)
            except FAILURES:
                unread += os.path.exists(f"/proc/{each.pid}")
                continue
            rows[each.pid] = self._row(each, look)
        self._follow({each.pid: each for each in listed}, rows, limit)
        order = Order(list(rows.values()), self._sort, limit)
        top = TopDocument(
            time=time.time(),
            processes=order.shown,
            left_out=len(rows) - len(order.shown),
            uncertain_pids=[row.pid for row in order.uncertain],
            unread=unread,
        )
        top.within(envelope_of("top", "shell", None, None, problems=()))
        return top

    def _follow(self, listed: Mapping[int, ListedProcess], rows: dict[int, RunningProcess], limit: int) -> None:
        """Follows further those that may be among the first, until they are complete or `further` is used up. Each is
        followed a few times as far as before, so that one alone does not use up all."""
        left, reach = self._further, MOST
        tries = dict.fromkeys(rows, TRIES)
        while left > 0:
            reach *= STEP
            order = Order(list(rows.values()), self._sort, limit)
            follow = [listed[row.pid] for row in order.to_follow if tries[row.pid]]
            if not follow:
                return
            for each in follow:
                allowed = min(reach, left)
                try:
                    look = self._reader.look(each.pid, (each.started, each.program), allowed)
                except FAILURES:
                    look = None
                free = look.free if look is not None else None
                if look is None or free is None:
                    tries[each.pid] = 0
                    continue
                if free.whole or free.all >= (rows[each.pid].free_bytes or 0):
                    rows[each.pid] = self._row(each, look)
                if not free.cut:
                    tries[each.pid] -= 1
                elif allowed == left:
                    tries[each.pid] = 0
                left = max(0, left - max(FEWEST, free.followed))
                if not left:
                    return

    def _row(self, listed: ListedProcess, look: HeaderLook) -> RunningProcess:
        free, exact = look.free, self._whole.get(listed.pid)
        return RunningProcess.of(
            look,
            free,
            pid=listed.pid,
            user=self._user(look.uid),
            name=one_line(listed.name),
            rss_bytes=listed.rss,
            allocators=list(look.allocators),
            mmapped=ChunkTally.of(look.mmapped),
            free_bytes=free and free.all,
            free_resident_bytes=free and free.resident,
            free_whole=free and free.whole,
            exact=exact,
            figures=how_sure(exact, free and free.whole),
        )

    def _user(self, uid: int) -> str:
        if uid not in self._users:
            self._users[uid] = str(uid)
            with suppress(KeyError, ImportError):
                self._users[uid] = one_line(getpwuid(uid).pw_name)
        return self._users[uid]


def _whole_looks(pids: Iterable[int]) -> dict[int, WholeLook]:
    """Exact figures of these processes. Each is held once, one after the other; those that cannot be read are left
    out."""
    looks: dict[int, WholeLook] = {}
    for pid in dict.fromkeys(pids):
        try:
            looked = unbroken(lambda pid=pid: look_at(pid, Wanted()))  # type: ignore[misc]
        except ArenascopeError as error:
            sys.stderr.write(f"arenascope top: {one_line(str(error))}\n")
            continue
        picture = looked.picture
        part = picture.parts.get if picture is not None and picture.whole else lambda name, default: None
        whole = picture if picture is not None and picture.whole else None
        looks[pid] = WholeLook(
            time=looked.at,
            held_seconds=looked.held,
            rss_bytes=picture.rss if picture is not None else None,
            used_bytes=whole.live if whole is not None else None,
            free_bytes=whole.free if whole is not None else None,
            trim_bytes=part("returnable", 0),
            tops_bytes=part("thread_tops", 0),
            stranded_bytes=part("scraps", 0),
        )
    return looks


# output


class _Once:
    """Prints each look."""

    def __init__(self, as_json: bool, exact: bool, how: TopView) -> None:
        self._json, self._exact, self._how = as_json, exact, how

    def rows(self, whole: int) -> int:
        """The default number of rows; `whole`: how many processes have exact figures."""
        return ROWS

    def draw(self, found: TopDocument, seconds: float) -> None:
        if self._json:
            sys.stdout.write(json.dumps(found.to_dict(), ensure_ascii=False, default=plain) + "\n")
        else:
            style = _style(self._exact)
            lines = top_lines(style, found, self._how._replace(seconds=seconds))
            sys.stdout.write("".join(f"{piece}\n" for line in lines for piece in safe_lines(line, style.width)))
        sys.stdout.flush()

    def close(self) -> None:
        pass


class _Screen(_Once):
    """Draws each look in the same place."""

    def __init__(self, exact: bool, how: TopView) -> None:
        super().__init__(False, exact, how)
        self._screen = OtherScreen(sys.stdout)

    def rows(self, whole: int) -> int:
        return max(1, get_terminal_size().lines - AROUND - whole)

    def draw(self, found: TopDocument, seconds: float) -> None:
        style = _style(self._exact)
        self._screen.draw(list(top_lines(style, found, self._how._replace(seconds=seconds))), style.width)

    def close(self) -> None:
        self._screen.close()


def _show(options: argparse.Namespace, interval: float, goes_on: bool) -> _Once:
    barred = barrier()
    how = TopView(options.sort, unread=barred.why if barred is not None else "sudo may")
    if goes_on and _is_screen(options):
        return _Screen(options.bytes, how._replace(note=f"every {interval:g} s, until q or Ctrl-C"))
    return _Once(options.json, options.bytes, how)


def _style(exact: bool) -> Style:
    """A new style each time, as the window may have been resized."""
    return ShellDoor(None).style()._replace(exact=exact)


LOWER = "≥ "
"""Prefix of a lower bound."""
EXPENDABLE = ("user", "allocator", "held", "arenas", "system", "free", "tops", "in use", "trim gives")
SORTED = {
    "free": "free in RSS: what malloc could give back, and what is stranded",
    "stranded": "stranded: free, but in pages that also hold something else",
    "system": "system: what the arenas took from the kernel",
    "rss": "RSS",
}


class TopView(NamedTuple):
    """Options of how the table is shown."""

    sort: str
    seconds: float = 0.0
    """How long the look took."""
    note: str = ""
    """What the screen does next."""
    unread: str = ""
    """Why some processes could not be read, or what may read them."""


def columns(style: Style, whole: bool) -> Sequence[Column]:
    """`whole`: there was a whole look at one of the processes."""

    def bound(each: RunningProcess, size: Optional[int]) -> str:
        return f"{LOWER if each.figures == AT_LEAST and size is not None else ''}{style.size(size)}"

    def exact(each: RunningProcess, size: Callable[[WholeLook], Optional[int]]) -> str:
        known = each.exact if each.figures == EXACT_FIGURES else None
        return style.size(size(known) if known is not None else None) if whole else ""

    return (
        Column("pid", lambda each: str(each.pid)),
        Column("user", lambda each: each.user, left=True),
        Column("name", lambda each: each.name, name=True),
        Column("figures", lambda each: whole and (each.figures or "").replace("-", " "), left=True, optional=True),
        Column("RSS", lambda each: style.size(_figures(each).rss)),
        Column("system", lambda each: style.size(each.system_bytes)),
        Column("in use", lambda each: exact(each, lambda known: known.used_bytes), optional=True),
        # belongs to another moment than the whole look
        Column("free", lambda each: bound(each, None if each.figures == EXACT_FIGURES else each.free_bytes)),
        Column("free in RSS", lambda each: bound(each, _figures(each).free)),
        Column("trim gives", lambda each: exact(each, lambda known: known.trim_bytes), optional=True),
        Column("tops", lambda each: exact(each, lambda known: known.tops_bytes), optional=True),
        Column("stranded", lambda each: bound(each, _figures(each).stranded)),
        Column("arenas", lambda each: number(each.arenas)),
        Column("held", lambda each: each.exact and duration(each.exact.held_seconds), optional=True),
        Column("allocator", lambda each: ", ".join(each.allocators), left=True, optional=True),
    )


def top_lines(style: Style, found: TopDocument, shown: TopView) -> Iterator[str]:
    if found.uncertain_pids:
        who = count(len(found.uncertain_pids), "process", "processes")
        settle = _settle(style, found, shown.sort)
        yield style.bold(f"the order is uncertain: {who} may have more than was seen{settle}")
    yield style.bold(_sentence(style, found, shown.unread))
    yield ""
    whole = [each.exact for each in found.processes if each.exact is not None]
    yield from column_table(style, columns(style, bool(whole)), found.processes, expendable=EXPENDABLE)
    if found.left_out:
        yield f"({count(found.left_out, 'more process', 'more processes')}: --limit)"
    yield ""
    if shown.note:
        yield style.dim(shown.note)
    if found.processes:
        yield style.dim(f"sorted by {SORTED[shown.sort]}")
    if any(each.figures == AT_LEAST for each in found.processes):
        every = "" if found.uncertain_pids else "; --exact PID: all"
        yield style.dim(f"{LOWER}at least: not all free chunks were followed{every}")
    if whole:
        when = time.strftime("%H:%M:%S", time.localtime(max(each.time for each in whole)))
        yield style.dim(f"exact: as of {when}, each held once; estimates are without thread caches and fastbins")
    stopped = "" if whole else ", none was stopped"
    read = f"read in {duration(shown.seconds)} while they ran on{stopped}"
    yield style.dim(read if whole else f"free without thread caches and fastbins; {read}")
    if not shown.note and found.processes and found.processes[0].arenas is not None:
        named = style._replace(subject=str(found.processes[0].pid))
        yield from next_lines(style, named.typed("report"), named.typed("watch"))


def _settle(style: Style, found: TopDocument, sort: str) -> str:
    """The command that settles the order; "" if all uncertain processes were read whole already."""
    asked = [each.pid for each in found.processes if each.exact is not None]
    pids = [*asked, *(pid for pid in found.uncertain_pids if pid not in asked)]
    if len(pids) == len(asked):
        return ""
    by = f" --sort {sort}" if sort != DEFAULT else ""
    return ". To settle it: " + style.typed(f"top --once{by} --exact {' '.join(map(str, pids))}")


def _sentence(style: Style, found: TopDocument, why: str) -> str:
    """The answer first."""
    known = [each for each in found.processes if each.arenas is not None and not each.allocators]
    why = f" ({why})" if why else ""
    unread = f"; {number(found.unread)} more could not be read{why}" if found.unread else ""
    if not known:
        return f"no process with glibc's malloc may be read here{unread}"
    figures = [_figures(each) for each in known]
    free = sum(each.free or 0 for each in figures)
    rss = sum(each.rss or 0 for each in figures)
    lower = LOWER if any(each.figures == AT_LEAST for each in known) else ""
    who = count(len(known), "process", "processes")
    who = f"the first {who}" if found.left_out else who
    return f"{who} on glibc's malloc: {lower}{style.size(free)} of {style.size(rss)} RSS is free in malloc{unread}"


class _Figures(NamedTuple):
    """Figures of a whole look if there was one, else of the headers."""

    rss: Optional[int]
    free: Optional[int]
    """Resident bytes."""
    stranded: Optional[int]


def _figures(each: RunningProcess) -> _Figures:
    if each.exact is not None and each.figures == EXACT_FIGURES:
        return _Figures(each.exact.rss_bytes, each.exact.free_bytes, each.exact.stranded_bytes)
    return _Figures(each.rss_bytes, each.free_resident_bytes, each.stranded_bytes)
