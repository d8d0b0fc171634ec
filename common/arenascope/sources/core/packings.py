"""The ways in which files are packed: how each begins, and who can unpack it within bounds."""

from __future__ import annotations

import importlib
import os
from typing import Any, BinaryIO, Callable, Optional, Sequence

from ...base.records import NamedTuple

READ = 1 << 20
PRESETS = 256 << 20
"""More memory than any preset of xz takes to unpack."""
Reader = Callable[[BinaryIO], Any]


class Format(NamedTuple):
    """One way of packing a file."""

    magic: bytes
    name: str
    command: str
    """What a user types to unpack it."""
    module: Optional[Reader]
    program: Sequence[str]


def _gzip(file: BinaryIO) -> Any:
    return importlib.import_module("gzip").open(file)


def window_log(packed: int) -> int:
    """zstd --long, which a reader must be told to accept: beyond zstd's own default only of a file that is large
    itself, as so much memory is taken."""
    return 31 if packed >= 32 << 20 else 27


class _Xz:
    """As lzma.open, but for a bound on its memory: the file says how much it wants."""

    def __init__(self, file: BinaryIO) -> None:
        self._lzma = importlib.import_module("lzma")
        self._file = file
        self._stream: Any = None

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
            data: bytes = self._stream.decompress(fresh, size)
            if data:
                return data


def _bzip2(file: BinaryIO) -> Any:
    return importlib.import_module("bz2").open(file)


def _lz4(file: BinaryIO) -> Any:
    return importlib.import_module("lz4.frame").open(file)


def _zstd(file: BinaryIO) -> Any:
    window = window_log(os.fstat(file.fileno()).st_size)
    try:
        own = importlib.import_module("compression.zstd")  # Python 3.14
    except ImportError:
        theirs = importlib.import_module("zstandard")
        return theirs.ZstdDecompressor(max_window_size=1 << window).stream_reader(file, read_across_frames=True)
    return own.open(file, options={own.DecompressionParameter.window_log_max: window})


FORMATS = (
    Format(
        b"\x28\xb5\x2f\xfd", "zstd", "zstd -d {path} -o core", _zstd, program=("zstd", "-dcq", "--long={window_log}")
    ),
    Format(b"\x04\x22\x4d\x18", "lz4", "lz4 -d {path} core", _lz4, program=("lz4", "-dcq")),
    Format(b"\x1f\x8b", "gzip", "gzip -dc {path} > core", _gzip, program=("gzip", "-dcq")),
    Format(b"\xfd7zXZ\0", "xz", "xz -dc {path} > core", _Xz, program=("xz", "-dcq")),
    Format(b"BZh", "bzip2", "bzip2 -dc {path} > core", _bzip2, program=("bzip2", "-dcq")),
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
