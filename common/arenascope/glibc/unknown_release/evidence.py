"""Arenas as raw words, and how they show where members are: by what all releases share, no offsets.

For releases that the table does not know. Each rule is tried on every arena, and most must agree: one may be damaged.
"""

from __future__ import annotations

import struct
from typing import Iterable, Mapping, NamedTuple, Optional, Sequence

from ...base.errors import MemoryReadError
from ...sources.memory import Memory
from ...sources.target import Region
from ..arena_scan import Hit, next_offset
from ..chunk import IS_MMAPPED, NON_MAIN_ARENA, PREV_INUSE, masked
from ..process_layout import Layout

WINDOW = 10
"""How many words are examined from next_free on: up to max_system_mem they are 4 so far."""
PAGE = 4096
"""Every page size is a multiple of it; an arena grows and shrinks by pages."""
PAGES_BEHIND = 4 << 20
"""A few transparent huge pages."""


class Surroundings(NamedTuple):
    """What the image shows besides the arenas."""

    mappings: Sequence[Region]
    page: int
    near: frozenset[int]
    """The words around main_arena and mp_: one of them is sbrk_base."""
    threads: int
    """How many there are; 0 where that is not known."""


class Top(NamedTuple):
    """An arena's last chunk; `address` is 0 where it has no memory yet (initial_top)."""

    address: int
    end: int


class Raw(NamedTuple):
    """One arena, before anything is known of its members but `bins` and `next`."""

    place: int
    """In the ring: 0 is main_arena."""
    address: int
    head: bytes
    """From its start to `bins`."""
    after_bins: tuple[int, ...]
    """The words from next_free on."""

    def word(self, memory: Memory, offset: int) -> int:
        value: int = struct.unpack_from(memory.mark + memory.code, self.head, offset)[0]
        return value

    def u32(self, memory: Memory, offset: int) -> int:
        value: int = struct.unpack_from(memory.mark + "I", self.head, offset)[0]
        return value


def read_raws(memory: Memory, hit: Hit) -> list[Raw]:
    """The arenas of the ring that can be read."""
    word = memory.pointer_size
    size = hit.bins - hit.ring[0]
    raws = []
    for index, address in enumerate(hit.ring):
        start = address + size + next_offset(word) + word
        for count in (WINDOW, 4):
            try:
                raws.append(Raw(index, address, memory.read(address, size), memory.words(start, count)))
                break
            except MemoryReadError:
                continue
    return raws


def majority(votes: Iterable[Optional[bool]]) -> bool:
    """Whether more say yes than no, and at least one does; None abstains."""
    cast = [vote for vote in votes if vote is not None]
    return bool(cast) and 2 * sum(cast) > len(cast)


def read_top(memory: Memory, layout: Layout, raw: Raw, offset: int) -> Optional[Top]:
    """The top chunk if `top` were at this offset; None where there is none."""
    address = raw.word(memory, offset)
    if address in (0, raw.address + len(raw.head) - layout.header):
        return Top(0, 0)
    if not layout.aligned(address):
        return None
    size_word = memory.try_word(address + layout.word)
    if size_word is None or not size_word & PREV_INUSE or size_word & (IS_MMAPPED | NON_MAIN_ARENA):
        return None
    size = masked(size_word)
    if size < layout.min_size or (address + size) % PAGE:
        return None
    return Top(address, address + size)


def not_less(values: Mapping[int, int], least: Mapping[int, int], bound: int) -> bool:
    """Whether this can be the peak of what `least` is: pages above it, or a few below (systrim, since 2.19)."""

    def fits(value: int, base: int) -> bool:
        if not value and not base:
            return True
        more = value - base
        return more % PAGE == 0 and (0 <= more < bound or (value >= PAGE and 0 < -more <= PAGES_BEHIND))

    return majority(fits(values[index], base) for index, base in least.items() if index in values)


def told_apart(candidates: Sequence[tuple[int, Mapping[int, int]]]) -> Optional[int]:
    """The first of the places that can hold a value; None where they hold different ones, which decides nothing."""
    if not candidates or any(values != candidates[0][1] for _, values in candidates):
        return None
    return candidates[0][0]
