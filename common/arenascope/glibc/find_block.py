"""Which chunk holds an address: out of the sweep of its heap, as no chunk can be told from its middle."""

from __future__ import annotations

from typing import Iterable, Mapping, NamedTuple, Optional, Union

from ..model import Gap, Piece, Run
from .blocks import blocks
from .chunk import SIZE_BITS


class Placed(NamedTuple):
    """A chunk among its neighbours in memory."""

    chunk: int
    bytes: int
    state: str
    """"used", "tcache", "fast", "free" or "top"."""
    previous: Optional[int]
    next: Optional[int]
    """Chunks that touch this one; None where none does."""


def find_block(pieces: Iterable[Piece], listed: Mapping[int, str], address: int) -> Optional[Union[Placed, Gap]]:
    """The chunk, or what else of the heap is there; None where no piece has the address."""
    before: Optional[int] = None
    found: Optional[Placed] = None
    for piece in pieces:
        if found is not None:
            return Placed(found.chunk, found.bytes, found.state, found.previous, _first(piece))
        if not piece.address <= address < piece.address + piece.bytes:
            before = piece.address + piece.bytes - (piece.raws[-1] & ~SIZE_BITS) if isinstance(piece, Run) else None
            continue
        if isinstance(piece, Gap):
            if piece.kind != "top":
                return piece
            return Placed(piece.address, piece.bytes, "top", before, None)
        for chunk, size, state in blocks(piece, listed):
            if found is not None:
                return Placed(found.chunk, found.bytes, found.state, found.previous, chunk)
            if chunk <= address < chunk + size:
                found = Placed(chunk, size, state, before, None)
            before = chunk
    return found


def _first(piece: Piece) -> Optional[int]:
    """The chunk that a piece begins with."""
    return piece.address if isinstance(piece, Run) or piece.kind == "top" else None
