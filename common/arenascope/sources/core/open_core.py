"""Opens a core: returns a file of the right kind, or says in one line what it is instead."""

from __future__ import annotations

import mmap
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Iterator, NamedTuple, Optional, Sequence, Union

from ...base.errors import TargetError
from ...base.heap_model import Statement
from ...base.progress_bar import MakeMeter
from ..elf.elf_file import MAGIC
from ..target import Span

if TYPE_CHECKING:
    from .core_in_memory import CopyBytes

# first bytes, what it is, what makes a core of it
_FOREIGN: Sequence[tuple[bytes, str, str]] = (
    (b"MDMP", "a minidump, not an ELF core", "gcore PID, or a kernel core, has the whole memory"),
    (b"ProblemType:", "an Apport report", "apport-unpack {path} DIR leaves DIR/CoreDump"),
)


LARGE = 256 << 20
"""Larger files are read rather than mapped: otherwise all pages of a heap count as our memory."""
MOST_READ = 1 << 20
"""Longer pieces are copied from the mapping."""


class FileRange(NamedTuple):
    """A range that the file holds, `shift` bytes past its addresses."""

    start: int
    end: int
    shift: int


class CoreFile:
    """A local file; if it was compressed, the unpacked one."""

    def __init__(self, path: str, file: int, unpacked: bool = False, shortage: Optional[Statement] = None) -> None:
        """The descriptor is closed by `close` from then on."""
        self.map = _map(path, file)
        self.file, self.size, self.unpacked = file, len(self.map), unpacked
        self.shortage = shortage
        """Why it could not be read whole."""
        self._views: list[memoryview] = []

    def read(self, offset: int, size: int) -> bytes:
        """Reads as many bytes as asked for, or as there are."""
        data = os.pread(self.file, size, offset) if self.size > LARGE and size <= MOST_READ else b""
        # the mapping handles a file that was cut meanwhile
        return data if len(data) == size else self.map[offset : offset + size]

    def fill(self, block: memoryview, offset: int) -> int:
        """Reads through the file, not the mapping: what is swept once must not count as this process's memory."""
        return os.preadv(self.file, [block], offset)

    def view(self, offset: int, size: int) -> memoryview:
        """Returns the bytes without a copy."""
        with memoryview(self.map) as whole:
            self._views.append(whole[offset : offset + size])
        return self._views[-1]

    def data_within(self, at: int, end: int) -> Iterator[Span]:
        """Returns the parts of [at, end) that are no hole; all of it if holes are not known."""
        return data_within(self.file, at, end)

    def close(self) -> None:
        """Closes the file; if a slice of a window is still held, the mapping goes with that."""
        file, self.file = self.file, -1
        if file >= 0:
            os.close(file)
        with suppress(BufferError):
            for view in self._views:
                view.release()
            self.map.close()


if TYPE_CHECKING:
    CoreBytes = Union[CoreFile, CopyBytes]
    """A core's bytes by offset, wherever they are."""


def data_within(file: int, at: int, end: int) -> Iterator[Span]:
    """Returns the parts of [at, end) of a file that are no hole."""
    while at < end:
        try:
            start = os.lseek(file, at, os.SEEK_DATA)
        except OSError:  # ENXIO: only a hole follows
            return
        at = os.lseek(file, start, os.SEEK_HOLE)
        if start < end:
            yield Span(start, min(at, end))


def open_core(path: str, meter: Optional[MakeMeter], copy: Optional[str] = None) -> CoreFile:
    """Opens a file that is at least ELF; TargetError says what it is instead.

    `copy`: the file to open, if `path` is only a name for people.
    """
    try:
        # a FIFO would wait for its writer
        file = os.open(copy or path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise TargetError(f"cannot open {path}: {error.strerror}") from error
    try:
        form = _check_kind(path, file, meter is not None)
        if form is None or meter is None:
            return CoreFile(path, file)
        from .compressed import unpack

        unpacked = unpack(path, file, form, meter)
        os.close(file)
        file = unpacked.file
        _check_kind(f"{path}, unpacked,", file, False)
        return CoreFile(path, file, True, unpacked.shortage)
    except BaseException:
        # unpacking a large one is what people interrupt, and in a debugger this process goes on
        os.close(file)
        raise


def _map(path: str, file: int) -> mmap.mmap:
    try:
        return mmap.mmap(file, 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError, OverflowError) as error:
        raise TargetError(f"cannot map {path}: {error}") from error


def _check_kind(path: str, file: int, may_unpack: bool) -> Optional[Format]:
    """Returns the compression of a file, if allowed; None for an ELF file."""
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode):
        raise TargetError(f"{path} is not a regular file")
    if not status.st_size:
        raise TargetError(f"{path} is empty", "a core of 0 bytes: ulimit -c was 0, or the disk was full")
    start = os.pread(file, 16, 0)
    if start[:4] == MAGIC:
        return None
    form = format_of(start)
    if form is not None:
        if may_unpack:
            return form
        raise TargetError(f"{path} is compressed by {form.name}", form.command.format(path=path))
    for magic, what, hint in _FOREIGN:
        if start.startswith(magic):
            raise TargetError(f"{path} is {what}", hint.format(path=path))
    raise TargetError(f"{path} is not an ELF file", "give a core, or a process by its pid")


class Format(NamedTuple):
    """A compression format."""

    magic: bytes
    command: str
    """The command that a user can type to unpack it."""
    program: Sequence[str]

    @property
    def name(self) -> str:
        return self.program[0]


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
