"""Lets held threads run one at a time, and makes them call functions. It runs only in the guard (process_hold.py).

Whatever happens to the guard, every thread goes on: one that was let run is left running, and one that was made to call
has everything laid out that it needs to recover alone (injection.py).
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from typing import Optional, Sequence

from ...base.errors import TargetError
from ..elf.elf_file import NT_PRSTATUS
from . import proc_tables
from .messages import Answer, CallEnded, GetStands, MakeCall, Order, Ran, RunAlone, Stands
from .ptrace import PTRACE_INTERRUPT, Ptracer

PTRACE_CONT, PTRACE_SETREGSET, PTRACE_GETSIGMASK, PTRACE_SETSIGMASK = 7, 0x4205, 0x420A, 0x420B
PTRACE_GET_RSEQ_CONFIGURATION = 0x420F
RSEQ_CS = 8
"""The offset in struct rseq of the address of the thread's critical section."""
FATAL = tuple(int(each) for each in (signal.SIGILL, signal.SIGTRAP, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE))
FATAL += (int(signal.SIGSEGV), int(signal.SIGSYS))
PIECE = 1024

RETURNED, AT_SIGNAL, ENDED, AT_WORK, REFUSED = "returned", "at signal", "ended", "at work", "refused"
"""The results of a call; with the number of a signal or, if the process ended, its wait status."""


class Runner:
    """Runs and calls in the threads that a Tracer holds."""

    def __init__(self, tracer: Ptracer) -> None:
        self._tracer, self._pid = tracer, tracer.pid
        self._ptrace, self._register_set, self._await_stop = tracer.ptrace, tracer.register_set, tracer.await_stop
        self._stopped = tracer.stopped
        self._waited = 0.0
        """Seconds spent on threads that were let run and got into an uninterruptible wait, such as vfork()'s."""

    def obey(self, order: Order) -> Answer:
        if isinstance(order, GetStands):
            return self.stands(order)
        if isinstance(order, RunAlone):
            return self.run(order)
        if isinstance(order, MakeCall):
            return CallEnded(*self.call(order))
        raise TargetError(f"no thread is made to obey {type(order).__name__}")

    def stands(self, asked: GetStands) -> Stands:
        threads = []
        for tid in self._tracer.of(asked.tids):
            number, mask = self._tracer.held[tid], self._mask(tid)
            general = self._register_set(tid, NT_PRSTATUS)
            if mask is not None and len(general) == asked.general_bytes:
                alone = not number and not self._in_sequence(tid)
                sets = {kind: self._register_set(tid, kind) for kind in asked.kinds}
                threads.append((tid, general, sets, mask, alone))
        return Stands(threads)

    def _mask(self, tid: int) -> Optional[int]:
        buffer = ctypes.create_string_buffer(8)
        if self._ptrace(PTRACE_GETSIGMASK, tid, 8, ctypes.addressof(buffer)) == -1:
            return None
        return int.from_bytes(buffer.raw, "little")

    def _in_sequence(self, tid: int) -> bool:
        buffer = ctypes.create_string_buffer(24)
        if self._ptrace(PTRACE_GET_RSEQ_CONFIGURATION, tid, 24, ctypes.addressof(buffer)) == -1:
            return False  # before Linux 5.13: no libc of that time uses any
        address = int.from_bytes(buffer.raw[:8], "little")
        if not address:
            return False
        with open(f"/proc/{tid}/mem", "rb", 0) as memory:
            return os.pread(memory.fileno(), 8, address + RSEQ_CS) != bytes(8)

    def run(self, asked: RunAlone) -> Ran:
        before, same = self._register_set(asked.tid, NT_PRSTATUS), True
        for seconds in asked.pieces:
            same = self._run(asked.tid, seconds) and same
            if self._register_set(asked.tid, NT_PRSTATUS) != before:
                return Ran(True, same)
        return Ran(asked.tid not in self._tracer.held, same)

    def _run(self, tid: int, seconds: float) -> bool:
        if tid not in self._tracer.held:
            return False
        number, self._tracer.held[tid] = self._tracer.held[tid], 0  # delivered once
        self._continue(tid, number)
        limit = time.monotonic() + seconds
        while self._stopped(tid) is None and (left := limit - time.monotonic()) > 0:
            time.sleep(min(left, 0.001))
        if self._stopped(tid) is None:
            # needed: otherwise it would stop once more when it runs again
            self._ptrace(PTRACE_INTERRUPT, tid, None, None)
        in_the_kernel = self._stopped(tid) is None and proc_tables.thread_state(self._pid, tid) == "D"
        started = time.monotonic()
        self._await_stop(tid, self._tracer.wait(self._waited))
        if in_the_kernel:
            self._waited += time.monotonic() - started
        # alone it can have started others and ended itself, no more: the kernel's count tells whether anybody is new
        if tid in self._tracer.held and proc_tables.status_number(self._pid, "Threads") == self._tracer.count:
            return True
        self._tracer.hold_all()
        return False

    def _continue(self, tid: int, number: int) -> bool:
        done: int = self._ptrace(PTRACE_CONT, tid, None, number)
        return done != -1

    def call(self, order: MakeCall) -> tuple[str, int]:
        tid = order.tid
        if self._tracer.held.get(tid) != 0 or self._register_set(tid, NT_PRSTATUS) != order.general:
            return REFUSED, 0
        limit = time.monotonic() + order.seconds
        memory = os.open(f"/proc/{tid}/mem", os.O_RDWR | os.O_CLOEXEC)
        address, data = order.block
        low, size = address - order.room, order.room + len(data)
        try:
            below = os.pread(memory, size, low)
            if len(below) != size or os.pwrite(memory, data, address) != len(data):
                return REFUSED, 0
            for entry, stop in zip(order.entries, order.stops):
                # in this order: from here on the thread finds back alone, and opens its mask itself
                if not self._set(tid, NT_PRSTATUS, entry):
                    return REFUSED, 0
                self._set_mask(tid, order.meanwhile)
                became, number = self._go(order, stop, limit)
                if became in (AT_WORK, ENDED):
                    return became, number
                if became == AT_SIGNAL:
                    break
            os.pwrite(memory, order.errno[1], order.errno[0])
            # the registers come last: until then it stands where it finds back alone
            for kind, registers in order.sets:
                self._set(tid, kind, registers)
            self._set_mask(tid, order.mask)
            self._set(tid, NT_PRSTATUS, order.back)
            # only a search for traces of malloc reads below a stack
            after = os.pread(memory, size, low)
            for at in range(0, size, PIECE):
                if below[at : at + PIECE] != after[at : at + PIECE]:
                    os.pwrite(memory, below[at : at + PIECE], low + at)
            return became, number
        finally:
            os.close(memory)

    def _go(self, order: MakeCall, stop: tuple[int, int], limit: float) -> tuple[str, int]:
        tid, number = order.tid, 0
        while True:
            self._tracer.held[tid] = 0
            if not self._continue(tid, number):
                return ENDED, proc_tables.exit_code(self._pid) or 0
            while True:
                stopped = self._stopped(tid)
                if stopped is not None:
                    break
                if time.monotonic() > limit:
                    self._ptrace(PTRACE_INTERRUPT, tid, None, None)
                    self._await_stop(tid, self._tracer.wait())
                    return AT_WORK, 0
                time.sleep(0.00005)
            event, number = stopped
            if number < 0:
                return ENDED, proc_tables.exit_code(self._pid) or 0
            if event:
                number = 0  # stopped with its whole process: it goes on, and stops again when it is let go
            elif number == order.at_end:
                if self._stands(tid, order.stands_in) == tuple(stop):
                    return RETURNED, 0
                number = 0  # somebody else's: it means nothing to this process
            elif number in FATAL:
                return AT_SIGNAL, number

    def _stands(self, tid: int, places: Sequence[int]) -> tuple[int, ...]:
        registers = self._register_set(tid, NT_PRSTATUS)
        return tuple(int.from_bytes(registers[at : at + 8], "little") for at in places)

    def _set(self, tid: int, kind: int, data: bytes) -> bool:
        buffer = ctypes.create_string_buffer(data, len(data))
        iovec = self._tracer.iovec(buffer)
        done: int = self._ptrace(PTRACE_SETREGSET, tid, kind, ctypes.addressof(iovec))
        return done != -1

    def _set_mask(self, tid: int, mask: int) -> None:
        buffer = ctypes.create_string_buffer(mask.to_bytes(8, "little"), 8)
        self._ptrace(PTRACE_SETSIGMASK, tid, 8, ctypes.addressof(buffer))
