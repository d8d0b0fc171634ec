"""nginx's pools: a block of one begins with where what is free of it begins and ends, the next block, and how often it
was too small (ngx_pool_data_t)."""

from __future__ import annotations

from ...base.heap_model import Kind
from .module_memory import LoadedModules
from .selection import USABLE, USER, Found, Selection

POOL = Kind("ngx_pool_t block", "holder", how="its own end, and the next block's")
FRONT = 32
MOST_FAILED = 1 << 16
MOST_BYTES = 1 << 20


class Nginx:
    """The pools of one process."""

    def __init__(self, ground: LoadedModules) -> None:
        program = ground.modules.program
        self.runs = program is not None and program.name in ("nginx", "openresty", "angie")

    def kinds(self, blocks: Selection) -> Found:
        last, end, after, failed = map(USER.word, range(4))
        is_pool = (last >= USER + FRONT) & (last <= end) & (end - USER).fits() & (failed < MOST_FAILED)
        # all blocks of a pool are as large
        is_alike = after.is_multiple(8) & (after.word(1) - after == end - USER)
        yield blocks.where(USABLE.between(FRONT + 1, MOST_BYTES) & is_pool & ((after == 0) | is_alike)), POOL
