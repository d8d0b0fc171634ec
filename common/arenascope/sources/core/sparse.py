"""Writing a file with holes for what is zero, and stopping before the file system is full."""

from __future__ import annotations

import errno
import os

from ...errors import TargetError

BLOCK = 64 << 10
"""What is all zero in blocks of this becomes a hole."""
RESERVE = 64 << 20
"""Room that is left to others."""


class SparseFile:
    """Writes a file with holes, and looks how much room there is."""

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
        from tempfile import gettempdir

        folder = gettempdir()
        return TargetError(
            f"there is not enough room in {folder} to unpack {self.path}",
            f"set TMPDIR to a larger folder, or unpack it yourself: {self.hint}",
        )

    @property
    def begun(self) -> bool:
        return bool(self.size or self._rest)

    def write(self, data: bytes) -> None:
        """Any number of bytes; whole blocks of them reach the file."""
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
