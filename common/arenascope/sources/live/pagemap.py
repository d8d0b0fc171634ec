"""Residency of a live process as RSS counts it: pages present, without the shared zero page.

Any reader of untouched memory (a debugger, /proc/PID/mem) maps the zero page there, and so does the process when it
reads what it never wrote; page tables call that present, RSS does not. PAGEMAP_SCAN (Linux 6.7) tells the two apart.
Before it only the frame number does, which root alone may see; without it smaps' Rss decides, mapping by mapping. The
kernel's marks in page tables, such as guards of stacks, are called swapped but are not. Pages of hugetlbfs count here
although the kernel keeps them out of RSS (HugetlbPages in /proc/PID/status).

The kernel puts marks of its own where the place of a page in swap would be: PTE markers (Linux 5.19). glibc 2.42 leaves
one a thread, as it guards stacks by MADV_GUARD_INSTALL (Linux 6.13). The page map calls them swapped, smaps does not.
Bit 58 marks guards (Linux 6.15). The swap's type identifies every marker, but only root sees it, as with frames. If
neither is visible, smaps' Swap decides, mapping by mapping. A page that is being moved to another frame counts as
swapped for that moment.
"""

from __future__ import annotations

import errno
import mmap
import os
import re
import sys
from array import array
from contextlib import suppress
from fcntl import ioctl
from functools import cached_property
from struct import Struct
from typing import Callable, Iterable, Iterator, NamedTuple, Optional, Sequence, Union

from ...base.errors import TargetError
from ..target import PageUse, Region, RegionIndex, Runs, Span, joined
from . import proc_tables
from .proc_tables import read_regions

# of an entry's top byte
PRESENT_BIT, SWAPPED_BIT, GUARD_BIT, WATCHED, EXCLUSIVE = 0x80, 0x40, 0x04, 0x02, 0x01
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
    if top & PRESENT_BIT:
        return IN_MEMORY if top & EXCLUSIVE else MAYBE_ZERO
    if not top & SWAPPED_BIT or top & GUARD_BIT:
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
    MAYBE_ZERO: _Question(IN_MEMORY, proc_tables.RSS),
    MAYBE_MARK: _Question(IN_SWAP, proc_tables.SWAP),
    MAYBE_WATCHED: _Question(IN_SWAP, proc_tables.SWAP),
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
        counted = proc_tables.counter(rows, question.size) // self._page_size
        settled = question.sure if counted == sure + doubtful else ABSENT if counted == sure else None
        return _Verdict(start, end, settled)

    @cached_property
    def _smaps(self) -> list[tuple[Region, bytes]]:
        return list(proc_tables.smaps(proc_tables.read_smaps(self._pid)))

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
    return not entry >> 56 & GUARD_BIT


def last_guard(pid: int, start: int, end: int, page_size: int) -> Optional[int]:
    """Returns the end of the last guard in a part of a mapping; None if there is none, or this kernel does not tell."""
    first = start // page_size
    try:
        with open(f"/proc/{pid}/pagemap", "rb", buffering=0) as file:
            data = os.pread(file.fileno(), 8 * (-(-end // page_size) - first), 8 * first)
    except OSError:
        return None
    tops = data[7 if sys.byteorder == "little" else 0 :: 8]
    at = next((at for at in range(len(tops) - 1, -1, -1) if tops[at] & GUARD_BIT and not tops[at] & PRESENT_BIT), None)
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


# linux/fs.h: _IOWR('f', 16, struct pm_scan_arg), that is 12 64-bit words
PAGEMAP_SCAN = 0xC0606610
WRITTEN, PRESENT, SWAPPED, PFNZERO = 1 << 1, 1 << 3, 1 << 4, 1 << 5
GUARD = 1 << 8
"""Since Linux 6.16; older kernels refuse it."""
OF_FILE = 1 << 61
PRESENT_OF_FILE = 1 << 63 | OF_FILE
"""Set in the entry of every file page."""
_SCAN_ARG = Struct("=12Q")
# the kernel refuses addresses that are not the user's: no machine has any in the upper half of 64 bits
USER_LIMIT = 1 << 63
_RUN = re.compile(b"\1+|\2+")
Run = tuple[int, int, bool]
"""(start, end, swapped): pages that are in memory, or in swap."""


class PagesOfStretch:
    """The pages of a stretch of address space in memory and in swap, at one moment."""

    def __init__(self, start: int, end: int) -> None:
        self.start, self.end = start, end
        self.here, self.away = Runs(), Runs()

    def count(self, low: int, high: int) -> PageUse:
        return PageUse(self.here.bytes_in(low, high), self.away.bytes_in(low, high))

    @property
    def whole(self) -> PageUse:
        return PageUse(*(sum(each.ends) - sum(each.starts) for each in (self.here, self.away)))

    def resident(self, low: int, high: int) -> Sequence[Span]:
        return self.here.spans_in(low, high)

    def add(self, runs: Iterable[Run]) -> None:
        for low, high, swapped in runs:
            kind = self.away if swapped else self.here
            kind.starts.append(low)
            kind.ends.append(high)


class States(NamedTuple):
    """The pages of a range in memory and in swap, each in order."""

    present: list[Span]
    swapped: list[Span]


class PagemapResidency:
    """Residency of process `pid`. Take it before reading much memory if the kernel is older than 6.7."""

    def __init__(self, pid: int, page_size: int) -> None:
        self.page_size = page_size
        try:
            self._file = open(f"/proc/{pid}/pagemap", "rb", buffering=0)  # noqa: SIM115 - closed by __exit__
        except (FileNotFoundError, ProcessLookupError) as error:
            raise TargetError(f"process {pid} has ended") from error
        except OSError as error:
            raise TargetError(f"cannot open /proc/{pid}/pagemap: {error.strerror}") from error
        entries = EntryReader(self._file.fileno(), pid, page_size)
        scan = ScanReader(self._file.fileno(), pid, entries)
        self._reader: Union[ScanReader, EntryReader] = scan if scan.works() else entries

    @property
    def exact(self) -> bool:
        """False once pages that may be zero pages or memory shared with a child could not be told apart."""
        return self._reader.exact

    def __enter__(self) -> PagemapResidency:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def count(self, start: int, end: int) -> Optional[PageUse]:
        start, end = self.whole_pages(start, end)
        try:
            return self.stretch(start, end).whole if start < end else PageUse(0)
        except (OSError, ValueError):  # ended meanwhile, or closed
            return None

    def resident_ranges(self, start: int, end: int) -> Optional[Sequence[Span]]:
        start, end = self.whole_pages(start, end)
        try:
            return joined((low, high) for low, high, swapped in self._reader.runs(start, end) if not swapped)
        except (OSError, ValueError):
            return None

    def states(self, start: int, end: int) -> States:
        states = States([], [])
        for low, high, swapped in self._reader.runs(*self.whole_pages(start, end)):
            (states.swapped if swapped else states.present).append(Span(low, high))
        return states

    def own(self, start: int, end: int) -> Sequence[Span]:
        """Returns the pages of a private mapping of a file that are no longer the file's."""
        return joined(self._own(*self.whole_pages(start, end)))

    def _own(self, start: int, end: int) -> Iterator[Span]:
        size = self.page_size
        for low, high, _ in self._reader.runs(start, end):
            data = os.pread(self._file.fileno(), (high - low) // size * 8, low // size * 8)
            entries = array("Q", data)
            # of most mappings all is the file's
            if entries and min(entries) < PRESENT_OF_FILE:
                own = (at for at, entry in enumerate(entries, low // size) if entry >> 62 and not entry & OF_FILE)
                yield from (Span(at * size, (at + 1) * size) for at in own)

    def stretch(self, start: int, end: int) -> PagesOfStretch:
        """Reads [start, end), whole pages, at once."""
        stretch = PagesOfStretch(start, end)
        self._reader.collect(stretch)
        return stretch

    def whole_pages(self, start: int, end: int) -> Span:
        """Extends a range to whole pages."""
        size = self.page_size
        return Span(start // size * size, min((end + size - 1) // size * size, USER_LIMIT))


class ScanReader:
    """Reads with PAGEMAP_SCAN: the kernel merges the pages into ranges. Pages called swapped that may be marks are
    looked up in the entries: all of them if it does not know guards, otherwise those that userfaultfd watches."""

    BATCH = 4096

    def __init__(self, pagemap: int, pid: int, entries: EntryReader) -> None:
        self._pagemap = pagemap
        self._pid = pid
        self._entries = entries
        self._leave_out = PFNZERO | GUARD
        self._found = array("Q", bytes(8 * 3 * self.BATCH))
        """struct page_region: start, end, categories."""
        self._argument = bytearray(_SCAN_ARG.size)

    @property
    def exact(self) -> bool:
        return self._entries.exact

    def works(self) -> bool:
        for self._leave_out in (PFNZERO | GUARD, PFNZERO):
            with suppress(OSError):
                self._scan(0, 1 << 16)
                return True
        return False

    def _scan(self, start: int, end: int) -> int:
        """Returns the number of ranges found."""
        _SCAN_ARG.pack_into(
            self._argument,
            0,
            _SCAN_ARG.size,
            0,
            start,
            end,
            0,
            self._found.buffer_info()[0],
            self.BATCH,
            0,
            self._leave_out,
            self._leave_out,
            PRESENT | SWAPPED,
            PRESENT | SWAPPED | WRITTEN,
        )
        return int(ioctl(self._pagemap, PAGEMAP_SCAN, self._argument, True))

    def _batches(self, start: int, end: int) -> Iterator[tuple[array[int], array[int], array[int]]]:
        while start < end:
            try:
                number = self._scan(start, end)
            except OSError as error:
                # beyond TASK_SIZE, which no file of /proc tells: up to the last mapping then
                if error.errno != errno.EFAULT or end <= self._last_mapped:
                    raise
                end = self._last_mapped
                continue
            stop = 3 * number
            if number:
                yield self._found[0:stop:3], self._found[1:stop:3], self._found[2:stop:3]
            if number < self.BATCH:
                return
            # not from walk_end: pagemap_scan_ioctl (seen in 6.18) leaves there what an earlier flush of its own
            # buffer of 512 ranges set, and the last of them would come twice
            start = self._found[stop - 2]

    @cached_property
    def _last_mapped(self) -> int:
        return max((region.end for region in read_regions(self._pid) if region.end < USER_LIMIT), default=0)

    def runs(self, start: int, end: int) -> Iterator[Run]:
        for batch in self._batches(start, end):
            yield from self._settled(*batch)

    def collect(self, into: PagesOfStretch) -> None:
        for starts, ends, kinds in self._batches(into.start, into.end):
            if kinds.count(PRESENT | WRITTEN) == len(kinds):
                into.here.starts += starts
                into.here.ends += ends
            else:
                into.add(self._settled(starts, ends, kinds))

    def _settled(self, *batch: array[int]) -> Iterator[Run]:
        sure = SWAPPED | WRITTEN if self._leave_out & GUARD else -1
        for low, high, kind in zip(*batch):
            if kind & PRESENT or kind == sure:
                yield low, high, not kind & PRESENT
            else:
                yield from self._entries.runs(low, high)


class EntryReader:
    """Reads /proc/PID/pagemap, 8 bytes a page: bit 63 present, 62 swapped, 61 of a file, 56 mapped by nobody else."""

    BLOCK = 1 << 17

    def __init__(self, pagemap: int, pid: int, page_size: int) -> None:
        self._pagemap = pagemap
        self._pid = pid
        self._page_size = page_size
        self._page_kinds = PageKinds(pid, page_size, self._raw_blocks)

    @property
    def exact(self) -> bool:
        """False once something could not be decided."""
        return self._page_kinds.exact

    def _raw_blocks(self, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        """Yields (address, entries) in big blocks, so that Python works once per half a gigabyte."""
        if end - start <= self.BLOCK * self._page_size:
            yield from self._read(start, end)
            return
        # the kernel writes entries for addresses without a mapping too: a terabyte of those would take minutes
        for low, high in self._mapped:
            if low < end and start < high:
                yield from self._read(max(low, start), min(high, end))

    @cached_property
    def _mapped(self) -> list[Span]:
        return [Span(region.start, region.end) for region in read_regions(self._pid)]

    def _read(self, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        page, last = start // self._page_size, end // self._page_size
        while page < last:
            data = os.pread(self._pagemap, 8 * min(self.BLOCK, last - page), 8 * page)
            if not data:  # past the end of user addresses, or of the process
                return
            yield page * self._page_size, data
            page += len(data) // 8

    def _kinds(self, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        """Yields (address, a byte per page: its kind)."""
        for address, data in self._raw_blocks(start, end):
            yield address, self._page_kinds.settle(address, data)

    def runs(self, start: int, end: int) -> Iterator[Run]:
        """Yields runs in address order."""
        size = self._page_size
        for address, kinds in self._kinds(start, end):
            for run in _RUN.finditer(kinds):
                low, high = run.span()
                yield address + low * size, address + high * size, kinds[low] == IN_SWAP

    def collect(self, into: PagesOfStretch) -> None:
        """Reads the whole stretch."""
        into.add(self.runs(into.start, into.end))
