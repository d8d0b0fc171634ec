"""Pointers in words: those of roots, with which all that is looked for begins, and those of the heap."""

from __future__ import annotations

from array import array
from itertools import accumulate
from types import ModuleType
from typing import TYPE_CHECKING, Iterator, NamedTuple, Optional, Sequence, Union

from ...base.worker_pool import Meter
from ...sources.target import Span
from ..pointer_finder import Finder
from .blocks import ALIGNED, DEEP, FLAGS, FRONT, INSIDE, LOW, STALE, LiveBlocks, edge_to, is_low_number
from .refs import ImageSearch
from .stale_words import COUNTS, Collected, StaleWords

if TYPE_CHECKING:
    from ...base.array_types import Numbers

SHIFT = 3
"""Blocks lie at multiples of 8 at least."""
APART = 1 << 32
"""Between starts further apart than that another bitmap begins."""
BITS = 64
LARGE = 1280
"""Where there are more addresses for each block, there is no bitmap: it takes a byte for 32 of them."""


class Places:
    """Which block has an address."""

    def __init__(self, numpy: ModuleType, blocks: LiveBlocks) -> None:
        self._numpy = numpy
        self._starts = numpy.frombuffer(blocks.starts, dtype=numpy.uint64)
        self._ends = numpy.frombuffer(blocks.ends, dtype=numpy.uint64)
        self._parts = [_Part(numpy, blocks, first, last) for first, last in _runs(blocks)]

    def of(self, values: Numbers) -> tuple[Numbers, Numbers]:
        """(the indices of the values that lead to a block, which block each)."""
        numpy = self._numpy
        parts = [each.of(values) for each in self._parts]
        if len(parts) == 1:
            index, which = parts[0]
        else:
            index = numpy.concatenate([each for each, _ in parts]) if parts else numpy.zeros(0, dtype=numpy.int64)
            which = numpy.concatenate([each for _, each in parts]) if parts else numpy.zeros(0, dtype=numpy.int64)
        inside = values[index] <= self._ends[which]
        index, which = index[inside], which[inside]
        order = numpy.argsort(index, kind="stable") if len(parts) > 1 else slice(None)
        return index[order], which[order]

    def around(self, addresses: Numbers, word: int) -> tuple[Numbers, Numbers]:
        """The same of where words lie, which are in order: (the indices of those that are a block's, whose each is)."""
        numpy, starts = self._numpy, self._starts
        first = max(0, int(numpy.searchsorted(starts, addresses[0], side="right")) - 1)
        last = int(numpy.searchsorted(starts, addresses[-1], side="right"))
        begins = numpy.searchsorted(addresses, starts[first:last])
        # a word has to end with the block
        counts = numpy.searchsorted(addresses, self._ends[first:last] - numpy.uint64(word - 2)) - begins
        numpy.maximum(counts, 0, out=counts)
        before = numpy.cumsum(counts) - counts
        index = numpy.repeat(begins - before, counts)
        index += numpy.arange(len(index))
        return index, numpy.repeat(numpy.arange(first, last), counts)

    def edges(self, values: Numbers, which: Numbers) -> Numbers:
        past = values - self._starts[which]
        edges: Numbers = which << FLAGS | (past > FRONT) * DEEP | (past > 0) * INSIDE
        return edges


def _runs(blocks: LiveBlocks) -> Iterator[tuple[int, int]]:
    """(first, last and one) of blocks that begin close together, a long one's end aside."""
    first = last = 0
    for count in blocks.counts:
        last += count
        if last == len(blocks) or blocks.starts[last] - blocks.starts[last - 1] > APART:
            yield first, last
            first = last


class _Part:
    """A bitmap of some blocks' starts."""

    def __init__(self, numpy: ModuleType, blocks: LiveBlocks, first: int, last: int) -> None:
        self._numpy, self._first = numpy, first
        mine = numpy.frombuffer(blocks.starts, dtype=numpy.uint64)[first:last]
        self._starts, self._low = mine, mine[0]
        # a damaged block's end may be anywhere
        self._end = max(int(mine[-1] - mine[0]), blocks.ends[last - 1] - blocks.starts[first])
        self._are_few = int(mine[-1] - mine[0]) > LARGE * len(mine)
        if not self._are_few:
            self._make_bitmap()

    def _make_bitmap(self) -> None:
        numpy = self._numpy
        places = (self._starts - self._low) >> numpy.uint64(SHIFT)
        self._bits = numpy.zeros(int(places[-1]) // BITS + 1, dtype=numpy.uint64)
        numpy.bitwise_or.at(self._bits, (places // BITS).astype(numpy.int64), numpy.uint64(1) << (places % BITS))
        counts = numpy.zeros(len(self._bits) + 1, dtype=numpy.int64)
        numpy.cumsum(self._ones(self._bits), out=counts[1:])
        self._before = counts
        self._reach = int(places[-1]) << SHIFT

    def _ones(self, words: Numbers) -> Numbers:
        numpy = self._numpy
        if hasattr(numpy, "bitwise_count"):
            counts: Numbers = numpy.bitwise_count(words).astype(numpy.int64)
            return counts
        # before numpy 2
        table = numpy.array([bin(each).count("1") for each in range(1 << 16)], dtype=numpy.int64)
        counts = table[words.view(numpy.uint16).reshape(-1, 4)].sum(axis=1)
        return counts

    def of(self, values: Numbers) -> tuple[Numbers, Numbers]:
        """Of what lies past the first start the last start before it: a long block's end may lie beyond the bitmap."""
        numpy = self._numpy
        past = values - self._low
        index = numpy.flatnonzero(past <= numpy.uint64(self._end))
        if self._are_few:
            return index, numpy.searchsorted(self._starts, values[index], side="right") + (self._first - 1)
        place = numpy.minimum(past[index], numpy.uint64(self._reach)) >> numpy.uint64(SHIFT)
        word = (place >> numpy.uint64(BITS.bit_length() - 1)).view(numpy.int64)
        # as many bits as stand in front of the place's own, and that
        place &= numpy.uint64(BITS - 1)
        upto = self._bits[word] & (numpy.uint64(0xFFFFFFFFFFFFFFFF) >> (numpy.uint64(BITS - 1) - place))
        return index, self._before[word] + self._ones(upto) - 1 + self._first


class Pointers:
    """Pointers of a range of memory, window by window."""

    def __init__(self, numpy: ModuleType, search: ImageSearch) -> None:
        self.numpy: Optional[ModuleType] = numpy
        self._numpy, self._search = numpy, search
        self._places = Places(numpy, search.blocks)
        self._type = numpy.dtype(numpy.uint64 if search.session.memory.pointer_size == 8 else numpy.uint32)
        self._is_low = self._type.itemsize == ALIGNED and search.blocks.starts[0] < LOW

    def of(self, span: Span, meter: Meter) -> Iterator[tuple[Numbers, Numbers]]:
        """(addresses, edges) of each window; edges of low numbers are marked as stale."""
        numpy, size = self._numpy, self._type.itemsize
        for at, words, _ in self._search.words.of(span.start, span.end):
            values = numpy.frombuffer(words, dtype=self._type)
            if size != 8:
                values = values.astype(numpy.uint64)
            index, which = self._places.of(values)
            if len(index):
                leading = values[index]
                edges = self._places.edges(leading, which)
                if self._is_low:
                    odd = (leading < numpy.uint64(LOW)) & (leading % numpy.uint64(ALIGNED) > 0)
                    edges |= (odd & (edges & DEEP > 0)) * STALE
                yield index * size + at, edges
        meter.advance(self._search.words.bytes(*span))

    def pointers(self, span: Span, meter: Meter) -> Iterator[tuple[int, int]]:
        for addresses, edges in self.of(span, meter):
            yield from zip(addresses.tolist(), edges.tolist())

    def sources(
        self, spans: Sequence[Span], table: StaleWords, stale: Collected, meter: Meter
    ) -> tuple[Sequence[int], Sequence[int]]:
        numpy, blocks = self._numpy, self._search.blocks
        word = self._type.itemsize
        counts = numpy.zeros(len(blocks) + 1, dtype=numpy.int64)
        # whoever goes through them one by one is twice as fast with arrays of Python's
        all_edges = array("I")
        for span in spans:
            for addresses, edges in self.of(span, meter):
                addresses = addresses.astype(numpy.uint64)
                index, source = self._places.around(addresses, word)
                edges = edges[index]
                # what points to itself is not held by that
                others = edges >> FLAGS != source
                addresses, source, edges = addresses[index][others], source[others], edges[others]
                odd = edges & STALE > 0
                edges &= ~STALE
                whys = table.whys(numpy, addresses, source, odd) if len(source) else None
                if whys is not None:
                    excluded = whys > 0
                    edges[excluded] |= STALE
                    stale.extend(addresses[excluded], source[excluded], edges[excluded], whys[excluded])
                if len(source):
                    first = int(source[0])
                    some = numpy.bincount(source - first)
                    counts[first + 1 : first + 1 + len(some)] += some
                    all_edges.frombytes(edges.astype(numpy.uint32).tobytes())
        offsets = array("Q")
        offsets.frombytes(numpy.cumsum(counts).tobytes())
        return offsets, all_edges


class Seed(NamedTuple):
    """A pointer that a root has."""

    root: int
    """Its number among the ranges, or after these among the words."""
    address: int
    """Where it lies; 0 for a word of its own."""
    edge: int


Look = Union[Pointers, "_OneByOne"]
"""Finds pointers to blocks: with numpy, or without."""


def look_of(search: ImageSearch) -> Look:
    numpy = search.numpy if len(search.blocks) else None
    return _OneByOne(search) if numpy is None else Pointers(numpy, search)


def root_pointers(search: ImageSearch, look: Optional[Look] = None) -> Sequence[Seed]:
    """All that roots have, looked for once. Of those in ranges none is marked as stale: the table may need them."""
    if search.root_pointers is None:
        search.root_pointers = _found(search, look or look_of(search))
    return search.root_pointers


def _found(search: ImageSearch, look: Look) -> list[Seed]:
    blocks, roots = search.blocks, search.roots
    seeds: list[Seed] = []
    size = sum(search.words.bytes(each.start, each.end) for each in roots.ranges)
    with search.session.meter("looking into roots", size) as meter:
        for number, root in enumerate(roots.ranges):
            found = look.pointers(Span(root.start, root.end), meter)
            seeds += [Seed(number, address, edge & ~STALE) for address, edge in found]
    for number, word in enumerate(roots.words, len(roots.ranges)):
        index = blocks.find(word.value)
        if index >= 0:
            edge = edge_to(index, word.value - blocks.starts[index])
            seeds.append(Seed(number, 0, edge if word.stale is None else edge | STALE))
    return seeds


class _OneByOne:
    numpy: Optional[ModuleType] = None

    def __init__(self, search: ImageSearch) -> None:
        blocks, word = search.blocks, search.session.memory.pointer_size
        self._search, self._word = search, word
        self._finder = Finder(blocks.starts, blocks.ends, blocks.extents, word)

    def pointers(self, span: Span, meter: Meter) -> Iterator[tuple[int, int]]:
        word, starts, words = self._word, self._search.blocks.starts, self._search.words
        for at, some, _ in words.of(span.start, span.end):
            for index, which in self._finder.hits(some):
                value, past = some[index], some[index] - starts[which]
                odd = STALE if is_low_number(value, past, word) else 0
                yield at + index * word, edge_to(which, past) | odd
        meter.advance(words.bytes(*span))

    def sources(
        self, spans: Sequence[Span], table: StaleWords, stale: Collected, meter: Meter
    ) -> tuple[Sequence[int], Sequence[int]]:
        blocks, word, touched = self._search.blocks, self._word, table.touched
        starts, ends, last = blocks.starts, blocks.ends, len(blocks) - 1
        at, counts, edges = 0, array("I", bytes(4 * len(blocks))), array("I")
        append = edges.append
        for span in spans:
            for address, edge in self.pointers(span, meter):
                while at < last and starts[at + 1] <= address:
                    at += 1
                # a block that points to itself is not held by that
                if starts[at] <= address <= ends[at] - word + 1 and edge >> FLAGS != at:
                    odd = bool(edge & STALE)
                    why = table.why(address, at, odd) if odd or touched[at] else COUNTS
                    edge &= ~STALE
                    if why != COUNTS:
                        edge |= STALE
                        stale.add(address, at, edge, why)
                    counts[at] += 1
                    append(edge)
        return array("Q", [0, *accumulate(counts)]), edges
