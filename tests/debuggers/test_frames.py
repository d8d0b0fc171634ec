"""Frames by unwind tables alone, as the shell has them, beside those of a debugger."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from applying import drive
from doors import Gdb
from marks import in_full
from platforms import HOST
from subjects import Subject

ROOT = Path(__file__).resolve().parents[2]

IN_GDB = """python
import json
found = {}
for thread in gdb.selected_inferior().threads():
    thread.switch()
    frame, pcs = gdb.newest_frame(), []
    while frame is not None:
        if frame.type() not in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME):  # neither stands on the stack
            pcs.append(frame.pc())
        frame = frame.older()
    found[thread.ptid[1]] = pcs
print(json.dumps(found))
end"""

OURS = """
import json, sys
from arenascope.cli.shell import ShellDoor
door = ShellDoor(sys.argv[1])
target = door.target()
controller = door.controller()
found = {each.tid: [frame.pc for frame in controller.frames(each, 10000)] for each in target.threads()}
door.drop()
print(json.dumps(found))
"""


def ours(subject: Subject) -> object:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "common")}
    command = [sys.executable, "-c", OURS, str(subject.pid)]
    return json.loads(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(HOST.machine != "x86_64", reason="the shell runs and calls x86-64 processes alone")
@pytest.mark.parametrize(
    "fixture", [("waiting", "30"), *in_full(("workers", "2", "2"), ("interrupted", "deep", "alternate"))]
)
def test_frames_are_those_of_a_debugger(gdb: Gdb, fixture: tuple[str, ...]) -> None:
    """Through system calls, 400 floors of a handler, and from its stack to the one that it interrupted."""
    with Subject(*fixture) as subject:
        if fixture[0] == "interrupted":
            os.kill(subject.pid, signal.SIGUSR1)
            assert subject.hear() == "parked"
            drive(gdb, subject, "set var go_on = 0")  # it is back in the same sleep, at the same place
        said = drive(gdb, subject, "set backtrace past-main on", "set backtrace limit unlimited", IN_GDB)[-1]
        assert json.loads(said.text) == ours(subject)
