"""Other hosts as a source of documents: each is a command that runs another one there, as `ssh HOST` does.

`VIA sh` is started. That shell gives way to a Python, which reads this package from its standard input into memory
(on_host.py has both ends of what is said). It ends when its standard input does.
"""

from __future__ import annotations

import asyncio
import json
import shlex
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from datetime import datetime, timezone
from itertools import islice
from signal import SIGINT
from typing import Iterator, NamedTuple, Optional, Sequence

from ...base.errors import UsageError
from ...base.printable import one_line
from ..several_subjects import row
from .engine_errors import LONGEST
from .on_host import END, READY, START
from .package_archive import archived
from .which_cores import Core
from .worker import Result, Task

AT_ONCE = 32
LARGEST = 1 << 26
"""Bytes of one answer."""
GRACE = 2.0
"""Seconds for a command to end by itself once its standard input has."""
NUMBERS = ("pid", "rss_bytes")
Looked = tuple[Core, Result]
Stopped = asyncio.Future[Optional[str]]


class Asked(NamedTuple):
    """The same on each host."""

    task: Task
    words: Sequence[str]
    seconds: float
    """For one host."""

    def packed(self) -> bytes:
        archive = archived()
        task = json.dumps([self.task.program, self.task.command, self.seconds, list(self.words)])
        # the number, what is done, and the archive of so many bytes
        return f"{len(archive)} {task}\n".encode() + archive


def split(via: str) -> list[str]:
    try:
        words = shlex.split(via)
    except ValueError as error:
        raise UsageError(f"--via {via!r}: {error}") from error
    if not words:
        raise UsageError("--via names no command", "--via 'ssh HOST'")
    return words


def looks(vias: Sequence[str], asked: Asked) -> Iterator[list[Looked]]:
    """Of each host all that was looked at there, as it is ready. No command runs on when this is left."""
    packed, loop = asked.packed(), asyncio.new_event_loop()
    left = iter(vias)
    going: set[asyncio.Future[list[Looked]]] = set()
    # neither an exception at any moment nor asyncio's own cancelling: either could lose a command that is being started
    stopped: Stopped = loop.create_future()

    def stop() -> None:
        if not stopped.done():
            stopped.set_result(None)

    loop.add_signal_handler(SIGINT, stop)
    try:
        while True:
            for via in islice(left, AT_ONCE - len(going)):
                going.add(loop.create_task(_at(via, packed, asked.seconds, stopped=stopped)))
            if not going:
                return
            done, going = loop.run_until_complete(asyncio.wait(going, return_when=asyncio.FIRST_COMPLETED))
            if stopped.done():
                raise KeyboardInterrupt
            for each in done:
                yield each.result()
    finally:
        stop()
        if going:
            loop.run_until_complete(asyncio.wait(going))
        loop.close()


async def _at(via: str, packed: bytes, seconds: float, *, stopped: Stopped) -> list[Looked]:
    found: list[Looked] = []
    try:
        process = await asyncio.create_subprocess_exec(
            *split(via), "sh", stdin=PIPE, stdout=PIPE, stderr=PIPE, limit=LARGEST
        )
    except OSError as error:
        return [_failed(via, f"cannot be started: {error.strerror}")]
    last_line = asyncio.ensure_future(_last_line(process))
    talk: Stopped = asyncio.ensure_future(_talk(process, via, packed, found))
    await asyncio.wait({talk, stopped}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    why: Optional[str] = f"no answer within {seconds:g} s"
    try:
        if talk.done():
            why = talk.result()
    except (OSError, ValueError) as error:
        why = str(error)
    finally:
        await _end(process)
    if why is not None:
        await asyncio.wait({last_line}, timeout=GRACE)
        found.append(_failed(via, (last_line.result() if last_line.done() else "") or why))
    talk.cancel()
    last_line.cancel()
    await asyncio.gather(talk, last_line, return_exceptions=True)
    return found


async def _talk(process: Process, via: str, packed: bytes, found: list[Looked]) -> Optional[str]:
    """What went wrong, of the host as a whole."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"exec python3 -I -c {shlex.quote(START)}\n".encode())
    if not await _reads(process.stdout, READY):
        return f"no Python answers (status {await process.wait()})"
    process.stdin.write(packed)
    while line := await process.stdout.readline():
        if line.decode(errors="replace").rstrip() == END:
            return None
        found.append(_looked(via, line))
    return f"it ended before it had answered (status {await process.wait()})"


async def _reads(stream: asyncio.StreamReader, awaited: str) -> bool:
    """Past whatever a shell says before."""
    while line := await stream.readline():
        if line.decode(errors="replace").rstrip() == awaited:
            return True
    return False


async def _last_line(process: Process) -> str:
    """Of its complaints."""
    assert process.stderr is not None
    last = b""
    while some := await process.stderr.read(LARGEST):
        last = (last + some)[-LONGEST:]
    return one_line((last.decode(errors="replace").strip().splitlines() or [""])[-1])


async def _end(process: Process) -> None:
    assert process.stdin is not None
    process.stdin.close()
    for stop in (process.terminate, process.kill, None):
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(process.wait(), GRACE)
            return
        with suppress(ProcessLookupError, PermissionError):
            if stop is not None:
                stop()


def _failed(via: str, why: str) -> Looked:
    return _core(via), Result(None, why, lost=True)


def _core(url: str) -> Core:
    """A process is another one at each moment."""
    return Core(url, 0, datetime.now(timezone.utc).isoformat())


def _looked(via: str, line: bytes) -> Looked:
    """ValueError where it is not what on_host says: whoever answers there may be anybody."""
    try:
        host, subject, seconds, document = json.loads(line)
        core = _core(one_line(f"{via}: {subject}"))
        told = {**document, "subject": core.url}
        flat = row(told)
        error = told.get("error")
        texts = (host, subject, error or "", flat["verdict"] or "", flat["glibc"] or "")
        numbers = (value for name, value in flat.items() if name in NUMBERS or name.endswith("_bytes"))
        sound = (
            all(isinstance(each, str) for each in texts)
            and all(each is None or (isinstance(each, int) and abs(each) < 1 << 63) for each in numbers)
            and isinstance(flat["complete"], bool)
        )
        result = Result(told, error and one_line(error), seconds=float(seconds), host=one_line(host))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        sound = False
    if not sound:
        raise ValueError("its answer is none of arenascope's")
    return core, result
