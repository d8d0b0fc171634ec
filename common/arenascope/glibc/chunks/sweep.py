"""The sweep: every chunk of a heap or region in address order, by following size headers, and what lies between."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from operator import or_
from typing import Generator, Iterator, Optional, Sequence

from ...base.model import ArenaHeader, Finding, Gap, Heap, Piece, Run, Statement
from ...sources.memory import Memory
from ...sources.target import Span
from ..chunk import IS_MMAPPED, NON_MAIN_ARENA, PREV_INUSE, SIZE_BITS
from ..process_layout import Layout
from .follow import Follower, Trail
from .resync import PROVEN, find_chain

SPAN = 64 << 20
"""How many bytes of a heap are followed before they are handed out."""


def first_chunk(layout: Layout, header: ArenaHeader, heap: Heap) -> int:
    """Where the heap's first chunk lies, by the rules of sysmalloc and of new_heap."""
    start = heap.address
    if not header.main:
        start += layout.heap.size
        if start == header.address:
            start += layout.arena.size
    return layout.first_aligned(start)


class Sweep:
    """Everything between a heap's start and end, in order and without gaps: sizes sum to the heap's.

    `marked` are addresses, in order, whose chunks a run points out. `stretch` is all that is wanted of it: it begins at
    a chunk, or with the heap; the last piece ends past it where no chunk begins at its end. `feet`: see Run.free.
    """

    def __init__(
        self,
        memory: Memory,
        layout: Layout,
        header: ArenaHeader,
        heap: Heap,
        findings: list[Finding],
        *,
        marked: Sequence[int],
        stretch: Optional[Span],
        feet: bool,
    ) -> None:
        self.memory = memory
        self.layout = layout
        self.header = header
        self.heap = heap
        self.findings = findings
        self.has_top = heap.address <= header.top < heap.end
        self.limit = header.top if self.has_top else heap.end
        """Where the last chunk before top must end."""
        self.start = stretch.start if stretch else heap.address
        self.stop = min(stretch.end if stretch else heap.end, self.limit)
        self._follower = Follower(memory, layout.min_size, self.start, self.stop, end=heap.end, stops=marked)
        self._follower.feet = feet
        self._span = SPAN
        self._wrong = IS_MMAPPED | layout.mask & ~SIZE_BITS | (NON_MAIN_ARENA if header.main else 0)
        """Bits that no chunk of this heap has in its size word."""

    def pieces(self) -> Iterator[Piece]:
        position = self.start
        if position == self.heap.address:
            position = min(first_chunk(self.layout, self.header, self.heap), self.limit)
            if position > self.heap.address:
                yield self._gap(self.heap.address, position, "header")
        while position < self.stop:
            position = yield from self._chain(position)
            if position < self.stop:
                piece = self._what_follows(position)
                yield piece
                position += piece.bytes
                if piece.kind == "fencepost" and position < self.stop:
                    position = yield from self._foreign(position)
        if self.has_top and self.stop == self.limit:
            yield self._gap(self.limit, self.heap.end, "top")

    def _gap(self, start: int, end: int, kind: str) -> Gap:
        return Gap(self.heap, start, end - start, kind)

    def _say(self, what: Statement, address: int) -> None:
        self.findings.append(Finding(what, address, self.header.index, "size"))

    def _chain(self, position: int) -> Generator[Piece, None, int]:
        """Runs from here up to the first word that is no chunk's, whose place is returned."""
        while position < self.stop:
            trail = self._follower.follow(position, self._span)
            if not trail.raws:
                return position
            if trail.end == self.heap.end:
                # a heap whose chunks end where it does has no fencepost: top, or its damage, lies elsewhere
                trail.follow = PREV_INUSE
            counts = trail.counts
            # no size is too large where all of them end within the heap
            sound = not reduce(or_, counts, 0) & self._wrong and trail.follow is not None and trail.end <= self.limit
            if not sound:
                self._cut(trail, position)
            stub = self._stub(trail)
            if stub:
                trail.raws.pop()
                trail.follow = stub
            if stub or not sound:
                counts = Counter(trail.raws)
            # where one thing is wrong more may be: what follows must not be read again and again
            self._span = min(2 * self._span, SPAN) if sound else self.memory.BLOCK
            end, chunks = trail.end - (stub & ~SIZE_BITS), len(trail.raws)
            if chunks:
                marks = [mark for mark in trail.marks if mark[0] < chunks]
                yield Run(
                    self.heap,
                    position,
                    bytes=end - position,
                    raws=trail.raws,
                    follow=trail.follow or 0,
                    counts=counts,
                    marks=marks,
                    free=trail.free if sound and self._follower.feet else None,
                )
            if stub:
                yield self._gap(end, trail.end, "fencepost")
            position = trail.end
            if not sound or trail.broken:
                break
        return position

    def _stub(self, trail: Trail) -> int:
        """sysmalloc leaves the header of a too small old top before the size-0 post: it looks like a block."""
        last = trail.raws[-1] if trail.raws else 0
        if (
            last
            and trail.follow == PREV_INUSE
            and not self.header.main
            and not last & NON_MAIN_ARENA
            and last < self.layout.min_size + self.layout.header
        ):
            return last
        return 0

    def _cut(self, trail: Trail, position: int) -> None:
        """Cuts a trail at the first word that cannot be a chunk's."""
        for index, raw in enumerate(trail.raws):
            size = raw & ~SIZE_BITS
            if raw & self._wrong:
                self._say(Statement("chunk-flags", names={"size_word": f"{raw:#x}"}), position)
            elif position + size > self.limit:
                beyond = Statement("chunk-too-long", {"bytes": size}, {"limit": f"{self.limit:#x}"})
                self._say(beyond, position)
            else:
                position += size
                continue
            del trail.raws[index:]
            trail.end, trail.follow = position, raw
            return

    # what stands where no chunk does

    def _what_follows(self, position: int) -> Gap:
        """A fencepost, somebody else's bytes after one, or damage."""
        layout, left = self.layout, self.limit - position
        raw = self.memory.try_word(position + layout.word)
        size = raw & ~SIZE_BITS if raw is not None else None
        if size == layout.header and left >= size:
            return self._gap(position, position + size, "fencepost")
        if self._is_slack(position) and raw == PREV_INUSE and not self.header.main:
            return self._gap(position, self.limit, "fencepost")
        if not (self.findings and self.findings[-1].address == position):
            what = Statement("chunk-unreadable")
            if raw is not None:
                what = Statement("no-chunk", names={"size_word": f"{raw:#x}"})
            self._say(what, position)
        chain = find_chain(self.memory, layout, self.header.main, position + layout.align, limit=self.limit)
        return self._gap(position, self.limit if chain is None else chain, "damage")

    def _is_slack(self, position: int) -> bool:
        """Less than a chunk before the heap's end: what the last fencepost and alignment need."""
        left = self.limit - position
        return not self.has_top and left <= self.layout.min_size - self.layout.header + self.layout.mask

    def _foreign(self, position: int) -> Generator[Piece, None, int]:
        """After two fenceposts of the main arena: nothing records where its own chunks resume."""
        raw = self.memory.try_word(position + self.layout.word)
        if not self.header.main or (raw is not None and raw & ~SIZE_BITS == self.layout.header):
            return position
        if self._is_slack(position):
            yield self._gap(position, self.limit, "fencepost")
            return self.limit
        chain = find_chain(self.memory, self.layout, True, position, limit=self.limit, sure=PROVEN)
        end = self.limit if chain is None else chain
        if end > position:
            yield self._gap(position, end, "foreign")
        return end
