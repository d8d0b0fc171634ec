"""Whether a large free chunk was a large block, or small ones that free() joined: it clears none of their headers."""

from __future__ import annotations

from typing import Optional

from ...sources.memory import Memory
from ..chunk import SIZE_BITS
from ..layout import Layout


def was_one_block(memory: Memory, layout: Layout, end: int, least: int) -> Optional[bool]:
    """Whether the last block in the free chunk that ends at `end` was of `least` bytes and more: where it was not, its
    header leads to that end. The chunk has as many bytes. None: it cannot be read."""
    step = layout.align
    data = memory.try_read(end - least + step, least - step)
    if data is None:
        return None
    sizes = memory.unpack_words(data)[1 :: step // layout.word]
    left = range(least - step, layout.min_size - 1, -step)
    return not any(size & ~SIZE_BITS == expected for size, expected in zip(sizes, left))
