"""Where chunk headers resume after bytes that are none: somebody else's sbrk, or damage."""

from __future__ import annotations

from typing import Optional

from ...sources.memory import Memory
from ..chunk import IS_MMAPPED, NON_MAIN_ARENA, PREV_INUSE, SIZE_BITS
from ..process_layout import Layout

SURE = 64
"""After damage, this many consecutive headers are no coincidence."""
PROVEN = 1 << 20
"""Bytes of somebody else's may be written to look like headers: theirs are followed to where they end."""
BLOCK = 64 << 10
SEARCHED = 256 << 20
"""How much is searched at most: somebody else's sbrk can be large."""


def find_chain(
    memory: Memory, layout: Layout, main: bool, start: int, limit: int, sure: int = SURE, searched: int = SEARCHED
) -> Optional[int]:
    """The first address from which headers lead to `limit`, to a fencepost or through enough chunks; None: nowhere.

    Bytes that look like headers by chance, or are left over from merged blocks, can give a place too early.
    """
    start = layout.first_aligned(start)
    verdicts: dict[int, bool] = {}
    wrong = IS_MMAPPED | layout.mask & ~SIZE_BITS | (NON_MAIN_ARENA if main else 0)
    word, step = layout.word, layout.align
    position = start
    while position < min(limit, start + searched):
        size = min(BLOCK, limit - position)
        block = memory.try_read(position, size)
        if block is None:
            # whole pages are there or not
            position += -(position + word) % 4096 or step
            position = layout.first_aligned(position)
            continue
        for index, raw in enumerate(memory.unpack_words(block)[1 :: step // word]):
            chunk = position + index * step
            if raw < layout.min_size or raw & wrong or chunk + (raw & ~SIZE_BITS) > limit:
                continue
            if _leads_on(memory, layout, chunk, limit, wrong=wrong, sure=sure, verdicts=verdicts):
                return chunk
        position += -(-size // step) * step
    return None


def _leads_on(
    memory: Memory, layout: Layout, chunk: int, limit: int, *, wrong: int, sure: int, verdicts: dict[int, bool]
) -> bool:
    path: list[int] = []
    good = False
    for _ in range(sure):
        if chunk in verdicts:
            good = verdicts[chunk]
            break
        if chunk == limit:
            good = True
            break
        raw = memory.try_word(chunk + layout.word)
        if raw is None or chunk > limit:
            break
        if raw & ~SIZE_BITS == layout.header and path:
            good = (memory.try_word(chunk + layout.header + layout.word) or 0) & PREV_INUSE == PREV_INUSE
            break
        if raw < layout.min_size or raw & wrong:
            break
        path.append(chunk)
        chunk += raw & ~SIZE_BITS
    else:
        good = True
    verdicts.update(dict.fromkeys(path, good))
    return good
