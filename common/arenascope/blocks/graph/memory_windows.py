"""The words of ranges of memory, window by window, without the pages that were never there."""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from typing import Iterator, NamedTuple, Optional, Sequence

from ...base.errors import ArenascopeError, MemoryReadError
from ...session.session import Session
from ...sources.elf.modules import Modules
from ...sources.memory import Memory, Read
from ...sources.target import Residency, SharedMemory, Span


class WordWindow(NamedTuple):
    """Words in memory: they hold until the next window."""

    address: int
    words: Sequence[int]
    goes_on: bool = False
    """What is right behind it is of the same range, and in memory."""


class ImageWords:
    """What can be read of an image; `lost` counts what cannot."""

    def __init__(self, session: Session, shared: Optional[SharedMemory]) -> None:
        self._memory = session.memory
        # a lower bound will do: what a core's does not count is zeros
        self._residency = session.any_residency
        self._readable = session.target.image.readable
        self._shared = shared
        self._page = session.target.page_size
        self.lost = 0

    def of(self, start: int, end: int) -> Iterator[WordWindow]:
        word = self._memory.pointer_size
        start, end = -(-start // word) * word, end // word * word
        for low, high in self._present(start, end):
            low, high = max(low, start), min(high, end)
            readable = self._readable(low, high) if low < high else None
            if readable is None:
                yield from self._windows(low, high)
                continue
            self.lost += high - low - readable.bytes
            for first, last in readable.data:
                # a part that ends within a word
                yield from self._windows(max(low, first // word * word), last)

    def bytes(self, start: int, end: int) -> int:
        """How many there are to be looked at, at most."""
        readable = self._readable(start, end)
        return end - start if readable is None else sum(each.bytes for each in readable.data)

    def _present(self, start: int, end: int) -> Sequence[Span]:
        shared = self._shared
        index = bisect_right(shared.mappings, (start + 1,)) - 1 if shared is not None else -1
        if shared is not None and index >= 0 and start < shared.mappings[index].end:
            return _within(shared.pages, start, end)
        return present(self._residency, start, end)

    def _windows(self, at: int, end: int) -> Iterator[WordWindow]:
        word = self._memory.pointer_size
        while end - at >= word:
            size = min(end - at, Memory.BLOCK) // word * word
            try:
                words = self._memory.block(at, size)
            except MemoryReadError:
                words = ()
            if len(words):
                stop = at + len(words) * word
                yield WordWindow(at, words, goes_on=stop < end)
                at = stop
            elif size > self._page:
                # something in it cannot be read: page by page
                stop = at + size
                while at < stop:
                    size = min(self._page - at % self._page, stop - at)
                    yield from self._page_at(at, size, goes_on=at + size < end)
                    at += size
                at = stop
            else:
                self.lost += size
                at += size

    def _page_at(self, at: int, size: int, goes_on: bool) -> Iterator[WordWindow]:
        try:
            words = self._memory.block(at, size)
        except MemoryReadError:
            words = ()
        # a core that was cut ends within a page, or a word
        self.lost += size - len(words) * self._memory.pointer_size
        if len(words):
            yield WordWindow(at, words, goes_on)


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
