"""What it costs to name blocks by debug information: to read that, to follow types from block to block, and whole
commands through each door.

    python3 benchmarks/names.py                a C++ server of a million blocks, a C daemon of as many, redis
    python3 benchmarks/names.py --thousands 100 --rounds 3

redis is built from its distribution's source, as for the tests; where that cannot be had its row says so.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, Callable, Iterator, NamedTuple, Optional, Sequence

from cost import Cost, cost_of, least, own_memory
from subject import ARENASCOPE, PROGRAMS, QUIET, ROOT, WITH_US, parked

SERVER, DAEMON, REDIS = "C++ server", "C daemon", "redis, with its rules"
FOLLOWED = {SERVER: 1.0, DAEMON: 1.0, REDIS: 2.0}
"""Goals in microseconds for each block."""
READ, MEBIBYTES, BYTES, WHOLE = 0.1, 20, 80, 2.5
"""Goals: seconds and memory to read redis's debug information, bytes a block at the peak, seconds a command."""
DECLARED = "types --declared"


class Named(NamedTuple):
    """What one look took, in seconds of the processor and in bytes."""

    read: float
    read_memory: int
    followed: float
    followed_memory: int
    blocks: int
    named: int


def look(core: str) -> Named:
    """In this process, which does nothing else."""
    from arenascope.cli.main import main as shell
    from arenascope.engine import EngineTypes, TracedBlocks

    took: dict[str, tuple[float, int]] = {}
    seen: list[Any] = []
    with measured(EngineTypes, took), measured(TracedBlocks, took, seen.append), redirect_stdout(io.StringIO()):
        shell([*DECLARED.split(), core, "--limit", "1"])
    names = seen[0].name
    return Named(*took["EngineTypes"], *took["TracedBlocks"], len(names), sum(each >= 0 for each in names))


@contextmanager
def measured(
    what: type[Any], took: dict[str, tuple[float, int]], made: Callable[[Any], None] = lambda made: None
) -> Iterator[None]:
    """What it takes to make one of these."""
    make = what.__init__

    def timed(self: Any, *given: Any) -> None:
        memory, begun = own_memory(os.getpid()), time.process_time()
        make(self, *given)
        took[what.__name__] = time.process_time() - begun, own_memory(os.getpid()) - memory
        made(self)

    what.__init__ = timed
    try:
        yield
    finally:
        what.__init__ = make


def looked(core: Path, rounds: int) -> Named:
    """The least of some rounds, each in a process of its own."""
    words = [sys.executable, __file__, "--look", str(core)]
    found = [Named(*json.loads(subprocess.check_output(words, env=WITH_US))) for _ in range(rounds)]
    return Named(*map(min, zip(*found)))


@contextmanager
def saved(pid: int, folder: Path) -> Iterator[Path]:
    core = folder / "core"
    words = [*ARENASCOPE, "save", str(pid), str(core), "--hold-at-most", "120000"]
    subprocess.run(words, check=True, env=WITH_US, **QUIET)
    try:
        yield core
    finally:
        core.unlink()


def row(name: str, pid: int, folder: Path, rounds: int) -> str:
    with saved(pid, folder) as core:
        each, whole = looked(core, rounds), least(str(core), DECLARED, rounds)
    goals = (f"{READ} s", f"{MEBIBYTES} MiB") if name is REDIS else ("", "")
    return (
        f"| {name} | {each.blocks:,} | {each.named / each.blocks:.1%} | {each.followed / each.blocks * 1e6:.2f} "
        f"| {FOLLOWED[name]} | {each.read:.2f} s | {goals[0]} | {each.read_memory / (1 << 20):.0f} MiB | {goals[1]} "
        f"| {each.followed_memory / each.blocks:.0f} | {whole.memory / each.blocks:.0f} | {BYTES} |"
    )


def doors(pid: int) -> Iterator[tuple[str, Sequence[str]]]:
    """The same command through each that is installed."""
    yield "the shell", [*ARENASCOPE, *DECLARED.split(), str(pid), "--hold-at-most", "120000"]
    own = ["-iex", "set debuginfod enabled off", "-iex", "set auto-load off", "-p", str(pid)]
    yield "GDB", ["gdb", "-nx", "-q", "-batch", *own, "-ex", f"source {ROOT / 'gdb' / 'arena.py'}", "-ex", "heap types"]
    lldb = max(Path("/usr/bin").glob("lldb-[0-9][0-9]"), default=None)
    if lldb is not None:
        door = f"command script import {ROOT / 'lldb' / 'arena.py'}"
        yield f"LLDB {lldb.name[5:]}", [str(lldb), "-x", "-b", "-p", str(pid), "-o", door, "-o", "heap types"]


def whole_commands(pid: int, rounds: int) -> Iterator[str]:
    for door, words in doors(pid):
        if shutil.which(words[0]):
            costs: list[Cost] = [cost_of(words) for _ in range(rounds)]
            seconds, processor = min(each.seconds for each in costs), min(each.processor for each in costs)
            yield f"| {door} | {seconds:.1f} s | {processor:.1f} s | {WHOLE} s |"


def filled_redis(folder: Path, thousands: int) -> Optional[Any]:
    """A redis with every kind of value, some 30 blocks for each key of each kind; None where it is not to be had."""
    sys.path[:0] = [str(ROOT / "tests" / each) for each in ("declared", "programs", "debuggers", "unit", "images")]
    import pytest
    import redis_source
    from programs import answer, redis_says
    from running import Running

    try:
        program = redis_source.built()
    except pytest.skip.Exception as reason:
        sys.stderr.write(f"{reason}\n")
        return None
    words = ["--port", "0", "--unixsocket", folder / "socket", "--save", "", "--hz", "1", "--activerehashing", "no"]
    running = Running(folder, [program, *words])
    running.await_that((folder / "socket").exists, "it does not listen")
    # of all connections this one alone writes and reads
    with redis_says(running) as connection:
        for command in redis_source.every_kind(thousands * 1000 // 30):
            answer(connection, *command)
    return running


def table(thousands: int, rounds: int) -> Iterator[str]:
    yield (
        "| of its core | blocks | named | µs a block to follow types | goal | to read debug information | goal "
        "| memory for that | goal | bytes a block for names | in all | goal |"
    )
    yield "| --- |" + " --- |" * 11
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as name:
        folder = Path(name)
        server = [str(PROGRAMS / "declared" / "server.O2"), str(thousands * 100), "2000"]
        with parked(server) as process:
            yield row(SERVER, process.pid, folder, rounds)
            whole = [*whole_commands(process.pid, rounds)]
        with parked([str(PROGRAMS / "declared" / "daemon.O2"), str(thousands * 40), "closed"]) as process:
            yield row(DAEMON, process.pid, folder, rounds)
        redis = filled_redis(folder, thousands)
        if redis is not None:
            try:
                yield row(REDIS, redis.pid, folder, rounds)
            finally:
                redis.end()
    yield from ("", "`types` of the C++ server as it runs:", "", "| door | whole command | of processors | goal |")
    yield "| --- | --- | --- | --- |"
    yield from whole


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--thousands", type=int, default=1000, help="of blocks, about")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--look", metavar="CORE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.look:
        print(json.dumps(look(options.look)))
        return
    for line in table(options.thousands, options.rounds):
        print(line, flush=True)


if __name__ == "__main__":
    main()
