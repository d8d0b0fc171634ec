"""What a door writes to a terminal goes by what that can show."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from typing import Sequence

import pytest
from doors import LOAD, ROOT
from lldb_door import LLDB_LOAD, NEWEST_LLDB
from looks import give_up, plain_environment
from subjects import Subject

LAST = "fault in again."
STARTS = {
    "gdb": lambda pid: [
        "gdb",
        "-nx",
        "-q",
        "-iex",
        "set debuginfod enabled off",
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


def screen(command: Sequence[str], term: str) -> str:
    """All that a program writes to a terminal of this kind."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True, env=plain_environment({"TERM": term})
    )
    os.close(slave)
    shown = b""
    try:
        while piece := os.read(master, 65536):
            shown += piece
    except OSError:
        pass  # EIO: nobody has the other end any more
    finally:
        os.close(master)
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
