"""Memory read by the page, for what follows pointers: blocks that lead to each other lie near to each other."""

from __future__ import annotations

from typing import Optional, Sequence

from ...sources.memory import Memory

PAGE_BITS, MOST_PAGES = 12, 4096
"""So many are kept. A larger piece could touch what the process never did."""


class MemoryPages:
    """Its words, as Memory gives them."""

    def __init__(self, memory: Memory) -> None:
        self._memory, self._word = memory, memory.pointer_size
        self._unaligned, self._within = self._word - 1, (1 << PAGE_BITS) - 1
        self._pages: dict[int, Sequence[int]] = {}
        """The words of each, or none where not all of it can be read."""

    def words(self, address: int, count: int) -> Optional[Sequence[int]]:
        page = self._pages.get(address >> PAGE_BITS)
        if page is None:
            page = self._load(address >> PAGE_BITS)
        at = (address & self._within) // self._word
        if at + count <= len(page) and not address & self._unaligned:
            return page[at : at + max(0, count)]
        return self._memory.try_words(address, max(0, count))

    def _load(self, number: int) -> Sequence[int]:
        if len(self._pages) >= MOST_PAGES:
            self._pages.clear()
        data = self._memory.try_read(number << PAGE_BITS, 1 << PAGE_BITS)
        words = self._pages[number] = self._memory.as_words(data) if data is not None else ()
        return words
