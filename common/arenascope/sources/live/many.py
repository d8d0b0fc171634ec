"""Many small places of a process read in few system calls (process_vm_readv), by two threads where there are many.

What it costs is the walk of page tables for each place, not the call: in the order of addresses it takes half as long.
"""

from __future__ import annotations

import _thread
import os
import signal
from array import array
from contextlib import suppress
from functools import cached_property
from typing import Any, Callable, Optional, Sequence

from ...errors import MemoryReadError
from ...target import NodeWords

AT_ONCE = 1024
"""IOV_MAX: the kernel takes no more places in a call."""
ENOUGH_FOR_TWO = 16 * AT_ONCE


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
        self.buffer = bytearray(size * len(places))
        self.lost: list[int] = []
        """Which of the places could not be read."""
        self._order = array("Q", sorted(range(len(places)), key=places.__getitem__))
        self._places = array("Q", map(places.__getitem__, self._order))
        self._call = _find_call() if places else None
        if self._call is None:
            return
        import ctypes

        base = ctypes.addressof(ctypes.c_char.from_buffer(self.buffer))
        self._theirs = _iovecs(self._places, size)
        self._ours = _iovecs(array("Q", (base + size * index for index in self._order)), size)

    def run(self) -> None:
        """Reads them all."""
        number = len(self._places)
        half = number // 2 // AT_ONCE * AT_ONCE if number >= ENOUGH_FOR_TWO and (os.cpu_count() or 1) > 1 else 0
        if not half:
            self._run(0, number)
            return
        done = _thread.allocate_lock()
        done.acquire()
        # signals are for the thread that waits
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            _thread.start_new_thread(self._run, (0, half, done))
        except RuntimeError:
            half = 0
            done.release()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        try:
            self._run(half, number)
        finally:
            done.acquire()

    def _run(self, first: int, end: int, done: Optional[Any] = None) -> None:
        try:
            if self._call is None:
                self._one_by_one(first, end)
                return
            size, call, pid, is_over = self._size, self._call, self._pid, self._is_over
            theirs, ours = self._theirs.buffer_info()[0], self._ours.buffer_info()[0]
            while first < end and not is_over():
                number = min(AT_ONCE, end - first)
                got = call(pid, ours + 16 * first, number, theirs + 16 * first, number, 0)
                first += max(got, 0) // size
                if got != size * number:
                    # where it stopped; /proc/PID/mem also reads what the process itself may not
                    self._one_by_one(first, first + 1)
                    first += 1
            self.unread += self._order[first:end]
        finally:
            if done is not None:
                done.release()

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
        self._theirs = array("Q", [0, 3 * word]) * AT_ONCE
        self._ours = array("Q", [0, 0])

    @cached_property
    def _call(self) -> Optional[Callable[..., int]]:
        return _find_call()

    def read(self, places: array[int]) -> NodeWords:
        """Of each the three words from there on."""
        pid, call, size = self._pid, self._call, 3 * self._word
        theirs, ours, number, done = self._theirs, self._ours, len(places), 0
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


def _iovecs(addresses: array[int], size: int) -> array[int]:
    found = array("Q", bytes(16 * len(addresses)))
    found[0::2] = addresses
    found[1::2] = array("Q", [size]) * len(addresses)
    return found


def _find_call() -> Optional[Callable[..., int]]:
    """None where this Python has no ctypes, or is of 32 bits."""
    with suppress(ImportError, AttributeError, OSError):
        import ctypes

        call = ctypes.CDLL(None).process_vm_readv
        word, pointer = ctypes.c_ulong, ctypes.c_void_p
        call.argtypes = [ctypes.c_int, pointer, word, pointer, word, word]
        call.restype = ctypes.c_ssize_t
        if ctypes.sizeof(pointer) == 8:
            found: Callable[..., int] = call
            return found
    return None
