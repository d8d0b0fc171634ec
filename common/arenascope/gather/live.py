"""Live blocks with their kinds, as a sweep found them."""

from __future__ import annotations

from typing import Iterator, Sequence, Union

from ..glibc.chunks.blocks import blocks
from ..model import ArenaHeader, Gap, Heap, MmappedBlock, Run
from ..recognise.catalogue import NONE
from ..recognise.kinds import Kind
from ..records import NamedTuple
from ..session import Session

Block = tuple[int, int, str, int]
"""(chunk address, bytes, its state or a gap's kind, its kind's index or NONE)."""


class Typed(NamedTuple):
    """Chunks that lie back to back, as in a Run."""

    heap: Heap
    address: int
    bytes: int
    raws: Sequence[int]
    follow: int
    kinds: Sequence[int]
    """Of each: the index of its kind, or NONE."""


Swept = Union[Typed, Gap]


class HeapBlocks(NamedTuple):
    """A heap with the kinds of its blocks."""

    header: ArenaHeader
    heap: Heap
    pieces: Sequence[Swept]


class Live:
    """All live blocks of some arenas."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.kinds: list[Kind] = []
        self.heaps: list[HeapBlocks] = []
        self.mmapped: list[tuple[MmappedBlock, int]] = []

    def blocks(self, heap: HeapBlocks) -> Iterator[Block]:
        """Every chunk and gap of a heap in address order."""
        for piece in heap.pieces:
            if isinstance(piece, Gap):
                yield piece.address, piece.bytes, piece.kind, NONE
                continue
            run = Run(
                piece.heap,
                piece.address,
                bytes=piece.bytes,
                raws=piece.raws,
                follow=piece.follow,
                counts={},
                marks=(),
            )
            for (chunk, size, state), kind in zip(blocks(run, self._session.listed), piece.kinds):
                yield chunk, size, state, kind
