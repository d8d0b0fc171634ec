"""What a door writes to a terminal goes by what that can show."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import Sequence

import pytest
from doors import LOAD, ROOT
from lldb_door import LLDB_LOAD, NEWEST_LLDB
from looks import give_up, plain_environment
from subjects import Subject
from terminal_output import rest_of

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
    "shell": lambda pid: [sys.executable, str(ROOT / "bin" / "arenascope"), "trim", pid],
}


WATCH = (sys.executable, str(ROOT / "bin" / "arenascope"), "watch")


def screen(command: Sequence[str], term: str) -> str:
    """All that a program writes to a terminal of this kind."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True, env=plain_environment({"TERM": term})
    )
    os.close(slave)
    try:
        shown = rest_of(master)
    finally:
        process.wait(60)
    return shown.decode(errors="replace")


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
    command = [*WATCH, str(subject.pid), "--interval", "0.1", "--bytes"]
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
    master, slave = pty.openpty()
    # what is said below the list is not cut off
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))
    before = termios.tcgetattr(slave)
    looking = subprocess.Popen(
        [*WATCH[:-1], "top", "--interval", "60"],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        env=plain_environment({"TERM": "xterm"}),
    )
    shown = b""
    while b"until q or Ctrl-C" not in shown:
        shown += os.read(master, 65536)
    os.write(master, b"x")
    os.write(master, key.encode())
    assert looking.wait(60) == (0 if key == "q" else 130)
    assert termios.tcgetattr(slave) == before
    os.close(slave)
    shown += rest_of(master)
    assert shown.startswith(ENTER.encode())
    assert shown.count(TO_THE_TOP.encode()) == 1
    assert LEAVE.encode() in shown


def test_control_c_gives_the_terminal_back(subject: Subject) -> None:
    master, slave = pty.openpty()
    watching = subprocess.Popen(
        [*WATCH, str(subject.pid), "--interval", "60"],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        env=plain_environment({"TERM": "xterm"}),
    )
    os.close(slave)
    shown = b""
    while b"until Ctrl-C" not in shown:
        shown += os.read(master, 65536)
    watching.send_signal(signal.SIGINT)
    shown += rest_of(master)
    assert watching.wait(60) == 130
    assert LEAVE.encode() in shown
    assert shown.decode().rstrip().endswith("arenascope: stopped")
