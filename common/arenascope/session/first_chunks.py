"""The first chunks in an order other than that of addresses: no more are kept than are asked for."""

from __future__ import annotations

from heapq import heappush, heapreplace
from typing import Callable, Iterable, Mapping

from ..analysis.chunks import WITH_TOP
from ..base.model import ChunkRun, Piece
from ..glibc.blocks import Block, blocks
from ..glibc.chunk import SIZE_BITS

Row = tuple[int, int, str, int]
"""(chunk address, bytes, state, arena)."""
Wants = Callable[[int, str], bool]
"""Whether a chunk of this size and state is asked for."""


def chunks_of(piece: Piece, listed: Mapping[int, str]) -> Iterable[Block]:
    if isinstance(piece, ChunkRun):
        return blocks(piece, listed)
    return [(piece.address, piece.bytes, "top")] if piece.kind == "top" and piece.bytes else []


class Foremost:
    """Those of the highest rank first; of equals, that which is met first."""

    def __init__(
        self, limit: int, wants: Wants, rank: Callable[[int, str], int], best: Callable[[ChunkRun], int]
    ) -> None:
        """`rank`: by a chunk's size and state; `best`: no chunk of a run has a higher one."""
        self._limit, self._wants, self._rank, self._best = limit, wants, rank, best
        self._met = 0
        self._heap: list[tuple[int, int, int, int, str, int]] = []

    def add(self, piece: Piece, listed: Mapping[int, str]) -> None:
        # most runs have none that comes in any more
        if isinstance(piece, ChunkRun) and self._is_beaten(self._best(piece)):
            return
        for chunk, size, state in chunks_of(piece, listed):
            rank = self._rank(size, state)
            if self._is_beaten(rank) or not self._wants(size, state):
                continue
            self._met += 1
            entry = (rank, -self._met, chunk, size, state, piece.heap.arena)
            if len(self._heap) < self._limit:
                heappush(self._heap, entry)
            else:
                heapreplace(self._heap, entry)

    def _is_beaten(self, rank: int) -> bool:
        return len(self._heap) == self._limit and rank <= self._heap[0][0]

    def rows(self) -> list[Row]:
        return [(chunk, size, state, arena) for _, _, chunk, size, state, arena in sorted(self._heap, reverse=True)]


def largest(limit: int, wants: Wants) -> Foremost:
    return Foremost(limit, wants, lambda size, _: size, lambda run: max(run.counts, default=0) & ~SIZE_BITS)


def by_state(limit: int, wants: Wants) -> Foremost:
    return Foremost(limit, wants, lambda _, state: -WITH_TOP.index(state), lambda run: 0)


ORDERS: Mapping[str, Callable[[int, Wants], Foremost]] = {"size": largest, "state": by_state}
