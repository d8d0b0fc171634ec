"""Reads shared memory without a file, whoever wrote it: a process's page tables do not show all of it.

fork copies no page tables of shared mappings, and the kernel may drop them while the pages stay. Pages that this
process has not touched are read from the memory's own inode: a read through the process would map the page there, and
create one if there is none.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Optional, Sequence

from ..core.open_core import data_within
from ..target import Region, RegionIndex, Residency, SharedMemory, Span

MOST = 1 << 30
"""The most unmapped bytes of the process that are examined, or copied."""


class SharedFiles:
    """The inodes behind the shared mappings of a process: /proc/PID/map_files leads there, with CAP_CHECKPOINT_RESTORE
    or CAP_SYS_ADMIN."""

    def __init__(self, folder: str, regions: Sequence[Region], residency: Residency, most: int = MOST) -> None:
        self._folder = folder
        known: list[Region] = []
        self.pages: dict[int, Sequence[Span]] = {}
        """The pages of each mapping, by its start."""
        unknown: list[Span] = []
        for region in regions:
            if not (region.is_shared_memory and region.readable):
                continue
            mapped = residency.count(region.start, region.end)
            here = mapped.resident if mapped is not None else 0
            found = self._pages(region, here + most)
            if found is not None:
                most -= max(0, sum(each.bytes for each in found) - here)
                known.append(region)
                self.pages[region.start] = found
            elif here < region.size:
                unknown.append(Span(region.start, region.end))
        self._regions = RegionIndex(known)
        mappings = [Span(each.start, each.end) for each in known]
        self.told = SharedMemory(mappings, [each for found in self.pages.values() for each in found], unknown)

    def has(self, start: int, end: int) -> bool:
        """Tells whether some of the range lies in such a mapping."""
        return any(each.start < end and start < each.end for each in self.told.mappings)

    def fill(self, address: int, block: memoryview) -> int:
        """Reads into `block` from such a mapping, up to its end; 0 elsewhere."""
        region = self._regions.find(address)
        if region is None:
            return 0
        size = min(len(block), region.end - address)
        with suppress(OSError):
            file = self._open(region)
            try:
                return os.preadv(file, [block[:size]], region.offset + address - region.start)
            finally:
                os.close(file)
        return 0

    def read(self, address: int, size: int) -> bytes:
        """Reads all of it if it lies in one such mapping; otherwise nothing."""
        region = self._regions.find(address)
        if region is None or address + size > region.end:
            return b""
        block = bytearray(size)
        return bytes(block) if self.fill(address, memoryview(block)) == size else b""

    def _open(self, region: Region) -> int:
        # not kept open: some processes have more than a program may open
        return os.open(f"{self._folder}/map_files/{region.start:x}-{region.end:x}", os.O_RDONLY | os.O_CLOEXEC)

    def _pages(self, region: Region, most: int) -> Optional[list[Span]]:
        """Returns the pages; None if unavailable, or too much."""
        try:
            file = self._open(region)
        except OSError:
            return None
        pages, shift = [], region.start - region.offset
        try:
            for start, end in data_within(file, region.offset, region.offset + region.size):
                pages.append(Span(start + shift, end + shift))
                most -= end - start
                if most < 0:
                    return None
        except OSError:
            return None
        finally:
            os.close(file)
        return pages
