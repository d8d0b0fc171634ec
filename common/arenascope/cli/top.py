"""arenascope top: the processes of this machine by the free memory that their malloc holds, from the headers of their
arenas. None is stopped, but for those that --exact names, each once."""

from __future__ import annotations

import argparse
import json
import os
import struct
import sys
import time
from contextlib import suppress
from typing import Callable, Iterable, Mapping, Optional

from ..base.errors import ArenascopeError, UsageError
from ..base.printable import one_line
from ..commands.framework.arguments import HELP, Group, Outline, argument
from ..commands.framework.command import EXACT
from ..present.formats.json import envelope
from ..present.json_documents.process_records import RunningProcess, Top, WholeLook
from ..present.json_documents.record import plain, tallied
from ..present.screens.other_screen import OtherScreen
from ..present.screens.top import Shown, top_lines
from ..present.shared_text.text import Style, fitted
from ..session.header_look import HeaderLook, HeaderReader
from ..sources.live.process_list import ListedProcess, list_processes
from .keyboard import Keyboard
from .shell import ShellDoor, unbroken

SECONDS = 3.0
CHUNKS, FEWEST = 60_000, 200
"""Free chunks that one look follows in all, and so many at least in each process: a third of a second's worth."""
MOST = 2_000
"""In one process."""
ROWS = 20
AROUND, TABLE = 14, 5
"""Lines of a screen around the table of processes, some of them broken in two; lines that a further table adds."""
SORTS: Mapping[str, Callable[[RunningProcess], int]] = {
    "free": lambda each: _known(each.free_resident_bytes, each.free_bytes),
    "stranded": lambda each: _known(each.stranded_bytes),
    "system": lambda each: _known(each.system_bytes),
    "rss": lambda each: each.rss_bytes,
}
OUTLINE = Outline(
    "List this machine's processes by free and stranded memory in malloc; none is stopped.",
    'Of each process the headers of its arenas and the first chunks of its bins are read while it runs on. "≥" marks '
    "what was not followed to its end. Thread caches and fastbins do not count as free. On a terminal the list is "
    "renewed until q or Ctrl-C; in a pipe it is printed once.",
    "top\ntop --once --limit 5\ntop --exact 1234 5678\ntop --json --once | jq '.processes[0].pid'",
    (
        Group(
            "options",
            (
                argument(
                    "--exact",
                    metavar="PID",
                    type=int,
                    nargs="+",
                    default=[],
                    help="also a whole look at these, as `report` has it: each is held once, briefly",
                ),
                argument(
                    "--sort",
                    choices=tuple(SORTS),
                    default="free",
                    help="the order: by free memory that is resident (free), by stranded, system or rss",
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
                    type=float,
                    metavar="SECONDS",
                    help=f"time between two looks ({SECONDS:g}); in a pipe, too, it goes on then",
                ),
                argument("--count", type=int, default=0, metavar="N", help="stop after N looks (0: none)"),
                argument("--json", action="store_true", help="one JSON document a line, for each look"),
                EXACT,
                HELP,
            ),
        ),
    ),
)


def run(options: argparse.Namespace) -> int:
    interval = SECONDS if options.interval is None else options.interval
    if interval <= 0:
        raise UsageError("--interval must be more than 0")
    if (options.limit or 0) < 0 or options.count < 0:
        raise UsageError("--limit and --count are 0 or more")
    goes_on = not options.once and (options.interval is not None or options.count > 0 or _is_screen(options))
    whole = _whole_looks(options.exact)
    looks = Looks(whole, options.sort)
    show = _show(options, interval, goes_on)
    number = 0
    try:
        with Keyboard() as keyboard:
            while True:
                began = time.monotonic()
                found = looks.look(show.rows(len(whole)) if options.limit is None else options.limit)
                show.draw(found, looks.chunks, time.monotonic() - began)
                number += 1
                if not goes_on or number == options.count or keyboard.wait(began + interval - time.monotonic()):
                    break
    finally:
        show.close()
    return 0 if len(whole) == len(set(options.exact)) else 2


def _is_screen(options: argparse.Namespace) -> bool:
    return sys.stdout.isatty() and not options.json and os.environ.get("TERM", "dumb") != "dumb"


def _known(*sizes: Optional[int]) -> int:
    """The first that is known; what is not comes last."""
    return next((size for size in sizes if size is not None), -1)


class Looks:
    """One look after another at all processes."""

    def __init__(self, whole: Mapping[int, WholeLook], sort: str = "free") -> None:
        self.chunks = MOST
        """How many free chunks of a process were followed at most."""
        self._whole, self._sort = whole, sort
        self._reader = HeaderReader()
        self._users: dict[int, str] = {}

    def look(self, limit: int = 0) -> Top:
        """At all of them; the first `limit` are told of, 0: all."""
        listed = list(list_processes(os.sysconf("SC_PAGE_SIZE")))
        self._reader.forget_all_but(each.pid for each in listed)
        self.chunks = max(FEWEST, min(MOST, CHUNKS // max(1, len(listed))))
        rows: list[RunningProcess] = []
        unread = 0
        for each in listed:
            try:
                look = self._reader.look(each.pid, (each.started, each.program), self.chunks)
            except (ArenascopeError, OSError, LookupError, ValueError, struct.error):
                # it ended meanwhile, may not be read, or became another program: none is the others' affair
                unread += os.path.exists(f"/proc/{each.pid}")
                continue
            rows.append(self._row(each, look))
        rows.sort(key=lambda row: (row.pid not in self._whole, -SORTS[self._sort](row), row.pid))
        shown = rows[: limit or None]
        top = Top(time=time.time(), processes=shown, left_out=len(rows) - len(shown), unread=unread)
        top.within(envelope("top", "shell", None, None, problems=()))
        return top

    def _row(self, listed: ListedProcess, look: HeaderLook) -> RunningProcess:
        free = look.free
        return RunningProcess(
            pid=listed.pid,
            user=self._user(look.uid),
            name=one_line(listed.name),
            rss_bytes=listed.rss,
            allocators=list(look.allocators),
            arenas=look.arenas,
            system_bytes=look.system,
            mmapped=tallied(look.mmapped),
            tops_bytes=free.tops if free else None,
            bins_bytes=free.bins if free else None,
            free_bytes=free.all if free else None,
            free_resident_bytes=free.resident if free else None,
            stranded_bytes=free.stranded if free else None,
            free_whole=free.whole if free else None,
            exact=self._whole.get(listed.pid),
        )

    def _user(self, uid: int) -> str:
        if uid not in self._users:
            self._users[uid] = str(uid)
            with suppress(KeyError, ImportError):
                from pwd import getpwuid  # only names of users need it

                self._users[uid] = one_line(getpwuid(uid).pw_name)
        return self._users[uid]


def _whole_looks(pids: Iterable[int]) -> dict[int, WholeLook]:
    """Those that could be looked at; each is held once, one after the other."""
    looks: dict[int, WholeLook] = {}
    for pid in dict.fromkeys(pids):
        from .watch import look_whole  # few ask for one

        try:
            looked = unbroken(lambda early, pid=pid: look_whole(pid, early))  # type: ignore[misc]
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


# what is shown of it


class _Once:
    """Printed, look by look."""

    def __init__(self, as_json: bool, exact: bool) -> None:
        self._json, self._exact = as_json, exact

    def rows(self, whole: int) -> int:
        """How many processes are shown where nobody asked for a number, beside so many that were looked at whole."""
        return ROWS

    def draw(self, found: Top, chunks: int, seconds: float) -> None:
        if self._json:
            sys.stdout.write(json.dumps(found.to_dict(), ensure_ascii=False, default=plain) + "\n")
        else:
            style = _style(self._exact)
            lines = top_lines(style, found, Shown(chunks, seconds))
            sys.stdout.write("".join(f"{piece}\n" for line in lines for piece in fitted(line, style.width)))
        sys.stdout.flush()

    def close(self) -> None:
        pass


class _Screen(_Once):
    """Drawn in place."""

    def __init__(self, interval: float, exact: bool) -> None:
        super().__init__(False, exact)
        self._screen = OtherScreen(sys.stdout)
        self._note = f"every {interval:g} s, until q or Ctrl-C"

    def rows(self, whole: int) -> int:
        from shutil import get_terminal_size  # a terminal has lines

        return max(whole, 1, get_terminal_size().lines - AROUND - (whole + TABLE if whole else 0))

    def draw(self, found: Top, chunks: int, seconds: float) -> None:
        style = _style(self._exact)
        self._screen.draw(list(top_lines(style, found, Shown(chunks, seconds, self._note))), style.width)

    def close(self) -> None:
        self._screen.close()


def _show(options: argparse.Namespace, interval: float, goes_on: bool) -> _Once:
    if goes_on and _is_screen(options):
        return _Screen(interval, options.bytes)
    return _Once(options.json, options.bytes)


def _style(exact: bool) -> Style:
    """A window may have become another size."""
    return ShellDoor(None).style()._replace(exact=exact)
