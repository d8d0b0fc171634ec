"""Where a long heap can be cut, so that its parts can be swept at the same time.

A guess: whoever sweeps what lies in front of a cut sees whether that ends there, and only then is it one.
"""

from __future__ import annotations

from typing import Container, Optional

from ...base.model import ArenaHeader, Heap
from ...sources.memory import Memory
from ..chunk import NON_MAIN_ARENA, PREV_INUSE, SIZE_BITS
from ..process_layout import Layout
from .resync import SURE, find_chain
from .sweep import first_chunk

SEARCHED = 128 << 10
"""Blocks may be so large that there is no header for long: then it is not cut there, and there is little to do."""
FOLLOWED = 1024
"""How many chunks in a row, at most, are looked at for a place to cut."""


def cuts(
    memory: Memory, layout: Layout, header: ArenaHeader, heap: Heap, listed: Container[int], every: int, after: int
) -> list[int]:
    """Chunks, so many bytes apart. Each is in use, and so is what lies in front; at least `after` in use follow it:
    so far do rules look that judge blocks by their neighbours."""
    limit = header.top if heap.address <= header.top < heap.end else heap.end
    places: list[int] = []
    position = first_chunk(layout, header, heap) + every
    while position + every // 2 < limit:
        cut = _near(memory, layout, header, position, limit=limit, listed=listed, after=after)
        if cut is not None:
            places.append(cut)
        position = max(position, cut or 0) + every
    return places


def _near(
    memory: Memory,
    layout: Layout,
    header: ArenaHeader,
    position: int,
    limit: int,
    listed: Container[int],
    after: int,
) -> Optional[int]:
    start = find_chain(memory, layout, header.main, position, limit=limit, searched=SEARCHED)
    if start is None:
        return None
    wanted = PREV_INUSE | (0 if header.main else NON_MAIN_ARENA)
    cut: Optional[int] = None
    in_use = 0
    before, chunk, raw = 0, start, memory.try_word(start + layout.word)
    for count in range(FOLLOWED):
        if raw is None or raw < layout.min_size or chunk >= limit:
            return None
        following = chunk + (raw & ~SIZE_BITS)
        next_raw = memory.try_word(following + layout.word) if following < limit else None
        if next_raw is None:
            return None
        used = bool(next_raw & PREV_INUSE) and chunk not in listed
        if cut is not None:
            in_use += used
            if in_use >= after:
                return cut
        elif count >= SURE and used and raw & (PREV_INUSE | NON_MAIN_ARENA) == wanted and before not in listed:
            # the first ones may be left over inside a block that was merged: they lead to real ones soon
            cut = chunk
        before, chunk, raw = chunk, following, next_raw
    return None
