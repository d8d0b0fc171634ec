"""What would leave memory with what an owner holds: pages on which nothing else is, once free chunks have joined.

malloc_trim(0) keeps the page in which a free chunk's links lie: what is in use in front of it reaches so much further.
Numpy, where it is worth it, gives the same. analysis/pins.py asks what of that is more than goes back now.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from functools import reduce
from heapq import merge
from itertools import islice
from operator import or_
from types import ModuleType
from typing import TYPE_CHECKING, Iterator, Mapping, NamedTuple, Optional, Sequence, Union

from ...analysis.report import Present
from ...analysis.trim import first_whole
from ...base.model import Heap
from ...session.resident import pages_of
from ...session.session import Session
from ...sources.target import Span
from .blocks import NOBODY, Join, LiveBlocks, OwnerPages, nobodys
from .dominators import lumps
from .edges import build
from .owners import ALONE, UNREACHED, Owners, find_owners
from .refs import ImageSearch

if TYPE_CHECKING:
    from ...base.array_types import Numbers

AT_ONCE = 1 << 16
"""So many stretches are looked at together."""


class _Touched(NamedTuple):
    """Pages that somebody has something on, and who; in no order, and some of them more than once."""

    pages: Numbers
    owners: Numbers


class _Stretches(NamedTuple):
    """Of bytes that are not free, in order."""

    starts: Numbers
    ends: Numbers
    owners: Numbers


class AtOnce:
    def __init__(
        self, numpy: ModuleType, session: Session, blocks: LiveBlocks, *, whose: Sequence[int], owners: int, join: Join
    ) -> None:
        self._numpy, self._session, self._join = numpy, session, join
        self._page, self._kept = session.target.page_size, session.layout.chunk_struct
        self._header = session.layout.header
        self._starts, self._sizes = (numpy.frombuffer(each, numpy.uint64) for each in (blocks.starts, blocks.sizes))
        self._besides = numpy.array(blocks.besides, dtype=numpy.int64).reshape(-1, 2)
        self._whose = numpy.asarray(whose)
        self._resident = numpy.zeros(owners, dtype=numpy.int64)
        self._returns = numpy.zeros(owners, dtype=numpy.int64)

    @property
    def kept(self) -> list[OwnerPages]:
        return list(map(OwnerPages, self._resident.tolist(), self._returns.tolist()))

    def add(self, owner: int, resident: int) -> None:
        """What is alone on its pages."""
        self._resident[owner] += resident
        self._returns[owner] += resident

    def add_heap(self, there: Present, heap: Heap) -> None:
        numpy, size = self._numpy, self._page
        none = numpy.zeros(0, dtype=numpy.int64)
        rest = _Touched(none, none)
        for each in self._stretches(heap):
            self._sum(self._resident, there, each)
            # links of what is in front reach into the second page as well
            first, last = each.starts // size, (each.ends - 1) // size
            second, beyond = numpy.minimum(first + 1, last), first_whole(each.ends, self._kept, size) // size - 1
            pages = numpy.stack((first, second, last), axis=1).ravel()
            touched = _Touched(
                numpy.concatenate((rest.pages, pages, beyond)),
                numpy.concatenate((rest.owners, numpy.repeat(each.owners, 3), each.owners)),
            )
            # what follows begins there at the earliest
            rest = self._closed(there, heap, touched, int(each.ends[-1]) // size)
            long = last - first > 2
            self._gone(there, heap, _Stretches((first[long] + 2) * size, last[long] * size, each.owners[long]))
        self._closed(there, heap, rest, heap.end // size + 1)

    def _stretches(self, heap: Heap) -> Iterator[_Stretches]:
        """Some at a time."""
        numpy = self._numpy
        first, last = numpy.searchsorted(self._starts, numpy.array([heap.address, heap.end], numpy.uint64)).tolist()
        begin, behind = numpy.searchsorted(self._besides[:, 0], [heap.address, heap.end]).tolist()
        while first < last or begin < behind:
            high = min(last, first + AT_ONCE)
            until = behind
            if high < last:
                until = int(numpy.searchsorted(self._besides[:, 0], int(self._starts[high]) - self._header))
            starts = self._starts[first:high].astype(numpy.int64) - self._header
            ends = starts + self._sizes[first:high].astype(numpy.int64)
            others = self._besides[begin:until]
            starts, ends = numpy.concatenate((starts, others[:, 0])), numpy.concatenate((ends, others[:, 1]))
            owners = numpy.full(len(starts), NOBODY, dtype=numpy.int64)
            owners[: high - first] = self._whose[first:high]
            order = numpy.argsort(starts, kind="stable")
            yield _Stretches(starts[order], ends[order], owners[order])
            first, begin = high, until

    def _closed(self, there: Present, heap: Heap, touched: _Touched, end: int) -> _Touched:
        """Adds up the pages in front of `end`; what is left."""
        numpy, size = self._numpy, self._page
        whole = touched.pages < end
        rest = _Touched(touched.pages[~whole], touched.owners[~whole])
        pages, owners = touched.pages[whole], touched.owners[whole]
        if not len(pages):
            return rest
        order = numpy.argsort(pages, kind="stable")
        pages, owners = pages[order], owners[order]
        begins = numpy.flatnonzero(numpy.concatenate(([True], pages[1:] != pages[:-1])))
        least, most = numpy.minimum.reduceat(owners, begins), numpy.maximum.reduceat(owners, begins)
        mixed = numpy.flatnonzero(least != most)
        if self._join is nobodys:
            least[mixed] = NOBODY
        elif self._join is or_:
            least = numpy.bitwise_or.reduceat(owners, begins)
        else:
            ends = numpy.append(begins[1:], len(pages))
            for group, begin, stop in zip(mixed.tolist(), begins[mixed].tolist(), ends[mixed].tolist()):
                least[group] = reduce(self._join, dict.fromkeys(owners[begin:stop].tolist()))
        starts = pages[begins] * size
        self._gone(there, heap, _Stretches(starts, starts + size, least))
        return rest

    def _gone(self, there: Present, heap: Heap, pages: _Stretches) -> None:
        inside = (pages.starts >= heap.address) & (pages.ends <= heap.end)
        self._sum(self._returns, there, _Stretches(*(each[inside] for each in pages)))

    def _sum(self, sums: Numbers, there: Present, stretches: _Stretches) -> None:
        """What of them is in memory, to their owners."""
        owned = stretches.owners != NOBODY
        starts, ends, owners = (each[owned] for each in stretches)
        self._numpy.add.at(sums, owners, there.at_once(self._numpy, starts, ends))


class HeldPages(NamedTuple):
    """Who holds what, and what would leave memory with it."""

    owners: Owners
    kept: Optional[Sequence[OwnerPages]]
    """What each alone holds, by the holdings' numbers; None where it is not known what is in memory."""


def owned(search: ImageSearch) -> HeldPages:
    """Computed once for all who ask."""
    if search.owned is None:
        search.owned = _owned(search)
    return search.owned


def _owned(search: ImageSearch) -> HeldPages:
    owners = find_owners(search)
    numbers = 1 + max((each.number for each in owners.holdings), default=0)
    # what several hold goes back with none of them
    whose = [number if lead == ALONE else numbers for number, lead in zip(owners.whose, owners.lead)]
    kept = returns(search, whose, numbers + 1)
    return HeldPages(owners, kept[:-1] if kept is not None else None)


def returns(search: ImageSearch, whose: Sequence[int], owners: int, join: Join = nobodys) -> Optional[list[OwnerPages]]:
    """By the owners' numbers; None where it is not known what is in memory."""
    session, blocks = search.session, search.blocks
    residency = session.residency
    if residency is None or not session.started:
        return None
    sums = _sums(search, whose, owners, join)
    for header in session.headers:
        for heap in session.heaps[header.index]:
            there = Present(residency.resident_ranges(heap.address, heap.end) or ())
            sums.add_heap(there, heap)
    for block, pages in zip(session.mmapped, pages_of(session, session.mmapped)):
        number = blocks.find(block.chunk + session.layout.header)
        if number >= 0 and pages is not None:
            sums.add(whose[number], pages.resident)
    return sums.kept


def _sums(search: ImageSearch, whose: Sequence[int], owners: int, join: Join) -> Union[OneByOne, AtOnce]:
    session, blocks = search.session, search.blocks
    if search.numpy is None:
        return OneByOne(session, blocks, whose, owners, join=join)

    return AtOnce(search.numpy, session, blocks, whose=whose, owners=owners, join=join)


class _Stretch(NamedTuple):
    """Bytes of a heap that are not free, and whose they are."""

    start: int
    end: int
    owner: int


class OneByOne:
    """Without numpy."""

    def __init__(self, session: Session, blocks: LiveBlocks, whose: Sequence[int], owners: int, join: Join) -> None:
        self._session, self._blocks, self._whose, self._join = session, blocks, whose, join
        self._besides = blocks.besides
        self._page, self._kept = session.target.page_size, session.layout.chunk_struct
        self._resident, self._returns = [0] * owners, [0] * owners

    @property
    def kept(self) -> list[OwnerPages]:
        return list(map(OwnerPages, self._resident, self._returns))

    def add(self, owner: int, resident: int) -> None:
        self._resident[owner] += resident
        self._returns[owner] += resident

    def add_heap(self, there: Present, heap: Heap) -> None:
        stretches = list(self._stretches(heap))
        for start, end, owner in stretches:
            if owner != NOBODY:
                self._resident[owner] += there.within(start, end)
        for page, owner in self._pages(stretches):
            if owner != NOBODY and page.start >= heap.address and page.end <= heap.end:
                self._returns[owner] += there.within(page.start, page.end)

    def _stretches(self, heap: Heap) -> Iterator[_Stretch]:
        blocks, header = self._blocks, self._session.layout.header
        first, last = (bisect_left(blocks.starts, each) for each in (heap.address, heap.end))
        starts = (start - header for start in islice(blocks.starts, first, last))
        rows = zip(starts, islice(blocks.sizes, first, last), islice(self._whose, first, last))
        live = (_Stretch(start, start + size, owner) for start, size, owner in rows)
        begin, end = (bisect_left(self._besides, (each,)) for each in (heap.address, heap.end))
        besides = (_Stretch(*each, NOBODY) for each in islice(self._besides, begin, end))
        return merge(live, besides)

    def _pages(self, stretches: Sequence[_Stretch]) -> Iterator[tuple[Span, int]]:
        """Runs of pages on which only one owner has anything."""
        size = self._page
        open_: dict[int, int] = {}
        join = self._join

        def touch(page: int, owner: int) -> None:
            before = open_.get(page, owner)
            open_[page] = owner if before == owner else join(before, owner)

        for start, end, owner in stretches:
            first, last = start // size, (end - 1) // size
            beyond = (first_whole(end, self._kept, size) - 1) // size
            for page in [page for page in open_ if page < first]:
                yield Span(page * size, (page + 1) * size), open_.pop(page)
            touch(first, owner)
            inner = first + 1
            if inner in open_ and inner < last:
                # links of what is in front reach so far
                touch(inner, owner)
                inner += 1
            if inner < last:
                yield Span(inner * size, last * size), owner
            touch(last, owner)
            touch(beyond, owner)
        for page, owner in open_.items():
            yield Span(page * size, (page + 1) * size), owner


MOST_MEMBERS = 1 << 20
"""So many members all sets of kinds may have together: where each block is of another kind it is not told."""


def retained(search: ImageSearch, kinds: Sequence[int]) -> Optional[Mapping[int, int]]:
    """By kind, in bytes; `kinds` has that of each block."""
    return by_kind(above_all(search), kinds, search.blocks.sizes)


def by_kind(above: Sequence[int], kinds: Sequence[int], sizes: Sequence[int]) -> Optional[Mapping[int, int]]:
    """Of blocks that hang on others of their kind all is counted once, and what hangs on several kinds, one below the
    other, with each of them."""
    ways = _Ways()
    told = array("i", [NOBODY]) * len(sizes)
    for block in range(len(sizes)):
        up, at = [], block
        while at != NOBODY and told[at] == NOBODY:
            up.append(at)
            at = above[at]
        way = told[at] if at != NOBODY else 0
        for each in reversed(up):
            told[each] = way = ways.below(way, kinds[each])
        if ways.members > MOST_MEMBERS:
            return None
    sums = [0] * len(ways.sets)
    for way, size in zip(told, sizes):
        sums[way] += size
    kept: dict[int, int] = {}
    for met, size in zip(ways.sets, sums):
        for kind in met:
            kept[kind] = kept.get(kind, 0) + size
    return kept


def above_all(search: ImageSearch) -> array[int]:
    """Of each block the one that alone leads to it; of what nobody leads to, the first of what hangs together."""
    owners = find_owners(search)
    above = array("q", owners.above)
    nobodys = {each.number for each in owners.holdings if each.owner.kind == UNREACHED}
    if nobodys:
        unreached = array("I", (block for block, owner in enumerate(owners.whose) if owner in nobodys))
        for head, others in lumps(build(search), unreached).hanging():
            for each in others:
                above[each] = head
    return above


class _Ways:
    """The kinds on the ways down to blocks, as sets: few are different."""

    def __init__(self) -> None:
        self.sets: list[frozenset[int]] = [frozenset()]
        self.members = 0
        self._numbers: dict[frozenset[int], int] = {self.sets[0]: 0}
        self._below: dict[tuple[int, int], int] = {}

    def below(self, way: int, kind: int) -> int:
        """The number of that set with one more kind."""
        number = self._below.get((way, kind))
        if number is None:
            met = self.sets[way] | {kind}
            number = self._numbers.setdefault(met, len(self.sets))
            if number == len(self.sets):
                self.sets.append(met)
                self.members += len(met)
            self._below[way, kind] = number
        return number
