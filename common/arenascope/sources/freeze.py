"""Holding a process still while it is read: ptrace (seize and interrupt), or SIGSTOP.

PTRACE_SEIZE sends no signal, and the kernel lets every thread go when the tracer ends, however it ends. SIGSTOP needs
no ptrace right beyond a signal's; a guard process sends SIGCONT should this one be killed.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from typing import Optional, Protocol

from ..errors import TargetError
from . import procfiles
from .corenotes import NT_386_TLS, NT_ARM_TLS, NT_PRSTATUS
from .registers import ThreadRecord

PTRACE_GETREGSET, PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH = 0x4204, 0x4206, 0x4207, 17
WALL = 0x40000000
ROUNDS = 100
"""Threads may start others while they are being seized: until a round finds no new one."""
REGISTER_BYTES = 1024
WAIT_SECONDS = 10.0


class Freeze(Protocol):
    """A process that is held."""

    def records(self) -> list[ThreadRecord]:
        """The threads' registers, where holding them gives a right to see them."""

    def release(self) -> float:
        """Lets go; the seconds for which it was held. Again: 0.0."""


class _Iovec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


class PtraceFreeze:
    """Every thread seized and interrupted."""

    def __init__(self, pid: int) -> None:
        self._ptrace = ctypes.CDLL(None, use_errno=True).ptrace
        self._ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        self._ptrace.restype = ctypes.c_long
        self._held: list[int] = []
        self._started = time.monotonic()
        try:
            self._seize_all(pid)
        except BaseException:
            self.release()
            raise

    def _seize_all(self, pid: int) -> None:
        for _ in range(ROUNDS):
            new = [tid for tid in procfiles.thread_ids(pid) if tid not in self._held]
            if not new:
                return
            for tid in new:
                self._seize(pid, tid)
        raise TargetError(f"process {pid} starts threads faster than they can be held", "--stop signal")

    def _seize(self, pid: int, tid: int) -> None:
        if self._ptrace(PTRACE_SEIZE, tid, None, None) == -1:
            error = ctypes.get_errno()
            if tid != pid and not os.path.exists(f"/proc/{pid}/task/{tid}"):
                return  # it ended meanwhile
            tracer = procfiles.tracer_of(tid)
            if tracer:
                raise TargetError(f"process {pid} is already traced by process {tracer}",
                                  "ask there, or use --no-stop")  # fmt: skip
            raise TargetError(f"cannot hold process {pid}: {os.strerror(error)}", "use sudo, or --no-stop")
        self._held.append(tid)
        self._ptrace(PTRACE_INTERRUPT, tid, None, None)
        self._await_stop(tid)

    def _await_stop(self, tid: int) -> None:
        limit = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < limit:
            try:
                found, _ = os.waitpid(tid, WALL | os.WNOHANG)
            except ChildProcessError:
                return
            if found == tid:
                return
            time.sleep(0.0001)
        raise TargetError(f"thread {tid} does not stop (in an uninterruptible wait?)", "--no-stop reads all the same")

    def records(self) -> list[ThreadRecord]:
        found = []
        for tid in self._held:
            registers = self._register_set(tid, NT_PRSTATUS)
            tls = self._register_set(tid, NT_ARM_TLS) or self._register_set(tid, NT_386_TLS)
            found.append(ThreadRecord(tid, registers, tls))
        return found

    def _register_set(self, tid: int, kind: int) -> bytes:
        buffer = ctypes.create_string_buffer(REGISTER_BYTES)
        iovec = _Iovec(ctypes.cast(buffer, ctypes.c_void_p), REGISTER_BYTES)
        if self._ptrace(PTRACE_GETREGSET, tid, kind, ctypes.addressof(iovec)) == -1:
            return b""
        return buffer.raw[: iovec.length]

    def release(self) -> float:
        if not self._held:
            return 0.0
        for tid in self._held:
            self._ptrace(PTRACE_DETACH, tid, None, None)
        self._held = []
        return time.monotonic() - self._started


class SignalFreeze:
    """Stopped by SIGSTOP, unless somebody else had stopped it before."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._guard: Optional[int] = None
        self._started = time.monotonic()
        if procfiles.read_status(pid).state == "T":
            return  # stopped already, and not ours to let go
        self._guard = _start_guard(pid)
        try:
            os.kill(pid, signal.SIGSTOP)
            self._await_stop()
        except PermissionError:
            self.release()
            raise TargetError(f"not permitted to stop process {pid}", "use sudo, or --no-stop") from None
        except BaseException:
            self.release()
            raise

    def _await_stop(self) -> None:
        limit = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < limit:
            states = [procfiles.thread_state(self._pid, tid) for tid in procfiles.thread_ids(self._pid)]
            if all(state in "TtZX" for state in states):
                return
            time.sleep(0.0005)
        raise TargetError(f"process {self._pid} does not stop", "--no-stop reads all the same")

    def records(self) -> list[ThreadRecord]:
        return []

    def release(self) -> float:
        if self._guard is None:
            return 0.0
        os.kill(self._pid, signal.SIGCONT)
        os.close(self._guard)
        os.wait()
        self._guard = None
        return time.monotonic() - self._started


def _start_guard(pid: int) -> int:
    """A child that sends SIGCONT once our end of the pipe is closed, by us or by our death."""
    reader, writer = os.pipe()
    if os.fork():
        os.close(reader)
        return writer
    os.close(writer)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.read(reader, 1)
    try:
        os.kill(pid, signal.SIGCONT)
    finally:
        os._exit(0)
