"""The same as returns.py with numpy: all stretches of a run at once."""

from __future__ import annotations

from functools import reduce
from operator import or_
from types import ModuleType
from typing import TYPE_CHECKING, Iterator, NamedTuple, Sequence

from ...analysis.resident import Present
from ...analysis.trim import first_whole
from ...base.model import Heap
from ...session.session import Session
from .blocks import NOBODY, Join, LiveBlocks, OwnerPages, nobodys

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
