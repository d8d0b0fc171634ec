"""LLDB with somebody at the keys."""

from __future__ import annotations

import os
import pty
import select
import time

from lldb_door import Lldb
from looks import plain_environment


class Terminal:
    """`with Terminal(lldb, ...) as terminal`: an interactive LLDB."""

    def __init__(self, lldb: Lldb, *arguments: str) -> None:
        environment = plain_environment({"TERM": "dumb"})
        if lldb.version == 14:
            environment["PYTHONPATH"] = "/usr/lib/llvm-14/lib/python3.11/dist-packages"
        self.pid, self.file = pty.fork()
        if not self.pid:
            os.execvpe(lldb.name, [lldb.name, "-x", *arguments], environment)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        os.kill(self.pid, 9)
        os.waitpid(self.pid, 0)
        os.close(self.file)

    def wait_for(self, word: str, seconds: float = 120) -> str:
        text, end = "", time.monotonic() + seconds
        while word not in text:
            assert select.select([self.file], [], [], max(0, end - time.monotonic()))[0], f"no {word!r} in {text!r}"
            text += os.read(self.file, 65536).decode(errors="replace")
        return text

    def type(self, keys: str) -> None:
        os.write(self.file, keys.encode())
