"""Memory, word by word, as values are read: in no order, but mostly near to each other."""

from __future__ import annotations

from typing import Optional, Sequence

from ...session.session import Session
from ...sources.target import RegionIndex

SHIFT = 14
"""16 KiB are read at once."""
MOST = 4096
"""And so many of these are kept."""
NOTHING: Sequence[int] = ()


class MemoryReader:
    """Of one image."""

    def __init__(self, session: Session) -> None:
        self._memory = session.memory
        self._regions = RegionIndex(session.regions)
        self._residency = session.any_residency if session.target.kind == "live" else None
        self._windows: dict[int, Sequence[int]] = {}
        self._data: dict[int, bytes] = {}
        """The same as bytes."""
        word = session.memory.pointer_size
        self._within, self._unaligned = (1 << SHIFT) - 1, word - 1
        self._half = 3 if word == 8 else 2

    @property
    def word_size(self) -> int:
        """Bytes of a pointer."""
        return self._memory.pointer_size

    def word(self, address: int) -> Optional[int]:
        words = self._windows.get(address >> SHIFT)
        if words is None:
            words = self._load(address >> SHIFT)
        if not words or address & self._unaligned:
            return self._memory.try_word(address) if 0 <= address <= self._memory.top else None
        return words[(address & self._within) >> self._half]

    def stretch(self, start: int, end: int) -> Optional[bytes]:
        """Where all of it can be read, and should be."""
        return self._memory.try_read(start, end - start) if not self._would_grow(start, end) else None

    def bytes(self, address: int, size: int) -> Optional[bytes]:
        at = address & self._within
        if size >= 0 and at + size <= self._within and (address >> SHIFT in self._data or self._load(address >> SHIFT)):
            return self._data[address >> SHIFT][at : at + size]
        return self._memory.try_read(address, size) if self._may_be(address, size) else None

    def _may_be(self, address: int, size: int) -> bool:
        """Whether it lies in one mapping: sizes come from memory, and nothing is read in vain for a wrong one."""
        if size < 0 or not 0 <= address <= address + size <= self._memory.top:
            return False
        if size <= 1 << SHIFT or not self._regions.regions:
            return size <= 1 << 30
        region = self._regions.find(address)
        return region is not None and address + size <= region.end

    def _load(self, number: int) -> Sequence[int]:
        """Empty where not all of it can be read, or should be."""
        if len(self._windows) >= MOST:
            self._windows.clear()
            self._data.clear()
        words, start = NOTHING, number << SHIFT
        data = self.stretch(start, start + (1 << SHIFT)) if 0 <= start <= self._memory.top - self._within else None
        if data is not None:
            words = self._memory.as_words(data)
            self._data[number] = data
        self._windows[number] = words
        return words

    def _would_grow(self, start: int, end: int) -> bool:
        """Whether there is shared memory that the process has not touched: to read it makes it resident. So near to it
        only what is asked for is read."""
        place = self._regions.place(start)
        if self._residency is None or place is None:
            return False
        regions = self._regions.regions
        while place < len(regions) and regions[place].start < end:
            if regions[place].is_shared_memory:
                low, high = max(start, regions[place].start), min(end, regions[place].end)
                pages = self._residency.count(low, high)
                if pages is None or pages.resident < high - low:
                    return True
            place += 1
        return False

    def number(self, address: int, size: int) -> Optional[int]:
        """An unsigned number of so many bytes."""
        data = self.bytes(address, size)
        return int.from_bytes(data, self._memory.byte_order) if data is not None else None
