"""Which words of a range or a block can hold pointers at all: one table for all that is known about that.

What leads to a block from another word is an edge that is marked STALE. It counts where it could be wrong to leave it
out (leaks), and holds a block only where nothing else does: see leads.py. What is not in the table may hold
pointers.

stale_rows.py fills the table with what an image itself tells. Types from debug information are rows of the same table:
whoever knows the types of blocks calls `declare` once for each type, with the starts of all blocks that are of it, from
a function in stale_rows.SOURCES. That runs before the heap is looked through. The pointers of roots are known by then
(root_pointers.py); the graph is not there yet, so that a source reads blocks by itself.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from itertools import islice
from operator import le
from types import ModuleType
from typing import TYPE_CHECKING, Iterator, NamedTuple, Optional, Sequence, Union

from ...base.model import STALE as WHYS
from ...sources.target import Span
from .blocks import LiveBlocks

if TYPE_CHECKING:
    from ...base.array_types import Numbers

NO_BLOCK = -1
"""In place of a block's number: a root has the word."""
COUNTS = 0
"""Of a word: it may hold a pointer. Else 1 and more: the place in WHYS, and one."""


class PointerWords(NamedTuple):
    """Which words of some blocks can hold pointers."""

    why: str
    """One of WHYS: what is said of the others."""
    size: int
    """After so many bytes the same comes again: of one element of an array, or of the whole struct."""
    offsets: Sequence[int]
    """Where in these a pointer can be. Every other word is excluded."""
    begins: int = 0
    """So far into the block the first begins (behind the count of new T[n]). In front of it no word holds a pointer."""
    beyond: Optional[str] = None
    """What is said of words behind the part that is used; None: they may hold pointers, too (a struct and a tail of
    which nothing is known)."""


class _Range(NamedTuple):
    start: int
    end: int
    why: int
    """The place in WHYS, and one."""


class StaleWords:
    """The table, for one image."""

    def __init__(self, blocks: LiveBlocks, word: int, numpy: Optional[ModuleType] = None) -> None:
        self._blocks, self._word, self._numpy = blocks, word, numpy
        self._ranges: list[_Range] = []
        self._sorted = True
        self._layouts: list[PointerWords] = []
        self._may: list[bytearray] = []
        """Of each layout, whether each of its words may hold a pointer."""
        self._layout = array("I")
        """Of each block its layout's number, and one; 0: there is none. Empty as long as no block has one."""
        self._used = array("Q")
        """Of each block that has one: so many bytes are laid out so."""
        self._columns: Optional[_Columns] = None
        self._touched = bytearray(len(blocks))
        """Of each block whether a row is about it."""

    def exclude(self, start: int, end: int, why: str) -> None:
        """No word of the range, which no other row may share words with, holds a pointer."""
        if start >= end:
            return
        self._ranges.append(_Range(start, end, _number(why)))
        self._sorted = False
        first = max(0, bisect_right(self._blocks.starts, start) - 1)
        last = bisect_left(self._blocks.starts, end)
        self._touched[first:last] = b"\1" * max(0, last - first)

    def declare(
        self, starts: Sequence[int], layout: PointerWords, used: Union[int, Sequence[int], None] = None
    ) -> None:
        """Of the blocks that begin at `starts` (what malloc returned; an array is best) only some words can hold
        pointers. `used`: so many bytes of each are laid out so, of all or one by one; None: the whole block is. What is
        no live block's start is left out. What was declared last counts."""
        if not self._layout:
            self._layout = array("I", bytes(4 * len(self._blocks)))
            self._used = array("Q", bytes(8 * len(self._blocks)))
        self._layouts.append(layout)
        self._columns = None
        words = max(1, layout.size // self._word)
        may = bytearray(words)
        for offset in layout.offsets:
            may[offset // self._word % words] = 1
        self._may.append(may)
        if self._numpy is not None:
            self._declare_at_once(self._numpy, starts, used)
            return
        blocks = self._blocks
        for place, start in enumerate(starts):
            at = bisect_left(blocks.starts, start)
            if at < len(blocks) and blocks.starts[at] == start:
                size = blocks.ends[at] - start + 1
                self._layout[at] = len(self._layouts)
                self._used[at] = size if used is None else min(size, used if isinstance(used, int) else used[place])
                self._touched[at] = 1

    def _declare_at_once(self, numpy: ModuleType, starts: Sequence[int], used: Union[int, Sequence[int], None]) -> None:
        begins = numpy.asarray(starts, dtype=numpy.uint64)
        known = numpy.frombuffer(self._blocks.starts, dtype=numpy.uint64)
        at = numpy.minimum(numpy.searchsorted(known, begins), len(known) - 1)
        right = known[at] == begins
        at = at[right]
        sizes = numpy.frombuffer(self._blocks.ends, dtype=numpy.uint64)[at] - known[at] + numpy.uint64(1)
        if used is not None:
            several = numpy.asarray(used, dtype=numpy.uint64)
            sizes = numpy.minimum(sizes, several[right] if several.ndim else several)
        numpy.frombuffer(self._layout, dtype=numpy.uint32)[at] = len(self._layouts)
        numpy.frombuffer(self._used, dtype=numpy.uint64)[at] = sizes
        numpy.frombuffer(self._touched, dtype=numpy.uint8)[at] = 1

    def why(self, address: int, block: int, odd: bool = False) -> int:
        """Of one word: COUNTS or why it does not. `block`: which one it lies in, or NO_BLOCK. `odd`: it may be a
        number, where no type says that it is a pointer."""
        at = bisect_right(self._in_order, (address, 1 << 65)) - 1
        if at >= 0 and address < self._ranges[at].end:
            return self._ranges[at].why
        number = self._layout[block] if block != NO_BLOCK and self._layout else 0
        if not number:
            return _number("low-number") if odd else COUNTS
        layout, may = self._layouts[number - 1], self._may[number - 1]
        past = address - self._blocks.starts[block]
        if past >= self._used[block]:
            return _number(layout.beyond)
        within = past - layout.begins
        return COUNTS if within >= 0 and may[within // self._word % len(may)] else _number(layout.why)

    @property
    def _in_order(self) -> Sequence[_Range]:
        if not self._sorted:
            self._ranges.sort()
            self._sorted = True
        return self._ranges

    @property
    def touched(self) -> bytearray:
        """Of each block whether `why` need be asked for its words."""
        return self._touched

    def ranges(self) -> Iterator[Span]:
        """What is excluded by addresses."""
        return (Span(start, end) for start, end, _ in self._in_order)

    def whys(self, numpy: ModuleType, addresses: Numbers, blocks: Numbers, odd: Numbers) -> Optional[Numbers]:
        """The same of many words of blocks, which are in order; None where all of them count."""
        touched = numpy.frombuffer(self._touched, dtype=numpy.uint8)[blocks]
        if not touched.any() and not odd.any():
            return None
        whys = odd * numpy.uint8(_number("low-number"))
        if self._layout:
            self._by_layout(numpy, addresses, blocks, whys)
        low, high = int(addresses[0]), int(addresses[-1])
        last = bisect_right(self._in_order, (high, 1 << 65))
        for start, end, why in self._ranges[max(0, bisect_left(self._ranges, (low,)) - 1) : last]:
            first, behind = numpy.searchsorted(addresses, numpy.array([start, end], dtype=addresses.dtype))
            whys[first:behind] = why
        return whys if whys.any() else None

    def _by_layout(self, numpy: ModuleType, addresses: Numbers, blocks: Numbers, whys: Numbers) -> None:
        numbers = numpy.frombuffer(self._layout, dtype=numpy.uint32)[blocks]
        at = numpy.flatnonzero(numbers)
        if not len(at):
            return
        columns = self._columns = self._columns or _Columns(numpy, self._layouts, self._may)
        of, which = blocks[at], numbers[at].astype(numpy.int64) - 1
        starts = numpy.frombuffer(self._blocks.starts, dtype=numpy.uint64)
        past = (addresses[at].astype(numpy.uint64) - starts[of]).astype(numpy.int64)
        within = past - columns.begins[which]
        places = columns.firsts[which] + within // self._word % columns.words[which]
        counts = (within >= 0) & (columns.may[places] > 0)
        behind = past >= numpy.frombuffer(self._used, dtype=numpy.uint64)[of].astype(numpy.int64)
        inner = numpy.where(counts, numpy.uint8(COUNTS), columns.whys[which])
        whys[at] = numpy.where(behind, columns.beyond[which], inner)


class _Columns:
    """Layouts as numpy's arrays."""

    def __init__(self, numpy: ModuleType, layouts: Sequence[PointerWords], may: Sequence[bytearray]) -> None:
        self.words: Numbers = numpy.array([len(each) for each in may], dtype=numpy.int64)
        self.firsts: Numbers = numpy.cumsum(self.words) - self.words
        """Where those of each begin in `may`."""
        self.may: Numbers = numpy.frombuffer(b"".join(may), dtype=numpy.uint8)
        self.begins: Numbers = numpy.array([each.begins for each in layouts], dtype=numpy.int64)
        self.whys: Numbers = numpy.array([_number(each.why) for each in layouts], dtype=numpy.uint8)
        self.beyond: Numbers = numpy.array([_number(each.beyond) for each in layouts], dtype=numpy.uint8)


def _number(why: Optional[str]) -> int:
    """The place in WHYS, and one."""
    return WHYS.index(why) + 1 if why is not None else COUNTS


class StaleEdges:
    """The edges that come from excluded words, in order of these: parallel arrays."""

    def __init__(
        self,
        addresses: Sequence[int] = (),
        sources: Sequence[int] = (),
        edges: Sequence[int] = (),
        whys: Sequence[int] = (),
    ) -> None:
        self.addresses = addresses
        """Where each word lies."""
        self.sources = sources
        """The block that it lies in, or NO_BLOCK."""
        self.edges = edges
        self.whys = whys
        """Places in WHYS, and one."""

    def __len__(self) -> int:
        return len(self.addresses)

    def why(self, address: int) -> int:
        at = bisect_left(self.addresses, address)
        return self.whys[at] if at < len(self) and self.addresses[at] == address else COUNTS


class Collected:
    """Such edges as they are found."""

    def __init__(self) -> None:
        self._addresses, self._sources, self._edges, self._whys = array("Q"), array("q"), array("I"), array("B")

    def add(self, address: int, source: int, edge: int, why: int) -> None:
        self._addresses.append(address)
        self._sources.append(source)
        self._edges.append(edge)
        self._whys.append(why)

    def extend(self, addresses: Numbers, sources: Numbers, edges: Numbers, whys: Numbers) -> None:
        """By arrays of numpy's."""
        self._addresses.frombytes(addresses.astype("u8").tobytes())
        self._sources.frombytes(sources.astype("i8").tobytes())
        self._edges.frombytes(edges.astype("u4").tobytes())
        self._whys.frombytes(whys.astype("u1").tobytes())

    def in_order(self) -> StaleEdges:
        """Those of roots lie between the others."""
        columns = self._addresses, self._sources, self._edges, self._whys
        if all(map(le, self._addresses, islice(self._addresses, 1, None))):
            return StaleEdges(*columns)
        order = sorted(range(len(self._addresses)), key=self._addresses.__getitem__)
        return StaleEdges(*(array(each.typecode, map(each.__getitem__, order)) for each in columns))


def why_text(why: int) -> Optional[str]:
    """One of WHYS; None: the word counts."""
    return WHYS[why - 1] if why != COUNTS else None
