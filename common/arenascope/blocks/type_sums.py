"""Live blocks by what they are, added up: how many, how large, how much of them is in memory."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from itertools import accumulate, islice
from typing import Iterable, Sequence

from ..analysis.chunks import BOOKKEEPING
from ..analysis.held_back import SAMPLES, Totals, TypeRow
from ..analysis.resident import clipped
from ..base.model import Gap
from ..glibc.chunk import SIZE_BITS
from ..session.session import Session
from ..sources.target import Span
from .live_blocks import NamedLiveBlocks, NamedRun
from .name_all_blocks import THREAD_CACHE
from .recognise.all_recognisers import NONE


class _Sum:
    """Of one kind."""

    def __init__(self) -> None:
        self.blocks = self.bytes = self.resident = 0
        self.samples: list[int] = []


class _Sums:
    def __init__(self, session: Session, live: NamedLiveBlocks) -> None:
        self._header = session.layout.header
        self._live = live
        self._residency = session.residency
        self._all = [_Sum() for _ in live.kinds]
        self._holes: Sequence[Span] = ()
        """Of the heap that is being added: what is not in memory."""
        self._ends: Sequence[int] = ()
        self.gaps: Counter[str] = Counter()
        self.free = 0
        """Bytes of chunks that are in a list."""

    def add_heaps(self) -> None:
        for heap in self._live.heaps:
            if self._residency is not None:
                part = heap.heap
                resident = clipped(
                    self._residency.resident_ranges(part.address, part.end) or (), part.address, part.end
                )
                before = [part.address, *(each.end for each in resident)]
                after = [*(each.start for each in resident), part.end]
                self._holes = [Span(start, end) for start, end in zip(before, after) if start < end]
                self._ends = [hole.end for hole in self._holes]
            for piece in heap.pieces:
                if isinstance(piece, Gap):
                    self.gaps[piece.kind] += piece.bytes
                else:
                    self._add(piece)

    def _add(self, piece: NamedRun) -> None:
        pairs = Counter(zip(piece.kinds, piece.raws))
        missing: set[int] = set()
        for (kind, raw), times in pairs.items():
            size = times * (raw & ~SIZE_BITS)
            if kind == NONE:
                self.free += size
                continue
            row = self._all[kind]
            row.blocks += times
            row.bytes += size
            row.resident += size
            if len(row.samples) < SAMPLES:
                missing.add(kind)
        first = bisect_right(self._ends, piece.address)
        absent = first < len(self._holes) and self._holes[first].start < piece.address + piece.bytes
        if missing or absent:
            starts = list(accumulate((raw & ~SIZE_BITS for raw in piece.raws), initial=piece.address))
            self._take_samples(piece, starts, missing)
            if absent:
                self._take_off(piece, starts, islice(self._holes, first, None))

    def _take_samples(self, piece: NamedRun, starts: Sequence[int], missing: set[int]) -> None:
        for index, kind in enumerate(piece.kinds):
            if kind in missing:
                row = self._all[kind]
                row.samples.append(starts[index] + self._header)
                if len(row.samples) == SAMPLES:
                    missing.remove(kind)
                    if not missing:
                        break

    def _take_off(self, piece: NamedRun, starts: Sequence[int], holes: Iterable[Span]) -> None:
        """What is not in memory, which lies in free chunks mostly."""
        for low, high in holes:
            if low >= starts[-1]:
                break
            index = max(0, bisect_right(starts, low) - 1)
            while index < len(piece.kinds) and starts[index] < high:
                kind = piece.kinds[index]
                if kind != NONE:
                    self._all[kind].resident -= min(high, starts[index + 1]) - max(low, starts[index])
                index += 1

    def add_mmapped(self) -> None:
        for block, kind in self._live.mmapped:
            row = self._all[kind]
            row.blocks += 1
            row.bytes += block.bytes
            pages = self._residency.count(block.base, block.base + block.bytes) if self._residency else None
            row.resident += pages.resident if pages else 0
            if len(row.samples) < SAMPLES:
                row.samples.append(block.chunk + self._header)

    def rows(self) -> list[TypeRow]:
        known = self._residency is not None
        return [
            TypeRow(
                kind,
                index,
                blocks=each.blocks,
                bytes=each.bytes,
                resident=each.resident if known else None,
                holds_back=None,
                samples=each.samples,
            )
            for index, (kind, each) in enumerate(zip(self._live.kinds, self._all))
            if each.blocks
        ]


def summed(session: Session, live: NamedLiveBlocks) -> tuple[list[TypeRow], Totals]:
    """The kinds of which there are any, and all of it."""
    sums = _Sums(session, live)
    sums.add_heaps()
    sums.add_mmapped()
    rows = sums.rows()
    gaps = sums.gaps
    taken = sum(heap.heap.bytes for heap in live.heaps)
    return rows, Totals(
        blocks=sum(row.blocks for row in rows),
        bytes=sum(row.bytes for row in rows),
        used=taken - sums.free - gaps["top"],
        mmapped=sum(block.bytes for block, _ in live.mmapped),
        bookkeeping=sum(gaps[kind] for kind in BOOKKEEPING),
        foreign=gaps["foreign"],
        damaged=gaps["damage"],
        caches=sum(row.blocks for row in rows if row.kind == THREAD_CACHE),
    )
