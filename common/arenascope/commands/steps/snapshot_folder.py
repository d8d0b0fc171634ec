"""Folders of snapshots: `watch --save` fills one and thins out old snapshots, `trend` reads it."""

from __future__ import annotations

import calendar
import os
import re
import time
from contextlib import suppress
from typing import Iterator, NamedTuple, Sequence

from ...analysis.diff import Document
from ...base.errors import ArenascopeError, UsageError
from .snapshot_file import looks_like_one, read, write

MAX_FILES = 100_000
"""A folder with more files is not read: it is no folder of snapshots."""
_NAME = re.compile(r"(\d{1,10})-(\d{1,20})-(\d{8}T\d{6}\.\d{3})Z\.json\.gz")
HINT = "fill one with: arenascope watch PID --save FOLDER"


class WatchSnapshot(NamedTuple):
    """A snapshot that `watch` wrote, as its name describes it."""

    file: str
    process: tuple[int, int]
    """The pid, and when the process was started."""
    taken: float


def save(folder: str, document: Document, process: tuple[int, int]) -> str:
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
        named = _NAME.fullmatch(file)
        if named:
            date, part = named[3].split(".")
            with suppress(ValueError):
                seconds = calendar.timegm(time.strptime(date, "%Y%m%dT%H%M%S"))
                yield WatchSnapshot(file, (int(named[1]), int(named[2])), seconds + int(part) / 1000)


def read_all(folder: str) -> tuple[list[Document], list[str]]:
    """All snapshots in the folder, whatever their names, and errors of those that cannot be read."""
    documents: list[Document] = []
    wrong = []
    for file in sorted(_files(folder)):
        path = os.path.join(folder, file)
        if not _NAME.fullmatch(file) and not looks_like_one(path):
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
