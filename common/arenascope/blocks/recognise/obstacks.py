"""Chunks of GNU obstacks, in programs that are known to have them: each begins with its own end, and the one before."""

from __future__ import annotations

import struct
from typing import Optional

from ...base.model import Kind
from ...glibc.chunk import SIZE_BITS
from .module_memory import LoadedModules
from .size_fits import fits

CHUNK = Kind("obstack chunk", "holder", how="its own end, and that of the chunk before")
PROGRAMS = ("gdb", "cc1", "cc1plus", "lto1", "as", "ld", "ld.bfd", "bison")
FRONT = 16
LEAST = 256


class Obstacks:
    """The chunks of one process (struct _obstack_chunk)."""

    def __init__(self, ground: LoadedModules) -> None:
        self._ground = ground
        program = ground.modules.program
        self.runs = program is not None and program.name in PROGRAMS

    def kind_of(self, user: int, usable: int, head: bytes) -> Optional[Kind]:
        if usable < LEAST:
            return None
        limit, before = struct.unpack_from("<2Q", head)
        if not fits(limit - user, usable) or before % FRONT:
            return None
        return CHUNK if not before or self._is_chunk(before) else None

    def _is_chunk(self, chunk: int) -> bool:
        words = self._ground.words(chunk - 8, 2)
        return words is not None and fits(words[1] - chunk, (words[0] & ~SIZE_BITS) - 8)
