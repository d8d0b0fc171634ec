"""arenascope watch PID: a line for each interval, to see what grows. The process is held only while it is read."""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial
from typing import Any, Mapping, Optional, Sequence

from .arguments import HELP, Group, Outline, argument
from .command import EXACT, Answer, Context
from .errors import TargetError, UsageError
from .gather.resident import resident_picture
from .gather.trims import trims
from .render.text import Style
from .shell import ShellDoor, unbroken

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
"""How wide each is."""
HEADERS = tuple(COLUMNS)
EXPENDABLE = ("arenas", "held", "stranded", "tops", "trim gives", "change", "time")
"""What goes where the terminal is narrower, the first first."""
GAP = "  "
AGAIN = 20
"""After this many lines the headers are repeated."""
OUTLINE = Outline(
    "Print a line for each interval: RSS, what is in use, what is free.",
    "A process is held only while it is read; of several, one after the other.",
    "watch 1234 --interval 60\nwatch $(pgrep server)",
    (
        Group(
            "options",
            (
                argument("pids", metavar="PID", type=int, nargs="+", help="a process; of several, a line for each"),
                argument("--interval", type=float, default=5.0, metavar="SECONDS", help="from line to line (5)"),
                argument(
                    "--count",
                    type=int,
                    default=0,
                    metavar="N",
                    help="stop after N intervals (0: when every process has ended)",
                ),
                EXACT,
                HELP,
            ),
        ),
    ),
)


def run(options: argparse.Namespace) -> int:
    if options.interval <= 0:
        raise UsageError("--interval must be more than 0")
    pids = list(dict.fromkeys(options.pids))
    style = ShellDoor(str(pids[0]), "ptrace", ()).style()._replace(exact=options.bytes)
    columns = _columns(style, several=len(pids) > 1)
    before: dict[int, Optional[int]] = {}
    due = time.monotonic()
    lines = number = 0
    while pids and (not options.count or number < options.count):
        for pid in pids[:]:
            look = partial(_line, str(pid), style, before.get(pid))
            try:
                cells, before[pid] = unbroken(look)
            except TargetError as error:
                # a single one that was never there is an error as of every command
                if not number and len(options.pids) == 1:
                    raise
                sys.stderr.write(f"arenascope watch: {error.message}\n")
                pids.remove(pid)
                continue
            if lines % AGAIN == 0:
                _print(columns, dict(zip(HEADERS, HEADERS)))
            _print(columns, dict(zip(HEADERS, cells)))
            lines += 1
        number += 1
        due += options.interval
        if pids and (not options.count or number < options.count):
            time.sleep(max(0.0, due - time.monotonic()))
    if not lines:
        raise TargetError("none of these processes could be looked at")
    return 0


def _columns(style: Style, several: bool) -> list[str]:
    """Those that the terminal has room for."""
    kept = [name for name in HEADERS if several or name != "pid"]
    for name in EXPENDABLE:
        if not style.width or sum(COLUMNS[each] + len(GAP) for each in kept) - len(GAP) <= style.width:
            break
        kept.remove(name)
    return kept


class _Quiet(ShellDoor):
    """For how long a process was held stands in its line."""

    def notice(self, text: str) -> None:
        pass


def _figures(context: Context) -> Answer:
    session = context.session
    picture = resident_picture(session, trims(session)) if session.started else None
    return Answer({"picture": picture, "arenas": len(session.headers)}, ())


def _line(pid: str, style: Style, before: Optional[int], early: bool) -> tuple[list[str], Optional[int]]:
    door = _Quiet(pid, "ptrace", (), lists_of=0 if early else None)
    look = argparse.Namespace(libc=0, json=True)
    try:
        keys: Mapping[str, Any] = _figures(Context(door, look, ahead=_figures)).keys
        picture, arenas = keys["picture"], keys["arenas"]
        door.release()
        held = door.held_seconds or 0.0
    finally:
        door.drop()
    now = time.strftime("%H:%M:%S")
    if picture is None:
        return [now, pid, *["?"] * 7, str(arenas), f"{held * 1000:.0f} ms"], None
    rss = picture.rss
    change = "" if before is None or rss is None else f"{'+' if rss >= before else ''}{style.size(rss - before)}"
    part = picture.parts.get
    sizes = (picture.live, picture.free, part("returnable", 0), part("thread_tops", 0), part("scraps", 0))
    return [now, pid, style.size(rss), change, *map(style.size, sizes), str(arenas), f"{held * 1000:.0f} ms"], rss


def _print(columns: Sequence[str], cells: Mapping[str, str]) -> None:
    sys.stdout.write(GAP.join(cells[name].rjust(COLUMNS[name]) for name in columns) + "\n")
    sys.stdout.flush()
