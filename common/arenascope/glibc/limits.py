"""How many arenas glibc lets a process have (arena_get2)."""

from __future__ import annotations

import os
from typing import Optional

from ..model import Params
from ..target import Target
from .layout import Layout


def arena_limit(params: Optional[Params], layout: Layout, target: Target) -> Optional[int]:
    """arena_max where it is set, else 8 (2 on 32-bit) for each processor; a core does not tell how many there were."""
    arena_max = params.get("arena_max") if params else None
    if params is None or arena_max is None or "arena_test" not in params.values:
        return None
    if arena_max:
        return arena_max
    if target.kind != "live":
        return None
    processors = os.cpu_count() or 1
    # a sum is only asked for once there are more than arena_test arenas
    return max((8 if layout.word == 8 else 2) * processors, params.values["arena_test"])
