"""What a door writes to a terminal goes by what that can show."""

from __future__ import annotations

import re
import signal
import termios
from pathlib import Path
from typing import Sequence

import pytest
from doors import LOAD
from lldb_door import LLDB_LOAD, NEWEST_LLDB
from looks import give_up
from shell_door import ARENASCOPE
from subjects import Subject
from terminal import Terminal

from arenascope.present.screens.verdict import ENTER, LEAVE, TO_THE_TOP

LAST = "fault in again."
STARTS = {
    "gdb": lambda pid: [
        "gdb",
        "-nx",
        "-q",
        "-ex",
        "set height 0",
        "-ex",
        "set width 0",
        "-p",
        pid,
        *LOAD,
        "-ex",
        "heap trim",
        "-ex",
        "detach",
        "-ex",
        "quit",
    ],
    "lldb": lambda pid: [
        NEWEST_LLDB.name,
        "-x",
        "-b",
        "-O",
        "settings set use-color true",
        "-p",
        pid,
        *LLDB_LOAD,
        "-o",
        "heap trim",
    ],
    "shell": lambda pid: [*ARENASCOPE, "trim", pid],
}


def screen(command: Sequence[str], term: str) -> str:
    """All that a program writes to a terminal of this kind."""
    with Terminal(command, variables={"TERM": term}) as terminal:
        return terminal.rest()


@pytest.mark.parametrize("door", STARTS)
def test_a_dumb_terminal_gets_no_escapes(door: str, subject: Subject) -> None:
    if door == "lldb" and (reason := NEWEST_LLDB.available()):
        give_up(reason)
    for term in ("dumb", "xterm-256color"):
        shown = screen(STARTS[door](str(subject.pid)), term)
        (line,) = (each for each in shown.splitlines() if "malloc_trim(0) would" in each)
        ours = line + shown.partition(line)[2].partition(LAST)[0]
        assert LAST in shown, shown
        assert ("\033" in ours) == (term != "dumb"), ours


def test_watch_is_a_screen_that_leaves_its_last_picture(subject: Subject) -> None:
    command = [*ARENASCOPE, "watch", str(subject.pid), "--interval", "0.1", "--bytes"]
    live = screen([*command, "--count", "2"], "xterm-256color")
    assert live.startswith(ENTER)
    drawn, left = live[len(ENTER) :].split(LEAVE)
    assert drawn.count(TO_THE_TOP) == 2
    name = Path(f"/proc/{subject.pid}/comm").read_text().strip()
    assert f"{name} {subject.pid}: RSS {sum(subject.smaps().values()):,}" in left
    assert "\033[" not in re.sub(r"\033\[\d*m", "", left)
    for how, term in (([], "dumb"), (["--lines"], "xterm-256color")):
        lines = screen([*command, "--count", "2", *how], term)
        assert "\033" not in lines
        assert len(lines.splitlines()) == 3


@pytest.mark.parametrize("key", ["q", "\x03"])
def test_a_key_ends_top_and_gives_the_terminal_back(key: str) -> None:
    with Terminal([*ARENASCOPE, "top", "--interval", "60"], variables={"TERM": "xterm"}) as terminal:
        before = termios.tcgetattr(terminal.file)
        # what is said below the list is not cut off
        terminal.wait_for("until q or Ctrl-C")
        terminal.type("x")
        terminal.type(key)
        shown = terminal.rest()
        assert terminal.process.returncode == (0 if key == "q" else 130)
        assert termios.tcgetattr(terminal.file) == before
    assert LEAVE in shown


def test_control_c_gives_the_terminal_back(subject: Subject) -> None:
    command = [*ARENASCOPE, "watch", subject.pid, "--interval", "60"]
    with Terminal(command, variables={"TERM": "xterm"}) as terminal:
        terminal.wait_for("until Ctrl-C")
        terminal.process.send_signal(signal.SIGINT)
        shown = terminal.rest()
        assert terminal.process.returncode == 130
    assert LEAVE in shown
    assert shown.rstrip().endswith("arenascope: stopped")
