"""How long to wait for a thread to stop, while all others of its process stand still for it."""

from __future__ import annotations

import time

from ...base.errors import TargetError
from . import procfiles

LONGEST = 10.0
"""Seconds: on a crowded machine a thread may not get to run for some time."""
IN_THE_KERNEL = 1.0
"""Seconds for a thread in an uninterruptible wait, which cannot stop. Most such waits are short, the others may be
long."""
VFORKS = ("kernel_clone", "_do_fork", "do_fork", "wait_for_vfork_done")
"""The kernel functions that wait until a child of vfork or posix_spawn has memory of its own; the first since Linux
5.10."""


class Wait:
    """A wait, started when the threads are told to stop."""

    def __init__(self, pid: int, until: float, waited: float = 0.0) -> None:
        """`until`: the end of the longest hold by time.monotonic(). `waited`: seconds that its threads were in the
        kernel before, while all others stood still."""
        self._pid, self._until = pid, until
        self._started = time.monotonic()
        self._in_the_kernel = IN_THE_KERNEL - waited

    def heed(self, tid: int, state: str) -> None:
        """Handles a thread that is still in that state: TargetError if its time is up, TimeoutError if all time is."""
        now = time.monotonic()
        if now > self._until and state != "D":
            raise TimeoutError("the process was held for as long as it may be")
        patience = self._in_the_kernel if state == "D" else LONGEST
        if now > min(self._started + patience, self._until):
            raise TargetError(f"thread {tid} {self._why(tid, state)}", "look again, or use --no-stop")

    def _why(self, tid: int, state: str) -> str:
        if state != "D":
            return f"does not stop (state {state})"
        place = procfiles.waits_at(self._pid, tid)
        if place in VFORKS:
            return "is in vfork() and does not stop until the child calls exec or ends"
        return f"waits in the kernel and does not stop (state D{f', in {place}' if place else ''})"
