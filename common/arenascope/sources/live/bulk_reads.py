"""Many small places of a process read in few system calls (process_vm_readv), by two threads where there are many.

What it costs is the walk of page tables for each place, and the wait for memory, not the call: see read_plan.py.
"""

from __future__ import annotations

import os
from array import array
from collections import deque
from contextlib import suppress
from functools import cached_property
from typing import Callable, Optional, Sequence

from ...base.background import Beside
from ...base.errors import MemoryReadError
from ..free_chunk_reader import NodeWords, ReadPair
from ..memory import Fill
from .read_plan import IOVECS, PAGE_SHIFT, Call, plan_for

LARGEST = (1 << 64) - 1
ENOUGH_FOR_TWO = 16
"""So many calls."""


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
        self._pid, self._read, self._places, self._size, self._is_over = pid, read, places, size, is_over
        self.unread: list[int] = []
        """Which of them it did not come to."""
        # written once, so that the kernel has pages for it
        self.buffer = bytearray(b"\0") * (size * len(places))
        self.lost: list[int] = []
        """Which of the places could not be read."""
        self._call = _find_call() if places else None
        base = aside = 0
        if self._call is not None:
            import ctypes

            self._between = bytearray(1 << PAGE_SHIFT)
            base, aside = (ctypes.addressof(ctypes.c_char.from_buffer(each)) for each in (self.buffer, self._between))
        self._plan = plan_for(places, size, base, aside)

    def run(self) -> None:
        """Reads them all."""
        if self._call is None:
            self._one_by_one(0, len(self._places))
            return
        left = deque(self._plan.calls)
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

    def _run(self, left: deque[Call]) -> None:
        """As many of the calls as there is time for."""
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
        """For one thread. What two chunks cost is little more than the call."""
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
