"""The process that holds another one while freeze.py's reads it. Its end, of whatever kind, lets go.

It has a session of its own and blocks every signal, so that what ends or stops us (Ctrl-C, Ctrl-\\, Ctrl-Z, a signal
to the group) leaves it running. It lets go when it is told to, when we end or are stopped, and when a hold lasts too
long; a timer of the kernel's ends it even where somebody has stopped it too.
"""

from __future__ import annotations

import marshal
import os
import select
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn, Optional, Protocol, cast

from ...base.errors import TargetError
from .sigstop import Stopper

if TYPE_CHECKING:
    from .ptrace import Tracer

TICK_MS = 10
GRACE = 1.0
"""Seconds after the longest hold until the kernel ends the guard."""

DONE, SUSPENDED, TOO_LONG, ENDED = b"d", b"s", b"l", b""
"""Why it let go, the last that it says: it was told to, we were stopped, a hold too long; it was killed."""


class Holder(Protocol):
    name: str

    def hold(self, until: float) -> None:
        """TargetError where it cannot be done, TimeoutError where not by then; release() lets go what was stopped."""

    def records(self) -> list[tuple[int, bytes, bytes]]: ...

    def register_sets(self) -> list[tuple[int, bytes, list[tuple[str, int, bytes]]]]: ...

    def release(self) -> None: ...


def send(file: int, what: Any) -> None:
    data = marshal.dumps(what)
    # the registers of thousands of threads are megabytes, of which a pipe takes 64 KiB at a time
    left = memoryview(len(data).to_bytes(4, "little") + data)
    while left:
        left = left[os.write(file, left) :]


def receive(file: int, seconds: Optional[float] = None) -> Any:
    """EOFError where the other has ended; TimeoutError where it stays silent."""
    size = int.from_bytes(_receive_bytes(file, 4, seconds), "little")
    return marshal.loads(_receive_bytes(file, size, seconds))


def _receive_bytes(file: int, size: int, seconds: Optional[float]) -> bytes:
    data = bytearray()
    while len(data) < size:
        if not _readable(file, None if seconds is None else int(seconds * 1000)):
            raise TimeoutError
        part = os.read(file, size - len(data))
        if not part:
            raise EOFError
        data += part
    return bytes(data)


def _readable(file: int, milliseconds: Optional[int]) -> bool:
    poll = select.poll()
    poll.register(file, select.POLLIN)
    return bool(poll.poll(milliseconds))


def serve(how: str, orders: int, replies: int, last_word: int, parent: int) -> NoReturn:
    """What the guard does from fork to end; every signal is blocked by now."""
    try:
        os.setsid()
        _keep_only(orders, replies, last_word)
        _Guard(how, orders, replies, last_word, parent=parent).run()
    except (OSError, EOFError):
        pass  # we have ended
    finally:
        os._exit(0)


def _keep_only(*wanted: int) -> None:
    """A reader of our output must not wait for the guard's end too."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in wanted:
            with suppress(OSError):  # listdir's own
                os.close(int(name))


class _Guard:
    def __init__(self, how: str, orders: int, replies: int, last_word: int, parent: int) -> None:
        self._orders, self._replies, self._last_word, self._parent = orders, replies, last_word, parent
        self._ptrace: Any = None
        self._runner: Any = None
        with suppress(ImportError):  # a Python without ctypes can hold by signals alone
            # it takes its time to load: before anybody is held
            from . import ptrace

            self._ptrace = ptrace
        self._holder = self._ptrace.Tracer if how == "ptrace" and self._ptrace else Stopper

    def run(self) -> None:
        order = receive(self._orders)
        if order == "release":
            send(self._replies, 0.0)
            return
        pid, born, at_most = order
        holder: Holder = self._holder(pid, born)
        started = time.monotonic()
        try:
            if self._ptrace:
                self._ptrace.die_in(at_most + GRACE, signal.SIGKILL)
            holder.hold(started + at_most)
        except TargetError as error:
            holder.release()
            send(self._replies, (False, error.message, error.hint))
            return
        except TimeoutError:
            holder.release()
            os.write(self._last_word, TOO_LONG)
            return
        except (FileNotFoundError, ProcessLookupError):
            holder.release()
            send(self._replies, (False, f"process {pid} has ended", None))
            return
        try:
            send(self._replies, (True, holder.name, None))
            why = self._guard(holder, started + at_most)
        finally:
            holder.release()
        os.write(self._last_word, why)
        if why == DONE:
            send(self._replies, time.monotonic() - started)

    def _obey(self, holder: Holder, order: Any) -> Any:
        if isinstance(order, tuple):
            try:
                if self._runner is None:
                    # few holds are for more than looking
                    from .running import Runner

                    self._runner = Runner(cast("Tracer", holder))
                return self._runner.obey(order)
            except (OSError, TargetError) as error:
                return str(error)
        return holder.register_sets() if order == "register sets" else holder.records()

    def _guard(self, holder: Holder, until: float) -> bytes:
        """Until there is a reason to let go."""
        state = os.open(f"/proc/{self._parent}/stat", os.O_RDONLY)
        while True:
            left = max(0, int(1000 * (until - time.monotonic())) + 1)
            if _readable(self._orders, min(TICK_MS, left)):
                order = receive(self._orders)
                if order == "release":
                    return DONE
                send(self._replies, self._obey(holder, order))
            elif os.getppid() != self._parent:
                return ENDED
            elif os.pread(state, 512, 0).rpartition(b")")[2].split()[0] == b"T":
                return SUSPENDED
            elif time.monotonic() > until:
                return TOO_LONG
