"""Snapshot files: figures of one moment as JSON, without a byte of the blocks' contents.

Later releases read what earlier ones wrote: a missing key means not known. Files may come from anywhere, so reading is
bounded, and the shape is checked.
"""

from __future__ import annotations

import calendar
import gzip
import io
import json
import os
import re
import stat
import time
import zlib
from contextlib import suppress
from typing import Annotated, Any, Iterator, Mapping, NamedTuple, Optional, Sequence

from ...analysis.compare_snapshots import JsonObject
from ...base.argv import is_elf
from ...base.errors import ArenascopeError, UsageError
from ...base.whole_file import write_whole
from .record import Record, Size

FORMAT = 1
NAME = "arenascope_snapshot"
GZIP = b"\x1f\x8b"
LONGEST = 16 << 20
"""The largest unpacked size. A process with a thousand arenas takes a tenth of it."""
NUMBER_LIMIT = 1 << 64
LATEST = 253402214400
"""The end of the year 9999 in every time zone: there is no later date to show."""

# the types that figures, names and rows must have if present; other keys are allowed
_BYTES, _NAME, _FLAG, _TIME, _COUNT = "a number of bytes", "a name", "true or false", "a time", "a number"
_SHAPE: Mapping[str, Any] = {
    "taken": _TIME,
    "target": {"pid": _COUNT, "started": _COUNT, "name": _NAME},
    "limit": {"path": _NAME, "bytes": _BYTES, "used": _BYTES},
    "problems": [_NAME],
    "report": {"rss_bytes": _BYTES, "parts": [{"part": _NAME, "bytes": _BYTES}]},
    "arenas": {"arenas": [{"address": _NAME, "main": _FLAG, "system_bytes": _BYTES, "used_bytes": _BYTES}]},
    "bins": {"bins": [{"kind": _NAME, "min_bytes": _BYTES, "max_bytes": _BYTES, "bytes": _BYTES}]},
    "chunks": {"sizes": [{"min_bytes": _BYTES, "max_bytes": _BYTES, "used_bytes": _BYTES}]},
    "types": {"types": [{"type": _NAME, "bytes": _BYTES, "held_by": {"kind": _NAME, "name": _NAME, "bytes": _BYTES}}]},
    "containers": {"containers": [{"path": _NAME, "type": _NAME, "elements": _COUNT, "held_bytes": _BYTES}]},
    "owners": {"owners": [{"kind": _NAME, "name": _NAME, "retained_bytes": _BYTES}]},
}
_NEEDED = {"part", "type", "address", "kind", "min_bytes", "bytes", "retained_bytes", "path", "elements"}
"""Keys that a row must have."""


class SnapshotTarget(Record):
    """The process or core of the snapshot."""

    kind: Annotated[str, ("enum", ("live", "core"))]
    """A process, or a core."""
    pid: Optional[int]
    """Its pid."""
    started: Size = 0
    """When it was started, in the kernel's ticks; of those that watch keeps."""
    name: str = ""
    """Its name, as the kernel has it; likewise."""


class SnapshotLimit(Record):
    """The memory limit of the process's control group."""

    path: str
    """The file that says so."""
    bytes: Size
    """So much."""
    used: Optional[Size]
    """What counts against it and cannot be dropped."""


class SnapshotFile(Record):
    """The figures of one moment, without any contents of blocks."""

    arenascope_snapshot: Annotated[int, ("enum", (1,))]
    """The form of this file."""
    arenascope: str
    """The version that wrote it."""
    taken: Optional[float]
    """When, in seconds since 1970; null: a core."""
    target: SnapshotTarget
    limit: Optional[SnapshotLimit] = None
    """What its control group lets it have; null: nothing limits it; of those that watch keeps."""
    glibc: Optional[str]
    """Its release."""


def write(path: str, document: JsonObject) -> int:
    """Writes the file completely or not at all; returns its size. A name that ends in .gz is compressed."""
    if os.path.isfile(path) and is_elf(path):
        raise UsageError(f"{path} is a core or a program, and would be overwritten", "name another file")
    data = json.dumps({NAME: FORMAT, **document}, ensure_ascii=False, separators=(",", ":")).encode()
    if path.endswith(".gz"):
        data = gzip.compress(data)
    write_whole(path, data)
    return len(data)


def read(path: str) -> JsonObject:
    try:
        data = _read_file(path)
        if data.startswith(GZIP):
            with gzip.open(io.BytesIO(data)) as unpacked:
                data = unpacked.read(LONGEST + 1)
        if len(data) > LONGEST:
            raise UsageError(f"{path} is no snapshot: none is larger than {LONGEST >> 20} MiB")
        document = json.loads(data)
    except RecursionError:
        raise UsageError(f"{path} is no snapshot: it is nested too deep", "make one with: snapshot FILE") from None
    except (ValueError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UsageError(f"{path} is no snapshot: {error}", "make one with: snapshot FILE") from error
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
    form = document.get(NAME) if isinstance(document, dict) else None
    if not isinstance(form, int):
        raise UsageError(f"{path} is no snapshot", "make one with: snapshot FILE")
    if form > FORMAT:
        raise UsageError(f"{path} was written by a newer arenascope (format {str(form)[:20]})", "update arenascope")
    wrong = _misfit(document, _SHAPE, "")
    if wrong:
        raise UsageError(f"{path} is damaged: {wrong}", "make one with: snapshot FILE")
    return dict(document)


def _read_file(path: str) -> bytes:
    """Reads one byte more than a snapshot can have. Refuses FIFOs and devices, which may block or never end."""
    with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if not stat.S_ISREG(mode):
            raise UsageError(f"{path} is not a regular file")
        return file.read(LONGEST + 1)


def _misfit(value: Any, shape: Any, where: str) -> str:
    """The first thing that is wrong in a value; "" if nothing is."""
    if value is None:
        return ""
    if isinstance(shape, str):
        return "" if _is(value, shape) else f"{where} is not {shape}"
    if isinstance(shape, list):
        if not isinstance(value, list):
            return f"{where} is not a list"
        rows = ((each, f"{where}[{index}]") for index, each in enumerate(value))
        return next(
            filter(
                None, (_misfit(each, shape[0], name) if each is not None else f"{name} is null" for each, name in rows)
            ),
            "",
        )
    if not isinstance(value, dict):
        return f"{where} is not an object"
    if where.endswith("]"):
        lacking = [key for key in shape if key in _NEEDED and value.get(key) is None]
        if lacking:
            return f"{where} has no {lacking[0]}"
    inside = (_misfit(value.get(key), each, f"{where}.{key}".strip(".")) for key, each in shape.items())
    return next(filter(None, inside), "")


def _is(value: Any, kind: str) -> bool:
    if kind == _NAME:
        return isinstance(value, str)
    if kind == _FLAG:
        return isinstance(value, bool)
    if isinstance(value, bool) or not isinstance(value, (int, float) if kind == _TIME else int):
        return False
    # NaN fails every comparison
    if kind == _TIME:
        return 0 <= value < LATEST
    return abs(value) < NUMBER_LIMIT


def looks_like_one(path: str) -> bool:
    """Whether the file begins like a snapshot: a core may be given by mistake."""
    try:
        if not os.path.isfile(path):
            return False
        with open(path, "rb") as file:
            start = file.read(64)
            if start.startswith(GZIP):
                file.seek(0)
                with gzip.open(file) as unpacked:
                    start = unpacked.read(64)
    except (OSError, EOFError, zlib.error):
        return False
    return start.startswith(f'{{"{NAME}"'.encode())


MAX_FILES = 100_000
"""A folder with more files is not read: it is no folder of snapshots."""
_STAMPED = re.compile(r"(\d{1,10})-(\d{1,20})-(\d{8}T\d{6}\.\d{3})Z\.json\.gz")
HINT = "fill one with: arenascope watch PID --save FOLDER"


class WatchSnapshot(NamedTuple):
    """A snapshot that `watch` wrote, as its name describes it."""

    file: str
    process: tuple[int, int]
    """The pid, and when the process was started."""
    taken: float


def save(folder: str, document: JsonObject, process: tuple[int, int]) -> str:
    taken = float(document["taken"])
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(taken)) + f".{int(taken % 1 * 1000):03d}"
    path = os.path.join(folder, f"{process[0]}-{process[1]}-{stamp}Z.json.gz")
    write(path, document)
    return path


def make(folder: str) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot save into {folder}: {error.strerror or error}") from error


def thin(folder: str, process: tuple[int, int], at_most: int) -> None:
    """Leaves at most so many snapshots of a process. Old ones become rarer; the first and the last stay."""
    mine = sorted((each for each in _kept(folder) if each.process == process), key=lambda each: each.taken)
    while len(mine) > max(at_most, 2):
        gone = mine.pop(_least_missed([each.taken for each in mine]))
        # another process may have removed it
        with suppress(OSError):
            os.unlink(os.path.join(folder, gone.file))


def _least_missed(times: Sequence[float]) -> int:
    """The snapshot whose removal leaves the smallest gap, relative to the gap's age."""
    now = times[-1]

    def gap(index: int) -> float:
        return (times[index + 1] - times[index - 1]) / (now - times[index - 1])

    return min(range(1, len(times) - 1), key=gap)


def _kept(folder: str) -> Iterator[WatchSnapshot]:
    for file in _files(folder):
        named = _STAMPED.fullmatch(file)
        if named:
            date, part = named[3].split(".")
            with suppress(ValueError):
                seconds = calendar.timegm(time.strptime(date, "%Y%m%dT%H%M%S"))
                yield WatchSnapshot(file, (int(named[1]), int(named[2])), seconds + int(part) / 1000)


def read_all(folder: str) -> tuple[list[JsonObject], list[str]]:
    """All snapshots in the folder, whatever their names, and errors of those that cannot be read."""
    documents: list[JsonObject] = []
    wrong = []
    for file in sorted(_files(folder)):
        path = os.path.join(folder, file)
        if not _STAMPED.fullmatch(file) and not looks_like_one(path):
            continue
        try:
            documents.append(read(path))
        except ArenascopeError as error:
            wrong.append(error.message)
    if not documents:
        raise UsageError(wrong[0] if wrong else f"there is no snapshot in {folder}", HINT)
    return documents, wrong


def _files(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry, _ in zip(entries, range(MAX_FILES + 1))]
    except OSError as error:
        raise UsageError(f"cannot read {folder}: {error.strerror or error}", HINT) from error
    if len(names) > MAX_FILES:
        raise UsageError(f"{folder} holds more than {MAX_FILES:,} files", "name a folder of snapshots")
    return names
