"""Memory and live blocks, word by word, as they are followed: in no order, but mostly near to each other."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import cached_property
from typing import Callable, Optional, Sequence

from ...session.session import Session
from ...sources.target import RegionIndex
from ..graph.blocks import LiveBlocks
from ..recognise.cplusplus import Classes
from ..recognise.module_memory import LoadedModules

SHIFT = 14
"""16 KiB are read at once."""
MOST = 4096
"""And so many of these are kept."""
MOST_ELEMENTS, MOST_UNKNOWN = 1 << 24, 1 << 20
"""Elements of an array in a variable; bytes of one that lies where nothing is known of mappings."""
NULL_PAGE = 4096
"""Less, and as much below the top, is no address: a program's own mark for nothing."""
NUMBERS = {8: 1 << 44, 4: 1 << 24}
"""By the bytes of a word: a number that is less far from 0 may be kept in a `void *`. Only a program without PIE has
anything so low."""
LARGEST_HEADER = 17
"""So many bytes of a string's header at most lie before the characters that a pointer leads to."""
NOTHING: Sequence[int] = ()
SAMPLE, EACH, FEWEST = 100, 8, 4
"""Blocks are looked up in spans in which EACH of the usual size lie, and FEWEST on an average."""


class MemoryReader:
    """A Reader (claims.py), and what the tracer asks besides."""

    def __init__(self, session: Session, blocks: LiveBlocks, ground: LoadedModules) -> None:
        self.blocks = blocks
        self.word_size = session.memory.pointer_size
        self.byte_order = session.memory.byte_order
        self.slack = session.layout.min_size
        """A chunk is larger than asked for by less than this: what is left has to be a chunk itself."""
        self.chunk_for = session.layout.chunk_for
        self.rounded, self.grain = self.word_size + session.layout.mask, ~session.layout.mask
        self._header = session.layout.header
        self.classes = Classes(ground)
        self._memory, self._page = session.memory, session.target.page_size
        self._describe = session.target.describe
        self._starts, self._ends, self._sizes = blocks.starts, blocks.ends, blocks.sizes
        mapped = session.mmapped if session.started else ()
        self._mapped = {blocks.find(each.chunk + self._header) for each in mapped}
        """The blocks that malloc mapped by themselves."""
        self._regions = RegionIndex(session.regions)
        self._residency = session.any_residency if session.target.kind == "live" else None
        self._windows: dict[int, Sequence[int]] = {}
        self._data: dict[int, bytes] = {}
        """The same as bytes."""
        self._within, self._unaligned = (1 << SHIFT) - 1, self.word_size - 1
        self._numbers = NUMBERS[self.word_size]
        self._half = 3 if self.word_size == 8 else 2

    @cached_property
    def before(self) -> Callable[[int], int]:
        """The last block that begins at or before an address; -1: none."""
        return _search(self.blocks)

    def window(self, number: int) -> Sequence[int]:
        """The words of the numberth stretch of 16 KiB; empty where not all of it can be read."""
        words = self._windows.get(number)
        return self._load(number) if words is None else words

    def forget(self) -> None:
        """Lets go of what was read, and of what tells where blocks are: it takes as much as the blocks."""
        self._windows.clear()
        self._data.clear()
        vars(self).pop("before", None)

    def word(self, address: int) -> Optional[int]:
        words = self._windows.get(address >> SHIFT)
        if words is None:
            words = self._load(address >> SHIFT)
        if not words or address & self._unaligned:
            return self._memory.try_word(address) if 0 <= address <= self._memory.top else None
        return words[(address & self._within) >> self._half]

    def words(self, address: int, count: int) -> Optional[Sequence[int]]:
        words = self._windows.get(address >> SHIFT)
        if words is None:
            words = self._load(address >> SHIFT)
        at = (address & self._within) >> self._half
        if not words or address & self._unaligned or at + count > len(words):
            return self._memory.try_words(address, count) if self._may_be(address, count * self.word_size) else None
        return words[at : at + count]

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

    def most(self, address: int, size: int, count: int) -> int:
        """How many of `count` objects side by side lie in memory."""
        region = self._regions.find(address)
        end = region.end if region is not None else address + MOST_UNKNOWN
        return max(0, min(count, (end - address) // size, MOST_ELEMENTS))

    def is_mapped(self, address: int) -> bool:
        return not self._regions.regions or self._regions.place(address) is not None

    def leads_nowhere(self, value: int, is_void: bool = False) -> bool:
        """Whether a word is no pointer at all, nor a program's mark for none; a tag may be in its low bits. A `void *`
        may be a small number as well."""
        if is_void and not self._numbers <= value <= self._memory.top - self._numbers:
            return False
        return NULL_PAGE <= value <= self._memory.top - NULL_PAGE and not self.is_mapped(value & ~self._unaligned)

    # live blocks

    def at(self, address: int) -> int:
        """Which block begins there; -1: none."""
        index = self.before(address)
        return index if index >= 0 and self._starts[index] == address else -1

    def behind_header(self, value: int) -> int:
        """The block in which a pointer leads behind a string's header, its length and flags; -1: none. What lies at an
        even offset may as well be a member of a struct."""
        block = bisect_right(self._starts, value) - 1
        header = value - self._starts[block] if block >= 0 else 0
        is_behind = header & 1 and header <= LARGEST_HEADER and header < self.room(block)
        return block if is_behind else -1

    def has_mapping(self, index: int) -> bool:
        """Whether malloc mapped it by itself."""
        return index in self._mapped

    def room(self, index: int) -> int:
        """How many bytes the block has for its user."""
        return self._ends[index] - self._starts[index] + (index in self._mapped)

    def usable(self, address: int) -> Optional[int]:
        index = self.at(address)
        return self.room(index) if index >= 0 else None

    def holds(self, address: int, size: int) -> bool:
        index = self.before(address)
        return index >= 0 and self._starts[index] == address and self.fits(index, size, self.slack)

    def fits(self, index: int, size: int, slack: int = 1) -> bool:
        """Whether malloc gives this block for exactly this size, or one that is larger by less than `slack`."""
        if index in self._mapped:
            # a mapping has whole pages, of which two words or more are malloc's
            return 0 <= self.room(index) - size < self._page + 2 * self._header
        # as chunk_for has it, without the calls
        wanted = (size + self.rounded) & self.grain
        return 0 <= self._sizes[index] - (wanted if wanted > self.slack else self.slack) < slack

    def symbol(self, address: int) -> Optional[str]:
        place = self._describe(address)
        return place.name if place is not None and not place.in_file and not place.offset else None

    def class_of(self, table: int) -> Optional[str]:
        told = self.classes.vtable_class(table)
        return told.name if told is not None and not told.top else None


def _search(blocks: LiveBlocks) -> Callable[[int], int]:
    """A closure: it is asked several times for each block. In an array of millions bisect makes twenty numbers for each
    answer, so that it looks only where blocks of the same few hundred bytes are."""
    starts = blocks.starts
    # blocks of the usual size lie EACH in a span
    some = sorted(blocks.sizes[:: max(1, len(starts) // SAMPLE)])
    least = (EACH * some[len(some) // 2]).bit_length() if some else 0
    shift, spans = next(each for each in (_spans(starts, shift) for shift in range(least, 65)) if each is not None)
    known, asked, found = spans.get, -1, -1

    def before(address: int) -> int:
        # most are asked for twice
        nonlocal asked, found
        if address != asked:
            span = known(address >> shift)
            found = (bisect_right(starts, address) if span is None else bisect_right(starts, address, *span)) - 1
            asked = address
        return found

    return before


def _spans(starts: Sequence[int], shift: int) -> Optional[tuple[int, dict[int, tuple[int, int]]]]:
    """(SHIFT, which blocks begin at addresses that are one number when shifted by it); None: they would be too many."""
    spans: dict[int, tuple[int, int]] = {}
    first = 0
    while first < len(starts):
        if len(spans) * FEWEST > len(starts):
            return None
        place = starts[first] >> shift
        last = bisect_left(starts, (place + 1) << shift, first, min(first + (1 << shift), len(starts)))
        spans[place] = first, last
        first = last
    return shift, spans
