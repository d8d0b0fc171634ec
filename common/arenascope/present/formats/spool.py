"""Keeps many rows until it is their turn: in memory, then in a temporary file."""

from __future__ import annotations

from tempfile import TemporaryFile
from typing import IO, Iterable, Iterator, Optional

IN_MEMORY = 1 << 20
"""In characters. Short lines take twice that as objects."""
BLOCK = 1 << 20


class Spool:
    """Lines, kept in memory while they are few, then in an unnamed file."""

    def __init__(self) -> None:
        self.count = 0
        self._lines: list[str] = []
        self._kept = 0
        self._file: Optional[IO[str]] = None

    def add(self, line: str) -> None:
        self._lines.append(line)
        self._kept += len(line)
        self.count += 1
        if self._kept > IN_MEMORY:
            self._spill()

    def _spill(self) -> None:
        if self._file is None:
            self._file = TemporaryFile("w+", encoding="utf-8", newline="\n")  # noqa: SIM115 - lives as long as this
        self._file.write("\n".join(self._lines) + "\n")
        self._lines, self._kept = [], 0

    def __iter__(self) -> Iterator[str]:
        """The lines without newlines."""
        if self._file is None:
            yield from self._lines
            return
        if self._lines:
            self._spill()
        self._file.seek(0)
        for line in self._file:
            yield line[:-1]


def in_blocks(parts: Iterable[str]) -> Iterator[str]:
    """The same text in fewer, larger parts."""
    kept: list[str] = []
    size = 0
    for part in parts:
        kept.append(part)
        size += len(part)
        if size >= BLOCK:
            yield "".join(kept)
            kept, size = [], 0
    yield "".join(kept)
