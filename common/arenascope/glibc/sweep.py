"""The sweep: every chunk of a heap or region in address order, by following size headers.

What is read is read in windows, and the hot loop does nothing but step: a word is looked up, kept and added. Whether
all of a window's words can be chunks is asked afterwards, of all at once.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Generator, Iterator, NamedTuple, Optional, Sequence, Union

from ..errors import MemoryReadError
from ..memory import Memory
from ..model import ArenaHeader, Finding, Heap
from .chunk import IS_MMAPPED, NON_MAIN_ARENA, PREV_INUSE, SIZE_BITS
from .layout import Layout
from .resync import PROVEN, find_chain


class Run(NamedTuple):
    """Chunks that lie back to back, as their size words stand."""

    heap: Heap
    address: int
    bytes: int
    words: Sequence[int]
    follow: int
    """The size word behind the last: its PREV_INUSE tells whether that one is free."""


class Gap(NamedTuple):
    """Bytes of a heap that are no block: what the allocator keeps for itself, or what could not be read as chunks."""

    heap: Heap
    address: int
    bytes: int
    kind: str
    """"header", "fencepost", "foreign" (somebody else's sbrk), "top" or "damage"."""


Piece = Union[Run, Gap]


def sweep_heap(memory: Memory, layout: Layout, header: ArenaHeader, heap: Heap,
               findings: list[Finding]) -> Iterator[Piece]:  # fmt: skip
    """Everything between a heap's start and end, without a hole and in order: sizes sum to the heap's."""
    return _Sweep(memory, layout, header, heap, findings).pieces()


def first_chunk(layout: Layout, header: ArenaHeader, heap: Heap) -> int:
    """Where the heap's first chunk lies, by the rules of sysmalloc and of new_heap."""
    start = heap.address
    if not header.main:
        start += layout.heap.size
        if start == header.address:
            start += layout.arena.size
    return ((start + layout.header + layout.mask) & ~layout.mask) - layout.header


class _Sweep:
    def __init__(self, memory: Memory, layout: Layout, header: ArenaHeader, heap: Heap,
                 findings: list[Finding]) -> None:  # fmt: skip
        self.memory = memory
        self.layout = layout
        self.header = header
        self.heap = heap
        self.findings = findings
        self.has_top = heap.address <= header.top < heap.end
        self.limit = header.top if self.has_top else heap.end
        """Where the last chunk before top must end."""
        self._wrong = IS_MMAPPED | layout.mask & ~SIZE_BITS | (NON_MAIN_ARENA if header.main else 0)
        """Bits that no chunk of this heap has in its size word."""

    def pieces(self) -> Iterator[Piece]:
        position = min(first_chunk(self.layout, self.header, self.heap), self.limit)
        if position > self.heap.address:
            yield self._gap(self.heap.address, position, "header")
        while position < self.limit:
            position = yield from self._chain(position)
            if position < self.limit:
                piece = self._what_follows(position)
                yield piece
                position += piece.bytes
                if piece.kind == "fencepost" and position < self.limit:
                    position = yield from self._foreign(position)
        if self.has_top:
            yield self._gap(self.limit, self.heap.end, "top")

    def _gap(self, start: int, end: int, kind: str) -> Gap:
        return Gap(self.heap, start, end - start, kind)

    def _say(self, what: str, address: int) -> None:
        self.findings.append(Finding(what, address, self.header.index, "size"))

    def _chain(self, position: int) -> Generator[Piece, None, int]:
        """Runs from here up to the first word that is no chunk's, whose place is returned."""
        view = self._window(position)
        while position < self.limit:
            words, stop, good = self._step(view, position)
            if not words:
                return position
            index = (stop - position) // self.layout.word
            goes_on = index >= len(view)
            if goes_on:
                # the word behind the last is the first of what is read next
                view, index = self._window(stop), 0
            follow = view[index] if index < len(view) else None
            if stop == self.heap.end:
                # a heap whose chunks end where it does has no fencepost: top, or its damage, lies elsewhere
                follow = PREV_INUSE
            whole = good and follow is not None and stop <= self.limit
            if not whole:
                words, stop, follow = self._sound_part(words, position, stop, follow)
            stub = self._stub(words, follow)
            if stub:
                words, follow = words[:-1], stub
            size = stub & ~SIZE_BITS
            if words:
                yield Run(self.heap, position, stop - size - position, words, follow or 0)
            if stub:
                yield self._gap(stop - size, stop, "fencepost")
            position = stop
            if not (whole and goes_on):
                break
        return position

    def _window(self, position: int) -> Sequence[int]:
        """The words from this chunk's size field on."""
        word = self.layout.word
        base = position + word
        # of top no more than its header: its pages may never have been touched
        size = min(self.memory.BLOCK, min(self.heap.end, self.limit + 2 * word) - base) // word * word
        while size >= word:
            try:
                return self.memory.block(base, size)
            except MemoryReadError:
                # what can be read ends somewhere in here
                size = size // 8 // word * word
        return ()

    def _step(self, view: Sequence[int], position: int) -> tuple[list[int], int, bool]:
        """(size words, where they end, whether all of them can be chunks)."""
        word, least = self.layout.word, self.layout.min_size
        words: list[int] = []
        count = min(len(view), (self.limit - position) // word)
        index = _step64(view, count, least, words) if word == 8 else _step32(view, count, least, words)
        # no size is too large where all of them end within the heap
        return words, position + index * word, not reduce(or_, words, 0) & self._wrong

    def _stub(self, words: Sequence[int], follow: Optional[int]) -> int:
        """sysmalloc leaves the header of a too small old top before the size-0 post: it looks like a block."""
        last = words[-1] if words else 0
        if (last and follow == PREV_INUSE and not self.header.main and not last & NON_MAIN_ARENA
                and last < self.layout.min_size + self.layout.header):  # fmt: skip
            return last
        return 0

    def _sound_part(self, words: list[int], position: int, stop: int,
                    follow: Optional[int]) -> tuple[list[int], int, Optional[int]]:  # fmt: skip
        """The chunks before the first that cannot be one, their end, and the word there."""
        sound: list[int] = []
        for raw in words:
            size = raw & ~SIZE_BITS
            if raw & self._wrong:
                self._say(f"a chunk with size word {raw:#x}", position)
                return sound, position, raw
            if position + size > self.limit:
                self._say(f"a chunk of {size:#x} bytes reaches beyond {self.limit:#x}, its heap's last", position)
                return sound, position, raw
            sound.append(raw)
            position += size
        return sound, stop, follow

    # what stands where no chunk does

    def _what_follows(self, position: int) -> Gap:
        """A fencepost, somebody else's bytes behind one, or damage."""
        layout, left = self.layout, self.limit - position
        raw = self.memory.try_word(position + layout.word)
        size = raw & ~SIZE_BITS if raw is not None else None
        if size == layout.header and left >= size:
            return self._gap(position, position + size, "fencepost")
        if self._is_slack(position) and raw == PREV_INUSE and not self.header.main:
            return self._gap(position, self.limit, "fencepost")
        if not (self.findings and self.findings[-1].address == position):
            what = "it cannot be read" if raw is None else f"size word {raw:#x}"
            self._say(f"no chunk can be here: {what}", position)
        found = find_chain(self.memory, layout, self.header.main, position + layout.align, self.limit)
        return self._gap(position, self.limit if found is None else found, "damage")

    def _is_slack(self, position: int) -> bool:
        """Less than a chunk before the heap's end: what the last fencepost and alignment need."""
        left = self.limit - position
        return not self.has_top and left <= self.layout.min_size - self.layout.header + self.layout.mask

    def _foreign(self, position: int) -> Generator[Piece, None, int]:
        """Behind two fenceposts of the main arena: where its own chunks go on is written nowhere."""
        raw = self.memory.try_word(position + self.layout.word)
        if not self.header.main or (raw is not None and raw & ~SIZE_BITS == self.layout.header):
            return position
        if self._is_slack(position):
            yield self._gap(position, self.limit, "fencepost")
            return self.limit
        found = find_chain(self.memory, self.layout, True, position, self.limit, PROVEN)
        end = self.limit if found is None else found
        if end > position:
            yield self._gap(position, end, "foreign")
        return end


def _step64(view: Sequence[int], count: int, least: int, words: list[int]) -> int:
    """Follows size words to the window's end; a size in words is the size word without its three flags."""
    append = words.append
    index = 0
    while index < count:
        raw = view[index]
        if raw < least:
            break
        append(raw)
        index += raw >> 3
    return index


def _step32(view: Sequence[int], count: int, least: int, words: list[int]) -> int:
    append = words.append
    index = 0
    while index < count:
        raw = view[index]
        if raw < least:
            break
        append(raw)
        index += raw >> 3 << 1
    return index
