"""How many objects a block is for: by numbers that the program keeps beside them."""

from __future__ import annotations

from typing import Optional

from .layouts import FlatType, Slot, TypeTable
from .memory_reader import MemoryReader

MOST_COUNTS = 64
"""So many numbers beside a pointer are tried as its count."""


class Counts:
    def __init__(self, reader: MemoryReader, types: TypeTable) -> None:
        self._reader, self._types, self._word = reader, types, reader.word_size

    def least(self, block: int, size: int) -> int:
        """How many objects a block is for at least: its last word may be there for the chunk's alignment alone."""
        return (self._reader.room(block) - self._word) // size

    def beside(self, layout: FlatType, at: Optional[int], size: int, block: int) -> int:
        """A number in the same object that says how many the block has; 0: none."""
        if at is None or size <= 0:
            return 0
        most = self._reader.room(block) // size
        for each in layout.numbers[:MOST_COUNTS]:
            count = self._reader.number(at + each.offset, each.size)
            if count is not None and 2 <= count <= most and self._reader.fits(block, count * size):
                return count
        return 0

    def by_exponent(self, layout: FlatType, at: Optional[int], size: int, block: int) -> int:
        """Likewise a number that says which power of 2, as hash tables keep it; 0: none."""
        if at is None:
            return 0
        most = self._reader.room(block) // size
        for each in layout.powers[:MOST_COUNTS]:
            power = self._reader.number(at + each.offset, each.size)
            if power is not None and 1 <= power < most.bit_length() and self._reader.fits(block, size << power):
                return 1 << power
        return 0

    def by_ends(self, layout: FlatType, at: Optional[int], slot: Slot, block: int) -> int:
        """Pointers of the same type into the same block, as those behind the last element in use and at the end of the
        room; 0: there is none."""
        target, start = slot.target, self._reader.blocks.starts[block]
        size = self._types.facts(target).size if target is not None else 0
        if at is None or not size:
            return 0
        room = self._reader.room(block)
        ends = {
            word - start
            for each in layout.slots
            if each.target == target and each.offset > slot.offset
            for word in [self._reader.word(at + each.offset)]
            if word is not None and 0 < word - start <= room and not (word - start) % size
        }
        return min(ends) // size if ends and self._reader.fits(block, max(ends)) else 0

    def flexible(self, layout: FlatType, at: int, block: int) -> int:
        """How many elements a struct that ends in T[] has, by a number in it; 0: none says it."""
        if layout.flexible is None:
            return 0
        element, offset = layout.flexible
        size = self._types.facts(element).size
        for each in layout.numbers[:MOST_COUNTS]:
            count = self._reader.number(at + each.offset, each.size)
            if not count or count * size > self._reader.room(block):
                continue
            # the struct may have been counted with its padding; a text has a zero byte more
            whole = {base + (count + more) * size for base in (offset, layout.size) for more in (0, 1)}
            if any(self._reader.fits(block, each) for each in whole):
                return count
        return 0

    def in_front(self, value: int, block: int, size: int) -> int:
        """How many objects `new T[n]` made, which it keeps in front of them; 0: it did not."""
        front = value - self._reader.blocks.starts[block]
        if front not in (self._word, 2 * self._word) or not size:
            return 0
        count = self._reader.word(value - self._word)
        room = self._reader.room(block)
        fits = count is not None and 0 < count * size <= room and self._reader.fits(block, front + count * size)
        return count or 0 if fits else 0
