"""The part of `fleet --via` that runs on the other host: the package, sent there, reads what was named and leaves
nothing."""

from __future__ import annotations

import json
import os
import select
import sys
from contextlib import suppress
from functools import partial
from typing import Iterator, Sequence

from ...base import background
from ...base.argv import pid_in
from ...sources.live.processes_by_name import processes_called
from ..several_subjects import document
from ..shell import How
from .worker import failed

NO_GDB = How(declared=False)

READY, END = "arenascope is ready", "arenascope has ended"
"""Lines before and after the answers: a shell may print something of its own when it starts."""
START = f"""\
import os, sys
if sys.version_info < (3, 9):
    sys.exit("needs Python 3.9 or newer, and this is {{}}.{{}}".format(*sys.version_info))
sys.stdout.write("{READY}\\n")
sys.stdout.flush()
archive = os.memfd_create("arenascope")
os.fchmod(archive, 0o700)
size, task = sys.stdin.buffer.readline().split(b" ", 1)
with open(archive, "wb", closefd=False) as file:
    file.write(sys.stdin.buffer.read(int(size)))
sys.path.insert(0, "/proc/%d/fd/%d" % (os.getpid(), archive))
from {__name__} import run
run(task)
"""
"""Code for `python3 -c` on the other host. It prints READY, then reads the archive from standard input into memory. Any
Python 3 can compile it."""


def run(task: bytes) -> None:
    """Answers for one host. `task`: JSON of the program's name, the command, the seconds that it may take, and the
    words that name subjects."""
    program, command, seconds, words = json.loads(task)
    background.start(partial(_end_with_input, seconds))
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # if memory runs out, the kernel is to kill this process first
    for subject in _subjects(words):
        if pid_in(subject) is None and os.sep not in subject:
            answer = failed(subject, command, f"there is no process {subject!r}")
        else:
            answer = document(subject, command, program, how=NO_GDB)
        _say(json.dumps(answer))
    _say(END)


def _subjects(words: Sequence[str]) -> Iterator[str]:
    """The subjects; a name stands for all processes of that name."""
    for word in dict.fromkeys(words):
        called = [] if pid_in(word) or os.sep in word else processes_called(word)
        yield from [str(each.pid) for each in called] or [word]


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _end_with_input(seconds: float) -> None:
    """Exits when standard input ends (the asker is gone) or after so many seconds. Exiting releases a held process."""
    # nothing more is sent: if input becomes readable, it is the end
    select.select([0], [], [], seconds)
    os._exit(1)
