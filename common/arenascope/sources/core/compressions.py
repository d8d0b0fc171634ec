"""Compression formats: how each begins, and the program that unpacks it within bounds."""

from __future__ import annotations

from typing import NamedTuple, Optional, Sequence


class Format(NamedTuple):
    """A compression format."""

    magic: bytes
    command: str
    """The command that a user can type to unpack it."""
    program: Sequence[str]

    @property
    def name(self) -> str:
        return self.program[0]


def window_log(packed: int) -> int:
    """Returns the window for zstd --long, which a reader must accept explicitly: more than zstd's default only for a
    file that is large itself, as so much memory is used."""
    return 31 if packed >= 32 << 20 else 27


FORMATS = (
    Format(b"\x28\xb5\x2f\xfd", "zstd -d {path} -o core", ("zstd", "-dcq", "--long={window_log}")),
    Format(b"\x04\x22\x4d\x18", "lz4 -d {path} core", ("lz4", "-dcq")),
    Format(b"\x1f\x8b", "gzip -dc {path} > core", ("gzip", "-dcq")),
    # more memory than any preset of xz takes to unpack: the file says how much it wants
    Format(b"\xfd7zXZ\0", "xz -dc {path} > core", ("xz", "-dcq", "--memlimit-decompress=256MiB")),
    Format(b"BZh", "bzip2 -dc {path} > core", ("bzip2", "-dcq")),
)


def format_of(start: bytes) -> Optional[Format]:
    """Returns the format of a file that begins with these bytes; None if it is not compressed."""
    return next((form for form in FORMATS if start.startswith(form.magic)), None)
