"""arenascope watch PID: a line for each interval, to see what grows. The process is held only while it is read."""

from __future__ import annotations

import argparse
import sys
import time
from typing import Optional, Sequence

from .arguments import HELP, Group, Outline, argument
from .command import EXACT
from .errors import TargetError, UsageError
from .gather.resident import resident_picture
from .gather.trims import trims
from .render.text import Style
from .session import Session
from .shell import ShellDoor, unbroken

HEADERS = ("time", "RSS", "change", "in use", "free", "trim gives", "tops", "stranded", "arenas", "held")
WIDTHS = (8, 10, 11, 10, 10, 10, 10, 10, 6, 8)
AGAIN = 20
"""After this many lines the headers are repeated."""
OUTLINE = Outline(
    "Print a line for each interval: RSS, what is in use, what is free.",
    "The process is held only while it is read.",
    "watch 1234 --interval 60",
    (
        Group(
            "options",
            (
                argument("pid", metavar="PID", type=int, help="the process"),
                argument("--interval", type=float, default=5.0, metavar="SECONDS", help="from line to line (5)"),
                argument(
                    "--count", type=int, default=0, metavar="N", help="stop after N lines (0: when the process ends)"
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
    style = Style(exact=options.bytes)
    before: Optional[int] = None
    due = time.monotonic()
    number = 0
    while not options.count or number < options.count:
        try:
            cells, rss = unbroken(lambda: _line(ShellDoor(str(options.pid), "ptrace", ()), style, before))  # noqa: B023
        except TargetError as error:
            if not number:
                raise
            sys.stderr.write(f"arenascope watch: {error.message}\n")
            return 0
        if number % AGAIN == 0:
            _print(HEADERS)
        _print(cells)
        before, number = rss, number + 1
        due += options.interval
        if not options.count or number < options.count:
            time.sleep(max(0.0, due - time.monotonic()))
    return 0


def _line(door: ShellDoor, style: Style, before: Optional[int]) -> tuple[list[str], Optional[int]]:
    try:
        session = Session(door.target())
        picture = resident_picture(session, trims(session)) if session.started else None
        arenas = len(session.headers)
        held = door.let_go()
    finally:
        door.drop()
    now = time.strftime("%H:%M:%S")
    if picture is None:
        return [now, *["?"] * 7, str(arenas), f"{held * 1000:.0f} ms"], None
    rss = picture.rss
    change = "" if before is None or rss is None else f"{'+' if rss >= before else ''}{style.size(rss - before)}"
    part = picture.parts.get
    sizes = (picture.live, picture.free, part("returnable", 0), part("thread_tops", 0), part("scraps", 0))
    return [now, style.size(rss), change, *map(style.size, sizes), str(arenas), f"{held * 1000:.0f} ms"], rss


def _print(cells: Sequence[str]) -> None:
    sys.stdout.write("  ".join(cell.rjust(width) for cell, width in zip(cells, WIDTHS)) + "\n")
    sys.stdout.flush()
