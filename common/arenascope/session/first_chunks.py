"""The first chunks in an order other than that of addresses: no more are kept than are asked for."""

from __future__ import annotations

from heapq import heappush, heapreplace
from typing import Callable, Iterable, Mapping, Union

from ..analysis.chunks import STATES, WITH_TOP
from ..base.model import Piece, Run
from ..glibc.chunk import SIZE_BITS
from ..glibc.chunks.blocks import Block, blocks

Row = tuple[int, int, str, int]
"""(chunk address, bytes, state, arena)."""
Wants = Callable[[int, str], bool]
"""Whether a chunk of this size and state is asked for."""


def chunks_of(piece: Piece, listed: Mapping[int, str]) -> Iterable[Block]:
    if isinstance(piece, Run):
        return blocks(piece, listed)
    return [(piece.address, piece.bytes, "top")] if piece.kind == "top" and piece.bytes else []


class Largest:
    """The largest first; of equals, that which is met first."""

    def __init__(self, limit: int, wants: Wants) -> None:
        self._limit = limit
        self._wants = wants
        self._met = 0
        self._heap: list[tuple[int, int, int, str, int]] = []

    def add(self, piece: Piece, listed: Mapping[int, str]) -> None:
        # most runs have none that is large enough, which their few sizes tell
        if isinstance(piece, Run) and max(piece.counts, default=0) & ~SIZE_BITS <= self._beaten:
            return
        for chunk, size, state in chunks_of(piece, listed):
            if size <= self._beaten or not self._wants(size, state):
                continue
            self._met += 1
            entry = (size, -self._met, chunk, state, piece.heap.arena)
            if len(self._heap) < self._limit:
                heappush(self._heap, entry)
            else:
                heapreplace(self._heap, entry)

    @property
    def _beaten(self) -> int:
        """No chunk of this size comes in any more."""
        return self._heap[0][0] if len(self._heap) == self._limit else 0

    def rows(self) -> list[Row]:
        return [(chunk, size, state, arena) for size, _, chunk, state, arena in sorted(self._heap, reverse=True)]


class ByState:
    """State by state, each in the order in which it is met."""

    def __init__(self, limit: int, wants: Wants) -> None:
        self._limit = limit
        self._wants = wants
        self._rows: dict[str, list[Row]] = {state: [] for state in WITH_TOP}

    def add(self, piece: Piece, listed: Mapping[int, str]) -> None:
        full = {state for state, rows in self._rows.items() if len(rows) >= self._limit}
        if isinstance(piece, Run) and full >= ({"used", "free"} if not piece.marks else set(STATES)):
            return
        for chunk, size, state in chunks_of(piece, listed):
            rows = self._rows[state]
            if len(rows) < self._limit and self._wants(size, state):
                rows.append((chunk, size, state, piece.heap.arena))

    def rows(self) -> list[Row]:
        return [row for rows in self._rows.values() for row in rows][: self._limit]


Foremost = Union[Largest, ByState]
"""The first so many of some order."""
ORDERS: Mapping[str, Callable[[int, Wants], Foremost]] = {"size": Largest, "state": ByState}
