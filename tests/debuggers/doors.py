"""The doors that tests open: how to start each debugger on an image, and what it answers.

To add one, write a class and put it into DOORS: every test that is checked against truth then runs through it too.
"""

from __future__ import annotations

import subprocess
from functools import cache
from typing import Any, Sequence

import pytest
from lldb_door import LLDBS
from looks import (
    HERE,
    ROOT,
    TIMEOUT,
    Core,
    Debugger,
    Door,
    Image,
    Live,
    Outcome,
    indexes,
    run,
    stripped,
)
from platforms import HOST, libc_of
from shell_door import SHELL
from terminal import Terminal

ARENA_PY = ROOT / "gdb" / "arena.py"
LOAD = ("-ex", f"source {ARENA_PY}")


class Gdb(Debugger):
    name = "gdb"
    load = LOAD
    driver = ("-x", str(HERE / "drive_gdb.py"))
    calculates = ("-ex", "python print(6 * 7)")

    def following(self, core: Core) -> list[str]:
        return [f"core-file {core.path}"]

    def poke(self, address: int, value: int) -> str:
        """The command that writes eight bytes."""
        return f"set var *(unsigned long long *) {address:#x} = {value:#x}"

    def look_at(self, image: Image, symbols: bool = True) -> list[str]:
        program = image.program if symbols else stripped(image.program)
        settings = [*_own_libc(image), *(() if symbols else ("set debug-file-directory /nonexistent",))]
        first = [word for setting in settings for word in ("-iex", setting)]
        if isinstance(image, Live):
            return [*first, "-p", str(image.pid), *([] if symbols else [str(program)])]
        return [*first, str(program), str(image.path)]

    def drive(self, arguments: Sequence[str], steps: Sequence[dict[str, Any]], **how: Any) -> list[Outcome]:
        outcomes = super().drive(arguments, steps, **how)
        skip_where_calls_fail(" ".join(each.error or "" for each in outcomes))
        return outcomes

    def start(self, arguments: Sequence[object], *more: Any, **how: Any) -> subprocess.CompletedProcess[str]:
        """gdb -batch with these arguments; fails the test where it breaks. `more` and `how` are run's."""
        # other people's scripts, Debian's for the JVM say, end in tracebacks where debug symbols are missing
        settings = ["set auto-load python-scripts off", "set python print-stack full", *_remembering()]
        first = [word for setting in settings for word in ("-iex", setting)]
        finished = run([self.name, "-nx", "-q", "-batch", *first, *arguments], *more, **how)
        skip_where_calls_fail(finished.stdout + finished.stderr)
        return finished


UNWRITABLE = "extended state status"
"""What GDB before 14 says of vector registers where the processor has AMX."""


def skip_where_calls_fail(said: str) -> None:
    if UNWRITABLE in said and _cannot_write_vectors():
        pytest.skip("this GDB cannot call into a process on this processor (AMX; GDB 14 can)")


@cache
def _cannot_write_vectors() -> bool:
    """By GDB's own word alone, of a process that does nothing."""
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            word = "$xmm0.v4_int32[0]"
            words = ["gdb", "-nx", "-q", "-batch", "-p", str(process.pid), "-ex", f"set variable {word} = ~{word}"]
            return UNWRITABLE in subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT).stderr
        finally:
            process.kill()


GDB = Gdb()
"""A door, and the tests' second witness."""
DOORS: dict[str, Door] = {door.name: door for door in (GDB, *LLDBS, SHELL)}
NEWEST = (GDB.name, LLDBS[-1].name, SHELL.name)
"""Those of `make test`."""


def _own_libc(image: Image) -> list[str]:
    """What GDB has to be told where the subject runs on another libc than the host's."""
    libc = libc_of(image.program)
    if libc is None:
        return []
    told = [f"set debug-file-directory {libc.debug}"]
    if libc.machine == HOST.machine:
        # GDB loads it into itself, so that of another machine is of no use
        told += [f"set libthread-db-search-path {libc.libraries}", f"set auto-load safe-path {libc.root}"]
    return told


@cache
def enables_settings() -> bool:
    """Whether what is switched on is called `enabled`, as since GDB 12."""
    asked = ["gdb", "-nx", "-batch", "-ex", "help set index-cache enabled"]
    return "Enable the index cache" in subprocess.run(asked, text=True, capture_output=True).stdout


def _remembering() -> Sequence[str]:
    if not enables_settings():
        return ()
    return (f"set index-cache directory {indexes()}", "set index-cache enabled on")


class GdbTerminal(Terminal):
    """An interactive GDB that has arenascope loaded."""

    PROMPT = "(gdb) "

    def __init__(self, *arguments: object) -> None:
        settings = ("-iex", "set width 0", "-iex", "set height 0")
        super().__init__(["gdb", "-nx", "-q", *settings, *arguments, *LOAD])

    def __enter__(self) -> GdbTerminal:
        super().__enter__()
        self.wait_for(self.PROMPT)
        return self

    def __exit__(self, *_: object) -> None:
        self.type("detach\nquit\n")
        self.rest()
        super().__exit__()

    def ask(self, line: str, until: str = PROMPT) -> str:
        """What the screen shows from the line that was typed on, up to the next prompt."""
        self.type(f"{line}\n")
        return self.wait_for(until)

    def wait_for(self, word: str, seconds: float = 120) -> str:
        screen = super().wait_for(word, seconds)
        skip_where_calls_fail(screen)
        return screen
