"""Holds a process by SIGSTOP: this needs no ptrace, but its parent sees it stop. It runs only in the guard
(process_hold.py)."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from typing import Optional, Sequence

from ...base.errors import TargetError
from . import proc_tables

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
        place = proc_tables.waits_at(self._pid, tid)
        if place in VFORKS:
            return "is in vfork() and does not stop until the child calls exec or ends"
        return f"waits in the kernel and does not stop (state D{f', in {place}' if place else ''})"


class Stopper:
    """Stops a process, unless it was stopped already."""

    name = "signal"

    def __init__(self, pid: int, born: int) -> None:
        self._pid, self._born = pid, born
        self._switch: Optional[tuple[int, int]] = None

    def hold(self, until: float) -> None:
        """Stops the process. TargetError if it cannot, TimeoutError if it cannot in time; release() then frees what was
        stopped."""
        if not self._running():
            return  # and not ours to let go
        try:
            self._switch = _continued_at_our_end(self._pid)
            self._send(signal.SIGSTOP)
        except PermissionError:
            hint = "use --no-stop" if os.geteuid() == 0 else "use sudo, or --no-stop"
            raise TargetError(f"not permitted to stop process {self._pid}", hint) from None
        wait = Wait(self._pid, until)
        while running := self._running():
            for tid, state in running:
                wait.heed(tid, state)
            time.sleep(0.0005)

    def _send(self, number: int) -> None:
        """Sends a signal to this very process: its number may be another's by now."""
        try:
            handle = os.pidfd_open(self._pid)
        except (AttributeError, OSError):  # before Linux 5.3, or refused; or it has ended
            handle = None
        proc_tables.check_born(self._pid, self._born)
        if handle is None:
            os.kill(self._pid, number)
        else:
            signal.pidfd_send_signal(handle, number)
            os.close(handle)

    def _running(self) -> list[tuple[int, str]]:
        """Returns the threads that still run, each with its state."""
        states = self._states()
        return [(tid, state) for tid, state in states if state not in "TtZX"]

    def _states(self) -> list[tuple[int, str]]:
        return [(tid, proc_tables.thread_state(self._pid, tid)) for tid in proc_tables.thread_ids(self._pid)]

    def register_sets(
        self, tids: Optional[Sequence[int]], every: bool
    ) -> list[tuple[int, bytes, list[tuple[str, int, bytes]]]]:
        """Returns none: it has no right to see them."""
        return []

    def release(self) -> None:
        switch, self._switch = self._switch, None
        if switch is None:
            return
        os.close(switch[0])
        try:
            # others are, where one did not stop
            if not self._running() or "T" in (state for _, state in self._states()):
                # by a capability, where the kernel's own sending asks for the user alone
                self._send(signal.SIGCONT)
        except (OSError, TargetError):
            pass  # it has ended


def _continued_at_our_end(pid: int) -> tuple[int, int]:
    """Returns a pipe: once either end is closed, by us or by our death, the kernel sends that process SIGCONT.

    It is sent for the other end (kill_fasync in pipe_release). F_SETOWN keeps the process itself, not its number.
    """
    ends = os.pipe()
    for end in ends:
        fcntl.fcntl(end, fcntl.F_SETOWN, pid)
        fcntl.fcntl(end, fcntl.F_SETSIG, signal.SIGCONT)
        fcntl.fcntl(end, fcntl.F_SETFL, fcntl.fcntl(end, fcntl.F_GETFL) | os.O_ASYNC)
    return ends
