"""By which calls many small places of a process are read: in the order of addresses, which takes half as long, and what
lies in one page as one stretch, which costs what some kilobytes do.

It is made before the process is held. With numpy it takes a quarter of the time, and is the same.
"""

from __future__ import annotations

from array import array
from itertools import repeat
from operator import add
from types import ModuleType
from typing import TYPE_CHECKING, Iterator, NamedTuple, Optional, Sequence

from ...base import optional_libraries
from ...base.array_types import words_of

if TYPE_CHECKING:
    from ...base.array_types import Numbers

IOVECS = 1024
"""IOV_MAX: the kernel takes no more in a call."""
PLACES = IOVECS // 2
"""Of one call: each may need an iovec, and so does what lies between it and the one before."""
PAGE_SHIFT = 12
WORTH_IT = 150_000
"""With fewer places loading numpy takes longer than it saves."""


class Iovecs(NamedTuple):
    """Where they lie, as the kernel takes them, and how many they are."""

    address: int
    number: int


class Call(NamedTuple):
    """What one call reads."""

    first: int
    """Which of the places in order is the first of these."""
    ours: Iovecs
    theirs: Iovecs
    end: int
    """And the first that is not."""
    bytes: int


class Plan(NamedTuple):
    """The calls, for places in order."""

    order: array[int]
    """Which of the places they were."""
    calls: Sequence[Call]
    iovecs: Sequence[object]
    """What the calls' lie in: addresses and sizes in turns."""


def plan_for(places: Sequence[int], size: int, base: int, aside: int) -> Plan:
    """Places of one size, the first to `base`, the others behind it; what is between those of a page goes aside."""
    numpy = _numpy_for(places)
    if numpy is not None:
        return _plan_at_once(numpy, places, size, base=base, aside=aside)
    order = in_order(places)
    ordered = array("Q", map(places.__getitem__, order))
    iovecs: list[array[int]] = []
    return Plan(order, list(_calls(order, ordered, size, base, aside=aside, iovecs=iovecs)), iovecs)


def in_order(places: Sequence[int]) -> array[int]:
    """Which of them is the lowest, and so on."""
    numpy = _numpy_for(places)
    if numpy is not None:
        # a third of what a stable one takes; which of two that are the same comes first is all one
        order: Numbers = numpy.argsort(numpy.asarray(places, dtype=numpy.uint64))
        return words_of(order.astype(numpy.int64, copy=False))
    return array("Q", sorted(range(len(places)), key=places.__getitem__))


def taken(words: array[int], order: array[int]) -> array[int]:
    """The words in that order."""
    numpy = _numpy_for(words)
    if numpy is not None:
        return words_of(numpy.frombuffer(words, dtype=words.typecode)[numpy.frombuffer(order, dtype=numpy.int64)])
    return array(words.typecode, map(words.__getitem__, order))


def taken_in_turns(columns: Sequence[array[int]], order: array[int], typecode: str) -> bytearray:
    """In that order one of each column after the other, as words of that type."""
    number, turn = len(order), len(columns)
    numpy = _numpy_for(order)
    if numpy is not None:
        rows = numpy.empty((number, turn), dtype=typecode)
        for at, each in enumerate(columns):
            rows[:, at] = numpy.frombuffer(each, dtype=numpy.uint64)
        into = bytearray(rows.nbytes)
        places = numpy.frombuffer(order, dtype=numpy.int64)
        # one of each together: memory is waited for once
        rows.take(places, axis=0, out=numpy.frombuffer(into, dtype=typecode).reshape(rows.shape), mode="clip")
        return into
    words = array(typecode, [0]) * (turn * number)
    for at, each in enumerate(columns):
        words[at::turn] = array(typecode, taken(each, order))
    return bytearray(words.tobytes())


def increased(words: array[int], by: int) -> array[int]:
    """Each of them by so much."""
    numpy = _numpy_for(words)
    if numpy is not None:
        return words_of(numpy.frombuffer(words, dtype=numpy.uint64) + numpy.uint64(by))
    return array("Q", map(add, words, repeat(by)))


def _numpy_for(words: Sequence[int]) -> Optional[ModuleType]:
    return optional_libraries.load("numpy") if len(words) >= WORTH_IT else None


def _calls(
    order: Sequence[int], places: Sequence[int], size: int, base: int, aside: int, iovecs: list[array[int]]
) -> Iterator[Call]:
    for first in range(0, len(places), PLACES):
        some = places[first : first + PLACES]
        theirs, ours = array("Q"), array("Q")
        page = end = follows = -1
        for place, index in zip(some, order[first : first + PLACES]):
            if place >= end and place + size - 1 >> PAGE_SHIFT == page:
                if place > end:
                    ours.extend((aside, place - end))
                    follows = -1
                theirs[-1] += place + size - end
            else:
                theirs.extend((place, size))
            if index == follows:
                ours[-1] += size
            else:
                ours.extend((base + size * index, size))
            end, follows = place + size, index + 1
            page = end - 1 >> PAGE_SHIFT
        iovecs += ours, theirs
        own, their = (Iovecs(each.buffer_info()[0], len(each) // 2) for each in (ours, theirs))
        yield Call(first, own, their, first + len(some), bytes=sum(theirs[1::2]))


def _plan_at_once(numpy: ModuleType, places: Sequence[int], size: int, base: int, aside: int) -> Plan:
    every: Numbers = numpy.asarray(places, dtype=numpy.uint64)
    # mostly they are in order, but for the last
    order: Numbers = numpy.argsort(every, kind="stable").astype(numpy.int64, copy=False)
    starts: Numbers = every[order]
    ends = starts + numpy.uint64(size)
    pages = ends - numpy.uint64(1) >> numpy.uint64(PAGE_SHIFT)
    number = len(starts)
    joined = numpy.zeros(number, dtype=bool)
    joined[1:] = (starts[1:] >= ends[:-1]) & (pages[1:] == pages[:-1])
    del pages
    joined[::PLACES] = False
    apart = joined.copy()
    apart[1:] &= starts[1:] > ends[:-1]
    # a stretch begins with each that is not joined to the one before, and ends where the next begins
    firsts = numpy.flatnonzero(~joined)
    lasts = numpy.append(firsts[1:], number) - 1
    theirs = numpy.empty((len(firsts), 2), dtype=numpy.uint64)
    theirs[:, 0] = starts[firsts]
    theirs[:, 1] = ends[lasts] - starts[firsts]
    # what follows the one before in the buffer, too, goes there together with it
    alone = apart.copy()
    alone[1:] |= numpy.diff(order) != 1
    alone[::PLACES] = True
    begins = numpy.flatnonzero(alone)
    gaps = numpy.flatnonzero(apart[begins])
    between = starts[begins[gaps]] - ends[begins[gaps] - 1]
    del lasts, starts, ends
    behind = numpy.arange(len(begins)) + numpy.cumsum(apart[begins])
    ours = numpy.empty((len(begins) + len(gaps), 2), dtype=numpy.uint64)
    ours[behind, 0] = numpy.uint64(base) + order[begins].astype(numpy.uint64) * numpy.uint64(size)
    ours[behind, 1] = size * numpy.diff(begins, append=number)
    ours[behind[gaps] - 1, 0] = aside
    ours[behind[gaps] - 1, 1] = between
    our_base, their_base, each_size = ours.ctypes.data, theirs.ctypes.data, 2 * ours.itemsize
    bounds = numpy.append(numpy.arange(0, number, PLACES), number)
    places_of = bounds.tolist()
    own = numpy.append(behind, len(ours))[numpy.searchsorted(begins, bounds)].tolist()
    # what lies before the first place of a call belongs to no call, as that begins a stretch
    their = numpy.searchsorted(firsts, bounds).tolist()
    sums = numpy.append(numpy.uint64(0), numpy.cumsum(theirs[:, 1]))[their].tolist()
    calls = [
        Call(
            places_of[at],
            Iovecs(our_base + each_size * own[at], own[at + 1] - own[at]),
            Iovecs(their_base + each_size * their[at], their[at + 1] - their[at]),
            places_of[at + 1],
            bytes=sums[at + 1] - sums[at],
        )
        for at in range(len(places_of) - 1)
    ]
    return Plan(words_of(order), calls, (ours, theirs))
