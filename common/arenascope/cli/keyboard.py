"""One key at a time from a terminal, for what goes on until q is pressed."""

from __future__ import annotations

import os
import sys
import termios
import time
import tty
from select import select
from types import TracebackType
from typing import Optional

QUIT = (b"q", b"Q")


class Keyboard:
    """Keys come at once and are not shown, until it is left. Without a terminal there are none."""

    def __init__(self) -> None:
        self._file = 0 if os.isatty(0) and sys.stdout.isatty() else -1
        self._before: Optional[list[object]] = None

    def __enter__(self) -> Keyboard:
        if self._file >= 0:
            self._before = termios.tcgetattr(self._file)
            tty.setcbreak(self._file)
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        if self._before is not None:
            termios.tcsetattr(self._file, termios.TCSADRAIN, self._before)  # type: ignore[arg-type]

    def wait(self, seconds: float) -> bool:
        """For so long, or until q is pressed: whether it was."""
        end = time.monotonic() + seconds
        while self._file >= 0 and select([self._file], [], [], max(0.0, end - time.monotonic()))[0]:
            key = os.read(self._file, 1)
            if key in QUIT:
                return True
            if not key:
                self._file = -1  # the terminal has gone
        time.sleep(max(0.0, end - time.monotonic()))
        return False
