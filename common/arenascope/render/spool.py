"""Rows that are too many to keep: written down as they come, read back when their turn is."""

from __future__ import annotations

from typing import Iterable, Iterator

IN_MEMORY = 8 << 20
BLOCK = 1 << 20


class Spool:
    """Lines, in memory while they are few, then in a file that has no name."""

    def __init__(self) -> None:
        import tempfile  # a debugger that only loads us does without

        self._file = tempfile.SpooledTemporaryFile(  # noqa: SIM115 - lives as long as this
            IN_MEMORY, "w+", encoding="utf-8", newline="\n")
        self.count = 0

    def add(self, line: str) -> None:
        self._file.write(line + "\n")
        self.count += 1

    def __iter__(self) -> Iterator[str]:
        """The lines, without their ends."""
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
