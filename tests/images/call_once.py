"""trim --apply with one thread chosen to call, and a guard that is killed in the middle: run by test_calling.py.

Arguments: pid, the threads, one after the other (0: any), at which of the guard's own calls of ptrace(2) it is killed,
each in turn (-1: never), for how many microseconds it waits before (so that the thread runs meanwhile), and trim's
other words.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from itertools import product

from arenascope.cli import main as cli
from arenascope.cli import shell_calls
from arenascope.sources.live import thread_calls

TURN = 0.3
pid, delay = int(sys.argv[1]), int(sys.argv[4])
chosen, at = 0, -1
every = shell_calls.HeldProcess.candidates
shell_calls.HeldProcess.candidates = lambda self: [each for each in every(self) if chosen in (0, each[0].tid)]

call = thread_calls.Runner.call


def counted(self, *arguments):
    left, ptrace = [at], self._ptrace

    def one(*what):
        if not left[0]:
            time.sleep(delay / 1e6)
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] -= 1
        return ptrace(*what)

    self._ptrace = one
    try:
        return call(self, *arguments)
    finally:
        self._ptrace = ptrace


thread_calls.Runner.call = counted
status = 0
for each in product(map(int, sys.argv[2].split(",")), map(int, sys.argv[3].split(","))):
    chosen, at = each
    status = max(status, cli.main(["trim", str(pid), "--apply", "-y", *sys.argv[5:]]))
    if at >= 0:
        # a call whose guard was killed ends by itself, once its thread has its turn among all that are busy: a new look
        # from a shell takes longer to start
        time.sleep(TURN)
sys.exit(status)
