"""How many arenas glibc lets a process have (arena_get2)."""

from __future__ import annotations

import os
from typing import Optional

from ..model import Params
from ..target import Target
from .layout import Layout


def arena_limit(params: Optional[Params], layout: Layout, target: Target) -> Optional[int]:
    """arena_max where it is set, else 8 (2 on 32-bit) for each processor; a core does not tell how many there were."""
    if params is None:
        return None
    if params.values["arena_max"]:
        return params.values["arena_max"]
    if target.kind != "live":
        return None
    processors = os.cpu_count() or 1
    # a sum is only asked for once there are more than arena_test arenas
    return max((8 if layout.word == 8 else 2) * processors, params.values["arena_test"])
