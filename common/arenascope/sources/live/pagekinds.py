"""Tells the kernel's shared zero page from memory, and its marks from swap, in entries of /proc/PID/pagemap.

The kernel puts marks of its own where the place of a page in swap would be: PTE markers (Linux 5.19). glibc 2.42 leaves
one a thread, as it guards stacks by MADV_GUARD_INSTALL (Linux 6.13). The page map calls them swapped, smaps does not.
Bit 58 marks guards (Linux 6.15). The swap's type identifies every marker, but only root sees it, as with frames. If
neither is visible, smaps' Swap decides, mapping by mapping. A page that is being moved to another frame counts as
swapped for that moment.
"""

from __future__ import annotations

import mmap
import os
import re
import sys
from array import array
from contextlib import suppress
from functools import cached_property
from typing import Callable, Iterator, NamedTuple, Optional

from ..target import Region, RegionIndex
from . import procfiles

# of an entry's top byte
PRESENT, SWAPPED, GUARD, WATCHED, EXCLUSIVE = 0x80, 0x40, 0x04, 0x02, 0x01
FRAME = (1 << 55) - 1
# linux/swapops.h: SWP_PTE_MARKER, the last of the types, which are the lowest 5 bits of a swapped page's frame
MARKER = (1 << 5) - 1
MADV_GUARD_INSTALL = 102
Blocks = Callable[[int, int], Iterator[tuple[int, bytes]]]

# kinds of pages; what is doubtful is settled
ABSENT, IN_MEMORY, IN_SWAP, MAYBE_ZERO, MAYBE_MARK, MAYBE_WATCHED = range(6)
_DOUBTFUL_RUN = re.compile(b"\3+|\4+|\5+")


def _kind(top: int) -> int:
    # a zero page is present and never exclusive: so are pages of shared files, and private ones shared with a child
    if top & PRESENT:
        return IN_MEMORY if top & EXCLUSIVE else MAYBE_ZERO
    if not top & SWAPPED or top & GUARD:
        return ABSENT
    return MAYBE_WATCHED if top & WATCHED else MAYBE_MARK


_KIND = bytes(_kind(top) for top in range(256))
_BY_TYPE = bytes(ABSENT if low & MARKER == MARKER else IN_SWAP for low in range(256))


class _Question(NamedTuple):
    """A question to smaps about one kind of doubtful pages."""

    sure: int
    """The kind of these pages; otherwise they are absent."""
    size: bytes
    """smaps' name for the bytes of both kinds together."""


_QUESTIONS = {
    MAYBE_ZERO: _Question(IN_MEMORY, procfiles.RSS),
    MAYBE_MARK: _Question(IN_SWAP, procfiles.SWAP),
    MAYBE_WATCHED: _Question(IN_SWAP, procfiles.SWAP),
}


class _Verdict(NamedTuple):
    """The answer about a mapping's doubtful pages."""

    start: int
    end: int
    kind: Optional[int]
    """None: there are pages of both kinds."""


class PageKinds:
    """Resolves doubtful entries of one process's page map."""

    def __init__(self, pid: int, page_size: int, blocks: Blocks) -> None:
        self.exact = True
        self._pid = pid
        self._page_size = page_size
        self._blocks = blocks
        self._verdicts: dict[tuple[int, int], _Verdict] = {}

    def settle(self, address: int, entries: bytes) -> bytes:
        """Returns a byte per page: 0 absent, 1 present, 2 swapped."""
        kinds = _kinds(entries)
        parts, done = [], 0
        for run in _DOUBTFUL_RUN.finditer(kinds):
            low, high = run.span()
            parts.append(kinds[done:low])
            kind, doubtful = kinds[low], entries[8 * low : 8 * high]
            if kind == MAYBE_ZERO and self._frames:
                parts.append(self._by_frame(doubtful))
            elif kind != MAYBE_ZERO and _frame(doubtful):
                parts.append(_bytes_of(doubtful, 0).translate(_BY_TYPE))
            elif kind == MAYBE_MARK and not self._guards_hidden:
                parts.append(bytes([IN_SWAP]) * (high - low))
            else:
                parts += self._by_smaps(address, low, high, kind)
            done = high
        if not parts:
            return kinds
        parts.append(kinds[done:])
        return b"".join(parts)

    @cached_property
    def _frames(self) -> frozenset[int]:
        return zero_frames(self._page_size)

    @cached_property
    def _guards_hidden(self) -> bool:
        return guards_hidden(self._page_size)

    def _by_frame(self, entries: bytes) -> bytes:
        zeros = self._frames
        return bytes([ABSENT if entry & FRAME in zeros else IN_MEMORY for entry in array("Q", entries)])

    def _by_smaps(self, address: int, low: int, high: int, kind: int) -> list[bytes]:
        """Decides mapping by mapping. A mapping with both kinds counts none of them: a lower bound."""
        parts = []
        while low < high:
            verdict = self._verdict_at(address + low * self._page_size, kind)
            stop = min(high, (verdict.end - address) // self._page_size)
            if verdict.kind is None:
                self.exact = False
            parts.append(bytes([verdict.kind or ABSENT]) * (stop - low))
            low = stop
        return parts

    def _verdict_at(self, address: int, kind: int) -> _Verdict:
        index = self._regions.place(address)
        if index is None:  # mapped since
            return _Verdict(address, address + self._page_size, None)
        key = (index, kind)
        if key not in self._verdicts:
            self._verdicts[key] = self._compare(*self._smaps[index], kind)
        return self._verdicts[key]

    def _compare(self, region: Region, rows: bytes, kind: int) -> _Verdict:
        question = _QUESTIONS[kind]
        alike = [other for other, asked in _QUESTIONS.items() if asked == question]
        start, end = region.start, region.end
        sure = doubtful = 0
        for _, entries in self._blocks(start, end):
            kinds = _kinds(entries)
            sure += kinds.count(question.sure)
            doubtful += sum(kinds.count(each) for each in alike)
        counted = procfiles.counter(rows, question.size) // self._page_size
        settled = question.sure if counted == sure + doubtful else ABSENT if counted == sure else None
        return _Verdict(start, end, settled)

    @cached_property
    def _smaps(self) -> list[tuple[Region, bytes]]:
        return list(procfiles.smaps(procfiles.read_smaps(self._pid)))

    @cached_property
    def _regions(self) -> RegionIndex:
        return RegionIndex([region for region, _ in self._smaps])


def _kinds(entries: bytes) -> bytes:
    """Classifies each entry by its top byte, at C's speed."""
    return _bytes_of(entries, 7).translate(_KIND)


def _bytes_of(entries: bytes, place: int) -> bytes:
    """Returns one byte of each entry, counted from the lowest; entries have the host's byte order."""
    return entries[place if sys.byteorder == "little" else 7 - place :: 8]


def _frame(entries: bytes) -> int:
    """Returns the first entry's frame; 0 if frames are hidden: no page lies in the first place of a swap file (its
    header)."""
    return int.from_bytes(entries[:8], sys.byteorder) & FRAME


def zero_frames(page_size: int) -> frozenset[int]:
    """Finds the frames of zero pages by reading untouched memory of our own; empty if frames are hidden.

    Some machines have several and choose by address (s390x, MIPS): 256 pages in a row meet all of them. There is a huge
    one as well where transparent huge pages are on: the middle of twice a huge page's length lies in a whole one.
    """
    huge = page_size * page_size // 8
    small_frames = _frames_of_untouched(256 * page_size, range(0, 256 * page_size, page_size), page_size, "NOHUGEPAGE")
    huge_frames = _frames_of_untouched(2 * huge, range(huge, huge + 1), page_size, "HUGEPAGE")
    return frozenset((small_frames | huge_frames) - {0})


def _frames_of_untouched(size: int, places: range, page_size: int, advice: str) -> set[int]:
    try:
        with mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
            with suppress(OSError, AttributeError):  # a kernel without transparent huge pages
                memory.madvise(getattr(mmap, "MADV_" + advice))
            for place in places:
                memory[place]
            entries = _own_entries(memory, page_size)
    except (ImportError, OSError):
        return set()
    return {entry & FRAME for entry in entries if entry >> 63}


def guards_hidden(page_size: int) -> bool:
    """Tells whether guards may look like swap, by setting one in memory of our own."""
    try:
        with mmap.mmap(-1, page_size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
            try:
                memory.madvise(MADV_GUARD_INSTALL)
            except OSError:  # this kernel has none
                return False
            (entry,) = _own_entries(memory, page_size)
    except (ImportError, OSError):
        return True
    return not entry >> 56 & GUARD


def last_guard(pid: int, start: int, end: int, page_size: int) -> Optional[int]:
    """Returns the end of the last guard in a part of a mapping; None if there is none, or this kernel does not tell."""
    first = start // page_size
    try:
        with open(f"/proc/{pid}/pagemap", "rb", buffering=0) as file:
            data = os.pread(file.fileno(), 8 * (-(-end // page_size) - first), 8 * first)
    except OSError:
        return None
    tops = data[7 if sys.byteorder == "little" else 0 :: 8]
    at = next((at for at in range(len(tops) - 1, -1, -1) if tops[at] & GUARD and not tops[at] & PRESENT), None)
    return (first + at + 1) * page_size if at is not None else None


def _own_entries(memory: mmap.mmap, page_size: int) -> array[int]:
    """Opens our own page map. OSError if this program has changed its user, ImportError if a debugger's Python has no
    ctypes."""
    import ctypes  # a Python may lack it

    handle = ctypes.c_char.from_buffer(memory)
    address = ctypes.addressof(handle)
    del handle  # else the mapping could not be closed
    with open("/proc/self/pagemap", "rb", buffering=0) as file:
        return array("Q", os.pread(file.fileno(), len(memory) // page_size * 8, address // page_size * 8))
