"""Many small places of a process read in few system calls (process_vm_readv), by two threads where there are many.

What it costs is the walk of page tables for each place, not the call: in the order of addresses it takes half as long,
and what lies in one page is read as one stretch.
"""

from __future__ import annotations

import os
from array import array
from collections import deque
from contextlib import suppress
from functools import cached_property
from typing import Callable, Iterable, Iterator, Optional, Sequence

from ...base.errors import MemoryReadError
from ...base.records import NamedTuple
from ..free_chunk_reader import NodeWords
from ..memory import Fill
from .background import Beside

AT_ONCE = 1024
"""IOV_MAX: the kernel takes no more places in a call."""
ENOUGH_FOR_TWO = 16
"""So many calls."""
PAGE_SHIFT = 12


class _Call(NamedTuple):
    """What one call reads, as iovecs: addresses and sizes in turns."""

    first: int
    """Which of the places in order is the first of these."""
    ours: array[int]
    theirs: array[int]
    end: int
    """And the first that is not."""
    bytes: int


class ManyReader:
    """Places of one size, each to its own place in a buffer. All that takes time but the reading is done first."""

    def __init__(
        self,
        pid: int,
        read: Callable[[int, int], bytes],
        places: Sequence[int],
        size: int,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        """`read` serves where the kernel or this Python has no such call, and says what cannot be read; `is_over`
        when no more is to be read."""
        self._pid, self._read, self._size, self._is_over = pid, read, size, is_over
        self.unread: list[int] = []
        """Which of them it did not come to."""
        # written once, so that the kernel has pages for it
        self.buffer = bytearray(b"\0") * (size * len(places))
        self.lost: list[int] = []
        """Which of the places could not be read."""
        self._order = array("Q", sorted(range(len(places)), key=places.__getitem__))
        self._places = array("Q", map(places.__getitem__, self._order))
        self._call = _find_call() if places else None
        self._calls: list[_Call] = []
        if self._call is not None:
            import ctypes

            self._between = bytearray(1 << PAGE_SHIFT)
            base, aside = (ctypes.addressof(ctypes.c_char.from_buffer(each)) for each in (self.buffer, self._between))
            ours = (base + size * index for index in self._order)
            self._calls += _in_stretches(self._places, ours, size, aside)

    def run(self) -> None:
        """Reads them all."""
        if self._call is None:
            self._one_by_one(0, len(self._places))
            return
        left = deque(self._calls)
        two = len(left) >= ENOUGH_FOR_TWO and (os.cpu_count() or 1) > 1
        # whichever has time takes the next: other programs may be at work, too
        other = Beside(lambda: self._run(left)) if two else None
        try:
            self._run(left)
        finally:
            if other is not None:
                other.wait()
        if other is not None:
            other.result()

    def _run(self, left: deque[_Call]) -> None:
        """As many of the calls as there is time for."""
        call, pid, is_over = self._call, self._pid, self._is_over
        assert call is not None
        while True:
            try:
                each = left.popleft()
            except IndexError:
                return
            if is_over():
                self.unread += self._order[each.first : each.end]
                continue
            ours, theirs = each.ours, each.theirs
            got = call(pid, ours.buffer_info()[0], len(ours) // 2, theirs.buffer_info()[0], len(theirs) // 2, 0)
            if got != each.bytes:
                # /proc/PID/mem also reads what the process itself may not
                self._one_by_one(each.first, each.end)

    def _one_by_one(self, first: int, end: int) -> None:
        size = self._size
        for place in range(first, end):
            index = self._order[place]
            if self._is_over():
                self.unread.append(index)
                continue
            try:
                self.buffer[size * index : size * (index + 1)] = self._read(self._places[place], size)
            except MemoryReadError:
                self.lost.append(index)


class NodeReader:
    """The words of some free chunks of a process that stands still, whenever they are wanted."""

    def __init__(self, pid: int, word: int) -> None:
        """`pid`: whose memory; `word`: the size of its words."""
        self._pid, self._word = pid, word

    @cached_property
    def _call(self) -> Optional[Callable[..., int]]:
        return _find_call()

    def load(self) -> None:
        """What it takes: before a process is held."""
        _ = self._call

    def read(self, places: array[int]) -> NodeWords:
        """Of each the three words from there on. Two threads may ask at once."""
        pid, call, size = self._pid, self._call, 3 * self._word
        number, done = len(places), 0
        theirs, ours = array("Q", [0, size]) * min(AT_ONCE, number), array("Q", [0, 0])
        read = array("Q" if self._word == 8 else "I", bytes(size * number))
        base, place = read.buffer_info()[0], theirs.buffer_info()[0]
        while call is not None and done < number:
            some = min(AT_ONCE, number - done)
            theirs[0 : 2 * some : 2] = places[done : done + some]
            ours[0], ours[1] = base + size * done, size * some
            got = call(pid, ours.buffer_info()[0], 1, place, some, 0)
            # what cannot be read stays 0, which is no chunk's word
            done += some if got == size * some else max(got, 0) // size + 1
        return NodeWords(read[0::3], read[1::3], read[2::3])


def block_reader(pid: int, slow: Fill) -> Fill:
    """As `slow`, which reads that process's memory, at nearly twice the speed: the kernel copies each page once, not by
    way of one of its own."""
    call = _find_call()
    if call is None:
        return slow
    from ctypes import addressof, c_char

    first = memoryview(bytearray(1))

    def fill(address: int, block: memoryview) -> int:
        size = len(block)
        ours, theirs = array("Q", [addressof(c_char.from_buffer(block)), size]), array("Q", [address, size])
        if call(pid, ours.buffer_info()[0], 1, theirs.buffer_info()[0], 1, 0) == size:
            # the number may be another program's by now, its memory never is
            slow(address, first)
            return size
        # /proc/PID/mem also reads what the process itself may not
        return slow(address, block)

    return fill


def _in_stretches(places: Iterable[int], ours: Iterable[int], size: int, aside: int) -> Iterator[_Call]:
    """The calls for places in order, each with where its bytes go. Those that lie in one page are one stretch, which
    costs what some kilobytes do; what is between them goes aside."""
    theirs, into = array("Q"), array("Q")
    first = number = 0
    page = end = -1

    def call() -> _Call:
        return _Call(first, into, theirs, number, bytes=sum(theirs[1::2]))

    for number, (place, target) in enumerate(zip(places, ours)):
        if len(into) > 2 * (AT_ONCE - 2):
            yield call()
            first, theirs, into, page = number, array("Q"), array("Q"), -1
        if place >= end and place + size - 1 >> PAGE_SHIFT == page:
            if place > end:
                into.extend((aside, place - end))
            theirs[-1] += place + size - end
        else:
            theirs.extend((place, size))
        into.extend((target, size))
        end = place + size
        page = end - 1 >> PAGE_SHIFT
    if into:
        number += 1
        yield call()


def _find_call() -> Optional[Callable[..., int]]:
    """None where this Python has no ctypes, or is of 32 bits."""
    with suppress(ImportError, AttributeError, OSError):
        import ctypes

        call = ctypes.CDLL(None).process_vm_readv
        word, pointer = ctypes.c_ulong, ctypes.c_void_p
        call.argtypes = [ctypes.c_int, pointer, word, pointer, word, word]
        call.restype = ctypes.c_ssize_t
        if ctypes.sizeof(pointer) == 8:
            typed: Callable[..., int] = call
            return typed
    return None
