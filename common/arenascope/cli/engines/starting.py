"""Shows progress and handles Ctrl-C while an engine starts or is being connected to: its library may lose Ctrl-C.

A terminal also sends Ctrl-C to processes that the engine starts, and each would print a traceback. So they get no
standard error, and the signal is blocked in them.
"""

from __future__ import annotations

import _thread
import os
import select
import signal
import sys
from contextlib import contextmanager
from typing import Callable, Iterator, Optional

from ...base import background
from ...base.about import INTERRUPTED, STOPPED
from ...base.printable import one_line
from ..shell import Waiting

GRACE = 2.0
"""Seconds after Ctrl-C for an engine that is starting to be shut down properly. Afterwards its processes end by
themselves."""
OVER = b"\0"


@contextmanager
def starting(engine: str, address: Optional[str]) -> Iterator[None]:
    """`address`: the engine's, if it is on another machine."""
    what = one_line(f"connecting to {engine} at {address}" if address else f"starting {engine} on this machine")
    sys.stderr.flush()
    with os.fdopen(os.dup(2), "w") as stream, _no_standard_error():
        waiting = Waiting(stream)

        def heard() -> None:
            if not address:
                waiting.begin(f"stopping, once {engine} has started", at_once=True)

        def end() -> None:
            # exit at once: no result was written yet, and inside a library's call the main thread does not notice
            # Ctrl-C
            waiting.end()
            stream.write(STOPPED)
            stream.flush()
            os._exit(INTERRUPTED)

        if not stream.isatty():
            stream.write(f"{what} …\n")
            stream.flush()
        waiting.begin(what, at_once=True)
        try:
            with _interruptible(heard, end, 0.0 if address else GRACE):
                yield
        finally:
            waiting.end()


@contextmanager
def _no_standard_error() -> Iterator[None]:
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


@contextmanager
def _interruptible(heard: Callable[[], None], end: Callable[[], None], grace: float) -> Iterator[None]:
    """Raises KeyboardInterrupt after the block if Ctrl-C came. If the block then takes longer than `grace`, a thread
    calls `end`."""
    pressed = False
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    done = _thread.allocate_lock()

    def listen() -> None:
        nonlocal pressed
        # Python's wakeup descriptor: whichever thread gets a signal, its number arrives in the pipe
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        while (byte := os.read(reading, 1)) != OVER:
            if byte[0] == signal.SIGINT and not pressed:
                pressed = True
                heard()
                if not select.select([reading], [], [], grace)[0]:
                    end()
        done.release()

    handler = signal.signal(signal.SIGINT, lambda *_: None)
    wakeup = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    done.acquire()
    background.start(listen)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.write(writing, OVER)
        done.acquire()
        signal.set_wakeup_fd(wakeup)
        signal.signal(signal.SIGINT, handler)
        os.close(reading)
        os.close(writing)
        if pressed:
            raise KeyboardInterrupt
