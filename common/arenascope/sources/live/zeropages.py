"""Tells the kernel's shared zero page from memory, in entries of /proc/PID/pagemap."""

from __future__ import annotations

import mmap
import re
import sys
from array import array
from bisect import bisect_right
from contextlib import suppress
from functools import cached_property
from typing import Callable, Iterator, Optional

from ...records import NamedTuple
from . import procfiles

PRESENT, SWAPPED, EXCLUSIVE = 0x80, 0x40, 0x01
DOUBTFUL = 3
FRAME = (1 << 55) - 1
Blocks = Callable[[int, int], Iterator[tuple[int, bytes]]]

# A zero page is present and never exclusive. So are pages of shared files, and private ones shared with a child.
_KIND = bytes(
    (1 if top & EXCLUSIVE else DOUBTFUL) if top & PRESENT else 2 if top & SWAPPED else 0 for top in range(256)
)
_DOUBTFUL_RUN = re.compile(b"\3+")


class _Verdict(NamedTuple):
    """What a mapping's doubtful pages are."""

    start: int
    end: int
    kind: Optional[int]
    """0 zero pages, 1 memory, None: some of each."""


class ZeroPages:
    """Settles what the entries of one process leave in doubt."""

    def __init__(self, pid: int, page_size: int, blocks: Blocks) -> None:
        self.exact = True
        self._pid = pid
        self._page_size = page_size
        self._blocks = blocks
        self._verdicts: dict[int, _Verdict] = {}

    def settle(self, address: int, entries: bytes) -> bytes:
        """A byte per page: 0 absent, 1 present, 2 swapped."""
        kinds = _kinds(entries)
        if DOUBTFUL not in kinds:
            return kinds
        parts, done = [], 0
        for run in _DOUBTFUL_RUN.finditer(kinds):
            low, high = run.span()
            parts.append(kinds[done:low])
            parts += self._by_frame(entries[8 * low : 8 * high]) if self._frames else self._by_rss(address, low, high)
            done = high
        parts.append(kinds[done:])
        return b"".join(parts)

    @cached_property
    def _frames(self) -> frozenset[int]:
        return zero_frames(self._page_size)

    def _by_frame(self, entries: bytes) -> list[bytes]:
        zeros = self._frames
        return [bytes([0 if entry & FRAME in zeros else 1 for entry in array("Q", entries)])]

    def _by_rss(self, address: int, low: int, high: int) -> list[bytes]:
        """Mapping by mapping; counts none of them where a mapping has both kinds: a lower bound then."""
        parts = []
        while low < high:
            verdict = self._verdict_at(address + low * self._page_size)
            stop = min(high, (verdict.end - address) // self._page_size)
            if verdict.kind is None:
                self.exact = False
            parts.append(bytes([verdict.kind or 0]) * (stop - low))
            low = stop
        return parts

    def _verdict_at(self, address: int) -> _Verdict:
        index = bisect_right(self._starts, address) - 1
        if index not in self._verdicts:
            self._verdicts[index] = self._compare(index, address)
        return self._verdicts[index]

    def _compare(self, index: int, address: int) -> _Verdict:
        entry = self._smaps[index] if index >= 0 else None
        if entry is None or not entry.region.contains(address):
            return _Verdict(address, address + self._page_size, None)
        start, end = entry.region.start, entry.region.end
        sure = doubtful = 0
        for _, entries in self._blocks(start, end):
            kinds = _kinds(entries)
            sure += kinds.count(1)
            doubtful += kinds.count(DOUBTFUL)
        counted = entry.sizes.get("Rss", 0) // self._page_size
        return _Verdict(start, end, 1 if counted == sure + doubtful else 0 if counted == sure else None)

    @cached_property
    def _smaps(self) -> list[procfiles.SmapsEntry]:
        return list(procfiles.smaps(self._pid))

    @cached_property
    def _starts(self) -> list[int]:
        return [entry.region.start for entry in self._smaps]


def _kinds(entries: bytes) -> bytes:
    """By the top byte of each entry, at C's speed; entries have the host's byte order."""
    return entries[7::8].translate(_KIND) if sys.byteorder == "little" else entries[0::8].translate(_KIND)


def zero_frames(page_size: int) -> frozenset[int]:
    """The frames of zero pages, seen by reading untouched memory of our own; empty where frames are hidden.

    Some machines have several and choose by address (s390x, MIPS): 256 pages in a row meet all of them. There is a
    huge one besides, where transparent huge pages are on: the middle of two huge pages' length lies in a whole one.
    """
    huge = page_size * page_size // 8
    small_frames = _frames_of_untouched(256 * page_size, range(0, 256 * page_size, page_size), page_size, "NOHUGEPAGE")
    huge_frames = _frames_of_untouched(2 * huge, range(huge, huge + 1), page_size, "HUGEPAGE")
    return frozenset((small_frames | huge_frames) - {0})


def _frames_of_untouched(size: int, places: range, page_size: int, advice: str) -> set[int]:
    try:
        import ctypes  # not every debugger's Python has it
    except ImportError:
        return set()
    with mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        with suppress(OSError, AttributeError):  # a kernel without transparent huge pages
            memory.madvise(getattr(mmap, "MADV_" + advice))
        for place in places:
            memory[place]
        handle = ctypes.c_char.from_buffer(memory)
        address = ctypes.addressof(handle)
        del handle  # else the mapping could not be closed
        try:
            with open("/proc/self/pagemap", "rb", buffering=0) as file:
                file.seek(address // page_size * 8)
                entries = array("Q", file.read(size // page_size * 8))
        except OSError:  # closed to a program that has changed its user
            return set()
    return {entry & FRAME for entry in entries if entry >> 63}
