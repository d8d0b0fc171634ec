"""A process that ends, or becomes another program, between the first word that is asked of it and the last."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from marks import full_after, in_full
from shell_door import arenascope

from arenascope.commands.framework.find_command import COMMAND_NAMES

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "fixtures" / "build"
WORDS = {
    **{name: ["0x10000"] for name in ("chunk", "refs", "owner")},
    "snapshot": [os.devnull],
    "save": ["/dev/shm/arenascope-gone.core"],
}
LEFT_OUT = {"diff", "trend", "version"}  # one wants a file of its own first, one answers with what went wrong
FIRST = ("arenas", "check", "leaks", "save")
"""One that looks at lists, one that sweeps, one that copies into memory and one into a file."""
COMMANDS = [*FIRST, *sorted(set(COMMAND_NAMES) - LEFT_OUT - {*FIRST})]

# what happens to the process, at the moment at which it would be held
CHANGES = """
import os, signal, sys, time
from pathlib import Path
from arenascope.cli.main import main
from arenascope.sources.live import process_hold
how, pid = sys.argv[1], int(sys.argv[2])
hold = process_hold.Freeze.hold
def hold_and_kill(self, pid, born):
    hold(self, pid, born)
    os.kill(pid, signal.SIGKILL)
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX":
        time.sleep(0.001)
def become_another(self, pid, born):
    os.kill(pid, signal.SIGUSR1)
    while Path(f"/proc/{pid}/comm").read_text() != "sleep\\n":
        time.sleep(0.001)
    hold(self, pid, born)
process_hold.Freeze.hold = hold_and_kill if how == "ends" else become_another
sys.exit(main(sys.argv[3:]))
"""


def look(how, pid, *words):
    done = arenascope(how, pid, *words, code=CHANGES, status=2)
    assert done.stdout == ""
    return done.stderr.splitlines()[-1]


@pytest.mark.parametrize("stop", ["ptrace", *in_full("signal")])
@pytest.mark.parametrize("command", full_after(len(FIRST), COMMANDS))
def test_a_process_that_ends_meanwhile_is_an_error_of_one_line(tmp_path, command, stop):
    subject = subprocess.Popen([BUILD / "bins", tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert subject.stdout.readline().startswith(b"ready")
        words = [command, str(subject.pid), *WORDS.get(command, ()), "--stop", stop]
        # a look that begins anew, as the first was too late, finds what waits for its parent
        assert re.fullmatch(
            rf"arenascope {command}: process {subject.pid}( \(bins\))? has ended.*",
            look("ends", subject.pid, *words),
        )
    finally:
        subject.kill()
        subject.communicate()


@pytest.fixture(scope="module")
def turncoat(build):
    return build(r"""
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void turn(int number) { (void)number; execlp("sleep", "sleep", "60", NULL); }
int main(void) { signal(SIGUSR1, turn); free(malloc(100)); printf("ready 0\n"); fflush(stdout); for (;;) pause(); }""")


@pytest.mark.parametrize("command", full_after(3, COMMANDS))
def test_a_process_that_becomes_another_program_is_an_error_of_one_line(start, turncoat, command):
    subject = start(turncoat, environment=dict(os.environ))
    said = look("turns", subject.pid, command, str(subject.pid), *WORDS.get(command, ()))
    assert re.match(rf"arenascope {command}: process {subject.pid} .*\bsleep\b", said)


def test_one_that_is_about_to_end_is_no_kernel_thread():
    from arenascope.sources.live import proc_tables

    assert not proc_tables.is_kernel_thread(os.getpid())
    if Path("/proc/2/comm").exists() and Path("/proc/2/comm").read_text() == "kthreadd\n":
        assert proc_tables.is_kernel_thread(2)
