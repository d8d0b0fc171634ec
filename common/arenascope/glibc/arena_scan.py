"""Finds main_arena without symbols, by the shape of every arena: bin headers that point to themselves.

Bin 127 is never used (bin_index ends at 126), so its pair of words always holds the address two words below itself.
"""

from __future__ import annotations

from typing import Iterator, NamedTuple, Optional

from ..base.errors import MemoryReadError
from ..sources.memory import Memory

BLOCK = 1 << 20
BINS_PAIRS = 127
TOLERANCE = 16
"""The most of the 127 bins that may be damaged or half linked: chance matches have more than a hundred wrong."""
PREFIX_LIMIT = 1024
"""The most bytes in front of `bins` where malloc_state may begin (112 at most so far)."""
RING_LIMIT = 65536
HEAP_SIZES = (1 << 20, 64 << 20, 8 << 20, 4 << 30)
"""HEAP_MAX_SIZE on 32-bit and on 64-bit, and in 2.35 to 2.41 with huge pages of 2 MiB or 1 GiB."""
LEAST_HEAP = min(HEAP_SIZES)


class FoundBins(NamedTuple):
    """An arena's bins, found by their shape."""

    bins: int
    ring: tuple[int, ...]
    """The arenas' addresses from this one on, by the `next` words; empty if the ring does not close."""

    @property
    def arena(self) -> Optional[int]:
        return self.ring[0] if self.ring else None


def anchors(memory: Memory, start: int, end: int) -> Iterator[int]:
    """Returns addresses of possible `bins` arrays: their bin 127 would be a self-linked pair that was found."""
    word = memory.pointer_size
    header = 2 * word
    position = start
    while position < end:
        size = min(BLOCK, end - position)
        try:
            words = memory.words(position, size // word)
        except MemoryReadError:
            position += size
            continue
        following = iter(words)
        next(following, None)
        for index, (first, second) in enumerate(zip(words, following)):
            if first == second and first == position + index * word - header:
                yield position + index * word - 2 * (BINS_PAIRS - 1) * word
        # one word back: a pair may straddle two blocks
        position += size if position + size >= end else size - word


def wrong_bins(memory: Memory, bins: int) -> Optional[int]:
    """Counts the bins that do not look like an arena's: each is empty, or linked to chunks that link back.

    None beyond TOLERANCE. A few pairs to either side nearly all still point to themselves, so the fewest wrong count.
    """
    word = memory.pointer_size
    try:
        links = memory.words(bins, 2 * BINS_PAIRS)
    except MemoryReadError:
        return None
    wrong = 0
    for index in range(BINS_PAIRS):
        header = bins + 2 * index * word - 2 * word
        first, last = links[2 * index], links[2 * index + 1]
        if first == header and last == header:
            continue
        if memory.try_word(first + 3 * word) != header or memory.try_word(last + 2 * word) != header:
            wrong += 1
            if wrong > TOLERANCE:
                return None
    return wrong


def next_offset(word: int) -> int:
    """Returns the distance from `bins` to `next`, the same in every release: 254 links and the binmap lie between."""
    return 254 * word + 16


def follow_ring(memory: Memory, bins: int) -> tuple[int, ...]:
    """Returns the ring through an arena whose bins are known; its start is where the other arenas point to."""
    word = memory.pointer_size
    first = memory.try_word(bins + next_offset(word))
    if first is None:
        return ()
    # mutex, flags and top stand in front
    if word + 8 <= bins - first < PREFIX_LIMIT:
        return (first,)
    for prefix in range(word + 8, PREFIX_LIMIT, word):
        start, offset = bins - prefix, prefix + next_offset(word)
        # the first arena's link ends the ring here, or goes on: null leads nowhere
        second = memory.try_word(first + offset)
        if second is None and memory.try_word(first + PREFIX_LIMIT + next_offset(word)) is None:
            return ()  # it is not all mapped: what can be read ends at a page's edge
        ring = _close_ring(memory, start, first, offset) if second else ()
        if ring:
            return ring
    return ()


def ring_from(memory: Memory, arena: int, bins: int) -> tuple[int, ...]:
    """Returns the ring through an arena whose start is known, too; empty if it does not close."""
    offset = bins - arena + next_offset(memory.pointer_size)
    first = memory.try_word(arena + offset)
    return _close_ring(memory, arena, first, offset) if first is not None else ()


def _close_ring(memory: Memory, start: int, first: int, offset: int) -> tuple[int, ...]:
    ring = [start]
    seen = {start}
    address: Optional[int] = first
    elsewhere = 0
    while address is not None and address not in seen and len(ring) < RING_LIMIT:
        # all but main_arena lie at the start of a heap: there are no more of them than there are heaps
        elsewhere += address % LEAST_HEAP >= PREFIX_LIMIT
        if elsewhere > 1:
            return ()
        seen.add(address)
        ring.append(address)
        address = memory.try_word(address + offset)
    return tuple(ring) if address == start else ()


def _in_a_threads_heap(memory: Memory, bins: int) -> bool:
    """Tells whether a heap_info precedes this arena, whose first word names it (an image may not name its mappings)."""
    for size in HEAP_SIZES:
        heap = bins & -size
        if bins - heap < PREFIX_LIMIT + 2 * memory.pointer_size:
            owner = memory.try_word(heap)
            if owner is not None and heap < owner < bins:
                return True
    return False


def scan(memory: Memory, start: int, end: int) -> Iterator[FoundBins]:
    """Finds the arenas whose malloc_state lies in [start, end), except threads', which lie in heaps of their own."""
    for bins in anchors(memory, start, end):
        if wrong_bins(memory, bins) is not None and not _in_a_threads_heap(memory, bins):
            yield FoundBins(bins, follow_ring(memory, bins))
