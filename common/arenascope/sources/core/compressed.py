"""Unpacks compressed cores once into a temporary file that nobody else sees, with holes for zeros.

systemd-coredump leaves .zst, .lz4 or .xz, people leave .gz. The usual programs unpack them. The holes are ours and do
not tell what was resident in the process.
"""

from __future__ import annotations

import errno
import os
import subprocess
import tempfile
from contextlib import contextmanager
from io import FileIO
from typing import TYPE_CHECKING, Callable, Iterator, NamedTuple, Optional

from ...base.errors import TargetError
from ...base.heap_model import Statement
from ...base.optional_libraries import find_program
from ...base.progress_bar import MakeMeter, Meter
from ..elf.elf_file import MAGIC

if TYPE_CHECKING:
    from .open_core import Format

MAX_TIMES, ALWAYS = 4096, 1 << 30
"""At most this many times the packed size is unpacked, or this much if that is more: a core of zeros compresses a
thousand times, and a file that compresses thirty thousand times was made to fill a disk."""

READ = 1 << 20
BLOCK = 64 << 10
"""A block of this size that is all zero becomes a hole."""
RESERVE = 64 << 20
"""Free space that is left for others."""


class Unpacked(NamedTuple):
    """A temporary file without a name, which goes when it is closed."""

    file: int
    shortage: Optional[Statement]
    """Why it is not the whole core, if the packed file is cut or damaged."""


def unpack(path: str, packed: int, form: Format, meter: MakeMeter) -> Unpacked:
    """Returns the unpacked core; TargetError if nothing here can unpack it, or there is no room for it."""
    hint = form.command.format(path=path)
    with _temporary(path, hint) as whole:
        out = SparseFile(whole.fileno(), path, hint)
        size = os.fstat(packed).st_size
        out.check_room(size)
        with _reader(path, packed, form, hint) as source, meter(f"unpacking {path}", size) as shown:
            why = _copy(source, out, packed, shown, max(ALWAYS, MAX_TIMES * size))
        out.finish()
        if not out.size:
            raise TargetError(f"cannot unpack {path}: {why or 'it holds nothing'}", hint)
        shortage = None
        if why:
            figures, names = {"bytes": out.size, "packed_bytes": size}, {"path": path, "why": why}
            words = f"{path} could be unpacked only in part ({why})"
            shortage = Statement("core-unpacked-in-part", figures, names, words)
        return Unpacked(os.dup(whole.fileno()), shortage)


def _temporary(path: str, hint: str) -> FileIO:
    """Creates a file that has no name: it goes with the process, however that ends."""
    try:
        return tempfile.TemporaryFile(prefix="arenascope-", buffering=0)
    except OSError as error:
        raise TargetError(
            f"cannot unpack {path}: no temporary file ({error.strerror or error})",
            f"set TMPDIR to a folder that can be written, or: {hint}",
        ) from error


def _copy(source: _Source, out: SparseFile, packed: int, meter: Meter, limit: int) -> Optional[str]:
    """Copies, and returns why it ended early, or None. It stops if the file does not begin as a core."""
    done = 0
    while True:
        block = source.read(READ)
        if not block:
            return source.broken()
        if not out.begun and not block.startswith(MAGIC[: len(block)]):
            out.write(block)
            return None
        out.write(block)
        # the reader's descriptor is a copy of ours: one position for both
        before, done = done, os.lseek(packed, 0, os.SEEK_CUR)
        meter.advance(done - before)
        if out.size > limit:
            return f"stopped at {limit >> 20:,} MiB: more than {MAX_TIMES:,} times its packed size, as no core is"


class _Source(NamedTuple):
    """A source of unpacked bytes."""

    read: Callable[[int], bytes]
    broken: Callable[[], Optional[str]]
    """Called at the end of the bytes: returns the error, if any."""


@contextmanager
def _reader(path: str, packed: int, form: Format, hint: str) -> Iterator[_Source]:
    program = find_program(form.name)
    if program is None:
        raise TargetError(
            f"{path} is compressed by {form.name}, and there is no such program here to unpack it",
            f"where there is one: {hint}",
        )
    os.lseek(packed, 0, os.SEEK_SET)
    with tempfile.TemporaryFile() as complaints:
        size = os.fstat(packed).st_size
        command = [program, *(word.format(window_log=window_log(size)) for word in form.program[1:])]
        process = subprocess.Popen(command, stdin=packed, stdout=subprocess.PIPE, stderr=complaints)
        pipe = process.stdout
        assert pipe is not None

        def broken() -> Optional[str]:
            if not process.wait():
                return None
            complaints.seek(0)
            lines = complaints.read().decode(errors="replace").strip().splitlines()
            return lines[-1] if lines else f"{form.name} ended with status {process.returncode}"

        try:
            yield _Source(pipe.read, broken)
        finally:
            # also at Ctrl-C: the program must not go on writing
            process.kill()
            pipe.close()
            process.wait()


def window_log(packed: int) -> int:
    """Returns the window for zstd --long, which a reader must accept explicitly: more than zstd's default only for a
    file that is large itself, as so much memory is used."""
    return 31 if packed >= 32 << 20 else 27


class SparseFile:
    """Writes a file with holes, and checks how much room there is."""

    def __init__(self, file: int, path: str, hint: str) -> None:
        self.file = file
        self.path = path
        self.hint = hint
        self.size = 0
        self._rest = b""
        self._zeros = bytes(BLOCK)
        self._until_check = 0

    def check_room(self, wanted: int) -> None:
        room = os.fstatvfs(self.file)
        if room.f_bavail * room.f_frsize < wanted + RESERVE:
            raise self._no_room()

    def _no_room(self) -> TargetError:
        folder = tempfile.gettempdir()
        return TargetError(
            f"there is not enough room in {folder} to unpack {self.path}",
            f"set TMPDIR to a larger folder, or unpack it yourself: {self.hint}",
        )

    @property
    def begun(self) -> bool:
        return bool(self.size or self._rest)

    def write(self, data: bytes) -> None:
        """Writes any number of bytes; whole blocks of them reach the file."""
        data = self._rest + data
        end = len(data) // BLOCK * BLOCK
        self._rest = data[end:]
        for at in range(0, end, BLOCK):
            self._put(data[at : at + BLOCK])

    def _put(self, block: bytes) -> None:
        if block != self._zeros[: len(block)]:
            self._until_check -= len(block)
            if self._until_check < 0:
                self.check_room(0)
                self._until_check = RESERVE // 2
            try:
                written = os.pwrite(self.file, block, self.size)
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                    raise
                written = 0
            if written != len(block):
                raise self._no_room()
        self.size += len(block)

    def finish(self) -> None:
        self._put(self._rest)
        self._rest = b""
        os.ftruncate(self.file, self.size)
