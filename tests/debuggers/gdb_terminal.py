"""GDB at a terminal, as a person has it: what is typed, and what the screen shows."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import time
from typing import Any, Sequence

from doors import LOAD, skip_where_calls_fail

PROMPT = "(gdb) "
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\r")


class Terminal:
    """`with Terminal([...]) as terminal`: an interactive GDB that has arenascope loaded."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self.arguments = arguments

    def __enter__(self) -> Terminal:
        self.master, slave = pty.openpty()
        environment = {**os.environ, "TERM": "dumb", "LC_ALL": "C.UTF-8"}
        self.process = subprocess.Popen(
            [
                "gdb",
                "-nx",
                "-q",
                "-iex",
                "set width 0",
                "-iex",
                "set height 0",
                *self.arguments,
                *LOAD,
            ],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment,
            start_new_session=True,
        )
        os.close(slave)
        self.read_until(PROMPT)
        return self

    def __exit__(self, *_: Any) -> None:
        if self.process.poll() is None:
            os.write(self.master, b"detach\nquit\n")
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        os.close(self.master)

    def type(self, line: str, until: str = PROMPT) -> str:
        """What the screen shows from the line that was typed on, up to the next prompt."""
        os.write(self.master, line.encode() + b"\n")
        return self.read_until(until)

    def read_until(self, end: str, seconds: float = 60) -> str:
        screen, limit = "", time.monotonic() + seconds
        while not screen.endswith(end):
            if not select.select([self.master], [], [], max(0, limit - time.monotonic()))[0]:
                raise TimeoutError(f"GDB showed no {end!r}, but {screen!r}")
            screen = ESCAPES.sub("", screen + os.read(self.master, 4096).decode(errors="replace"))
            skip_where_calls_fail(screen)
        return screen
