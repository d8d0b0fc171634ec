"""What a terminal shows while a command waits: for the kernel, or for what tells nothing of how far it is."""

from __future__ import annotations

import _thread
import time
from typing import TextIO

from ..base import background
from ..present.shared_text.progress_bar import EVERY, PATIENCE, OverwrittenLine, Progress, columns

WIDTH = 20
"""Of the bar, in columns."""


class Waiting:
    """What a command does, and for how long it has: a thread draws it, as who waits is in a system call. Only on a
    terminal, and only while no Progress shows more."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._line = stream, OverwrittenLine(stream)
        self._what, self._began, self._expected = "", 0.0, 0.0
        self._due = time.monotonic() + PATIENCE
        self._drawing = _thread.allocate_lock()
        self._is_on = False

    def begin(self, what: str, expected: float = 0.0, at_once: bool = False) -> None:
        """Another thing, which takes about so many seconds; 0: nobody knows. `at_once`: it certainly takes long."""
        self.clear()
        if at_once:
            self._due = 0.0
        self._what, self._began, self._expected = what, time.monotonic(), expected
        if not self._is_on and self._stream.isatty():
            self._is_on = True
            try:
                background.start(self._draw_on)
            except RuntimeError:
                self._is_on = False

    def clear(self) -> None:
        """Something is written now, and this goes on below."""
        with self._drawing:
            self._line.clear()

    def end(self) -> None:
        self._is_on = False
        self.clear()

    def _draw_on(self) -> None:
        while self._is_on:
            now = time.monotonic()
            with self._drawing:
                if self._is_on and now >= max(self._due, Progress.shown + PATIENCE):
                    # as wide as a Progress that may have stood there
                    width = columns(self._stream)
                    self._line.show(self._text(now - self._began).ljust(width)[:width])
            time.sleep(EVERY)

    def _text(self, seconds: float) -> str:
        if not self._expected:
            return f"{self._what}: {seconds:.0f} s"
        done = min(WIDTH, int(WIDTH * seconds / self._expected))
        return f"{self._what}: {seconds:.1f} of some {self._expected:.1f} s |{'#' * done:{WIDTH}}|"
