"""A process that stands still for the test."""

from __future__ import annotations

import os
import signal
import time

from arenascope.sources.live.procfiles import thread_ids, thread_state


def stop(pid):
    os.kill(pid, signal.SIGSTOP)
    limit = time.monotonic() + 120
    while any(thread_state(pid, tid) not in "TXZ" for tid in thread_ids(pid)):
        assert time.monotonic() < limit
        time.sleep(0.001)
