"""Holds a process still while it is read, with a guard: a process whose end, of whatever kind, lets the held one go.

The guard has a session of its own and blocks every signal, so that what ends or stops us (Ctrl-C, Ctrl-\\, Ctrl-Z, a
signal to the group) leaves it running. It lets go when it is told to, when we end or are stopped, and when a hold lasts
too long; a timer of the kernel's ends it even where somebody has stopped it too.
"""

from __future__ import annotations

import _thread
import os
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Callable, NoReturn, Optional, Sequence, TypeVar, Union, cast

from ...base import background
from ...base.errors import HoldEnded, HoldOver, HoldTooShort, RefusedError, TargetError
from ...base.heap_model import HOLD_AT_MOST, Statement, allows_more, hold_over
from ..target import RegisterSet, RegisterSets
from . import messages
from .sigstop import Stopper

if TYPE_CHECKING:
    from types import ModuleType

    from .ptrace import Ptracer
    from .thread_calls import Runner

Kind = TypeVar("Kind", bound=messages.Answer)

ANSWERS_IN = 15.0
"""Seconds for an answer: longer than the guard itself waits for a thread to stop."""
LETS_GO_IN = 2.0
RESERVE, MOST_OF_SHORT, LEAST, MOST = 0.1, 0.2, 0.1, 0.5
"""The time reserved to turn what was read into an answer: RESERVE of the hold, at least LEAST seconds, but at most
MOST_OF_SHORT of the hold and MOST seconds."""


class Freeze:
    """A held process, from hold() to release()."""

    def __init__(self, how: str, at_most: float = HOLD_AT_MOST) -> None:
        """Starts the guard, which prepares itself meanwhile. `how`: "ptrace" or "signal"."""
        self.how, self.at_most = how, at_most
        self._pid = 0
        self._started = 0.0
        self._until = float("inf")
        self._why: Optional[bytes] = None
        self._lost: Optional[HoldEnded] = None
        self._on_end: Optional[Callable[[HoldEnded], None]] = None
        self._watched = _thread.allocate_lock()
        (orders, self._orders), (self._replies, replies), (self._last_word, last_word) = os.pipe(), os.pipe(), os.pipe()
        parent = os.getpid()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self._guard = os.fork()
            if not self._guard:
                _serve(how, orders, replies, last_word, parent=parent)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for file in (orders, replies, last_word):
            os.close(file)

    def hold(self, pid: int, born: int) -> None:
        """Stops the process that was started at `born`; TargetError if that cannot be done."""
        self._pid, self._started = pid, time.monotonic()
        reserve = min(max(RESERVE * self.at_most, LEAST), MOST_OF_SHORT * self.at_most, MOST)
        self._until = self._started + self.at_most - reserve
        answer = self._asked(messages.Hold(pid, born, self.at_most), ANSWERS_IN)
        if isinstance(answer, messages.Refused):
            raise TargetError(answer.message, answer.hint)
        self.how = _of(messages.HoldBegun, answer).how
        self._watched.acquire()
        try:
            background.start(self._watch)
        except RuntimeError as error:
            self._watched.release()
            raise TargetError(f"cannot watch over the hold: {error}") from error

    def obey(self, order: messages.Order, kind: type[Kind], seconds: float = ANSWERS_IN) -> Kind:
        """Gives the guard an order; it answers by a record of this kind. RefusedError if it cannot be done."""
        if not self._guard:
            raise self._lost or self._ended()  # the process was let go
        answer = self._asked(order, seconds)
        if isinstance(answer, messages.Refused):
            raise RefusedError("guard-refused", answer.message, answer.hint)
        return _of(kind, answer)

    def _asked(self, order: messages.Order, seconds: float) -> messages.Answer:
        try:
            messages.send_order(self._orders, order)
            return messages.receive_answer(self._replies, seconds)
        except TimeoutError:
            os.kill(self._guard, signal.SIGKILL)
            raise self._broken() from None
        except (BrokenPipeError, EOFError):
            raise self._broken() from None

    def on_end(self, told: Callable[[HoldEnded], None]) -> None:
        """Sets the function to call, from another thread, if the process is released before release()."""
        self._on_end = told
        if self._why is not None:
            told(self._ended())  # it was by now

    def _watch(self) -> None:
        self._why = os.read(self._last_word, 1)
        if self._why != DONE and self._on_end is not None:
            self._on_end(self._ended())
        self._watched.release()

    def _ended(self) -> HoldEnded:
        who = f"process {self._pid} was let go before it was read whole"
        if self._why == SUSPENDED:
            return HoldEnded(f"{who}: arenascope was suspended", "look again", again=True)
        if self._why == TOO_LONG or time.monotonic() - self._started > self.at_most:
            return self._too_long(who)
        return HoldEnded(f"{who}: what held it was killed", "look again")

    def _too_long(self, who: str) -> HoldEnded:
        return HoldTooShort(
            f"{who}: it had stood still for {self.at_most:g} s",
            f"{allows_more(self.at_most)}; --no-stop does not stop it; arenas --quick reads little",
            self.at_most,
        )

    def is_over(self) -> bool:
        """Tells whether it is time to stop reading."""
        return time.monotonic() > self._until

    @property
    def left(self) -> float:
        """The seconds until then; negative afterwards."""
        return self._until - time.monotonic()

    def over(self) -> HoldOver:
        """Returns the exception to raise then."""
        return HoldOver(self._too_long(f"process {self._pid} was let go before it was read whole"))

    @property
    def cut(self) -> Statement:
        """The problem to report about what had been read until then."""
        return hold_over(self.at_most)

    def register_sets(self, tids: Optional[Sequence[int]] = None, every: bool = False) -> list[RegisterSets]:
        """Returns the registers of all threads, or of these, where holding them gives a right to see them. `every`:
        also floating point and vectors, for a core."""
        return [
            RegisterSets(tid, general, [RegisterSet(*each) for each in others])
            for tid, general, others in self.obey(messages.GetRegisters(tids, every), messages.Registers).threads
        ]

    def release(self) -> float:
        """Releases the process and returns how long it was held, 0.0 if it was released before. HoldEnded if the hold
        had ended before."""
        if self._lost:
            raise self._lost
        self._until = float("inf")
        if not self._guard:
            return 0.0
        try:
            messages.send_order(self._orders, messages.Release())
            while not isinstance(last := messages.receive_answer(self._replies, LETS_GO_IN), messages.Released):
                pass  # Ctrl-C had come between a question and its answer
            seconds = last.seconds
        except (BrokenPipeError, EOFError):
            raise self._broken() from None
        except (TimeoutError, ValueError):
            # the guard was stopped, or Ctrl-C broke an answer: killing the guard releases the process
            os.kill(self._guard, signal.SIGKILL)
            seconds = time.monotonic() - self._started
        self._end_guard()
        return seconds

    def drop(self) -> float:
        """Releases the process, whatever happened."""
        try:
            return self.release()
        except HoldTooShort:
            return self.at_most
        except HoldEnded:
            return 0.0

    def _broken(self) -> HoldEnded:
        """Records that the guard is gone."""
        self._end_guard()
        self._lost = self._ended()
        return self._lost

    def _end_guard(self) -> None:
        pid, self._guard = self._guard, 0
        with suppress(ChildProcessError):  # whoever started us ignores SIGCHLD: the kernel reaps
            os.waitpid(pid, 0)
        with self._watched:
            self._why = os.read(self._last_word, 1) if self._why is None else self._why
        for file in (self._orders, self._replies, self._last_word):
            os.close(file)


def _of(kind: type[Kind], answer: messages.Answer) -> Kind:
    if not isinstance(answer, kind):
        raise TypeError(f"the guard answered {type(answer).__name__}, not {kind.__name__}")
    return answer


# the guard

TICK_MS = 10
GRACE = 1.0
"""Seconds after the longest hold until the kernel kills the guard."""

DONE, SUSPENDED, TOO_LONG, ENDED = b"d", b"s", b"l", b""
"""Why it released the process, its last message: on request, because we were stopped, because the hold was too long, or
because the guard was killed."""


def _serve(how: str, orders: int, replies: int, last_word: int, parent: int) -> NoReturn:
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
        order = messages.receive_order(self._orders)
        if not isinstance(order, messages.Hold):
            messages.send_answer(self._replies, messages.Released(0.0))
            return
        holder = self._holder(order.pid, order.born)
        started = time.monotonic()
        try:
            if self._ptrace:
                self._ptrace.die_in(order.at_most + GRACE, signal.SIGKILL)
            holder.hold(started + order.at_most)
        except TargetError as error:
            holder.release()
            messages.send_answer(self._replies, messages.Refused(error.message, error.hint))
            return
        except TimeoutError:
            holder.release()
            os.write(self._last_word, TOO_LONG)
            return
        except (FileNotFoundError, ProcessLookupError):
            holder.release()
            messages.send_answer(self._replies, messages.Refused(f"process {order.pid} has ended"))
            return
        try:
            messages.send_answer(self._replies, messages.HoldBegun(holder.name))
            why = self._guard(holder, started + order.at_most)
        finally:
            holder.release()
        os.write(self._last_word, why)
        if why == DONE:
            messages.send_answer(self._replies, messages.Released(time.monotonic() - started))

    def _obey(self, holder: Union[Ptracer, Stopper], order: messages.Order) -> messages.Answer:
        if isinstance(order, messages.GetRegisters):
            return messages.Registers(holder.register_sets(order.tids, order.every))
        try:
            if self._runner is None:
                # few holds are for more than looking
                from .thread_calls import Runner

                self._runner = Runner(cast("Ptracer", holder))
            return self._runner.obey(order)
        except (OSError, TargetError) as error:
            return messages.Refused(str(error))

    def _guard(self, holder: Union[Ptracer, Stopper], until: float) -> bytes:
        """Guards until there is a reason to release."""
        state = os.open(f"/proc/{self._parent}/stat", os.O_RDONLY)
        while True:
            left = max(0, int(1000 * (until - time.monotonic())) + 1)
            if messages.readable(self._orders, min(TICK_MS, left)):
                order = messages.receive_order(self._orders)
                if isinstance(order, messages.Release):
                    return DONE
                messages.send_answer(self._replies, self._obey(holder, order))
            elif os.getppid() != self._parent:
                return ENDED
            elif os.pread(state, 512, 0).rpartition(b")")[2].split()[0] == b"T":
                return SUSPENDED
            elif time.monotonic() > until:
                return TOO_LONG
