"""Sums of a sweep: chunks by state and size, arena by arena, with nothing kept per chunk.

A heap of S bytes has at most about sqrt(S / 8) different sizes, so counting by size word stays small.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import Iterable, Iterator, Mapping, NamedTuple, Optional, Sequence

from ..base.heap_model import ChunkRun, Piece, Tally
from ..glibc.malloc_chunk import PREV_INUSE, SIZE_BITS

BATCH = 1 << 16
STATES = ("used", "tcache", "fast", "free")
WITH_TOP = (*STATES, "top")
BOOKKEEPING = ("header", "fencepost")
FINE = 1024
"""Up to this size there are two rows per power of two."""


class ChunkSums:
    """Chunks by state and size, and the bytes between them by kind."""

    def __init__(self, sizes: Mapping[str, Counter[int]] = {}, gaps: Mapping[str, int] = {}) -> None:
        self.sizes = {state: Counter(sizes.get(state)) for state in STATES}
        self.gaps: Counter[str] = Counter(gaps)

    def add(self, other: ChunkSums) -> None:
        for state in STATES:
            self.sizes[state].update(other.sizes[state])
        self.gaps.update(other.gaps)

    def tally(self, state: str) -> Tally:
        return tally_of(self.sizes[state])

    @property
    def chunks(self) -> int:
        return sum(sum(sizes.values()) for sizes in self.sizes.values())

    @property
    def bookkeeping(self) -> int:
        return sum(self.gaps[kind] for kind in BOOKKEEPING)

    @property
    def bytes(self) -> int:
        return sum(self.tally(state).bytes for state in STATES) + sum(self.gaps.values())


def tally_of(sizes: Mapping[int, int]) -> Tally:
    return Tally(sum(sizes.values()), sum(size * chunks for size, chunks in sizes.items()))


class _Batch:
    """Counts of one piece: size words of all chunks and of the free ones, listed chunks by state and size, bytes of
    gaps."""

    def __init__(self) -> None:
        self.all: Counter[int] = Counter()
        self.free: Counter[int] = Counter()
        self.listed: Counter[tuple[str, int]] = Counter()
        self.gaps: Counter[str] = Counter()
        self.met = 0


class SweepSums:
    """Adds up the pieces of a sweep; `listed` are chunks that look used and are in a thread cache or fastbin.

    A piece counts only once `keep` is called: if a sweep is interrupted, `sums` covers whole pieces.
    """

    def __init__(self, listed: Mapping[int, str]) -> None:
        self._listed = listed
        self._kept: list[_Batch] = []
        self._batch = _Batch()
        self._left = BATCH

    def add(self, piece: Piece) -> None:
        if isinstance(piece, ChunkRun):
            self.add_run(piece)
        else:
            self.add_gap(piece.kind, piece.bytes)

    def add_gap(self, kind: str, size: int) -> None:
        self._batch.gaps[kind] += size

    def add_run(self, run: ChunkRun) -> None:
        batch, raws = self._batch, run.raws
        batch.all.update(run.counts)
        batch.free.update(raws[at - 1] for at in run.free.indexes if at)
        for index, chunk in run.marks:
            batch.met += 1
            if run.after(index) & PREV_INUSE:
                batch.listed[self._listed[chunk], raws[index] & ~SIZE_BITS] += 1
        self._left -= len(raws)
        if self._left < 0:
            self.keep()

    def keep(self) -> None:
        """Commits what was added since the last call."""
        batch, self._batch, self._left = self._batch, _Batch(), BATCH
        self._kept.append(batch)

    @property
    def met(self) -> int:
        """The number of listed chunks that were met."""
        return sum(batch.met for batch in self._kept)

    def sums(self) -> ChunkSums:
        """The sums of what was kept."""
        sums = ChunkSums()
        sizes = sums.sizes
        for batch in self._kept:
            for state, counted, sign in (("used", batch.all, 1), ("used", batch.free, -1), ("free", batch.free, 1)):
                for raw, chunks in counted.items():
                    sizes[state][raw & ~SIZE_BITS] += sign * chunks
            for (state, size), chunks in batch.listed.items():
                sizes[state][size] += chunks
                sizes["used"][size] -= chunks
            sums.gaps.update(batch.gaps)
        # drop sizes with no chunks left
        return ChunkSums({state: +sizes[state] for state in STATES}, sums.gaps)


def count_between(order: Sequence[int], start: int, end: int) -> int:
    return bisect_left(order, end) - bisect_left(order, start)


class SizeClass(NamedTuple):
    """A row of the histogram; "free" includes what thread caches and fastbins hold."""

    least: int
    most: int
    used: Tally
    free: Tally
    only: Optional[int]
    """The size of all these chunks; None if they differ."""


class ExactSize(NamedTuple):
    """The chunks of one size; "free" as in SizeClass."""

    bytes: int
    used: Tally
    free: Tally


def exact_sizes(sums: ChunkSums) -> list[ExactSize]:
    """Returns every size, the one that holds most bytes first."""
    sizes = {size for counted in sums.sizes.values() for size in counted}

    def tally(size: int, states: Sequence[str]) -> Tally:
        chunks = sum(sums.sizes[state][size] for state in states)
        return Tally(chunks, size * chunks)

    rows = [ExactSize(size, tally(size, STATES[:1]), tally(size, STATES[1:])) for size in sizes]
    return sorted(rows, key=lambda row: (-row.used.bytes - row.free.bytes, row.bytes))


def bounds(least: int, align: int, most: int) -> Iterator[tuple[int, int]]:
    """(smallest, largest) size of each class: two per power of two up to 1 KiB, then one."""
    low, power = least, least
    while low <= most:
        for high in (power, power + power // 2) if power < FINE else (power,):
            if low <= high:
                yield low, high
                low = high + align
        power *= 2


def histogram(sums: ChunkSums, least: int, align: int) -> list[SizeClass]:
    """Returns the classes that hold any chunks."""
    sizes = sorted({size for counted in sums.sizes.values() for size in counted})
    rows = []
    at = 0
    for low, high in bounds(least, align, sizes[-1]) if sizes else ():
        inside = []
        while at < len(sizes) and sizes[at] <= high:
            inside.append(sizes[at])
            at += 1
        if inside:
            used = _sum_of(sums, ("used",), inside)
            only = inside[0] if len(inside) == 1 else None
            rows.append(SizeClass(low, high, used, _sum_of(sums, STATES[1:], inside), only=only))
    return rows


def _sum_of(sums: ChunkSums, states: Sequence[str], sizes: Sequence[int]) -> Tally:
    counted: Counter[int] = Counter()
    for state in states:
        counted.update({size: sums.sizes[state][size] for size in sizes if size in sums.sizes[state]})
    return tally_of(counted)


def within(sums: ChunkSums, least: Optional[int], most: Optional[int]) -> ChunkSums:
    """Returns the sums of the chunks of these sizes alone."""
    kept = {
        state: Counter(
            {
                size: chunks
                for size, chunks in counted.items()
                if (least is None or size >= least) and (most is None or size <= most)
            }
        )
        for state, counted in sums.sizes.items()
    }
    return ChunkSums(kept)


def total(parts: Iterable[ChunkSums]) -> ChunkSums:
    sums = ChunkSums()
    for part in parts:
        sums.add(part)
    return sums
