"""A table of live blocks without a heap."""

from __future__ import annotations

from array import array

from arenascope.blocks.graph.blocks import LiveBlocks
from arenascope.engine import EngineImage


def given_blocks(word: int, starts: array[int], ends: array[int], sizes: array[int]) -> LiveBlocks:
    """These blocks, in order."""
    engine = EngineImage(word, "little")
    engine.set_blocks(starts, ends, sizes)
    return LiveBlocks(engine)
