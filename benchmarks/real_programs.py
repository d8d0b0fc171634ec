"""What `leaks`, `owners` and `types` cost on real programs under load, those of the tests, as they are packaged.

    python3 benchmarks/real_programs.py                          all that are installed
    python3 benchmarks/real_programs.py redis-on-glibc perl      some of them

Of a saved copy each: the processors' seconds, and on a terminal the seconds by the clock until something is shown.
Exit status 1 where a command takes more than LIMIT of the processors.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path
from typing import Iterator, NamedTuple, Optional, Sequence

import pytest
from subject import ARENASCOPE, QUIET, ROOT, WITH_US

sys.path[:0] = [str(ROOT / "tests" / each) for each in ("programs", "debuggers", "unit", "images")]

from programs import PROGRAMS, SINGLE, Program  # noqa: E402

COMMANDS = ("leaks", "owners", "types")
LIMIT = 10.0
"""Seconds."""


class Looked(NamedTuple):
    processor: float
    first: float
    """Seconds until a terminal sees the first of it."""


def table(programs: Sequence[Program]) -> Iterator[str]:
    """Lines; what is too slow has a `!`."""
    yield f"| seconds of processors, in brackets until something is shown | {' | '.join(COMMANDS)} |"
    yield "| --- |" + " --- |" * len(COMMANDS)
    for program in programs:
        with tempfile.TemporaryDirectory(prefix="arenascope-bench-") as name:
            core = _saved(program, Path(name))
            looks = [_looked([*ARENASCOPE, each, str(core)]) for each in COMMANDS] if core is not None else []
        cells = [f"{each.processor:.1f} ({each.first:.1f}){'!' * (each.processor > LIMIT)}" for each in looks]
        yield f"| {program.name} | {' | '.join(cells or ['not here'] * len(COMMANDS))} |"


def _saved(program: Program, folder: Path) -> Optional[Path]:
    """None where it is not installed."""
    core = folder / "saved.core"
    try:
        running = program.start(folder)
    except (OSError, subprocess.CalledProcessError, pytest.skip.Exception) as reason:
        print(f"{program.name}: {reason}", file=sys.stderr)
        return None
    try:
        program.load(running)
        os.kill(running.pid, signal.SIGSTOP)
        subprocess.run([*ARENASCOPE, "save", str(core), str(running.pid)], check=True, env=WITH_US, **QUIET)
        os.kill(running.pid, signal.SIGCONT)
    finally:
        running.end()
    return core


def _looked(words: Sequence[str]) -> Looked:
    """What a terminal of 100 columns sees."""
    began = time.monotonic()
    pid, terminal = pty.fork()
    if not pid:
        os.execve(words[0], [*words], WITH_US)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 24, 100, 0, 0))
    first = None
    try:
        while os.read(terminal, 1 << 16):
            first = time.monotonic() - began if first is None else first
    except OSError:
        pass  # the other end is closed
    _, _, use = os.wait4(pid, 0)
    os.close(terminal)
    return Looked(use.ru_utime + use.ru_stime, first if first is not None else time.monotonic() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    every = {each.name: each for each in (*PROGRAMS, *SINGLE)}
    parser.add_argument("program", nargs="*", choices=[*every, []], metavar="PROGRAM")
    slow = False
    for line in table([every[each] for each in parser.parse_args().program or every]):
        print(line, flush=True)
        slow |= "!" in line
    sys.exit(slow)


if __name__ == "__main__":
    main()
