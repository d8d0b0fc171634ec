"""Reads processes on other hosts. Each host is given by a command that runs another command there, as `ssh HOST` does.

`VIA sh` is started. That shell becomes a Python, which reads this package, packed as one archive, from standard input
into memory. run() answers there, and leaves nothing. It ends when its standard input does.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import select
import shlex
import sys
import time
import zipfile
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from signal import SIGINT
from types import MappingProxyType
from typing import AsyncIterator, Iterator, Mapping, NamedTuple, Optional, Sequence

from ... import engine
from ...analysis.compare_snapshots import JsonObject
from ...base import background
from ...base.argv import pid_in
from ...base.errors import NoEngineError, UsageError
from ...base.printable import one_line
from ...sources.live.processes_by_name import processes_called
from ..several_subjects import document, failed
from ..shell import How

MAIN = """\
import sys

if sys.version_info < (3, 9):
    sys.exit("arenascope: needs Python 3.9 or newer, and this is {}.{}".format(*sys.version_info))

from arenascope.__main__ import run

run()
"""
"""Any Python can compile this, even 2.7."""
OLDEST_DATE = 315532800
"""1980, in seconds since 1970: zip has no earlier dates."""


def archived(date: int = OLDEST_DATE, more: Mapping[str, bytes] = MappingProxyType({})) -> bytes:
    """The archive. The same files give the same bytes. A running zipapp returns itself. `more`: files to add."""
    package = Path(__file__).resolve().parents[2]
    if not package.is_dir():
        return package.parent.read_bytes()
    files = {
        path.relative_to(package.parent).as_posix(): path.read_bytes()
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.name != engine.NAME
    }
    with suppress(NoEngineError):
        files[engine.in_archive(os.uname().machine)] = Path(engine.find_engine()).read_bytes()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in sorted({**files, **more, "__main__.py": MAIN.encode()}.items()):
            entry = zipfile.ZipInfo(name, time.gmtime(max(OLDEST_DATE, date))[:6])
            entry.create_system, entry.external_attr = 3, 0o100644 << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
    return packed.getvalue()


WITHOUT_TYPES = How(declared=False)

READY, END = "arenascope is ready", "arenascope has ended"
"""Lines before and after the answers: a shell may print something of its own when it starts."""
START = f"""\
import os, sys
if sys.version_info < (3, 9):
    sys.exit("needs Python 3.9 or newer, and this is {{}}.{{}}".format(*sys.version_info))
sys.stdout.write("{READY}\\n")
sys.stdout.flush()
archive = os.memfd_create("arenascope")
os.fchmod(archive, 0o700)
size, task = sys.stdin.buffer.readline().split(b" ", 1)
with open(archive, "wb", closefd=False) as file:
    file.write(sys.stdin.buffer.read(int(size)))
sys.path.insert(0, "/proc/%d/fd/%d" % (os.getpid(), archive))
from {__name__} import run
run(task)
"""
"""Code for `python3 -c` on the other host. It prints READY, then reads the archive from standard input into memory. Any
Python 3 can compile it."""


def run(task: bytes) -> None:
    """Answers for one host. `task`: JSON of the program's name, the command, the seconds that it may take, and the
    words that name subjects."""
    program, command, seconds, words = json.loads(task)
    background.start(partial(_end_with_input, seconds))
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # if memory runs out, the kernel is to kill this process first
    for subject in _subjects(words):
        if pid_in(subject) is None and os.sep not in subject:
            answer = failed(subject, command, f"there is no process {subject!r}")
        else:
            answer = document(subject, command, program, how=WITHOUT_TYPES)
        _say(json.dumps(answer))
    _say(END)


def _subjects(words: Sequence[str]) -> Iterator[str]:
    """The subjects; a name stands for all processes of that name."""
    for word in dict.fromkeys(words):
        called = [] if pid_in(word) or os.sep in word else processes_called(word)
        yield from [str(each.pid) for each in called] or [word]


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _end_with_input(seconds: float) -> None:
    """Exits when standard input ends (the asker is gone) or after so many seconds. Exiting releases a held process."""
    # nothing more is sent: if input becomes readable, it is the end
    select.select([0], [], [], seconds)
    os._exit(1)


AT_ONCE = 32
LARGEST = 16 << 20
"""The most bytes that a host may answer."""
MOST = 10_000
"""The most lines that a host may answer: one per process."""
PIECE = 1 << 16
LONGEST = 300
"""The longest complaint, in bytes, that is passed on."""
GRACE = 2.0
"""Seconds for a command to end by itself after its standard input ended."""
Stopped = asyncio.Future[Optional[str]]


class HostTask(NamedTuple):
    """The task that every host gets."""

    command: str
    program: str
    """The command shown in next steps: the user's, not the other host's."""
    words: Sequence[str]
    seconds: float
    """For one host."""

    def packed(self) -> bytes:
        archive = archived()
        task = json.dumps([self.program, self.command, self.seconds, list(self.words)])
        # the archive's size, the task, and the archive
        return f"{len(archive)} {task}\n".encode() + archive


def split(via: str) -> list[str]:
    try:
        words = shlex.split(via)
    except ValueError as error:
        raise UsageError(f"--via {via!r}: {error}") from error
    if not words:
        raise UsageError("--via names no command", "--via 'ssh HOST'")
    return words


def looks(vias: Sequence[str], asked: HostTask) -> Iterator[list[JsonObject]]:
    """Yields each host's documents when they are ready. All commands have ended when this ends."""
    packed, loop = asked.packed(), asyncio.new_event_loop()
    left = iter(vias)
    going: set[asyncio.Future[list[JsonObject]]] = set()
    # a flag, as both KeyboardInterrupt and asyncio's cancelling could lose a command that is just being started
    stopped: Stopped = loop.create_future()

    def stop() -> None:
        if not stopped.done():
            stopped.set_result(None)

    loop.add_signal_handler(SIGINT, stop)
    try:
        while True:
            for via in islice(left, AT_ONCE - len(going)):
                going.add(loop.create_task(_at(via, packed, asked, stopped=stopped)))
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


async def _at(via: str, packed: bytes, asked: HostTask, *, stopped: Stopped) -> list[JsonObject]:
    found: list[JsonObject] = []
    try:
        process = await asyncio.create_subprocess_exec(*split(via), "sh", stdin=PIPE, stdout=PIPE, stderr=PIPE)
    except OSError as error:
        return [failed(via, asked.command, f"cannot be started: {error.strerror}")]
    last_line = asyncio.ensure_future(_last_line(process))
    talk: Stopped = asyncio.ensure_future(_talk(process, _Answers(via, asked.words), packed, found))
    await asyncio.wait({talk, stopped}, timeout=asked.seconds, return_when=asyncio.FIRST_COMPLETED)
    why: Optional[str] = f"no answer within {asked.seconds:g} s"
    is_complained = True
    try:
        if talk.done():
            why = talk.result()
    except OSError as error:
        why = str(error)
    except ValueError as error:
        # the host's own complaint cannot be trusted either
        why, is_complained = str(error), False
    finally:
        await _end(process)
    if why is not None:
        await asyncio.wait({last_line}, timeout=GRACE)
        complaint = last_line.result() if is_complained and last_line.done() else ""
        found.append(failed(via, asked.command, complaint or why))
    talk.cancel()
    last_line.cancel()
    await asyncio.gather(talk, last_line, return_exceptions=True)
    return found


async def _talk(process: Process, answers: _Answers, packed: bytes, found: list[JsonObject]) -> Optional[str]:
    """Adds the documents to `found`; returns what went wrong with the host as a whole. ValueError if an answer does not
    fit the task: the host may be hostile."""
    assert process.stdin is not None
    assert process.stdout is not None
    lines = _lines(process.stdout)
    process.stdin.write(f"exec python3 -I -c {shlex.quote(START)}\n".encode())
    # a shell may print something of its own first
    async for line in lines:
        if line.decode(errors="replace").rstrip() == READY:
            break
    else:
        return f"no Python answers (status {await process.wait()})"
    process.stdin.write(packed)
    async for line in lines:
        if line.decode(errors="replace").rstrip() == END:
            return None
        found.append(answers.document(line))
    return f"it ended before it had answered (status {await process.wait()})"


async def _lines(stream: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Lines of the answer. ValueError if they have more than LARGEST bytes or MOST lines."""
    left, lines, rest = LARGEST, 0, bytearray()
    while piece := await stream.read(PIECE):
        left -= len(piece)
        if left < 0:
            raise ValueError(f"it answers with more than {LARGEST >> 20} MiB")
        lines += piece.count(b"\n")
        if lines > MOST:
            raise ValueError(f"it answers with more than {MOST:,} lines")
        *ends, start = piece.split(b"\n")
        for end in ends:
            yield bytes(rest + end)
            rest.clear()
        rest += start
    if rest:
        yield bytes(rest)


async def _last_line(process: Process) -> str:
    """The last line on the command's standard error."""
    assert process.stderr is not None
    last = b""
    while some := await process.stderr.read(PIECE):
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


class _Answers:
    """Checks one host's answers: one document for each pid or path asked for, one for each process of a name."""

    def __init__(self, via: str, words: Sequence[str]) -> None:
        self._via, self._words = via, {*words}
        self._called = {word for word in words if pid_in(word) is None and os.sep not in word}
        self._answered: set[str] = set()

    def document(self, line: bytes) -> JsonObject:
        """The document in a line. ValueError if it is no document, or answers no question."""
        try:
            answer = json.loads(line)
            subject = answer["subject"]
            sound = _is_sound(answer)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            sound = False
        if not sound:
            raise ValueError("its answer is none of arenascope's")
        self._check(subject)
        name = one_line(f"{self._via}: {subject}")
        return {**answer, "subject": name, **({"error": one_line(answer["error"])} if answer.get("error") else {})}

    def _check(self, subject: str) -> None:
        is_process = bool(self._called) and pid_in(subject) is not None
        if subject in self._answered:
            raise ValueError(f"it answers twice for {one_line(subject)}")
        if subject not in self._words and not is_process:
            raise ValueError(f"it answers for {one_line(subject)}, which was not asked for")
        self._answered.add(subject)


def _is_sound(answer: JsonObject) -> bool:
    """Whether the parts that are shown and compared have the form of a report, or are missing."""
    # refuse what other programs could not read, such as NaN
    json.dumps(answer, ensure_ascii=False, allow_nan=False).encode()
    target, glibc = answer.get("target") or {}, answer.get("glibc") or {}
    parts, causes = answer.get("parts") or [], answer["causes"] if answer.get("parts") else []
    texts = [glibc.get("version"), *(answer.get(name) for name in ("error", "verdict", "measure"))]
    told = [answer["subject"], *(each[name] for each in parts for name in ("part", "label"))]
    told += [each["cause"] for each in causes]
    numbers = [target.get("pid"), answer["rss_bytes"] if parts else None]
    return (
        all(isinstance(each, str) for each in told)
        and all(each is None or isinstance(each, str) for each in texts)
        and all(each is None or _is_number(each) for each in numbers)
        and all(_is_number(each["bytes"]) for each in parts)
        and isinstance(answer.get("complete", False), bool)
        and isinstance(causes, list)
        and (not parts or "measure" in answer)
    )


def _is_number(value: object) -> bool:
    return type(value) is int and abs(value) < 1 << 63
