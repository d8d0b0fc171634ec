"""nginx's pools: a block of one begins with where what is free of it begins and ends, the next block, and how often it
was too small (ngx_pool_data_t)."""

from __future__ import annotations

import struct
from typing import Optional

from ...base.model import Kind
from .module_memory import LoadedModules, fits

POOL = Kind("ngx_pool_t block", "holder", how="its own end, and the next block's")
FRONT = 32
MOST_FAILED = 1 << 16
MOST_BYTES = 1 << 20


class Nginx:
    """The pools of one process."""

    def __init__(self, ground: LoadedModules) -> None:
        self._ground = ground
        program = ground.modules.program
        self.runs = program is not None and program.name in ("nginx", "openresty", "angie")

    def kind_of(self, user: int, usable: int, head: bytes) -> Optional[Kind]:
        if not FRONT < usable < MOST_BYTES:
            return None
        last, end, after, failed = struct.unpack_from("<4Q", head)
        if not (user + FRONT <= last <= end and fits(end - user, usable) and failed < MOST_FAILED):
            return None
        if after:
            # all blocks of a pool are as large
            words = self._ground.words(after, 2) if not after % 8 else None
            if words is None or words[1] - after != end - user:
                return None
        return POOL
