"""The words of containers that are looked for in more than one way: Rust's hash tables, streams of stdio, libstdc++'s
emergency pool. What containers hold the engine finds (container_bodies.rs): see named_by_holders.py.
"""

from __future__ import annotations

from itertools import groupby
from typing import Iterator, NamedTuple, Optional, Sequence

from ...sources.target import Span
from .module_memory import fits

TREE, LIST, PAGES = "std::map or set node", "list node", "pages, linked"
GROUP = 16
GROUPS = (GROUP, 8)
"""So many control bytes are looked at together, and repeated after their end: with SSE2, and without."""
FREE = 0x80
"""Empty or deleted; a smaller one is of an entry."""
LEAST_PLACES, MOST_PLACES = 4, 1 << 32
TAKEN = bytes(range(FREE))


class RawTable(NamedTuple):
    """As its holder has it."""

    control: int
    places: int
    entries: int

    @property
    def control_bytes(self) -> int:
        return self.places + GROUP

    def fills(self, block: Span, control: bytes) -> bool:
        """Whether these are its control bytes, in this block, with as many entries as it says."""
        own = control[: self.places]
        if self.places - len(own.translate(None, TAKEN)) != self.entries:
            return False
        for group in GROUPS:
            again = control[max(self.places, group) :][: min(self.places, group)]
            if fits(self.control + self.places + group - block.start, block.bytes) and again == own[: len(again)]:
                return block.start < self.control
        return False

    def runs(self, block: Span, control: bytes) -> Iterator[Span]:
        """Where in the block entries lie, beside each other; what is between may be left from others."""
        size = (self.control - block.start) // self.places
        at = 0
        for free, places in groupby(control[: self.places], key=FREE.__le__):
            count = len(list(places))
            if not free:
                end = self.control - block.start - at * size
                yield Span(end - count * size, end)
            at += count


TABLE_WORDS = 4


def table_in(words: Sequence[int], index: int) -> Optional[RawTable]:
    """RawTable: where the control bytes are, how many places but one, how many may yet be filled, how many are."""
    if index + 3 >= len(words):
        return None
    control, mask, left, entries = words[index : index + 4]
    room = mask if mask < 8 else (mask + 1) // 8 * 7
    if mask & mask + 1 or not LEAST_PLACES <= mask + 1 <= MOST_PLACES or not 0 < entries <= room - left:
        return None
    return RawTable(control, mask + 1, entries)


STDIO = 0xFBAD
"""_IO_MAGIC, in the upper half of a FILE's flags."""
LOCAL = 15
"""Letters that libstdc++'s strings have inside."""
STREAM_WORDS = 8
"""Pointers that follow them: read_ptr, read_end, read_base, write_base, write_ptr, write_end, buf_base, buf_end."""
POOL = "libstdc++'s emergency pool"
LEAST_POOL = 16 << 10
"""Of a usual one: GLIBCXX_TUNABLES can make it smaller, and then nothing tells it from another buffer."""


def is_pool(words: Sequence[int], usable: int) -> bool:
    """Of libstdc++'s emergency pool (eh_alloc.cc): the first free entry, where it is, how large."""
    free, arena, size = words
    return size >= LEAST_POOL and fits(size, usable) and arena <= free < arena + size
