"""Which words of a window lead into some ranges: by bytes that such words must have, then by the word itself.

A list comprehension over all words costs 75 ns each; a regular expression over bytes finds the few that can matter in a
fraction of that. Where numpy is found, `blocks/graph/root_pointers.py` does the same.
"""

from __future__ import annotations

import re
import sys
from array import array
from bisect import bisect_right
from types import ModuleType
from typing import TYPE_CHECKING, Callable, Iterable, Iterator, Optional, Sequence, Union

from ..base import optional_libraries
from ..sources.memory import Memory
from ..sources.target import Span, joined
from .recognise.containers import is_table
from .recognise.module_memory import SLACK, fits

if TYPE_CHECKING:
    from ..base.array_types import Flags

MOST_PREFIXES, FEW_PREFIXES = 16, 4
MOST_TOPS = 4
"""More stretches of upper halves are looked for word by word."""
TABLE, GRAIN, FEW_RANGES = 1 << 16, 4, 8
"""A table of so many places stays in the processor's cache; each is for so many low bits."""
WORTH_IT = 32 << 20
"""Bytes that are looked through without numpy in the time that it takes to load."""


def library(size: int) -> Optional[ModuleType]:
    """numpy, where it is found and so many bytes are worth loading it."""
    return optional_libraries.load("numpy") if size >= WORTH_IT else None


class Finder:
    """`starts` and `ends` (both included) are the ranges, in order."""

    tops: None = None
    """FastFinder alone knows them."""

    def __init__(self, starts: Sequence[int], ends: Sequence[int], extents: Iterable[Span], word: int) -> None:
        """`extents` cover them all, roughly."""
        self._starts, self._ends = starts, ends
        self._low, self._high = (starts[0], max(ends)) if len(starts) else (1, 0)
        self._search = _searcher(list(extents), word)

    def hits(self, words: Sequence[int], most: Optional[int] = None) -> Iterator[tuple[int, int]]:
        """(index of the word, which of the ranges); where `most` is given less far than that past its start."""
        low, high, starts, ends = self._low, self._high, self._starts, self._ends
        values = (
            [(index, value) for index, value in enumerate(words) if low <= value <= high]
            if self._search is None
            else [(index, words[index]) for index in self._search(words)]
        )
        for index, value in values:
            which = bisect_right(starts, value) - 1
            if which >= 0 and value <= ends[which] and (most is None or value - starts[which] < most):
                yield index, which


class FastFinder:
    """The same with numpy: by the range of all, then by a search in the few that are left."""

    def __init__(self, numpy: ModuleType, starts: Sequence[int], ends: Sequence[int], word: int) -> None:
        self._numpy = numpy
        self._starts = numpy.asarray(starts, dtype=numpy.uint64)
        self._ends = numpy.asarray(ends, dtype=numpy.uint64)
        number = numpy.uint64 if word == 8 else numpy.uint32
        low, high = (starts[0], max(ends)) if len(starts) else (1, 0)
        self._low, self._bytes = number(low), number(max(0, high - low))
        self.tops = self._tops(word)
        self._table = self._hashed()
        self._grain, self._key = number(GRAIN), number(TABLE - 1)

    def _tops(self, word: int) -> Optional[Sequence[Span]]:
        """The upper halves of all that leads into the ranges, which are 16 bits; None where these are many, or longer,
        or zero, as half of all words are."""
        if word != 8 or not len(self._starts):
            return None
        numpy, half = self._numpy, self._numpy.uint64(32)
        firsts, lasts = self._starts >> half, self._ends >> half
        new = numpy.ones(len(firsts), dtype=bool)
        new[1:] = (firsts[1:] != firsts[:-1]) | (lasts[1:] != lasts[:-1])
        tops = joined((first, max(first, last) + 1) for first, last in zip(firsts[new].tolist(), lasts[new].tolist()))
        return tops if len(tops) <= MOST_TOPS and tops[0].start and tops[-1].end <= 1 << 16 else None

    def _hashed(self) -> Optional[Flags]:
        """Whether something in the ranges has these bits above the lowest four: a search in thousands of ranges takes
        far longer, and few words pass. None where the ranges are long, or so many that most would."""
        numpy, low = self._numpy, self._numpy.uint64(GRAIN)
        firsts, lasts = self._starts >> low, self._ends >> low
        if not FEW_RANGES <= len(firsts) <= TABLE // 8 or (lasts - firsts).max() > 1:
            return None
        table: Flags = numpy.zeros(TABLE, dtype=bool)
        for each in (firsts, lasts):
            table[(each & numpy.uint64(TABLE - 1)).astype(numpy.int64)] = True
        return table

    def hits(self, words: Sequence[int], most: Optional[int] = None) -> Iterator[tuple[int, int]]:
        numpy = self._numpy
        values = numpy.asarray(words)
        # what is below the first wraps around
        index = numpy.flatnonzero(values - self._low <= self._bytes)
        if self._table is not None and len(index):
            index = index[self._table[values[index] >> self._grain & self._key]]
        if not len(index) or not len(self._starts):
            return
        values = values[index].astype(numpy.uint64)
        which = numpy.searchsorted(self._starts, values, side="right") - 1
        right = (which >= 0) & (values <= self._ends[which])
        if most is not None:
            right &= values - self._starts[which] < numpy.uint64(most)
        yield from zip(index[right].tolist(), which[right].tolist())


def finder_of(
    numpy: Optional[ModuleType], starts: Sequence[int], ends: Sequence[int], extents: Iterable[Span], word: int
) -> Union[Finder, FastFinder]:
    """`numpy` is None where there is none, or too little to look through."""
    if numpy is not None and len(starts):
        return FastFinder(numpy, starts, ends, word)
    return Finder(starts, ends, extents, word)


Search = Callable[[Sequence[int]], Sequence[int]]


def _searcher(extents: Sequence[Span], word: int) -> Optional[Search]:
    """Finds the words with one of a few beginnings; None where there are too many of these."""
    if word != 8 or sys.byteorder != "little":
        return None
    possible = [(shift, prefixes) for shift in (16, 24, 32) if (prefixes := _prefixes(extents, shift)) is not None]
    # a beginning less to look for saves more than some words more to look at cost
    few = [each for each in possible if len(each[1]) <= FEW_PREFIXES]
    for shift, prefixes in [*few, *possible][:1]:
        size = 8 - shift // 8
        needles = [re.escape(each.to_bytes(size, "little")) for each in sorted(prefixes)]
        # the search for a text alone is several times faster than that for one of two
        patterns = [re.compile(each, re.DOTALL) for each in (needles if few else [b"|".join(needles)])]
        return _in_halves(patterns) if shift == 32 else _in_bytes(patterns, shift // 8)
    return None


def _prefixes(extents: Sequence[Span], shift: int) -> Optional[set[int]]:
    prefixes: set[int] = set()
    for start, end in extents:
        first, last = start >> shift, end >> shift
        if last - first >= MOST_PREFIXES:
            return None
        prefixes.update(range(first, last + 1))
        if len(prefixes) > MOST_PREFIXES:
            return None
    return prefixes


def _in_bytes(patterns: Sequence[re.Pattern[bytes]], offset: int) -> Search:
    return lambda words: _places(patterns, _bytes(words), 8, offset, many=len(words))


def _in_halves(patterns: Sequence[re.Pattern[bytes]]) -> Search:
    return lambda words: _places(patterns, _bytes(words).cast("I")[1::2].tobytes(), 4, 0, many=len(words))


def _places(
    patterns: Sequence[re.Pattern[bytes]], data: Union[bytes, memoryview], step: int, offset: int, many: int
) -> Sequence[int]:
    """The indices of words, of which each takes `step` bytes in the data, that may be right."""
    # what lies askew may hide the next word, and counts for that
    places = {-((offset - match.start()) // step) for pattern in patterns for match in pattern.finditer(data)}
    places.discard(many)
    return sorted(places)


def _bytes(words: Sequence[int]) -> memoryview:
    assert isinstance(words, (memoryview, array))
    return memoryview(words).cast("B")


SDS = {1: 0, 3: 1, 5: 2, 9: 3, 17: 4}
"""Of an sds header its bytes, the text's type by it."""
BUCKET, SLOTS = 32, 8
"""Bytes of each entry in a PHP array, and of its two places in the table in front."""
PACKED = (16, 32)
"""The same of an array without keys, since 8.2 and before."""
FEWEST = 8
LOOKED_AT = 256
OP_SLAB = 40
"""Bytes in front of what perl's struct opslab (since 5.34) hands out."""
SLICES, MOST_SLICES = 128, 1 << 16
SLICES_BEHIND, SLAB_INFO = 16, 48
"""Of a slab of glib's: so much is left to malloc at its end, and from there the ring of all slabs is so far ahead."""
LINE = 64
LUA_THREAD = 8
"""LUA_TTHREAD."""
SMALLEST_POOL, POOL_HEADER = 256, 5
"""Bytes; words that are looked at."""


def is_by_design(memory: Memory, start: int, usable: int, past: int) -> bool:
    """Whether something that is known to be pointed to `past` its start begins at `start`."""
    return (
        _has_size(memory, start, usable, past)
        or is_sds(memory, start, usable, past)
        or _is_zend_array(memory, start, usable, past)
        or is_table(memory, start, usable, past)
        or _keeps_the_start(memory, start, usable, past)
        or _is_lua_state(memory, start, usable, past)
    )


def hands_out_pieces(memory: Memory, start: int, usable: int) -> bool:
    """Whether a pool of a known make begins at `start`."""
    return is_op_slab(memory, start, usable) or _keeps_the_end(memory, start, usable) or _is_slab(memory, start, usable)


def _has_size(memory: Memory, start: int, usable: int, past: int) -> bool:
    """How many bytes were asked for stands in front, as in sqlite's blocks and some of MariaDB's; or how many these are
    with what is in front, as in those that node gives zlib."""
    size = memory.try_word(start + past - 8) if past in (8, 16) else None
    whole = memory.try_word(start) if past == 16 else None
    return (size is not None and fits(past + size, usable)) or (whole is not None and fits(whole, usable))


def is_sds(memory: Memory, start: int, usable: int, past: int) -> bool:
    """Length, room and type, in front of the text; it ends in a zero."""
    kind = SDS.get(past)
    header = memory.try_read(start, past) if kind is not None and past < usable else None
    if kind is None or header is None or header[-1] & 7 != kind:
        return False
    size = past // 2
    length = int.from_bytes(header[:size], "little") if kind else header[0] >> 3
    room = int.from_bytes(header[size:-1], "little") if kind else length
    if length > room or not fits(past + room + 1, usable):
        return False
    return memory.try_read(start + past + length, 1) == b"\0"


def _is_zend_array(memory: Memory, start: int, usable: int, past: int) -> bool:
    """Places of the entries by hash, or none where they have no keys, in front of these."""
    if past == SLOTS and memory.try_read(start, SLOTS) == b"\xff" * SLOTS:
        return any((usable - past) // size >= FEWEST and (usable - past) % size < SLACK for size in PACKED)
    entries = past // SLOTS
    if entries < FEWEST or entries & entries - 1 or past % SLOTS or not fits(past + BUCKET * entries, usable):
        return False
    table = memory.try_read(start, min(past, LOOKED_AT)) or b""
    places = [int.from_bytes(table[at : at + 4], "little") for at in range(0, len(table), 4)]
    return bool(places) and all(each < entries or each == 0xFFFFFFFF for each in places)


def _keeps_the_start(memory: Memory, start: int, usable: int, past: int) -> bool:
    """Whoever aligns by hand, or puts a header behind a buffer, keeps what free() wants: in front of the place
    (MariaDB's LF_DYNARRAY), or as the header's first or second word (GCC's struct _cpp_buff). What is aligned to a line
    of the processor's cache may have it further behind (ld.so's struct dlfo_mappings_segment, haproxy's struct
    pool_head)."""
    word = memory.pointer_size
    if not past or past % word:
        return False
    first, last = past - word, past + (word if (start + past) % LINE else LINE)
    data = memory.try_read(start + first, min(last + word, usable // word * word) - first)
    return data is not None and start in memory.unpack_words(data)


def _is_lua_state(memory: Memory, start: int, usable: int, past: int) -> bool:
    """lua_State since 5.2, which has a word of the host's in front: its type, and the global state, which lies behind
    the state of the main thread."""
    word = memory.pointer_size
    head = memory.try_read(start, 5 * word) if past == word and usable >= 5 * word else None
    if head is None or head[2 * word] != LUA_THREAD:
        return False
    common = memory.unpack_words(head)[4]
    mains = (common - size for size in range(usable - SLACK, usable + 1, word))
    return start < common < start + usable or any(memory.try_word(main + 4 * word) == common for main in mains)


def _keeps_the_end(memory: Memory, start: int, usable: int) -> bool:
    """Pools of nginx and PostgreSQL, and obstacks know where they end."""
    if usable < SMALLEST_POOL:
        return False
    return any(fits(each - start, usable) for each in memory.try_words(start, POOL_HEADER) or ())


def is_op_slab(memory: Memory, start: int, usable: int) -> bool:
    """struct opslab of perl: the next one, the first of them, which is its own first; how many words there are to be
    handed out."""
    if usable < OP_SLAB + 8:
        return False
    words = (memory.try_word(start + 32) or 0) >> 16 & 0xFFFF
    first = memory.try_word(start + 8) or 0
    return bool(first) and fits(OP_SLAB + 8 * words, usable) and memory.try_word(first + 8) == first


def _is_slab(memory: Memory, start: int, usable: int) -> bool:
    """Pages of g_slice_alloc() (glib before 2.76): struct _SlabInfo at the end is in a ring of such."""
    page = 1 << usable.bit_length()
    if not SLICES <= page <= MOST_SLICES or start % page or not fits(page - SLICES_BEHIND, usable):
        return False
    info = start + page - SLAB_INFO
    after, before = memory.try_word(info + 16) or 0, memory.try_word(info + 24) or 0
    return bool(after and before) and memory.try_word(after + 24) == info == memory.try_word(before + 16)
