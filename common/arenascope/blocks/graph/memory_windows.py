"""Where the bytes of ranges of memory are, without the pages that were never there."""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from typing import Iterator, Optional, Sequence

from ...base.errors import ArenascopeError, MemoryReadError, TargetError
from ...session.session import Session
from ...sources.elf.modules import Modules
from ...sources.live.cgroups import memory_left
from ...sources.memory import Memory, Read
from ...sources.target import MemoryPiece, Residency, SharedMemory, Span

SHARE = 0.8
"""Of the memory that is left, so much may be used for copies."""


class ImageBytes:
    """What can be read of an image; `lost` counts what cannot, as far as the image says so."""

    def __init__(self, session: Session, shared: Optional[SharedMemory]) -> None:
        # a lower bound will do: what a core's does not count is zeros
        self._residency = session.any_residency
        self._target, self._memory, self._regions = session.target, session.memory, session.regions
        self._shared = shared
        self.lost = self._copied = 0

    def present(self, start: int, end: int) -> Iterator[Span]:
        """The parts of a range that have anything but zeros, as far as that is known."""
        for low, high in self._present(start, end):
            low, high = max(low, start), min(high, end)
            readable = self._target.image.readable(low, high) if low < high else None
            if readable is None:
                if low < high:
                    yield Span(low, high)
                continue
            self.lost += high - low - readable.bytes
            yield from readable.data

    def _present(self, start: int, end: int) -> Sequence[Span]:
        shared = self._shared
        index = bisect_right(shared.mappings, (start + 1,)) - 1 if shared is not None else -1
        if shared is not None and index >= 0 and start < shared.mappings[index].end:
            return _within(shared.pages, start, end)
        return present(self._residency, start, end)

    def all_pieces(self, spans: Sequence[Span]) -> list[MemoryPiece]:
        """Where all bytes of the image are, or those of these spans where only reading gives them."""
        every: list[MemoryPiece] = []
        for region in self._regions:
            found = self._target.pieces(region.start, region.end)
            if found is not None:
                every += found
                continue
            for start, end in spans:
                part = Span(max(start, region.start), min(end, region.end))
                if part.start < part.end:
                    self._may_copy(part.bytes)
                    every += self._copied_pieces(part.start, part.end, Memory.BLOCK)
        return every

    def _may_copy(self, size: int) -> None:
        self._copied += size
        left = memory_left()
        if self._copied > SHARE * left:
            raise TargetError(
                f"its memory must be copied to be looked through, and {left >> 20:,} MiB are left here",
                "arenas, bins, trim and report need no copy",
            )

    def _copied_pieces(self, at: int, end: int, step: int) -> Iterator[MemoryPiece]:
        page = self._target.page_size
        while at < end:
            size = min(step - at % step, end - at)
            data = self._memory.try_read(at, size)
            if data is not None:
                yield MemoryPiece(at, size, memoryview(bytearray(data)))
            elif step > page:
                yield from self._copied_pieces(at, at + size, page)
            else:
                self.lost += size
            at += size


def _within(pages: Sequence[Span], start: int, end: int) -> Sequence[Span]:
    first = max(0, bisect_right(pages, (start + 1,)) - 1)
    here = pages[first : bisect_left(pages, (end,))]
    return [Span(max(low, start), min(high, end)) for low, high in here if high > start]


def present(residency: Optional[Residency], start: int, end: int) -> Sequence[Span]:
    """Where there may be anything but zeros."""
    if residency is None:
        return [Span(start, end)]
    pages = residency.count(start, end)
    if pages is None or pages.swapped:
        return [Span(start, end)]
    ranges = residency.resident_ranges(start, end)
    return [Span(start, end)] if ranges is None else ranges


def with_constants(read_memory: Read, modules: Modules) -> Memory:
    def read(address: int, size: int) -> bytes:
        try:
            return read_memory(address, size)
        except MemoryReadError:
            module = modules.at(address)
            if module is None:
                raise
            try:
                return modules.read(module, address, size)
            except (ArenascopeError, struct.error):
                raise MemoryReadError(address, size) from None

    return Memory(read, modules.target.pointer_size, modules.target.byte_order)
