"""What all_recognisers.py asks of each block by its first words, of all blocks in a window at once: with numpy.

Most blocks are told so, or it is seen that no rule but their size fits them. What may be something else (an array, a
node of which links have to be followed, text that is not plain) is left to the form that asks one by one: each block
has the same kind with both.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Optional, Sequence

from .all_recognisers import BEGINS, NONE, POINTERS, TEXTS, ZEROS, Catalogue
from .contents import LOOKED_AT, PLAIN, SHORTEST, STARTS
from .module_memory import PAGE_SHIFT

if TYPE_CHECKING:
    from ...base.array_types import Flags, Numbers

FEW = 64
"""Blocks for which it is not worth while."""
SPARSE = 256
"""Bytes from block to block on the average, from which on their heads are put side by side first."""
WORD, LEAST = 8, 24
"""Bytes of a word, and of a block that has the three words by which links are told."""
LEAST_TEXT = 256
NOT_PLAIN = bytes(byte not in PLAIN for byte in range(256))
LOW_BITS, HIGH_BITS = 0x0101010101010101, 0x8080808080808080
"""In every byte of a word: they tell where the first one is that is 0, or which are not ASCII."""
WIDE_ZEROS, WIDE_LETTERS = 0xFF00FF00FF00FF00, 0x000000FF00FF0000
"""Of two letters of two bytes each, as contents.py asks of them."""
LONGEST_LETTER = 4
"""In UTF-8: of one so near to the end of what is looked at there may be more."""


class _Heads:
    """What is looked at of some blocks: where each begins in `words`, and where that ends, in bytes."""

    def __init__(self, numpy: ModuleType, words: Numbers, starts: Numbers, ends: Numbers) -> None:
        self._numpy = numpy
        self.words, self.starts, self.ends = words, starts, ends
        self.bytes: Numbers = words.view(numpy.uint8)

    def places(self, words: Numbers) -> Numbers:
        """Of those that are not 0; and where all of them end."""
        found: Numbers = self._numpy.append(self._numpy.flatnonzero(words), len(words))
        return found

    def first_byte(self, words: Numbers) -> Numbers:
        """Of each block the offset of the first byte in `words` that is not 0, or its end where that comes first."""
        numpy, places = self._numpy, self.places(words)
        at = places[numpy.searchsorted(places, self.starts >> 3)]
        word = words[at.clip(max=len(words) - 1)]
        within = numpy.log2((word & (~word + numpy.uint64(1))).clip(min=1)).astype(numpy.int64) >> 3
        offsets: Numbers = numpy.minimum((at << 3) + within, self.ends)
        return offsets

    def is_empty(self, places: Numbers) -> Flags:
        """Whether nothing but zeros follows from these words on."""
        filled = self.places(self.words)
        empty: Flags = filled[self._numpy.searchsorted(filled, places)] << 3 >= self.ends
        return empty


class _Window:
    """What was read at once, and the blocks in it."""

    def __init__(self, numpy: ModuleType, data: bytes, base: int, users: Sequence[int], usables: Sequence[int]) -> None:
        self._numpy, self.base = numpy, base
        self.words: Numbers = numpy.frombuffer(data, dtype=numpy.uint64)
        self.starts: Numbers = numpy.asarray(users, dtype=numpy.uint64).astype(numpy.int64) - base
        """Offsets in bytes; `ends` are those of what is looked at."""
        self.usables: Numbers = numpy.asarray(usables, dtype=numpy.uint64).astype(numpy.int64)
        self.ends: Numbers = numpy.minimum(self.starts + numpy.minimum(self.usables, LOOKED_AT), len(data))
        self.is_sparse = len(data) > SPARSE * len(users)

    def word(self, blocks: Numbers, place: int) -> Numbers:
        """That word of each. What lies behind its end says nothing."""
        found: Numbers = self.words[((self.starts[blocks] >> 3) + place).clip(max=len(self.words) - 1)]
        return found

    def rows(self, blocks: Numbers) -> tuple[Numbers, Numbers]:
        """All words of each that are looked at, 0 behind its end; and how many these are."""
        numpy, first = self._numpy, self.starts[blocks] >> 3
        counts: Numbers = (self.ends[blocks] >> 3) - first
        columns = numpy.arange(int(counts.max(initial=0)))
        words: Numbers = self.words[(first[:, None] + columns).clip(max=len(self.words) - 1)]
        words[columns >= counts[:, None]] = 0
        return words, counts

    def heads(self, blocks: Numbers) -> _Heads:
        """Side by side, where much lies between."""
        numpy, starts, ends = self._numpy, self.starts[blocks], self.ends[blocks]
        if not self.is_sparse:
            return _Heads(numpy, self.words, starts, ends=ends)
        lengths = ends - starts
        last: Numbers = numpy.cumsum(lengths)
        ahead = numpy.repeat((starts - last + lengths) >> 3, lengths >> 3)
        return _Heads(numpy, self.words[numpy.arange(len(ahead)) + ahead], last - lengths, ends=last)


class ManyBlocks:
    """The blocks of one image."""

    def __init__(self, numpy: ModuleType, catalogue: Catalogue) -> None:
        self._numpy, self._catalogue = numpy, catalogue
        self._low, self._room = numpy.uint64(catalogue.low), numpy.uint64(catalogue.high - catalogue.low)
        # of the modules' pages, those that lie back to back
        pages = numpy.array(sorted(catalogue.ground.pages), dtype=numpy.uint64)
        apart = numpy.flatnonzero(numpy.diff(pages) > 1)
        self._firsts = pages[numpy.append(0, apart + 1)] if len(pages) else pages
        self._lasts = pages[numpy.append(apart, len(pages) - 1)] if len(pages) else pages
        self._begins_text: Flags = numpy.frombuffer(STARTS, dtype=bool)
        data = sorted((each.start, each.end) for each in catalogue.ground.regions if each.writable)
        self._data_starts = numpy.array([start for start, _ in data], dtype=numpy.uint64)
        self._data_ends = numpy.array([end for _, end in data], dtype=numpy.uint64)
        memory = catalogue.ground.memory
        is_native = memory.pointer_size == WORD and memory.byte_order == sys.byteorder == "little"
        # where a runtime's or a program's own words come first, hardly any block is left to be told at once
        self.runs = is_native and catalogue.asks_blocks_alone

    def told(
        self, data: bytes, base: int, users: Sequence[int], usables: Sequence[int], told: Optional[Sequence[int]]
    ) -> Optional[Numbers]:
        """Of each block its kind's number, or NONE where that is asked one by one; None: all are. As
        Catalogue.classify_many."""
        if len(users) < FEW:
            return None
        numpy = self._numpy
        window = _Window(numpy, data, base, users, usables=usables)
        firsts = window.words[window.starts >> 3]
        kinds: Numbers = numpy.full(len(firsts), NONE, dtype=numpy.int32)
        left = numpy.ones(len(firsts), dtype=bool)
        in_modules = numpy.flatnonzero(self._in_modules(firsts))
        if len(in_modules):
            left[in_modules] = self._by_vtables(window, firsts, in_modules, kinds)
        if told is not None:
            known = numpy.asarray(told, dtype=numpy.int32)
            kinds[left] = known[left]
            left &= known == NONE
        blocks = numpy.flatnonzero(left & (window.ends - window.starts >= LEAST))
        self._by_contents(window, blocks, firsts[blocks], kinds)
        return kinds

    def _in_modules(self, words: Numbers) -> Flags:
        numpy, pages = self._numpy, words >> self._numpy.uint64(PAGE_SHIFT)
        if not len(self._firsts):
            nowhere: Flags = numpy.zeros(len(words), dtype=bool)
            return nowhere
        at = numpy.searchsorted(self._firsts, pages, side="right") - 1
        inside: Flags = (at >= 0) & (pages <= self._lasts[at])
        return inside

    def _by_vtables(self, window: _Window, firsts: Numbers, blocks: Numbers, kinds: Numbers) -> Flags:
        """Objects of which others of that size were met before; of each of these blocks, whether it has no vtable."""
        numpy, seen = self._numpy, self._catalogue.tables
        words, which = numpy.unique(firsts[blocks], return_inverse=True)
        tables = [seen.get(word, NONE) for word in words.tolist()]
        without: Flags = numpy.array([table is None for table in tables], dtype=bool)[which]
        sizes, size = numpy.unique(window.usables[blocks], return_inverse=True)
        pairs, pair = numpy.unique(which * len(sizes) + size, return_inverse=True)
        lengths = sizes.tolist()
        numbers = []
        for each in pairs.tolist():
            table = tables[each // len(lengths)]
            known = table is not None and table is not NONE
            numbers.append(table.sizes.get(lengths[each % len(lengths)], NONE) if known else NONE)
        found = numpy.array(numbers, dtype=numpy.int32)[pair]
        found[window.starts[blocks] + window.usables[blocks] > window.words.nbytes] = NONE
        # several objects side by side have it again
        likely = numpy.flatnonzero(window.words - words[0] <= words[-1] - words[0])
        owners = numpy.searchsorted(window.starts[blocks] >> 3, likely, side="right") - 1
        own = blocks[numpy.maximum(owners, 0)]
        ahead = (likely << 3) - window.starts[own]
        again = (owners >= 0) & (ahead > 0) & (ahead < window.usables[own]) & (window.words[likely] == firsts[own])
        found[owners[again]] = NONE
        kinds[blocks] = found
        return without

    def _by_contents(self, window: _Window, blocks: Numbers, firsts: Numbers, kinds: Numbers) -> None:
        """Text, zeros, and what no rule fits but the size."""
        numpy = self._numpy
        inside = self._inside(firsts)
        is_empty = firsts == 0
        heads = window.heads(blocks[is_empty])
        is_empty[is_empty] = heads.is_empty(heads.starts >> 3)
        is_whole = window.usables[blocks] <= LOOKED_AT
        kinds[blocks[is_empty & is_whole]] = self._catalogue.known(ZEROS)
        kinds[blocks[is_empty & ~is_whole]] = self._catalogue.known(BEGINS)
        rest = ~is_empty
        begins = self._begins_text[(firsts & numpy.uint64(0xFF)).astype(numpy.int64)]
        may_be_text = numpy.flatnonzero(begins & ~inside & (firsts >= LEAST_TEXT))
        if len(may_be_text):
            is_text = self._is_plain_text(window.heads(blocks[may_be_text]))
            kinds[blocks[may_be_text[is_text]]] = self._catalogue.known(TEXTS["ASCII"])
            others = may_be_text[~is_text]
            rest[may_be_text[is_text]] = False
            rest[others] = ~self._may_be_other_text(window.heads(blocks[others]), firsts[others])
        of = numpy.flatnonzero(rest)
        of = of[~self._may_be_node(window, blocks[of], firsts[of], inside[of])]
        has_pointers = self._has_pointers(window, blocks[of])
        kinds[blocks[of[has_pointers]]] = self._catalogue.known(POINTERS)
        of = of[~has_pointers]
        sizes, size = numpy.unique(window.usables[blocks[of]], return_inverse=True)
        numbers = numpy.array([self._catalogue.by_size(each) for each in sizes.tolist()], dtype=numpy.int32)
        kinds[blocks[of]] = numbers[size]

    def _inside(self, words: Numbers) -> Flags:
        inside: Flags = words - self._low < self._room
        return inside

    def _is_plain_text(self, heads: _Heads) -> Flags:
        """Letters up to its end or a 0; where they take up less than half of it, more zeros."""
        numpy, starts, ends = self._numpy, heads.starts, heads.ends
        stops = heads.first_byte(numpy.frombuffer(heads.words.tobytes().translate(NOT_PLAIN), dtype=numpy.uint64))
        at = numpy.minimum(stops, heads.words.nbytes - 1)
        is_ended = (stops == ends) | (heads.bytes[at] == 0)
        tail = heads.words[at >> 3] >> ((at & 7) << 3).astype(numpy.uint64)
        fills = (2 * stops >= starts + ends) | ((tail == 0) & heads.is_empty((at >> 3) + 1))
        is_text: Flags = (stops - starts >= SHORTEST) & is_ended & fills
        return is_text

    def _may_be_other_text(self, heads: _Heads, firsts: Numbers) -> Flags:
        """Whether what is no plain text, but begins as text does, may be one with letters of several bytes: see
        contents.text_in."""
        numpy, number = self._numpy, self._numpy.uint64
        zeros = (firsts - number(LOW_BITS)) & ~firsts & number(HIGH_BITS)
        is_short = (zeros & ~zeros + number(1)) - number(1) < (1 << 8 * SHORTEST) - 1
        low = firsts & number(0xFF)
        is_wide = (low != 0) & (firsts & number(WIDE_ZEROS) == 0) & (firsts & number(WIDE_LETTERS) != 0)
        is_wide |= (low == 0) & (firsts & number(0xFFFFFF00) != 0)
        # the first letter that is not ASCII
        highs = heads.first_byte(heads.words & number(HIGH_BITS))
        lead, following = (heads.bytes[numpy.minimum(highs + more, heads.words.nbytes - 1)] for more in (0, 1))
        is_letter = (lead >= 0xC2) & (lead < 0xF5) & (following >= 0x80) & (following < 0xC0)
        near = heads.ends - highs
        is_narrow = (near > 0) & (is_letter | (near <= LONGEST_LETTER))
        may_be: Flags = numpy.where(is_short, is_wide, is_narrow)
        return may_be

    def _may_be_node(self, window: _Window, blocks: Numbers, firsts: Numbers, inside: Flags) -> Flags:
        """Whether it may be a node: what NodeLinks asks first of all, and what it asks of words that are here."""
        numpy, number = self._numpy, self._numpy.uint64
        seconds, thirds, fourths = (window.word(blocks, place) for place in (1, 2, 3))
        second_inside, third_inside = self._inside(seconds), self._inside(thirds)
        has_fourth = window.ends[blocks] - window.starts[blocks] > LEAST
        own = (window.starts[blocks] + window.base).astype(numpy.uint64)

        def lead_back(pointers: Numbers, places: Sequence[int]) -> Flags:
            """Whether one of these words there may be the block's address: it is not known of what lies elsewhere."""
            at = pointers - number(window.base) >> number(3)
            here = at + number(places[-1]) < len(window.words)
            at = numpy.where(here, at, 0).astype(numpy.int64)
            back = ~here
            for place in places:
                back |= window.words[numpy.minimum(at + place, len(window.words) - 1)] == own
            possible: Flags = back & (pointers != 0) & (pointers & number(WORD - 1) == 0)
            return possible

        is_node = (firsts & number(0xFFFFFFFF)) < 2
        is_node &= (thirds == 0) | third_inside
        is_node &= has_fourth & ((fourths == 0) | self._inside(fourths))
        is_node &= lead_back(seconds, (1, 2, 3))
        is_in_list = inside | second_inside
        is_in_list &= lead_back(firsts, (1,)) & lead_back(seconds, (0,))
        is_other = has_fourth & ((fourths & number(0xFF)) < 2)
        is_other &= ((firsts == 0) | inside) & ((seconds == 0) | second_inside) & lead_back(thirds, (0, 1))
        may_be: Flags = is_node | is_in_list | is_other
        return may_be

    def _has_pointers(self, window: _Window, blocks: Numbers) -> Flags:
        """contents.are_addresses of each that is no node."""
        numpy = self._numpy
        is_some: Flags = numpy.zeros(len(blocks), dtype=bool)
        for place in range(3):
            is_some |= self._inside(window.word(blocks, place))
        words, counts = window.rows(blocks[is_some])
        pointers = self._inside(words) & (words & numpy.uint64(WORD - 1) == 0)
        inside, some = numpy.count_nonzero(pointers, axis=1), numpy.count_nonzero(words, axis=1)
        enough = (inside >= 3) & (4 * inside >= 3 * some) & (2 * some >= counts)
        at = numpy.searchsorted(self._data_starts, words[enough], side="right") - 1
        is_data = pointers[enough] & (at >= 0) & (words[enough] < self._data_ends[at])
        enough[enough] = 4 * numpy.count_nonzero(is_data, axis=1) >= 3 * some[enough]
        is_some[is_some] = enough
        return is_some
