"""The ways in which files are packed: how each begins, and who can unpack it within bounds."""

from __future__ import annotations

import importlib
import os
from types import TracebackType
from typing import BinaryIO, Callable, Optional, Protocol, Sequence

from ...base.records import NamedTuple

READ = 1 << 20
PRESETS = 256 << 20
"""More memory than any preset of xz takes to unpack."""


class Unpacking(Protocol):
    """A file of what a packed file holds."""

    def __enter__(self) -> object: ...

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> object: ...

    def read1(self, size: int) -> bytes: ...


Reader = Callable[[BinaryIO], Unpacking]


class Format(NamedTuple):
    """One way of packing a file."""

    magic: bytes
    name: str
    command: str
    """What a user types to unpack it."""
    module: Optional[Reader]
    program: Sequence[str]


def _by(module: str) -> Reader:
    """As most modules do it, where Python has this one."""

    def read(file: BinaryIO) -> Unpacking:
        unpacking: Unpacking = importlib.import_module(module).open(file)
        return unpacking

    return read


def window_log(packed: int) -> int:
    """zstd --long, which a reader must be told to accept: beyond zstd's own default only of a file that is large
    itself, as so much memory is taken."""
    return 31 if packed >= 32 << 20 else 27


class _Xz:
    """As lzma.open, but for a bound on its memory: the file says how much it wants."""

    def __init__(self, file: BinaryIO) -> None:
        import lzma

        self._file, self._lzma = file, lzma
        self._stream: Optional[lzma.LZMADecompressor] = None

    def __enter__(self) -> _Xz:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def read1(self, size: int) -> bytes:
        while True:
            if self._stream is None or self._stream.eof:
                # one stream may follow the other, with zeros between them
                fresh = (self._stream.unused_data if self._stream else b"").lstrip(b"\0") or self._file.read(READ)
                if not fresh.strip(b"\0"):
                    return b""
                self._stream = self._lzma.LZMADecompressor(memlimit=PRESETS)
            elif self._stream.needs_input:
                fresh = self._file.read(READ)
                if not fresh:
                    raise EOFError("Compressed file ended before the end-of-stream marker was reached")
            else:
                fresh = b""
            data = self._stream.decompress(fresh, size)
            if data:
                return data


def _zstd(file: BinaryIO) -> Unpacking:
    unpacking: Unpacking
    window = window_log(os.fstat(file.fileno()).st_size)
    try:
        own = importlib.import_module("compression.zstd")  # Python 3.14
    except ImportError:
        theirs = importlib.import_module("zstandard")
        unpacking = theirs.ZstdDecompressor(max_window_size=1 << window).stream_reader(file, read_across_frames=True)
    else:
        unpacking = own.open(file, options={own.DecompressionParameter.window_log_max: window})
    return unpacking


FORMATS = (
    Format(
        b"\x28\xb5\x2f\xfd", "zstd", "zstd -d {path} -o core", _zstd, program=("zstd", "-dcq", "--long={window_log}")
    ),
    Format(b"\x04\x22\x4d\x18", "lz4", "lz4 -d {path} core", _by("lz4.frame"), program=("lz4", "-dcq")),
    Format(b"\x1f\x8b", "gzip", "gzip -dc {path} > core", _by("gzip"), program=("gzip", "-dcq")),
    Format(b"\xfd7zXZ\0", "xz", "xz -dc {path} > core", _Xz, program=("xz", "-dcq")),
    Format(b"BZh", "bzip2", "bzip2 -dc {path} > core", _by("bz2"), program=("bzip2", "-dcq")),
)


def format_of(start: bytes) -> Optional[Format]:
    """How a file that begins with these bytes was packed; None where it was not."""
    return next((form for form in FORMATS if start.startswith(form.magic)), None)


def damage_errors() -> tuple[type[BaseException], ...]:
    """What the modules raise at damage or a sudden end. zlib and lzma may be missing from a Python."""
    errors: list[type[BaseException]] = [EOFError, OSError, RuntimeError]
    for module, name in (
        ("zlib", "error"),
        ("lzma", "LZMAError"),
        ("zstandard", "ZstdError"),
        ("compression.zstd", "ZstdError"),
    ):
        try:
            errors.append(getattr(importlib.import_module(module), name))
        except ImportError:
            continue
    return tuple(errors)
