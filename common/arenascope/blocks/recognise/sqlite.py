"""sqlite's page cache: a page, and behind it its header, which points back to both.

struct PgHdr1 of pcache1.c: the page, what is kept with it (behind this header), the page's number. sqlite puts the size
that was asked for in front of its blocks where it does not ask malloc for it.
"""

from __future__ import annotations

import struct
from typing import Optional

from ...base.model import Kind
from .module_memory import LoadedModules, fits

PAGE = Kind("sqlite page cache", "holder", how="its page header, which points back")
SMALLEST, LARGEST = 512, 64 << 10
FRONTS = (8, 0)
HEADER, MOST_BEHIND = 40, 512
"""Bytes of the header at least, and of all that lies behind the page at most."""


class Sqlite:
    """The page cache of one process."""

    def __init__(self, ground: LoadedModules) -> None:
        self._memory = ground.memory
        self.runs = ground.has("sqlite3_libversion", "sqlite")

    def kind_of(self, user: int, usable: int, head: bytes) -> Optional[Kind]:
        size = 1 << usable.bit_length() - 1
        behind = usable - size
        if not (SMALLEST <= size <= LARGEST and HEADER <= behind < MOST_BEHIND):
            return None
        for front in FRONTS:
            page = user + front
            if front and not fits(front + int.from_bytes(head[:8], "little"), usable):
                continue
            tail = self._memory.try_read(page + size, 16)
            if tail is not None:
                own, extra = struct.unpack("<2Q", tail)
                if own == page and page + size + HEADER <= extra < user + usable:
                    return PAGE
        return None
