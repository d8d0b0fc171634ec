"""Finds words whose value alone proves that they tell nothing: addresses, and small numbers."""

from __future__ import annotations

from functools import cached_property
from typing import Container, Iterator, Sequence

from ...glibc.find.which_allocator import places_of_modules
from ...session.session import Session
from ...sources.target import Region

SMALL = 1 << 16
"""Numbers below this tell nothing: page sizes, module numbers, indexes."""

Kept = Iterator[tuple[int, int]]
"""(address, bytes)."""


class ProvableWords:
    """Finds such words in one image. `random`: the bytes of AT_RANDOM, from which libc makes its guards."""

    def __init__(self, session: Session, random: bytes) -> None:
        self.session = session
        self.memory, self.word, self.regions = session.memory, session.target.pointer_size, session.regions
        self._guards = self._guards_of(random)

    def _guards_of(self, random: bytes) -> Container[int]:
        """The pointer guard and the stack guard (security_init in elf/rtld.c): they can look like addresses."""
        if len(random) < 2 * self.word:
            return ()
        first, second = self.memory.unpack_words(random[: 2 * self.word])
        # the first byte of the stack guard is zero
        last = (1 << 8 * (self.word - 1)) - 1
        return {first, second, first & ~0xFF, first & last}

    def is_address(self, value: int) -> bool:
        """Whether it is an address in a mapping or at a mapping's end (the break is one)."""
        regions = self.regions
        low, high = 0, len(regions)
        while low < high:
            middle = (low + high) // 2
            if regions[middle].end < value:
                low = middle + 1
            else:
                high = middle
        mapped = low < len(regions) and regions[low].start <= value and value not in self._guards
        return mapped and (self.word > 4 or self._is_no_text(regions[low], value))

    def _is_no_text(self, region: Region, value: int) -> bool:
        """On 32-bit machines four letters can be a heap address. Then only words that malloc or the loader wrote are
        believed."""
        if not all(0x20 <= each < 0x7F for each in value.to_bytes(4, "little")):
            return True
        return region.finds_malloc or any(map(region.contains, self._threads)) or value in self._written

    @cached_property
    def _threads(self) -> Sequence[int]:
        pointers = (each.thread.thread_pointer for each in self.session.thread_words)
        return [each for each in pointers if each is not None]

    @cached_property
    def _written(self) -> Container[int]:
        """Addresses that malloc or the loader wrote: chunks in lists, arenas, thread caches, module names."""
        session = self.session
        found = {each.address for each in places_of_modules(session.target, session.regions)}
        found |= {place for each in session.headers for place in (each.address, each.top)}
        if session.started:
            lists = [each for arena in session.arenas for each in (*arena.bins, *arena.fastbins)]
            found.update(chunk for each in lists for chunk in each.addresses)
            for cache in session.thread_caches:
                found.update([cache.address] if cache.address else ())
                found.update(chunk + session.layout.header for each in cache.bins for chunk in each.addresses)
        return found

    def words(self, start: int, size: int, small: int = SMALL, unit: int = 0) -> Kept:
        """Words that are addresses or numbers below `small`; with `unit` also its multiples."""
        limit = 1 << (8 * self.word - 1)
        data = self.memory.try_read(start, size // self.word * self.word)
        for index, value in enumerate(self.memory.unpack_words(data) if data else ()):
            amount = unit and not value % unit and value < limit
            if value and (value < small or amount or self.is_address(value)):
                yield start + index * self.word, self.word
