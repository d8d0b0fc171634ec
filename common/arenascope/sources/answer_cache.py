"""What a GDB was asked of files of certain build-ids, and answered: kept for the next look at the same program.

Numbers of types hold for one GDB. As it gives them in the order of the questions, another that is asked the same in the
same order has the same: so all questions are kept, in order. The folder and the files are the user's alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from contextlib import suppress
from typing import NamedTuple, Optional, Sequence

from ..base.about import __version__
from ..base.errors import ArenascopeError
from ..base.whole_file import write_whole
from .gdb_answers import as_list

LARGEST = 16 << 20
MOST_FILES = 50
"""The oldest are removed."""
OTHERS = stat.S_IRWXG | stat.S_IRWXO


class Entry(NamedTuple):
    """A question and its answer; addresses are within their modules."""

    kind: str
    about: object
    answer: object


def key_of(kind: str, about: object) -> tuple[str, object]:
    """Of a question."""
    return kind, tuple(about) if isinstance(about, list) else about


def is_same(entry: Entry, other: Entry) -> bool:
    if entry.kind != "variables":
        return entry == other
    # how far a variable reaches depends on what was asked, where an array ends it
    rows = [[as_list(row)[:3] for row in as_list(each.answer or [])] for each in (entry, other)]
    return rows[0] == rows[1]


def folder() -> Optional[str]:
    """$XDG_CACHE_HOME/arenascope; None where it is not the user's alone."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.expanduser("~/.cache")
    path = os.path.join(base, "arenascope", "types")
    if not os.path.isabs(path):
        return None
    with suppress(OSError):
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        with suppress(FileExistsError):
            os.mkdir(path, 0o700)
        return path if _is_own(os.lstat(path)) and os.path.isdir(path) else None
    return None


def _is_own(status: os.stat_result) -> bool:
    return status.st_uid == os.geteuid() and not status.st_mode & OTHERS and not stat.S_ISLNK(status.st_mode)


class AnswerFile:
    """Of modules, by their build-ids in the order in which they are loaded."""

    def __init__(self, files: Sequence[tuple[str, int]], by: Sequence[object] = ()) -> None:
        """Of each module the build-id, and how much debug information it has. `by`: what tells one who answers from
        another, who may answer in another way."""
        self._folder = folder()
        self._key = json.dumps([__version__, by, files])
        self._name = hashlib.sha256(self._key.encode()).hexdigest()[:40] + ".json"

    def read(self) -> list[Entry]:
        """Empty where there are none, or not of these modules."""
        if self._folder is None:
            return []
        with suppress(OSError, ValueError, TypeError):
            descriptor = os.open(os.path.join(self._folder, self._name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with open(descriptor, "rb") as file:
                status = os.fstat(descriptor)
                if not (_is_own(status) and stat.S_ISREG(status.st_mode)) or status.st_size > LARGEST:
                    return []
                key, entries = json.loads(file.read())
            return [Entry(*each) for each in entries] if key == self._key else []
        return []

    def write(self, entries: Sequence[Entry]) -> None:
        data = json.dumps([self._key, entries]).encode()
        if self._folder is None or len(data) > LARGEST:
            return
        with suppress(OSError, ArenascopeError):
            write_whole(os.path.join(self._folder, self._name), data, 0o600)
            self._remove_oldest(self._folder)

    def remove(self) -> None:
        if self._folder is not None:
            with suppress(OSError):
                os.unlink(os.path.join(self._folder, self._name))

    def _remove_oldest(self, folder: str) -> None:
        paths = [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".json")]
        for path in sorted(paths, key=os.path.getmtime)[:-MOST_FILES]:
            os.unlink(path)
