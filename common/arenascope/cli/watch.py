"""arenascope watch PID: shows what grows, on a live screen or a line for each interval, and saves a snapshot of each
look for `trend`. The process is held only while it is read."""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from typing import Callable, Iterator, Mapping, NamedTuple, Optional, Sequence, TextIO, Union

from ..analysis.compare_snapshots import JsonObject
from ..analysis.growth import STILL, Series, ValueAt, grown_types, judged
from ..analysis.resident_parts import PARTS, ResidentPicture
from ..base.errors import ArenascopeError, TargetError, UsageError
from ..base.heap_model import Allocator
from ..base.printable import one_line
from ..commands.framework.arguments import argument, help_in, outline_of, seconds
from ..commands.framework.command import EXACT, Context, Reads
from ..commands.snapshot import LookCost, LookLimit, predict_cost, take
from ..commands.trend import HOW, drawn
from ..present.json_documents import snapshot_file
from ..present.screens.report_lines import LABELS, growth_headlines, interval_words, rate_words, size_of
from ..present.screens.verdict import OtherScreen, outside_malloc_lines
from ..present.shared_text.lines_and_tables import Style, bar, duration, say, signed, table
from ..session.resident import resident_picture
from ..session.session import Session
from ..session.trims import trims
from ..sources.live.cgroups import memory_left, memory_limit
from ..sources.live.proc_tables import born, name_of, read_status
from .shell import How, QuietDoor, ShellDoor, typed_program, unbroken
from .subjects import PID_OPTION, as_subject

# The live screen of `arenascope watch`: what is in memory now, and how it changed since the start.
#
# It is drawn in place on the terminal's other screen. The last picture stays when it ends.

MAX_MOMENTS = 2000
"""Above this, every other moment is dropped."""
MAX_TYPED = 64
"""The same for looks with types, which take more room."""
WIDEST = 100
WIDE_BAR = 24
MESSAGES = 3
NOTHING_GROWS = "so far no type grows"


class WatchLook(NamedTuple):
    """One look at a process."""

    pid: int
    name: str
    picture: Optional[ResidentPicture]
    """None if malloc was not called yet."""
    arenas: int
    held: float
    at: float
    """The time of the look, taken before types and owners, which take a while."""
    document: Optional[JsonObject] = None
    """A snapshot, if one was asked for, or types."""
    allocators: Sequence[Allocator] = ()
    """Allocators other than glibc's malloc."""


class Course:
    """A process since the first look."""

    def __init__(self, first: WatchLook) -> None:
        self.first = self.last = first
        self.moments: list[ValueAt] = []
        self.held = 0.0
        self._typed: list[JsonObject] = []
        self.looks = 0

    def add(self, looked: WatchLook, seconds: float) -> None:
        self.last = looked
        self.held += looked.held
        self.looks += 1
        if looked.picture is not None and looked.picture.rss is not None:
            self.moments.append(ValueAt(seconds, looked.picture.rss))
        if len(self.moments) > MAX_MOMENTS:
            del self.moments[1:-1:2]
        if looked.document is not None and looked.document.get("types") is not None:
            self._typed.append({"taken": looked.at, "types": looked.document["types"]})
        if len(self._typed) > MAX_TYPED:
            del self._typed[1:-1:2]

    def headlines(self, style: Style) -> list[str]:
        """Allocators other than malloc that grew; types that grew, and their owners if known."""
        grown = grown_types(self._typed)
        types = [NOTHING_GROWS] if grown == [] else growth_headlines(style, grown)
        return [*outside_malloc_lines(self.last.allocators, self.changes), *types]

    @property
    def changes(self) -> Mapping[str, int]:
        """The change of each part of resident memory since the first look."""
        before, now = (each.picture.parts if each.picture is not None else {} for each in (self.first, self.last))
        return {name: now.get(name, 0) - before.get(name, 0) for name in PARTS if name in now or name in before}

    @property
    def rss(self) -> Optional[Series]:
        return judged("rss", "rss", self.moments) if self.moments else None

    @property
    def who(self) -> str:
        return f"{self.last.name or 'process'} {self.last.pid}"


class LiveScreen:
    def __init__(self, stream: TextIO, interval: float, kept_in: Optional[str], style: Callable[[], Style]) -> None:
        self._screen = OtherScreen(stream)
        self._interval = interval
        self._kept_in, self._style = kept_in, style
        self._courses: dict[int, Course] = {}
        self._messages: list[str] = []

    @property
    def looks(self) -> int:
        return sum(course.looks for course in self._courses.values())

    def add(self, looked: WatchLook) -> None:
        self._courses.setdefault(looked.pid, Course(looked)).add(looked, time.time())

    def say(self, message: str) -> None:
        self._messages = [*self._messages, f"{time.strftime('%H:%M:%S')} {message}"][-MESSAGES:]

    def draw(self) -> None:
        style = self._style()
        notes = [f"every {interval_words(self._interval)}, until Ctrl-C"]
        if self._kept_in:
            notes.append(f"kept in {self._kept_in}, for trend")
        lines = [*frame(style, list(self._courses.values()), "; ".join(notes)), *map(style.warn, self._messages)]
        self._screen.draw(lines, style.width)

    def close(self) -> None:
        """Ends the screen; the last picture stays on the terminal."""
        self._screen.close()


def frame(style: Style, courses: Sequence[Course], note: str) -> Iterator[str]:
    if len(courses) == 1:
        yield from _one(style, courses[0])
    else:
        yield from _several(style, courses)
    yield ""
    held = max((course.last.held for course in courses), default=0.0)
    total = sum(course.held for course in courses)
    looks = sum(course.looks for course in courses)
    yield style.dim(f"stood still for {duration(held)} at the last look, {duration(total)} in {looks:,}; {note}")


def _one(style: Style, course: Course) -> Iterator[str]:
    picture, rss = course.last.picture, course.rss
    if picture is None or rss is None:
        yield style.bold(f"{course.who}: no heap: glibc's malloc has not been called")
        return
    yield style.bold(f"{course.who}: RSS {style.size(picture.rss)}{_growth(style, rss)}")
    yield from map(style.bold, course.headlines(style))
    yield drawn(rss, min(style.width or WIDEST, WIDEST))
    yield ""
    rows = [
        [LABELS[name], size_of(style, picture, name), signed(style, change) if change else "", share]
        for name, change in course.changes.items()
        if change or picture.parts.get(name)
        for share in [bar(style, picture.parts.get(name, 0), picture.rss or 0, WIDE_BAR)]
    ]
    headers = ("part of resident memory", "now", "change", "share of RSS")
    yield from table(style, headers, rows, left=(0, 3), expendable=("share of RSS",))


def _several(style: Style, courses: Sequence[Course]) -> Iterator[str]:
    rows = []
    for course in courses:
        picture, rss = course.last.picture, course.rss
        if picture is None or rss is None:
            rows.append([course.who, *["?"] * 5, ""])
            continue
        rate = signed(style, rss.per_hour) if rss.per_hour and rss.until is None else ""
        sizes = [style.size(picture.rss), signed(style, rss.change), rate]
        rows.append([course.who, *sizes, *_live_and_free(style, picture), drawn(rss)])
    headers = ("process", "RSS", "change", "an hour", "in use", "free", "over time")
    yield from table(style, headers, rows, left=(0, 6), expendable=("an hour", "free", "in use", "change"))


def _live_and_free(style: Style, picture: ResidentPicture) -> Sequence[str]:
    sizes = (picture.live, picture.free)
    return [style.size(each if picture.whole else None) for each in sizes]


def _growth(style: Style, rss: Series) -> str:
    over = rss.moments[-1].seconds - rss.moments[0].seconds
    if not over:
        return ""
    rate = f", {rate_words(style, rss.per_hour, over)}" if rss.per_hour and rss.until is None else ""
    how = f" ({HOW[rss.how]}{rate})" if rss.how != STILL else ""
    return f", {signed(style, rss.change)} in {interval_words(over)}{how}"


SHARE = 0.2
"""The share of the interval that looks with types may take, for all processes together."""
HELD = 0.02
"""The share of the interval for which a look with types may hold a process."""
MEMORY = 4
"""The memory left must be at least so many times the copy's size."""
ROOM = 1.25
"""The advised interval is so much longer than needed, as looks vary."""


class AutoLookRule(NamedTuple):
    interval: float
    processes: int = 1
    """How many processes are read in an interval, one after the other."""

    def why_not(self, cost: LookCost, copied: int, left: int) -> str:
        """Why a look with types costs too much, and which interval would do; "" if it does not. `left`: see
        memory_left."""
        if cost.whole * self.processes > SHARE * self.interval or cost.held > HELD * self.interval:
            needed = max(cost.whole * self.processes / SHARE, cost.held / HELD) * ROOM
            return (
                f"a look with them takes {duration(cost.whole)}, {duration(cost.held)} of it with the process held: "
                f"too much every {self.interval:g} s; --interval {math.ceil(needed)}s is enough"
            )
        if MEMORY * copied > left:
            return f"a copy of it takes {say(copied)} and {say(left)} of memory are left: too little"
        return ""


class AutoTypes:
    """Decides for one process, before each look, whether it may have types."""

    def __init__(self, pid: int, rule: AutoLookRule) -> None:
        self._pid, self._rule = pid, rule
        self._costs: list[LookCost] = []
        self._told = False

    def why_not(self) -> str:
        """Why the next look has no types; "" if it has."""
        if not self._costs:
            self._costs.append(_predicted(self._pid))
        # the smaller of the last two: a single slow look says little
        cost = LookCost(*map(min, zip(*self._costs[-2:])))
        return self._rule.why_not(cost, read_status(self._pid).rss or 0, memory_left())

    def took(self, cost: LookCost) -> None:
        self._costs = [*self._costs[-1:], cost]

    def say_once(self, why_not: str) -> str:
        """The reason at the first call with one, later ""."""
        told, self._told = self._told, self._told or bool(why_not)
        return "" if told else why_not


def _predicted(pid: int) -> LookCost:
    """The predicted cost of a look with types. The process is running: errors do not matter, as it is read again when
    held."""
    with QuietDoor(as_subject(str(pid)), How(stop="none")) as door:
        return predict_cost(Session(door.target()))


COLUMNS = {
    "time": 8,
    "pid": 7,
    "RSS": 10,
    "change": 11,
    "in use": 10,
    "free": 10,
    "trim gives": 10,
    "tops": 10,
    "stranded": 10,
    "arenas": 6,
    "held": 8,
}
"""Width of each column."""
HEADERS = tuple(COLUMNS)
EXPENDABLE = ("arenas", "held", "stranded", "tops", "trim gives", "change", "time")
"""Columns that are dropped on a narrow terminal, in this order."""
GAP = "  "
AGAIN = 20
"""The headers are repeated after so many lines."""
KEEP, FEWEST = 500, 3


def run(options: argparse.Namespace) -> int:
    """Look at each interval: RSS, what is in use, what is free. A live screen; in a pipe, a line for each look.

    A process is held only while it is read; of several, one after the other. With --save each look is kept as a small
    file without any of the program's data, from which `trend` shows what grew, since when and how steadily. Where a
    look with types and owners costs little of the interval and of memory, it has both: what grows is named.
    """
    if options.interval <= 0:
        raise UsageError("--interval must be more than 0")
    if options.keep < FEWEST:
        raise UsageError(f"--keep {options.keep} is too few to tell a trend", f"{FEWEST} or more")
    if options.owners and not options.save:
        # owners are named for types that grow
        options.types = True
    if options.save:
        snapshot_file.make(options.save)
    pids = list(dict.fromkeys(map(int, options.pids)))
    shown = _show(options, pids)
    try:
        _look_on(options, pids, shown)
    finally:
        shown.close()
        if options.save and shown.looks:
            sys.stderr.write(f"next: {typed_program()} trend {one_line(options.save)}\n")
    if not shown.looks:
        raise TargetError("none of these processes could be looked at")
    return 0


OUTLINE = outline_of(
    *help_in(run),
    "watch 1234 --interval 60\nwatch $(pgrep server) --interval 60 --save moments/",
    argument("pids", metavar="PID", nargs="*", default=[], help="a process; with several, one line each"),
    PID_OPTION,
    argument("--interval", type=seconds, default=5.0, metavar="TIME", help="time between two looks (5s)"),
    argument(
        "--count", type=int, default=0, metavar="N", help="stop after N intervals (0: when every process has ended)"
    ),
    argument("--lines", action="store_true", help="print one line per look, on a terminal, too"),
    argument("--save", metavar="FOLDER", help="save a snapshot of each look there, for trend"),
    argument(
        "--keep",
        type=int,
        default=KEEP,
        metavar="N",
        help=f"keep at most N snapshots of each process, and thin out old ones ({KEEP})",
    ),
    argument(
        "--types",
        action="store_true",
        default=None,
        help="tell which type grows, and keep types in each snapshot, whatever a look costs; with --save "
        "alone there are types and owners where a look costs little of the interval",
    ),
    argument("--no-types", action="store_false", dest="types", default=None, help="no types in the snapshots"),
    argument(
        "--owners",
        action="store_true",
        help="tell also who holds what grows, and keep in each snapshot what each variable keeps",
    ),
    EXACT,
)


def _look_on(options: argparse.Namespace, pids: list[int], shown: _Show) -> None:
    """Looks at each process again and again."""
    due = time.monotonic()
    unasked = _auto_types(options, pids)
    limits = _limits([pid for pid in pids if pid not in unasked], shown)
    number, took, told = 0, 0.0, False
    while True:
        began, held = time.monotonic(), 0.0
        for pid in pids[:]:
            try:
                held += _look_once(options, pid, shown, unasked=unasked.get(pid), limit=limits.get(pid))
            except TargetError as error:
                # a single process that never existed is an error, as in every command
                if not number and len(options.pids) == 1:
                    raise
                shown.say(one_line(error.message))
                pids.remove(pid)
        shown.draw()
        number += 1
        if not pids or (options.count and number >= options.count):
            break
        took, before = time.monotonic() - began, took
        if min(took, before) > options.interval and not told:
            # a single slow look says little
            told = True
            rest = "finding the types in a copy" if options.types else "adding up what was read"
            shown.say(
                f"looks take longer than {options.interval:g} s: there is one every {duration(min(took, before))}; "
                f"of that a process stands still for {duration(held / max(1, len(pids)))}, {rest} takes the rest"
            )
        due = max(due + options.interval, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))


def _auto_types(options: argparse.Namespace, pids: Sequence[int]) -> Mapping[int, AutoTypes]:
    """For processes for which the user neither asked for types nor refused them."""
    if not options.save or options.types is not None or options.owners:
        return {}
    rule = AutoLookRule(options.interval, len(pids))
    return {pid: AutoTypes(pid, rule) for pid in pids}


def _limits(pids: Sequence[int], shown: _Show) -> Mapping[int, LookLimit]:
    """Limits that leave nothing out, but announce looks that take long."""

    def telling(pid: int) -> LookLimit:
        return LookLimit(0, lambda said: shown.say(f"process {pid}: {said}"))

    return {pid: telling(pid) for pid in pids}


def _look_once(
    options: argparse.Namespace, pid: int, shown: _Show, *, unasked: Optional[AutoTypes], limit: Optional[LookLimit]
) -> float:
    """Looks at one process; returns for how many seconds it was held."""
    wanted = Wanted(bool(options.save), types=bool(options.types), owners=options.owners, limit=limit)
    if unasked is not None:
        why_not = unasked.why_not()
        wanted = wanted._replace(types=not why_not, owners=not why_not)
        told = unasked.say_once(why_not)
        if told:
            shown.say(f"process {pid}: no types, as {told}; --types has them anyway")
    began = time.monotonic()
    seen = unbroken(lambda: look_at(pid, wanted))
    if unasked is not None and wanted.types:
        unasked.took(LookCost(time.monotonic() - began, seen.held))
    shown.add(seen)
    if options.save and seen.document is not None:
        _keep(options, pid, seen.document, shown)
    return seen.held


def _keep(options: argparse.Namespace, pid: int, document: JsonObject, shown: _Show) -> None:
    """Saves a snapshot. An error, such as a full disk, is shown and does not end the command."""
    process = (pid, document["target"]["started"])
    try:
        snapshot_file.save(options.save, document, process)
        snapshot_file.thin(options.save, process, options.keep)
    except ArenascopeError as error:
        shown.say(one_line(error.message))


# output


def _show(options: argparse.Namespace, pids: Sequence[int]) -> _Show:
    def style() -> Style:
        """A new style each time, as the window may have been resized."""
        return ShellDoor(str(pids[0])).style()._replace(exact=options.bytes)

    if sys.stdout.isatty() and not options.lines and os.environ.get("TERM", "dumb") != "dumb":
        return LiveScreen(sys.stdout, options.interval, options.save, style)
    return _Lines(style(), several=len(pids) > 1)


class _Lines:
    """Prints a line for each look."""

    def __init__(self, style: Style, several: bool) -> None:
        self._style = style
        self._columns = _columns(style, several)
        self._before: dict[int, Optional[int]] = {}
        self._courses: dict[int, Course] = {}
        self._headlines: dict[int, list[str]] = {}
        self.looks = 0

    def add(self, looked: WatchLook) -> None:
        if self.looks % AGAIN == 0:
            _print(self._columns, dict(zip(HEADERS, HEADERS)))
        _print(self._columns, dict(zip(HEADERS, _cells(looked, self._style, self._before.get(looked.pid)))))
        self._before[looked.pid] = looked.picture.rss if looked.picture is not None else None
        self.looks += 1
        self._tell_what_grows(looked)

    def _tell_what_grows(self, looked: WatchLook) -> None:
        """Writes types that grow to standard error, if they are new: programs read the rows."""
        course = self._courses.setdefault(looked.pid, Course(looked))
        course.add(looked, looked.at)
        before, now = self._headlines.get(looked.pid, []), course.headlines(self._style)
        self._headlines[looked.pid] = now
        sys.stderr.writelines(f"{course.who}: {each}\n" for each in now if each not in before)

    def say(self, message: str) -> None:
        sys.stderr.write(f"arenascope watch: {message}\n")

    def draw(self) -> None:
        pass

    def close(self) -> None:
        pass


_Show = Union[LiveScreen, _Lines]


def _columns(style: Style, several: bool) -> list[str]:
    """The columns that the terminal has room for."""
    kept = [name for name in HEADERS if several or name != "pid"]
    for name in EXPENDABLE:
        if not style.width or sum(COLUMNS[each] + len(GAP) for each in kept) - len(GAP) <= style.width:
            break
        kept.remove(name)
    return kept


class Wanted(NamedTuple):
    """Says how much a look is to read."""

    save: bool = False
    types: bool = False
    owners: bool = False
    limit: Optional[LookLimit] = None

    @property
    def document(self) -> bool:
        return self.save or self.types or self.owners


def look_at(pid: int, wanted: Wanted) -> WatchLook:
    """A look at a process, which is held while it is read."""
    started = born(pid) if wanted.document else None
    options, lists = argparse.Namespace(libc=0, json=True), not (wanted.types or wanted.owners)
    reads = Reads(lists, copy=not lists, whole=not lists, mappings=lists)
    with QuietDoor(as_subject(str(pid)), lists=lists) as door, Context(door, options, reads=reads) as context:
        context.spared = wanted.limit.is_exceeded if wanted.limit is not None else None
        session, at = context.session, time.time()
        picture = resident_picture(session, trims(session)) if session.started else None
        document = take(context, sizes=False, types=wanted.types, owners=wanted.owners) if wanted.document else None
        door.release()
        held = door.held_seconds or 0.0
        if session.stopped or context.session.stopped:
            # Ctrl-C ends the command, not only the look that received it
            raise KeyboardInterrupt
    name = one_line(name_of(pid))
    if document is not None:
        limit = memory_limit(pid)
        target = {**document["target"], "started": started, "name": name}
        document = {**document, "target": target, "limit": None if limit is None else limit._asdict()}
    allocators = session.located.allocators
    return WatchLook(
        pid, name, picture, len(session.headers), held=held, at=at, document=document, allocators=allocators
    )


def _cells(looked: WatchLook, style: Style, before: Optional[int]) -> list[str]:
    now, held = time.strftime("%H:%M:%S", time.localtime(looked.at)), f"{looked.held * 1000:.0f} ms"
    picture, pid = looked.picture, str(looked.pid)
    if picture is None:
        return [now, pid, *["?"] * 7, str(looked.arenas), held]
    rss = picture.rss
    change = "" if before is None or rss is None else f"{'+' if rss >= before else ''}{style.size(rss - before)}"
    part = picture.parts.get
    sizes = (picture.live, picture.free, part("returnable", 0), part("thread_tops", 0), part("scraps", 0))
    return [
        now,
        pid,
        style.size(rss),
        change,
        *(style.size(each if picture.whole else None) for each in sizes),
        str(looked.arenas),
        held,
    ]


def _print(columns: Sequence[str], cells: Mapping[str, str]) -> None:
    sys.stdout.write(GAP.join(cells[name].rjust(COLUMNS[name]) for name in columns) + "\n")
    sys.stdout.flush()
