"""nginx keeps its main struct in a pool: ngx_cycle has the address of a piece, not of the block that malloc returned.

Else what the kernel told of connections, the first of which is where their array begins, would be nearer to all.
"""

from __future__ import annotations

from typing import Sequence

from ..recognise.module_memory import ground_of
from ..recognise.nginx import FRONT as LEAST_POOL
from ..recognise.nginx import Nginx
from .edge import DEEP, FLAGS
from .refs import ImageSearch
from .root_pointers import Seed


def edges_of_seeds(search: ImageSearch, seeds: Sequence[Seed]) -> list[int]:
    """One that leads into a pool's block leads to its start."""
    blocks, memory = search.blocks, search.session.memory
    nginx = Nginx(ground_of(search.session))
    pools = set()
    for number in {each.edge >> FLAGS for each in seeds if each.edge & DEEP} if nginx.runs else ():
        start, usable = blocks.starts[number], blocks.ends[number] - blocks.starts[number]
        head = memory.try_read(start, LEAST_POOL) if usable >= LEAST_POOL else None
        if head is not None and nginx.kind_of(start, usable, head) is not None:
            pools.add(number)
    return [each.edge & ~DEEP if each.edge >> FLAGS in pools else each.edge for each in seeds]
