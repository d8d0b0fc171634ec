"""Programs at a terminal, as a person has them: what is typed, and what the screen shows."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from typing import Any, Optional, Sequence

from looks import plain_environment

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\r")


class Terminal:
    """`with Terminal(argv) as terminal`: the program, until the end. `how` is Popen's."""

    def __init__(
        self, argv: Sequence[object], columns: int = 80, variables: Optional[dict[str, str]] = None, **how: Any
    ) -> None:
        self.argv, self.columns, self.how = argv, columns, how
        self.variables = {"TERM": "dumb", **(variables or {})}

    def __enter__(self) -> Terminal:
        self.file, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 50, self.columns, 0, 0))
        # a program may have another of the three for itself
        how = {"stdin": theirs, "stdout": theirs, "stderr": theirs, **self.how}
        self.process = subprocess.Popen(
            [*map(str, self.argv)],
            env=plain_environment(self.variables),
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(theirs, termios.TIOCSCTTY, 0),
            **how,
        )
        os.close(theirs)
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.file)

    def type(self, keys: str) -> None:
        os.write(self.file, keys.encode())

    def wait_for(self, word: str, seconds: float = 120) -> str:
        """What the screen shows until there is this word."""
        screen, limit = "", time.monotonic() + seconds
        while word not in screen:
            ready = select.select([self.file], [], [], max(0, limit - time.monotonic()))[0]
            assert ready, f"no {word!r} in {screen!r}"
            screen = ESCAPES.sub("", screen + os.read(self.file, 65536).decode(errors="replace"))
        return screen

    def rest(self) -> str:
        """All that the screen shows until the program has ended."""
        shown = b""
        # EIO: that is how it ends
        with contextlib.suppress(OSError):
            while piece := os.read(self.file, 65536):
                shown += piece
        self.process.wait(60)
        return shown.decode(errors="replace")
