"""Whether a size that a struct tells is that of the block in which it would lie."""

from __future__ import annotations

from typing import NamedTuple, Optional, Protocol, Sequence

from ...sources.memory import Memory

SLACK = 32
"""A block has less than that to use besides what was asked for: it is rounded up, and a rest too small for another
block goes with it."""
PAGE_SLACK, MAPPED = 4096, 128 << 10
"""The same of one that malloc may have mapped by itself."""
LARGEST_PAGE = 64 << 10
"""That is a page, which some machines have as large: for structs of which the size is not all the proof."""


def fits(asked: int, usable: int, page: int = PAGE_SLACK) -> bool:
    return 0 < asked <= usable < asked + (page if usable >= MAPPED else SLACK)


class Front(NamedTuple):
    """What stands in front of a block's own words."""

    words: int
    bytes: int
    """That were asked for after it."""
    of: str


class Fronts(Protocol):
    """Of one process."""

    runs: bool
    sizes: Sequence[int]
    """How many bytes may stand in front."""

    def front_of(self, words: Sequence[int], at: int, count: int, usable: int) -> Optional[Front]:
        """Of a block of so many bytes, of which `count` words are known, from `at` on."""

    def holds(self, front: Front, words: Sequence[int], user: int) -> Optional[str]:
        """What a block is that is known by no more than its front."""


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
