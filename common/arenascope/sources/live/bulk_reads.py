"""Reads many small places of a process in few system calls (process_vm_readv), with two threads if there are many.

The cost is the walk of page tables for each place, and waiting for memory, not the call.
"""

from __future__ import annotations

import os
from array import array
from collections import deque
from contextlib import suppress
from functools import cached_property
from itertools import repeat
from operator import add
from types import ModuleType
from typing import TYPE_CHECKING, Callable, Iterator, NamedTuple, Optional, Sequence

from ...base import optional_libraries
from ...base.array_types import words_of
from ...base.background import BackgroundWork
from ...base.errors import MemoryReadError
from ..memory import Fill
from ..target import NodeWords, ReadPair

if TYPE_CHECKING:
    from ...base.array_types import Numbers

IOVECS = 1024
"""IOV_MAX: the kernel takes no more in a call."""
PLACES = IOVECS // 2
"""Places in one call: each may need an iovec, and so may the gap before it."""
PAGE_SHIFT = 12
WORTH_IT = 150_000
"""With fewer places, loading numpy takes longer than it saves."""


class Iovecs(NamedTuple):
    """The address of an array of iovecs, as the kernel takes it, and its length."""

    address: int
    number: int


class ReadCall(NamedTuple):
    """One call, and the places that it reads."""

    first: int
    """The index of its first place in the sorted order."""
    ours: Iovecs
    theirs: Iovecs
    end: int
    """The index after its last place."""
    bytes: int


class ReadPlan(NamedTuple):
    """The calls that read the places, in sorted order."""

    order: array[int]
    """The indexes of the places in sorted order."""
    calls: Sequence[ReadCall]
    iovecs: Sequence[object]
    """The arrays behind the calls' iovecs: addresses and sizes in turn."""


def plan_for(places: Sequence[int], size: int, base: int, aside: int) -> ReadPlan:
    """Plans reads of places of one size: the first is read to `base`, the others follow it. The bytes between places in
    one page are read to `aside`."""
    numpy = _numpy_for(places)
    if numpy is not None:
        return _plan_at_once(numpy, places, size, base=base, aside=aside)
    order = in_order(places)
    ordered = array("Q", map(places.__getitem__, order))
    iovecs: list[array[int]] = []
    return ReadPlan(order, list(_calls(order, ordered, size, base, aside=aside, iovecs=iovecs)), iovecs)


def in_order(places: Sequence[int]) -> array[int]:
    """Returns the indexes that sort the places."""
    numpy = _numpy_for(places)
    if numpy is not None:
        # takes a third of a stable sort's time; the order of equal places does not matter
        order: Numbers = numpy.argsort(numpy.asarray(places, dtype=numpy.uint64))
        return words_of(order.astype(numpy.int64, copy=False))
    return array("Q", sorted(range(len(places)), key=places.__getitem__))


def taken(words: array[int], order: array[int]) -> array[int]:
    """Returns the words in that order."""
    numpy = _numpy_for(words)
    if numpy is not None:
        return words_of(numpy.frombuffer(words, dtype=words.typecode)[numpy.frombuffer(order, dtype=numpy.int64)])
    return array(words.typecode, map(words.__getitem__, order))


def taken_in_turns(columns: Sequence[array[int]], order: array[int], typecode: str) -> bytearray:
    """Interleaves the columns in that order, as words of that type."""
    number, turn = len(order), len(columns)
    numpy = _numpy_for(order)
    if numpy is not None:
        rows = numpy.empty((number, turn), dtype=typecode)
        for at, each in enumerate(columns):
            rows[:, at] = numpy.frombuffer(each, dtype=numpy.uint64)
        into = bytearray(rows.nbytes)
        places = numpy.frombuffer(order, dtype=numpy.int64)
        # rows together: one wait for memory instead of several
        rows.take(places, axis=0, out=numpy.frombuffer(into, dtype=typecode).reshape(rows.shape), mode="clip")
        return into
    words = array(typecode, [0]) * (turn * number)
    for at, each in enumerate(columns):
        words[at::turn] = array(typecode, taken(each, order))
    return bytearray(words.tobytes())


def increased(words: array[int], by: int) -> array[int]:
    """Adds a number to each word."""
    numpy = _numpy_for(words)
    if numpy is not None:
        return words_of(numpy.frombuffer(words, dtype=numpy.uint64) + numpy.uint64(by))
    return array("Q", map(add, words, repeat(by)))


def _numpy_for(words: Sequence[int]) -> Optional[ModuleType]:
    return optional_libraries.load("numpy") if len(words) >= WORTH_IT else None


def _calls(
    order: Sequence[int], places: Sequence[int], size: int, base: int, aside: int, iovecs: list[array[int]]
) -> Iterator[ReadCall]:
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
        yield ReadCall(first, own, their, first + len(some), bytes=sum(theirs[1::2]))


def _plan_at_once(numpy: ModuleType, places: Sequence[int], size: int, base: int, aside: int) -> ReadPlan:
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
        ReadCall(
            places_of[at],
            Iovecs(our_base + each_size * own[at], own[at + 1] - own[at]),
            Iovecs(their_base + each_size * their[at], their[at + 1] - their[at]),
            places_of[at + 1],
            bytes=sums[at + 1] - sums[at],
        )
        for at in range(len(places_of) - 1)
    ]
    return ReadPlan(words_of(order), calls, (ours, theirs))


LARGEST = (1 << 64) - 1
ENOUGH_FOR_TWO = 16
"""At least so many calls are worth a second thread."""


class ManyReader:
    """Reads places of one size, each to its own place in a buffer. It prepares everything else in advance."""

    def __init__(
        self,
        pid: int,
        read: Callable[[int, int], bytes],
        places: Sequence[int],
        size: int,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        """`read` serves if the kernel or this Python has no such call, and tells which places cannot be read; `is_over`
        tells when to stop."""
        self._pid, self._read, self._places, self._size, self._is_over = pid, read, places, size, is_over
        self.unread: list[int] = []
        """The indexes of places that it did not reach."""
        # written once, so that the kernel has pages for it
        self.buffer = bytearray(b"\0") * (size * len(places))
        self.lost: list[int] = []
        """The indexes of places that could not be read."""
        self._call = _find_call() if places else None
        base = aside = 0
        if self._call is not None:
            import ctypes  # a Python may lack it

            self._between = bytearray(1 << PAGE_SHIFT)
            base, aside = (ctypes.addressof(ctypes.c_char.from_buffer(each)) for each in (self.buffer, self._between))
        self._plan = plan_for(places, size, base, aside)

    def run(self) -> None:
        """Reads all places."""
        if self._call is None:
            self._one_by_one(0, len(self._places))
            return
        left = deque(self._plan.calls)
        two = len(left) >= ENOUGH_FOR_TWO and (os.cpu_count() or 1) > 1
        # whichever has time takes the next: other programs may be at work, too
        other = BackgroundWork(lambda: self._run(left)) if two else None
        try:
            self._run(left)
        finally:
            if other is not None:
                other.wait()
        if other is not None:
            other.result()

    def _run(self, left: deque[ReadCall]) -> None:
        """Makes calls until none is left or time is up."""
        call, pid, is_over = self._call, self._pid, self._is_over
        assert call is not None
        while True:
            try:
                each = left.popleft()
            except IndexError:
                return
            if is_over():
                self.unread += self._plan.order[each.first : each.end]
                continue
            got = call(pid, *each.ours, *each.theirs, 0)
            if got != each.bytes:
                # /proc/PID/mem also reads what the process itself may not
                self._one_by_one(each.first, each.end)

    def _one_by_one(self, first: int, end: int) -> None:
        size = self._size
        for index in self._plan.order[first:end]:
            if self._is_over():
                self.unread.append(index)
                continue
            try:
                self.buffer[size * index : size * (index + 1)] = self._read(self._places[index], size)
            except MemoryReadError:
                self.lost.append(index)


class NodeReader:
    """Reads the words of free chunks of a stopped process on demand."""

    def __init__(self, pid: int, word: int) -> None:
        """`pid`: the process; `word`: the size of its words."""
        self._pid, self._word = pid, word

    @cached_property
    def _call(self) -> Optional[Callable[..., int]]:
        return _find_call()

    def load(self) -> None:
        """Loads what it needs, before a process is held."""
        _ = self._call

    def read(self, places: array[int]) -> NodeWords:
        """Reads the three words at each place. Two threads may call it at once."""
        pid, call, size = self._pid, self._call, 3 * self._word
        number, done = len(places), 0
        theirs, ours = array("Q", [0, size]) * min(IOVECS, number), array("Q", [0, 0])
        read = array("Q" if self._word == 8 else "I", bytes(size * number))
        base, place = read.buffer_info()[0], theirs.buffer_info()[0]
        while call is not None and done < number:
            some = min(IOVECS, number - done)
            theirs[0 : 2 * some : 2] = places[done : done + some]
            ours[0], ours[1] = base + size * done, size * some
            got = call(pid, ours.buffer_info()[0], 1, place, some, 0)
            # what cannot be read stays 0, which is no chunk's word
            done += some if got == size * some else max(got, 0) // size + 1
        return NodeWords(read[0::3], read[1::3], read[2::3])

    def pair_reader(self) -> ReadPair:
        """Returns a reader of two chunks, for one thread. It costs little more than the call."""
        pid, call, size = self._pid, self._call, 3 * self._word
        words = array("Q" if self._word == 8 else "I", bytes(2 * size))
        nothing = words[:]
        ours, theirs = array("Q", [words.buffer_info()[0], 2 * size]), array("Q", [0, size, 0, size])

        def read(one: int, other: int) -> Sequence[int]:
            if call is None or one > LARGEST or other > LARGEST:
                return nothing
            theirs[0], theirs[2] = one, other
            return words if call(pid, ours.buffer_info()[0], 1, theirs.buffer_info()[0], 2, 0) == 2 * size else nothing

        return read


def block_reader(pid: int, slow: Fill) -> Fill:
    """Returns a reader like `slow` for that process's memory, nearly twice as fast: the kernel copies each page once,
    without a page of its own in between."""
    call = _find_call()
    if call is None:
        return slow
    import ctypes  # a Python may lack it

    first = memoryview(bytearray(1))

    def fill(address: int, block: memoryview) -> int:
        size = len(block)
        ours, theirs = (
            array("Q", [ctypes.addressof(ctypes.c_char.from_buffer(block)), size]),
            array("Q", [address, size]),
        )
        if call(pid, ours.buffer_info()[0], 1, theirs.buffer_info()[0], 1, 0) == size:
            # the pid may be another program's by now; /proc/PID/mem, once open, is not
            slow(address, first)
            return size
        # /proc/PID/mem also reads what the process itself may not
        return slow(address, block)

    return fill


def _find_call() -> Optional[Callable[..., int]]:
    """Returns process_vm_readv; None if this Python has no ctypes, or is of 32 bits."""
    with suppress(ImportError, AttributeError, OSError):
        import ctypes  # a Python may lack it

        call = ctypes.CDLL(None).process_vm_readv
        word, pointer = ctypes.c_ulong, ctypes.c_void_p
        call.argtypes = [ctypes.c_int, pointer, word, pointer, word, word]
        call.restype = ctypes.c_ssize_t
        if ctypes.sizeof(pointer) == 8:
            typed: Callable[..., int] = call
            return typed
    return None
