"""Live blocks with their kinds, as a sweep found them."""

from __future__ import annotations

from itertools import chain, islice
from types import ModuleType
from typing import Iterator, NamedTuple, Optional, Sequence, Union

from ..base.model import ArenaHeader, Gap, Heap, Kind, MmappedBlock
from ..glibc.chunk import PREV_INUSE, SIZE_BITS
from ..session.session import Session
from .recognise.all_recognisers import NONE

Block = tuple[int, int, str, int]
"""(chunk address, bytes, its state or a gap's kind, its kind's index or NONE)."""


class NamedRun(NamedTuple):
    """Chunks that lie back to back, as in a Run."""

    heap: Heap
    address: int
    bytes: int
    raws: Sequence[int]
    follow: int
    kinds: Sequence[int]
    """Of each: the index of its kind, or NONE."""


Swept = Union[NamedRun, Gap]


class HeapBlocks(NamedTuple):
    """A heap with the kinds of its blocks."""

    header: ArenaHeader
    heap: Heap
    pieces: Sequence[Swept]


class NamedLiveBlocks:
    """All live blocks of some arenas."""

    def __init__(self, session: Session, numpy: Optional[ModuleType]) -> None:
        self._session = session
        self.numpy = numpy
        """None where there are too few blocks to load it for, or where it is not installed."""
        self.kinds: list[Kind] = []
        self.heaps: list[HeapBlocks] = []
        self.mmapped: list[tuple[MmappedBlock, int]] = []

    def blocks(self, heap: HeapBlocks) -> Iterator[Block]:
        """Every chunk and gap of a heap in address order."""
        listed = self._session.listed.get
        for piece in heap.pieces:
            if isinstance(piece, Gap):
                yield piece.address, piece.bytes, piece.kind, NONE
                continue
            chunk = piece.address
            following = chain(islice(piece.raws, 1, None), (piece.follow,))
            for raw, after, kind in zip(piece.raws, following, piece.kinds):
                size = raw & ~SIZE_BITS
                if kind != NONE:
                    yield chunk, size, "used", kind
                else:
                    yield chunk, size, listed(chunk, "used") if after & PREV_INUSE else "free", NONE
                chunk += size
