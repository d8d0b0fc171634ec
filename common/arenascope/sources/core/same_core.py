"""Whether a core is the same file as before: by its times, or by every byte."""

from __future__ import annotations

import os
from hashlib import sha256
from typing import Sequence

from .holes import BLOCK
from .memory import CoreMemory
from .open_core import data_within

SOON_READ = 256 << 20
"""So many bytes are read and summed up in a quarter of a second."""


def written(core: CoreMemory) -> Sequence[int]:
    """Which file it is, how large, and when it was written and changed: a time can be put back (`touch -d`), that of
    the last change (st_ctime) cannot. Empty where that is not known, and where it takes little time to read all of it:
    who writes by mmap() need not change a time."""
    if core.file < 0 or core.unpacked:
        return ()
    status = os.fstat(core.file)
    if status.st_blocks * 512 <= SOON_READ:
        return ()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def digest(core: CoreMemory) -> str:
    """Of the file as it lies there, holes as well: these tell what was in memory."""
    found = sha256()
    for at, end in data_within(core.file, 0, core.size):
        found.update(repr((at, end)).encode())
        while at < end and (data := os.pread(core.file, min(BLOCK, end - at), at)):
            found.update(data)
            at += len(data)
    return found.hexdigest()
