"""Opening what should be a core: a file of the right kind, or one line that says what it is instead."""

from __future__ import annotations

import mmap
import os
import stat
from typing import TYPE_CHECKING, Optional, Sequence

from ...errors import TargetError
from ...model import Statement
from ...records import NamedTuple
from ..elf.file import MAGIC

if TYPE_CHECKING:
    from .compressed import Say
    from .packings import Format

# first bytes, what it is, what makes a core of it
_FOREIGN: Sequence[tuple[bytes, str, str]] = (
    (b"MDMP", "a minidump, not an ELF core", "gcore PID, or a kernel core, has the whole memory"),
    (b"ProblemType:", "an Apport report", "apport-unpack {path} DIR leaves DIR/CoreDump"),
)


class CoreFile(NamedTuple):
    """An open core; where it was compressed, what it was unpacked into."""

    file: int
    map: mmap.mmap
    unpacked: bool
    shortage: Optional[Statement]


def open_core(path: str, say: Optional[Say]) -> CoreFile:
    """What is at least an ELF file, or a TargetError that says what it is instead."""
    try:
        # a FIFO would wait for its writer
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise TargetError(f"cannot open {path}: {error.strerror}") from error
    try:
        form = _check_kind(path, file, say is not None)
        if form is None or say is None:
            return CoreFile(file, _map(path, file), False, None)
        from .compressed import unpack

        unpacked = unpack(path, file, form, say)
        os.close(file)
        file = unpacked.file
        _check_kind(f"{path}, unpacked,", file, False)
        return CoreFile(file, _map(path, file), True, unpacked.shortage)
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
    """How it is compressed, where it may be; None for an ELF file."""
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode):
        raise TargetError(f"{path} is not a regular file")
    if not status.st_size:
        raise TargetError(f"{path} is empty", "a core of 0 bytes: ulimit -c was 0, or the disk was full")
    start = os.pread(file, 16, 0)
    if start[:4] == MAGIC:
        return None
    from .packings import format_of  # needed for few cores

    form = format_of(start)
    if form is not None:
        if may_unpack:
            return form
        raise TargetError(f"{path} is compressed by {form.name}", form.command.format(path=path))
    for magic, what, hint in _FOREIGN:
        if start.startswith(magic):
            raise TargetError(f"{path} is {what}", hint.format(path=path))
    raise TargetError(f"{path} is not an ELF file")
