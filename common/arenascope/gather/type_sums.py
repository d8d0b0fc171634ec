"""Live blocks by what they are, added up: how many, how large, how much of them is in memory."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from itertools import accumulate
from typing import Sequence

from ..analysis.resident import clipped
from ..analysis.types import SAMPLES, Totals, TypeRow
from ..glibc.chunk import SIZE_BITS
from ..model import Gap
from ..recognise.catalogue import NONE
from ..session import Session
from ..target import Span
from .live import Live, Typed

BOOKKEEPING = ("header", "fencepost")


class _Sum:
    """Of one kind."""

    def __init__(self) -> None:
        self.blocks = self.bytes = self.resident = 0
        self.samples: list[int] = []


class _Sums:
    def __init__(self, session: Session, live: Live) -> None:
        self._header = session.layout.header
        self._live = live
        self._residency = session.residency
        self._all = [_Sum() for _ in live.kinds]
        self._found: Sequence[Span] = ()
        self._starts: Sequence[int] = ()
        self.gaps: Counter[str] = Counter()
        self.free = 0
        """Bytes of chunks that are in a list."""

    def add_heaps(self) -> None:
        for heap in self._live.heaps:
            if self._residency is not None:
                part = heap.heap
                self._found = clipped(
                    self._residency.resident_ranges(part.address, part.end) or (), part.address, part.end
                )
                self._starts = [each.start for each in self._found]
            for piece in heap.pieces:
                if isinstance(piece, Gap):
                    self.gaps[piece.kind] += piece.bytes
                else:
                    self._add(piece)

    def _add(self, piece: Typed) -> None:
        pairs = Counter(zip(piece.kinds, piece.raws))
        missing = {kind for kind, _ in pairs if kind != NONE and len(self._all[kind].samples) < SAMPLES}
        within = self._resident_between(piece.address, piece.address + piece.bytes) == piece.bytes
        for (kind, raw), times in pairs.items():
            size = times * (raw & ~SIZE_BITS)
            if kind == NONE:
                self.free += size
                continue
            found = self._all[kind]
            found.blocks += times
            found.bytes += size
            found.resident += size if within else 0
        if missing or not within:
            self._add_singly(piece, missing, within)

    def _add_singly(self, piece: Typed, missing: set[int], within: bool) -> None:
        """What depends on where each block lies."""
        ends = accumulate(raw & ~SIZE_BITS for raw in piece.raws)
        start = piece.address
        for kind, end in zip(piece.kinds, ends):
            end += piece.address
            if kind != NONE:
                found = self._all[kind]
                if kind in missing:
                    found.samples.append(start + self._header)
                    if len(found.samples) == SAMPLES:
                        missing.remove(kind)
                if not within:
                    found.resident += self._resident_between(start, end)
            start = end
            if within and not missing:
                break

    def _resident_between(self, start: int, end: int) -> int:
        at = max(0, bisect_right(self._starts, start) - 1)
        found = 0
        while at < len(self._found) and self._found[at].start < end:
            each = self._found[at]
            found += max(0, min(end, each.end) - max(start, each.start))
            at += 1
        return found

    def add_mmapped(self) -> None:
        for block, kind in self._live.mmapped:
            found = self._all[kind]
            found.blocks += 1
            found.bytes += block.bytes
            pages = self._residency.count(block.base, block.base + block.bytes) if self._residency else None
            found.resident += pages.resident if pages else 0
            if len(found.samples) < SAMPLES:
                found.samples.append(block.chunk + self._header)

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


def summed(session: Session, live: Live) -> tuple[list[TypeRow], Totals]:
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
    )
