"""The process that holds another one while process_hold.py's reads it. Its end, of whatever kind, lets go.

It has a session of its own and blocks every signal, so that what ends or stops us (Ctrl-C, Ctrl-\\, Ctrl-Z, a signal
to the group) leaves it running. It lets go when it is told to, when we end or are stopped, and when a hold lasts too
long; a timer of the kernel's ends it even where somebody has stopped it too.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn, Optional, Protocol, Sequence, cast

from ...base.errors import TargetError
from .messages import (
    Answer,
    EveryRegisterSet,
    GetRegisters,
    GetRegisterSets,
    Hold,
    HoldBegun,
    Order,
    Refused,
    Registers,
    Release,
    Released,
    readable,
    receive_order,
    send_answer,
)
from .sigstop import Stopper

if TYPE_CHECKING:
    from types import ModuleType

    from .ptrace import Ptracer
    from .thread_calls import Runner

TICK_MS = 10
GRACE = 1.0
"""Seconds after the longest hold until the kernel kills the guard."""

DONE, SUSPENDED, TOO_LONG, ENDED = b"d", b"s", b"l", b""
"""Why it released the process, its last message: on request, because we were stopped, because the hold was too long, or
because the guard was killed."""


class ThreadHolder(Protocol):
    name: str

    def hold(self, until: float) -> None:
        """Stops the process. TargetError if it cannot, TimeoutError if it cannot in time; release() then frees what was
        stopped."""

    def records(self, tids: Optional[Sequence[int]] = None) -> list[tuple[int, bytes, bytes]]: ...

    def register_sets(self) -> list[tuple[int, bytes, list[tuple[str, int, bytes]]]]: ...

    def release(self) -> None: ...


def serve(how: str, orders: int, replies: int, last_word: int, parent: int) -> NoReturn:
    """Runs the guard from fork to end; every signal is blocked by now."""
    try:
        os.setsid()
        _keep_only(orders, replies, last_word)
        _go_first()
        _Guard(how, orders, replies, last_word, parent=parent).run()
    except (OSError, EOFError):
        pass  # we have ended
    finally:
        os._exit(0)


def _keep_only(*wanted: int) -> None:
    """Closes other files: a reader of our output must not wait for the guard's end too."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in wanted:
            with suppress(OSError):  # listdir's own
                os.close(int(name))


def _go_first() -> None:
    """Takes real-time priority if allowed: a busy machine would keep it from releasing in time. It nearly always
    sleeps."""
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))


class _Guard:
    def __init__(self, how: str, orders: int, replies: int, last_word: int, parent: int) -> None:
        self._orders, self._replies, self._last_word, self._parent = orders, replies, last_word, parent
        self._ptrace: Optional[ModuleType] = None
        self._runner: Optional[Runner] = None
        with suppress(ImportError):  # a Python without ctypes can hold by signals alone
            # loading takes time, so it comes before the hold
            from . import ptrace

            self._ptrace = ptrace
        self._holder = self._ptrace.Ptracer if how == "ptrace" and self._ptrace else Stopper

    def run(self) -> None:
        order = receive_order(self._orders)
        if not isinstance(order, Hold):
            send_answer(self._replies, Released(0.0))
            return
        holder: ThreadHolder = self._holder(order.pid, order.born)
        started = time.monotonic()
        try:
            if self._ptrace:
                self._ptrace.die_in(order.at_most + GRACE, signal.SIGKILL)
            holder.hold(started + order.at_most)
        except TargetError as error:
            holder.release()
            send_answer(self._replies, Refused(error.message, error.hint))
            return
        except TimeoutError:
            holder.release()
            os.write(self._last_word, TOO_LONG)
            return
        except (FileNotFoundError, ProcessLookupError):
            holder.release()
            send_answer(self._replies, Refused(f"process {order.pid} has ended"))
            return
        try:
            send_answer(self._replies, HoldBegun(holder.name))
            why = self._guard(holder, started + order.at_most)
        finally:
            holder.release()
        os.write(self._last_word, why)
        if why == DONE:
            send_answer(self._replies, Released(time.monotonic() - started))

    def _obey(self, holder: ThreadHolder, order: Order) -> Answer:
        if isinstance(order, GetRegisters):
            return Registers(holder.records(order.tids))
        if isinstance(order, GetRegisterSets):
            return EveryRegisterSet(holder.register_sets())
        try:
            if self._runner is None:
                # few holds are for more than looking
                from .thread_calls import Runner

                self._runner = Runner(cast("Ptracer", holder))
            return self._runner.obey(order)
        except (OSError, TargetError) as error:
            return Refused(str(error))

    def _guard(self, holder: ThreadHolder, until: float) -> bytes:
        """Guards until there is a reason to release."""
        state = os.open(f"/proc/{self._parent}/stat", os.O_RDONLY)
        while True:
            left = max(0, int(1000 * (until - time.monotonic())) + 1)
            if readable(self._orders, min(TICK_MS, left)):
                order = receive_order(self._orders)
                if isinstance(order, Release):
                    return DONE
                send_answer(self._replies, self._obey(holder, order))
            elif os.getppid() != self._parent:
                return ENDED
            elif os.pread(state, 512, 0).rpartition(b")")[2].split()[0] == b"T":
                return SUSPENDED
            elif time.monotonic() > until:
                return TOO_LONG
