"""Rust's HashMap and HashSet (hashbrown): a block has the entries, the last one first, and after them a byte for each
place: part of its hash, or that it is empty. The holder's four words lead to where these bytes begin.
"""

from __future__ import annotations

from itertools import groupby
from typing import Iterator, NamedTuple, Optional, Sequence

from ...sources.memory import Memory
from ...sources.target import Span
from .size_fits import fits

GROUP = 16
GROUPS = (GROUP, 8)
"""So many control bytes are looked at together, and repeated after their end: with SSE2, and without."""
FREE = DELETED = 0x80
"""Empty or deleted; a smaller one is of an entry."""
EMPTY = 0xFF
LEAST_PLACES, MOST_PLACES = 4, 1 << 32
LOOKED_AT = 256
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


def table_in(words: Sequence[int], index: int) -> Optional[RawTable]:
    """RawTable: where the control bytes are, how many places but one, how many may yet be filled, how many are."""
    if index + 3 >= len(words):
        return None
    control, mask, left, entries = words[index : index + 4]
    room = mask if mask < 8 else (mask + 1) // 8 * 7
    if mask & mask + 1 or not LEAST_PLACES <= mask + 1 <= MOST_PLACES or not 0 < entries <= room - left:
        return None
    return RawTable(control, mask + 1, entries)


def is_table(memory: Memory, start: int, usable: int, past: int) -> bool:
    """Whether a block whose holder is not known is one, with its control bytes `past` its start."""
    most = min(past, usable - past - GROUP)
    if past % GROUP or most < 4:
        return False
    return any(
        _has_control(memory, start + past, 1 << bits)
        for bits in range(2, most.bit_length())
        if fits(past + (1 << bits) + GROUP, usable)
    )


def _has_control(memory: Memory, at: int, places: int) -> bool:
    first = memory.try_read(at, min(places, LOOKED_AT)) or b""
    if places < GROUP:
        again = memory.try_read(at, GROUP + places) == first + b"\xff" * (GROUP - places) + first
    else:
        again = memory.try_read(at + places, GROUP) == first[:GROUP]
    return again and EMPTY in first and all(each < DELETED or each in (EMPTY, DELETED) for each in first)
