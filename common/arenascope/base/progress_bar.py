"""Shows the progress of work that takes longer than a second, for any command that walks a heap:

    try:
        with session.meter("sweeping", total_bytes) as meter:
            for piece in ...:
                meter.advance(piece.bytes)
    except KeyboardInterrupt:
        session.stopped = True      # keep what is whole, and say so among the problems

It is shown only on a terminal, on standard error, by tqdm if that is installed, else as a plain line. If nothing tells
how far a command is, as in a single long system call, the shell shows how long it has lasted (cli/shell.py).
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import AbstractContextManager, nullcontext, suppress
from types import TracebackType
from typing import Any, Callable, Iterable, Iterator, Optional, Protocol, TextIO, TypeVar

from . import optional_libraries


class Meter(Protocol):
    """Reports the progress of a long walk, to be shown or not."""

    def advance(self, amount: int) -> None:
        """Counts so many more bytes as done."""


MakeMeter = Callable[[str, int], "AbstractContextManager[Meter]"]
"""Makes a meter from (what is done, how many bytes in all)."""


class Unseen:
    def advance(self, amount: int) -> None:
        pass


def unseen(what: str, total: int) -> AbstractContextManager[Meter]:
    return nullcontext(Unseen())


class HasBytes(Protocol):
    @property
    def bytes(self) -> int: ...


Part = TypeVar("Part", bound=HasBytes)


def metered(parts: Iterable[Part], meter: Meter) -> Iterator[Part]:
    """Yields the same pieces; each counts once its consumer is done with it."""
    for part in parts:
        yield part
        meter.advance(part.bytes)


PATIENCE = 1.0
EVERY = 0.2
COLUMNS = 80
"""The width of a terminal that does not know its own, as in some containers."""
ENOUGH = 50
"""Remaining time is shown once 1/50 of the bytes are done."""
BAR = "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt}"
WITH_TIME = BAR + " [{elapsed}<{remaining}, {rate_fmt}]"


def columns(stream: Optional[TextIO]) -> int:
    """How many columns can be written without wrapping."""
    with suppress(OSError, ValueError):
        return (os.get_terminal_size((stream or sys.stderr).fileno()).columns or COLUMNS) - 1
    return COLUMNS - 1


class OverwrittenLine:
    """A line on a terminal that the next one overwrites. It is padded with spaces, as not every terminal can clear a
    line."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._shown = stream, 0

    def show(self, text: str) -> None:
        """Shows the text; "" clears the line."""
        self._stream.write(f"\r{text.ljust(self._shown)}" + ("" if text else "\r"))
        self._stream.flush()
        self._shown = len(text)

    def clear(self) -> None:
        if self._shown:
            self.show("")


class Clock:
    """When the progress is to be drawn next."""

    def __init__(self) -> None:
        self.due = time.monotonic() + PATIENCE


class ProgressOfAll:
    """Progress of a command with several steps: one clock for all, so that it shows after a second, however short each
    is."""

    def __init__(self) -> None:
        self._clock = Clock()

    def __call__(self, what: str, total: int) -> Progress:
        return Progress(what, total, self._clock)


class Progress:
    """How much of `total` bytes is done."""

    shown = 0.0
    """When any progress was last drawn."""

    def __init__(self, what: str, total: int, clock: Optional[Clock] = None) -> None:
        self.what, self.total, self.done = what, max(total, 1), 0
        self._stream = sys.__stderr__
        self._shows = self._stream is not None and self._stream.isatty()
        self._began = time.time()
        self._clock = clock or Clock()
        self._bar: Any = None
        self._line: Optional[OverwrittenLine] = None

    def __enter__(self) -> Progress:
        # show it at once: the first piece may take long
        self.advance(0)
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        if self._bar is not None:
            self._bar.close()
        elif self._line is not None:
            self._line.show("")

    def advance(self, amount: int) -> None:
        self.done += amount
        if self._shows and time.monotonic() >= self._clock.due:
            self._show()

    def _show(self) -> None:
        Progress.shown = time.monotonic()
        self._clock.due = Progress.shown + EVERY
        tqdm: Any = optional_libraries.load("tqdm") if self._bar is None and self._line is None else None
        if tqdm is not None:
            # tqdm must start no thread in the debugger
            tqdm.tqdm.monitor_interval = 0
            self._bar = tqdm.tqdm(
                desc=self.what,
                total=self.total,
                unit="B",
                unit_scale=True,
                unit_divisor=1024,
                file=self._stream,
                leave=False,
                smoothing=0,
                # `Clock` decides when to draw
                mininterval=0,
                miniters=0,
                ncols=columns(self._stream),
                # on a terminal that does not know its height tqdm finds room for none
                nrows=2,
                bar_format=BAR,
            )
            # count the time before it was shown
            self._bar.start_t = self._began
        if self._bar is not None:
            self._bar.bar_format = WITH_TIME if self.done * ENOUGH >= self.total else BAR
            self._bar.update(self.done - self._bar.n)
        elif self._stream is not None:
            self._line = self._line or OverwrittenLine(self._stream)
            self._line.show(f"{self.what}: {100 * self.done // self.total} %")
