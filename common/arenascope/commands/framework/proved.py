"""What a word's value proves by itself, whoever wrote it: it is an address, or a number that tells nothing."""

from __future__ import annotations

from typing import Container, Iterator

from ...session.session import Session

SMALL = 1 << 16
"""Numbers below tell nothing: a page's size, a module's number, what only symbols name."""

Kept = Iterator[tuple[int, int]]
"""(address, bytes)."""


class Proved:
    """Of one image; `random` are the bytes of AT_RANDOM, of which libc makes its guards."""

    def __init__(self, session: Session, random: bytes) -> None:
        self.memory, self.word, self.regions = session.memory, session.target.pointer_size, session.regions
        self._guards = self._guards_of(random)

    def _guards_of(self, random: bytes) -> Container[int]:
        """The pointer guard and the stack guard (security_init in elf/rtld.c), which can look like addresses."""
        if len(random) < 2 * self.word:
            return ()
        first, second = self.memory.unpack_words(random[: 2 * self.word])
        # the stack guard has a zero for its first byte
        last = (1 << 8 * (self.word - 1)) - 1
        return {first, second, first & ~0xFF, first & last}

    def is_address(self, value: int) -> bool:
        """Of something mapped, or of where that ends, as the break is."""
        regions = self.regions
        low, high = 0, len(regions)
        while low < high:
            middle = (low + high) // 2
            if regions[middle].end < value:
                low = middle + 1
            else:
                high = middle
        return low < len(regions) and regions[low].start <= value and value not in self._guards

    def words(self, start: int, size: int, small: int = SMALL, unit: int = 0) -> Kept:
        """Those that are addresses, or numbers below `small`; with `unit` multiples of that, too."""
        limit = 1 << (8 * self.word - 1)
        data = self.memory.try_read(start, size // self.word * self.word)
        for index, value in enumerate(self.memory.unpack_words(data) if data else ()):
            amount = unit and not value % unit and value < limit
            if value and (value < small or amount or self.is_address(value)):
                yield start + index * self.word, self.word
