"""Seizes and stops every thread of a process by ptrace. It runs only in a hold's guard, whose end releases them.

PTRACE_SEIZE sends no signal. A thread stops at our PTRACE_INTERRUPT, or at a signal that was on its way to it just
then: either is a stop. Such a signal is handed back when the thread is released, and the kernel delivers it with the
siginfo it had. Stops are waited for with WNOWAIT: a wait that takes the status also takes the signal, which would be
lost if the guard were killed (wait_task_stopped clears exit_code, which is what the thread goes on with).
"""

from __future__ import annotations

import ctypes
import os
import time
from contextlib import suppress
from typing import Optional, Sequence

from ...base.errors import TargetError
from ..elf.elf_file import NT_PRSTATUS, REGISTER_NOTES, TLS_NOTES
from . import proc_tables
from .proc_tables import holding_hint
from .sigstop import Wait

PTRACE_GETREGSET, PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH = 0x4204, 0x4206, 0x4207, 17
WALL = 0x40000000
ROUNDS = 100
"""Threads may start others while they are seized: rounds repeat until one finds no new thread."""
REGISTER_BYTES = 16384
"""The largest set is x86's XSAVE area with its tiles, 11 KiB."""


class _Iovec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


class Ptracer:
    """The threads of one process."""

    name = "ptrace"

    def __init__(self, pid: int, born: int) -> None:
        self.pid, self._born = pid, born
        self.ptrace = ctypes.CDLL(None, use_errno=True).ptrace
        self.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        self.ptrace.restype = ctypes.c_long
        self._until = 0.0
        self.held: dict[int, int] = {}
        """By thread: the signal at whose delivery it stopped; 0 if at our request, or with its whole process."""
        self.count = 0
        """The kernel's number of threads when all were held: one that has exited may be among them."""

    def hold(self, until: float) -> None:
        """Stops the process; raises as Stopper.hold does."""
        self._until = until
        self.hold_all()

    def hold_all(self) -> None:
        """Holds all threads, including those started meanwhile."""
        wait = self.wait()
        for _ in range(ROUNDS):
            self.count = proc_tables.status_number(self.pid, "Threads")
            new = [tid for tid in proc_tables.thread_ids(self.pid) if tid not in self.held]
            # ask all to stop before waiting for the first
            seized = [tid for tid in new if self._seize(tid)]
            for tid in seized:
                self.await_stop(tid, wait)
            if not seized:
                proc_tables.check_born(self.pid, self._born)
                return
        raise TargetError(f"process {self.pid} starts threads faster than they can be held", "--stop signal")

    def _seize(self, tid: int) -> bool:
        """Seizes a thread; False if it is gone. It may stay in the list, as main does after pthread_exit."""
        if self.ptrace(PTRACE_SEIZE, tid, None, None) == -1:
            error = ctypes.get_errno()
            if proc_tables.thread_state(self.pid, tid) in "ZX":
                return False
            tracer = proc_tables.status_number(tid, "TracerPid")
            if tracer:
                raise TargetError(
                    f"process {self.pid} is already traced by process {tracer}", "ask there, or use --no-stop"
                )
            raise TargetError(f"cannot hold process {self.pid}: {os.strerror(error)}", holding_hint())
        self.held[tid] = 0
        self.ptrace(PTRACE_INTERRUPT, tid, None, None)
        return True

    def wait(self, waited: float = 0.0) -> Wait:
        return Wait(self.pid, self._until, waited)

    def of(self, tids: Optional[Sequence[int]]) -> list[int]:
        """Returns those of these threads that are held; None: all that are."""
        return [tid for tid in (self.held if tids is None else tids) if tid in self.held]

    def await_stop(self, tid: int, wait: Wait) -> None:
        while True:
            stopped = self.stopped(tid)
            if stopped is None:
                wait.heed(tid, proc_tables.thread_state(self.pid, tid))
                time.sleep(0.00005)
                continue
            event, number = stopped
            if number >= 0:
                self.held[tid] = 0 if event else number
                return
            # not reaped, it would keep others from calling execve until the guard ends
            with suppress(ChildProcessError):
                os.waitid(os.P_PID, tid, os.WEXITED | os.WNOHANG | WALL)
            del self.held[tid]
            return

    def stopped(self, tid: int) -> Optional[tuple[int, int]]:
        """Returns (event, signal) of a stop; a negative signal if it is gone; None if it runs."""
        try:
            told = os.waitid(os.P_PID, tid, os.WSTOPPED | os.WEXITED | os.WNOWAIT | os.WNOHANG | WALL)
        except ChildProcessError:
            return 0, -1  # it ended, or its number went to another thread of its process that called execve
        if told is None:
            return (0, -1) if proc_tables.thread_state(self.pid, tid) in "ZX" else None
        if told.si_code not in (os.CLD_TRAPPED, os.CLD_STOPPED):
            return 0, -1
        return told.si_status >> 8, told.si_status & 0x7F

    def register_sets(
        self, tids: Optional[Sequence[int]], every: bool
    ) -> list[tuple[int, bytes, list[tuple[str, int, bytes]]]]:
        """Returns (thread, general registers, `every` other set or those of TLS as notes of a core) of all threads, or
        of these."""
        sets = []
        for tid in self.of(tids):
            others = [
                (owner, kind, self.register_set(tid, kind)) for owner, kind in (REGISTER_NOTES if every else TLS_NOTES)
            ]
            sets.append((tid, self.register_set(tid, NT_PRSTATUS), [each for each in others if each[2]]))
        return sets

    def register_set(self, tid: int, kind: int) -> bytes:
        buffer = ctypes.create_string_buffer(REGISTER_BYTES)
        iovec = self.iovec(buffer)
        if self.ptrace(PTRACE_GETREGSET, tid, kind, ctypes.addressof(iovec)) == -1:
            return b""
        return buffer.raw[: iovec.length]

    def iovec(self, buffer: ctypes.Array[ctypes.c_char]) -> _Iovec:
        return _Iovec(ctypes.cast(buffer, ctypes.c_void_p), len(buffer))

    def release(self) -> None:
        """Releases all threads. Those that could not be stopped, or were killed meanwhile, are released by the guard's
        end."""
        for tid, number in self.held.items():
            self.ptrace(PTRACE_DETACH, tid, None, number)
        self.held = {}


class _Sigevent(ctypes.Structure):
    # union sigval, sigev_signo, sigev_notify (0: SIGEV_SIGNAL), and room for the rest of its 64 bytes
    _fields_ = [
        ("value", ctypes.c_void_p),
        ("number", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("rest", ctypes.c_char * 64),
    ]


class _Times(ctypes.Structure):
    # struct itimerspec: the interval, and when first; these names have the 32-bit times where there are two kinds
    _fields_ = [("interval", ctypes.c_long * 2), ("first", ctypes.c_long * 2)]


def die_in(seconds: float, number: int) -> Optional[int]:
    """Makes the kernel send this process `number` at our death, even if it is stopped; None if unavailable."""
    for library in (None, "librt.so.1"):  # in libc since 2.34
        try:
            libc = ctypes.CDLL(library)
            create, start = libc.timer_create, libc.timer_settime
        except (OSError, AttributeError):
            continue
        timer = ctypes.c_void_p()
        event = _Sigevent(None, number, 0)
        if create(time.CLOCK_MONOTONIC, ctypes.byref(event), ctypes.byref(timer)):
            return None
        whole = int(seconds)
        times = _Times((0, 0), (whole, int((seconds - whole) * 1e9) + 1))
        return None if start(timer, 0, ctypes.byref(times), None) else number
    return None
