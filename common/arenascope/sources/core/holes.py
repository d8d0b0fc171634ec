"""Residency from a core file: by its holes if they tell, else by looking for pages that are not zero.

The kernel (dump_user_range in fs/coredump.c) skips a page that is absent or the shared zero page, which leaves a hole:
in anonymous memory the data blocks of the file are exactly what was resident or in swap (the two cannot be told apart,
so all counts as resident). Pages of files are faulted in by the dump and prove nothing. A pipe (core_pattern "|…"),
cat, a download or gcore fill the holes. Other tools make holes of all zeros (coredumpctl, cp --sparse=always), and then
zero-filled resident pages are lost: a lower bound again.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from functools import cached_property
from typing import TYPE_CHECKING, Iterator, NamedTuple, Optional, Sequence

from ...base.heap_model import HUGE_PAGES
from ..elf.elf_file import PF_W, Segment
from ..target import MappingUse, PageUse, Region, Residency, Runs, Span, joined
from .open_core import FileRange, data_within

if TYPE_CHECKING:
    from .core_image import CoreImage
    from .open_core import CoreBytes

BLOCK = 1 << 20
# how much data is searched for the zero page that proves whose holes these are
PROOF_LIMIT = 1 << 30


def holes_tell(core: CoreImage) -> bool:
    """Tells whether the kernel wrote this file, and its holes are fine enough to show single pages."""
    if core.unpacked:
        return False  # unpacking made them
    return core.made_by == "kernel" and core.sparse and os.fstatvfs(core.file).f_bsize <= core.page_size


class _SegmentPart(NamedTuple):
    """A range that one segment holds; None: no segment does."""

    start: int
    end: int
    segment: Optional[Segment]


class _Parts:
    """Cuts address ranges along the segments of a core."""

    def __init__(self, core: CoreImage) -> None:
        self._core = core

    def _pages(self, start: int, end: int) -> Span:
        size = self._core.page_size
        return Span(start // size * size, (end + size - 1) // size * size)

    def _split(self, start: int, end: int) -> Iterator[_SegmentPart]:
        """Splits all of [start, end)."""
        starts = self._starts
        while start < end:
            segment = self._core.segment_at(start)
            if segment is None:
                index = bisect_right(starts, start)
                stop = min(end, starts[index]) if index < len(starts) else end
            else:
                stop = min(end, segment.address + segment.memory_size)
            yield _SegmentPart(start, stop, segment)
            start = stop

    @cached_property
    def _starts(self) -> list[int]:
        return [segment.address for segment in self._core.segments]


class HoleResidency(_Parts):
    """Residency by holes. `exact` if it is proven that only the kernel made them."""

    def __init__(self, core: CoreImage) -> None:
        super().__init__(core)
        self._data = Runs(data_within(core.file, 0, core.size))
        self.exact = self._has_zero_page()
        self._known_end = core.size
        self._drop_terminator()

    def count(self, start: int, end: int) -> Optional[PageUse]:
        held = self._held(start, end)
        if held is None:
            return None
        return PageUse(sum(self._data.bytes_in(low + shift, high + shift) for low, high, shift in held))

    def _held(self, start: int, end: int) -> Optional[list[FileRange]]:
        """Returns the parts that segments hold; None if one is not known."""
        held = []
        for low, high, segment in self._split(*self._pages(start, end)):
            # the kernel writes a program header for every mapping: elsewhere is nothing
            if segment is None or self._never_written(segment):
                continue
            if not self._known(segment, high):
                return None
            held.append(FileRange(low, high, segment.offset - segment.address))
        return held

    def resident_ranges(self, start: int, end: int) -> Optional[Sequence[Span]]:
        held = self._held(start, end)
        if held is None:
            return None
        parts = ((part, shift) for low, high, shift in held for part in self._data.parts_in(low + shift, high + shift))
        return joined((part.start - shift, part.end - shift) for part, shift in parts)

    def _known(self, segment: Segment, end: int) -> bool:
        there = end <= self._core.readable_end(segment) and end + segment.offset - segment.address <= self._known_end
        return there and self._is_anonymous(segment)

    def _is_anonymous(self, segment: Segment) -> bool:
        """Tells whether it is neither a file's nor the vDSO's, whose pages a dump faults in."""
        region = self._region(segment.address)
        return region.path in ("", "[stack]", HUGE_PAGES) and not region.shared

    def _never_written(self, segment: Segment) -> bool:
        """Tells whether it was left out because it has no page of its own (vma_dump_size: no anon_vma), not for another
        reason.

        Other reasons: a coredump_filter without private anonymous memory (then no mapping like it was dumped), a file,
        and MADV_DONTDUMP. The last leaves no trace, but only where a neighbour with the same protection was dumped
        could it be a piece of a heap: that is unknown. Shared memory is unknown as well.
        """
        if segment.file_size or not self._dumps_anonymous or not self._is_anonymous(segment):
            return False
        if self._region(segment.address).path == HUGE_PAGES:
            return False  # all of it is dumped, or coredump_filter has no bit for it
        neighbours = (
            self._core.segment_at(segment.address - 1),
            self._core.segment_at(segment.address + segment.memory_size),
        )
        return not any(
            n and n.file_size and n.flags == segment.flags and not self._region(n.address).path for n in neighbours
        )

    @cached_property
    def _dumps_anonymous(self) -> bool:
        return any(s.file_size and s.flags & PF_W and self._is_anonymous(s) for s in self._core.segments)

    @cached_property
    def _region_starts(self) -> list[int]:
        return [region.start for region in self._core.regions()]

    def _region(self, address: int) -> Region:
        return self._core.regions()[bisect_right(self._region_starts, address) - 1]

    def _has_zero_page(self) -> bool:
        """Tells whether a page of zeros is stored as data: tools that make holes of zeros leave none.

        The vsyscall page, last in a core of x86-64 and a hole but for the one byte that ends the file, is often it.
        """
        size, searched = self._core.page_size, 0
        zeros = bytes(size)
        for start, end in zip(reversed(self._data.starts), reversed(self._data.ends)):
            for offset, block in _blocks(self._core.held, start, end):
                skip = -offset % size
                if any(block[at : at + size] == zeros for at in range(skip, len(block) - size + 1, size)):
                    return True
                searched += len(block)
                if searched > PROOF_LIMIT:
                    return False
        return False

    def _drop_terminator(self) -> None:
        """Drops the terminator: a dump that ends with a hole gets one zero byte at its end, which makes a block of data
        there.

        In a core that was cut, the last zeros may be that byte, or a page that was resident.
        """
        size = self._core.page_size
        last = self._core.size - size
        ends = self._data.ends
        if ends and ends[-1] == self._core.size and not any(os.pread(self._core.file, size, last)):
            ends[-1] = last
            if self._core.truncated:
                self._known_end = last // size * size


class DenseResidency(_Parts):
    """Residency by content: a page that is not all zero was resident or in swap; nothing is known of the others."""

    exact = False

    def __init__(self, core: CoreImage) -> None:
        super().__init__(core)
        self._zero_block = bytes(BLOCK)

    def count(self, start: int, end: int) -> Optional[PageUse]:
        ranges = self.resident_ranges(start, end)
        return None if ranges is None else PageUse(sum(each.bytes for each in ranges))

    def resident_ranges(self, start: int, end: int) -> Optional[Sequence[Span]]:
        held = []
        for low, high, segment in self._split(*self._pages(start, end)):
            if segment is None or high > self._core.readable_end(segment):
                return None
            held.append(FileRange(low, high, segment.offset - segment.address))
        return joined(self._not_zero(held))

    def _not_zero(self, held: Sequence[FileRange]) -> Iterator[Span]:
        """Returns the pages that are not zero."""
        size = self._core.page_size
        zeros = self._zero_block[:size]
        for low, high, shift in held:
            for offset, block in _blocks(self._core.held, low + shift, high + shift):
                # most zero pages come in long stretches: one comparison for those
                if block == self._zero_block:
                    continue
                for at in (at for at in range(0, len(block), size) if block[at : at + size] != zeros):
                    yield Span(offset - shift + at, offset - shift + at + size)


def _blocks(held: CoreBytes, start: int, end: int) -> Iterator[tuple[int, bytearray]]:
    """Yields the file's bytes without its holes, each block valid until the next. They are read rather than mapped, so
    that a whole core does not become this process's RSS. A header may claim a hole of any size."""
    at, block = start, bytearray(BLOCK)
    for low, high in held.data_within(start, end):
        # whole blocks are left out: pages lie as they did from `start` on
        at = max(at, low - (low - start) % BLOCK)
        while at < high and (size := held.fill(memoryview(block)[: min(BLOCK, end - at)], at)):
            yield at, block if size == BLOCK else block[:size]
            at += size


def core_residency(core: CoreImage) -> Residency:
    """Returns residency by holes if the kernel wrote the file and its holes survived, else by counting non-zero
    pages."""
    return HoleResidency(core) if holes_tell(core) else DenseResidency(core)


def core_mappings(core: CoreImage) -> Optional[list[MappingUse]]:
    """Returns what the holes tell of each mapping: pages in swap count too, and pages of files were faulted in by the
    dump."""
    residency = core_residency(core)
    if not residency.exact:
        return None
    uses = []
    for region in core.regions():
        pages = None if region.is_file else residency.count(region.start, region.end)
        uses.append(MappingUse(region, pages.resident if pages else None))
    return uses
