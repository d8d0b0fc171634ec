"""How many objects a block is for: by numbers that the program keeps beside them."""

from __future__ import annotations

from typing import Optional

from .layouts import Layout, TypeTable
from .memory_reader import MemoryReader

MOST_COUNTS = 64
"""So many numbers beside a pointer are tried as its count."""


class Counts:
    def __init__(self, reader: MemoryReader, types: TypeTable) -> None:
        self._reader, self._types, self._word = reader, types, reader.word_size

    def least(self, block: int, size: int) -> int:
        """How many objects a block is for at least: its last word may be there for the chunk's alignment alone."""
        return (self._reader.room(block) - self._word) // size

    def beside(self, layout: Layout, at: Optional[int], size: int, block: int) -> int:
        """A number in the same object that says how many the block has; 0: none."""
        if at is None or size <= 0:
            return 0
        most = self._reader.room(block) // size
        for each in layout.numbers[:MOST_COUNTS]:
            count = self._reader.number(at + each.offset, each.size)
            if count is not None and 2 <= count <= most and self._reader.fits(block, count * size):
                return count
        return 0

    def is_flexible(self, layout: Layout, at: int, block: int) -> bool:
        """Whether a number in a struct that ends in T[] says how many there are."""
        if layout.flexible is None:
            return False
        element, offset = layout.flexible
        size = self._types.facts(element).size
        for each in layout.numbers[:MOST_COUNTS]:
            count = self._reader.number(at + each.offset, each.size)
            if count is None or count > self._reader.room(block):
                continue
            # the struct may have been counted with its padding; a text has a zero byte more
            whole = {base + (count + more) * size for base in (offset, layout.size) for more in (0, 1)}
            if any(self._reader.fits(block, each) for each in whole):
                return True
        return False

    def in_front(self, value: int, block: int, size: int) -> int:
        """How many objects `new T[n]` made, which it keeps in front of them; 0: it did not."""
        front = value - self._reader.blocks.starts[block]
        if front not in (self._word, 2 * self._word) or not size:
            return 0
        count = self._reader.word(value - self._word)
        room = self._reader.room(block)
        fits = count is not None and 0 < count * size <= room and self._reader.fits(block, front + count * size)
        return count or 0 if fits else 0
