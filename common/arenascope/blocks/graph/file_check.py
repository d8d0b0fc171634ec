"""Whether a graph's file says what can be: what has the right sum need not have been written here.

Every number of it is checked here, but for the owners' rows, which saved_owners.py reads. Where numpy is worth it, it
does the same.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import le, lt
from types import ModuleType
from typing import TYPE_CHECKING, Callable, Mapping, Optional, Sequence, Union

from ...base.block_kinds import STALE as WHYS
from ...session.session import Session
from ...sources.target import Span
from ..pointer_finder import library
from .blocks import heap_spans, whole_heap
from .edge import FLAGS, STALE
from .edges import ROOT
from .encodings import ALIKE, NAMES
from .owner_pages import NOBODY
from .owners import ALONE, JOINTLY, MOST_JOINTLY, UNREACHED
from .reach import DEFINITE
from .refs import Search
from .root_pointers import Seed
from .saved_owners import Owned
from .stale_words import NO_BLOCK

if TYPE_CHECKING:
    from ...base.array_types import Numbers

Part = memoryview
"""Numbers as they lie in the file."""
Comparison = Callable[[int, int], object]
"""One of operator's: of two numbers, or of each two in two of numpy's arrays."""
OF_BLOCKS = ("starts", "ends", "sizes", "marks", "whose", "above", "lead")


def is_sound(parts: Mapping[str, Part], session: Session) -> bool:
    """Whether blocks lie in malloc's memory, and all other numbers are those of blocks."""
    count, edges = len(parts["starts"]), parts["edges"]
    numpy = library(edges.nbytes)
    check: Union[_OneByOne, _AtOnce] = _OneByOne() if numpy is None else _AtOnce(numpy)
    within, holds = check.within, check.holds
    last = count - 1
    owners = count + len(parts["seed_roots"]) + len(parts["again_sources"])
    return (
        all(len(parts[name]) == count for name in OF_BLOCKS)
        and holds(le, parts["starts"], parts["ends"])
        and holds(lt, parts["ends"][:-1], parts["starts"][1:])
        and _are_blocks(check, parts, session)
        and sum(parts["counts"]) == count
        and 0 not in parts["counts"]
        and _are_strangers(parts["strangers"], session)
        and len(parts["offsets"]) == count + 1
        and parts["offsets"][0] == 0
        and parts["offsets"][-1] == len(edges)
        and holds(le, parts["offsets"][:-1], parts["offsets"][1:])
        and within(edges, 0, (last + 1 << FLAGS) - 1)
        and len(parts["seed_roots"]) == len(parts["seed_addresses"]) == len(parts["seed_edges"])
        and within(parts["seed_edges"], 0, (last + 1 << FLAGS) - 1)
        and within(parts["marks"], 0, DEFINITE)
        and len({len(numbers) for name, numbers in parts.items() if name.startswith("again_")}) == 1
        and within(parts["again_sources"], ROOT, last)
        and within(parts["again_suspects"], 0, last)
        and within(parts["again_encodings"], 0, len(NAMES) - 1)
        and _are_saved(parts)
        and within(parts["whose"], 0, owners)
        and within(parts["above"], NOBODY, last)
        and check.ends_somewhere(parts["above"])
        and check.is_of_one_above(parts["above"], parts["whose"])
        and within(parts["lead"], 0, JOINTLY + MOST_JOINTLY - 1)
        and check.is_of_one_above(parts["above"], parts["lead"])
        and len({len(numbers) for name, numbers in parts.items() if name.startswith("stale_")}) == 1
        and holds(le, parts["stale_addresses"][:-1], parts["stale_addresses"][1:])
        and within(parts["stale_sources"], NO_BLOCK, last)
        and within(parts["stale_edges"], 0, (last + 1 << FLAGS) - 1)
        and within(parts["stale_whys"], 1, len(WHYS))
    )


def adds_up(found: Owned, sizes: Sequence[int], numpy: Optional[ModuleType]) -> bool:
    """Whether each block is one holding's, its own or not, and these say so."""
    holdings, numbers = found.owners.holdings, found.owners.whose
    # twice as many: what is a holding's alone, then what is not
    if numpy is not None:
        whose = 2 * numpy.asarray(numbers).astype(numpy.int64) + (numpy.asarray(found.owners.lead) != ALONE)
        blocks = numpy.bincount(whose).tolist()
        # blocks lie apart, within heaps: what these sum to is exact
        held = [int(each) for each in numpy.bincount(whose, weights=sizes).tolist()]
    else:
        blocks = [0] * (2 + 2 * max(numbers, default=-1))
        held = blocks.copy()
        for number, lead, size in zip(numbers, found.owners.lead, sizes):
            blocks[2 * number + (lead != ALONE)] += 1
            held[2 * number + (lead != ALONE)] += size
    theirs = {place: each for place, each in enumerate(zip(blocks, held)) if each[0]}
    told: dict[int, tuple[int, int]] = {}
    for each in holdings:
        told[2 * each.number] = each.alone_blocks, each.alone_bytes
        told[2 * each.number + 1] = each.blocks - each.alone_blocks, each.bytes - each.alone_bytes
    return len(told) == 2 * len(holdings) and {place: each for place, each in told.items() if each != (0, 0)} == theirs


def fits(seeds: Sequence[Seed], owned: Owned, search: Search) -> bool:
    """Whether these are pointers that the search's roots may have, and owners that are among these."""
    ranges, words, size = search.roots.ranges, search.roots.words, search.session.memory.pointer_size
    blocks = search.blocks
    for root, address, edge in seeds:
        if root < len(ranges):
            known = ranges[root].start <= address <= ranges[root].end - size
        elif root - len(ranges) < len(words):
            word = words[root - len(ranges)]
            known = address == 0 and blocks.find(word.value) == edge >> FLAGS
            known = known and bool(edge & STALE) == (word.stale is not None)
        else:
            known = False
        if not known:
            return False
    # whose a mapping is does not count: it is named by what is mapped
    known_roots = {(each.kind, each.tid if each.kind != "mapping" else None) for each in ranges}
    known_roots |= {(each.kind, each.tid) for each in words}
    return all((each.kind, each.tid) in known_roots for each in owned.every_owner() if each.kind != UNREACHED)


def _are_blocks(check: Union[_OneByOne, _AtOnce], parts: Mapping[str, Part], session: Session) -> bool:
    """Whether they lie in malloc's memory, and are as large as they say."""
    starts, ends, sizes, heaps = parts["starts"], parts["ends"], parts["sizes"], heap_spans(session)
    if not len(starts):
        return True
    if not check.lie(starts, heaps):
        return False
    rest = session.layout.header - session.layout.word
    mapped = {each.chunk + session.layout.header: (each.base + each.bytes - 1, each.bytes) for each in session.mmapped}
    wholes = sorted(whole_heap(each) for several in session.heaps.values() for each in several)
    for at in check.odd(starts, ends, sizes, heaps, rest=rest):
        start, end, size = starts[at], ends[at], sizes[at]
        if mapped.get(start) == (end, size):
            continue
        # a core may lack what lies amid a block
        if size != end - start + rest or not (_lie([start, end], heaps) and _lie_in_one(start, end, wholes)):
            return False
    return True


def _are_strangers(places: Part, session: Session) -> bool:
    if len(places) % 2:
        return False
    heaps = heap_spans(session)
    return all(start < end and _lie_in_one(start, end, heaps) for start, end in zip(places[::2], places[1::2]))


def _are_saved(parts: Mapping[str, Part]) -> bool:
    """Each of them once, and found by the second look unless it is like all of its size."""
    saved, encodings, marks = parts["saved"], parts["saved_encodings"], parts["marks"]
    again = set(zip(parts["again_suspects"], parts["again_encodings"]))
    return (
        len(saved) == len(encodings) == len(set(saved))
        and all(each[1] == NAMES.index(ALIKE) or each in again for each in zip(saved, encodings))
        and all(marks[each] == DEFINITE for each in saved)
    )


def _lie(addresses: Sequence[int], heaps: Sequence[Span]) -> bool:
    """In one of these each, one past its end included."""
    starts = [each.start for each in heaps]
    places = (bisect_right(starts, each) - 1 for each in addresses)
    return all(at >= 0 and each <= heaps[at].end for at, each in zip(places, addresses))


def _lie_in_one(start: int, end: int, heaps: Sequence[Span]) -> bool:
    at = bisect_right(heaps, (start, 1 << 64)) - 1
    return at >= 0 and end <= heaps[at].end


class _OneByOne:
    """Of many numbers."""

    def within(self, numbers: Part, least: int, most: int) -> bool:
        return not len(numbers) or (least <= min(numbers) and max(numbers) <= most)

    def holds(self, what: Comparison, some: Part, others: Part) -> bool:
        """Of each and the other at its place."""
        return all(map(what, some, others))

    def lie(self, addresses: Part, heaps: Sequence[Span]) -> bool:
        """As _lie()."""
        return _lie(addresses, heaps)

    def odd(self, starts: Part, ends: Part, sizes: Part, heaps: Sequence[Span], *, rest: int) -> Sequence[int]:
        """Which of them end in another heap than they start in, or take more or less than themselves and `rest`."""
        firsts = [each.start for each in heaps]
        return [
            at
            for at, (start, end, size) in enumerate(zip(starts, ends, sizes))
            if size != end - start + rest or end > heaps[bisect_right(firsts, start) - 1].end
        ]

    def ends_somewhere(self, above: Part) -> bool:
        """Whoever goes from a block to the one above it comes to one that has none."""
        told = bytearray(len(above))
        for block in range(len(above)):
            way = []
            at = block
            while at != NOBODY and not told[at]:
                told[at] = 1
                way.append(at)
                at = above[at]
            if at != NOBODY and told[at] == 1:
                return False
            for each in way:
                told[each] = 2
        return True

    def is_of_one_above(self, above: Part, whose: Part) -> bool:
        """Each belongs to whom the one above it belongs to."""
        return all(up == NOBODY or whose[up] == number for up, number in zip(above, whose))


class _AtOnce:
    """The same with numpy."""

    def __init__(self, numpy: ModuleType) -> None:
        self._numpy = numpy

    def within(self, numbers: Part, least: int, most: int) -> bool:
        if not len(numbers):
            return True
        array = self._numpy.asarray(numbers)
        return least <= int(array.min()) and int(array.max()) <= most

    def holds(self, what: Comparison, some: Part, others: Part) -> bool:
        return bool(self._numpy.all(what(self._numpy.asarray(some), self._numpy.asarray(others))))

    def lie(self, addresses: Part, heaps: Sequence[Span]) -> bool:
        if not heaps:
            return not len(addresses)
        places = self._places(addresses, heaps)
        return bool((places >= 0).all() and (self._numpy.asarray(addresses) <= self._ends(heaps)[places]).all())

    def odd(self, starts: Part, ends: Part, sizes: Part, heaps: Sequence[Span], *, rest: int) -> Sequence[int]:
        numpy = self._numpy
        begin, end, size = (numpy.asarray(each) for each in (starts, ends, sizes))
        right = size == end - begin + numpy.uint64(rest)
        found: Sequence[int] = numpy.flatnonzero(
            ~right | (end > self._ends(heaps)[self._places(starts, heaps)])
        ).tolist()
        return found

    def _places(self, addresses: Part, heaps: Sequence[Span]) -> Numbers:
        numpy = self._numpy
        starts = numpy.array([each.start for each in heaps], dtype=numpy.uint64)
        places: Numbers = numpy.searchsorted(starts, numpy.asarray(addresses), side="right").astype(numpy.int64) - 1
        return places

    def _ends(self, heaps: Sequence[Span]) -> Numbers:
        ends: Numbers = self._numpy.array([each.end for each in heaps], dtype=self._numpy.uint64)
        return ends

    def ends_somewhere(self, above: Part) -> bool:
        numpy = self._numpy
        up = numpy.array(above)
        left = numpy.flatnonzero(up != NOBODY)
        # each time twice as far
        for _ in range(len(above).bit_length()):
            up[left] = up[up[left]]
            left = left[up[left] != NOBODY]
        return not len(left)

    def is_of_one_above(self, above: Part, whose: Part) -> bool:
        up, numbers = self._numpy.asarray(above), self._numpy.asarray(whose)
        below = self._numpy.flatnonzero(up != NOBODY)
        return bool((numbers[up[below]] == numbers[below]).all())
