"""Chunks one by one, out of the runs of a sweep: where each lies, how large it is and what it is."""

from __future__ import annotations

from typing import Iterable, Iterator, Mapping, Optional, Sequence, Union

from ...model import Bin, Gap, Piece, Run
from ...records import NamedTuple
from ..chunk import PREV_INUSE, SIZE_BITS

Block = tuple[int, int, str]
"""(chunk address, bytes, "used", "tcache", "fast" or "free")."""


def blocks(run: Run, listed: Mapping[int, str]) -> Iterator[Block]:
    """A run's chunks in address order; `listed` are those of thread caches and fastbins, which look used."""
    chunk, previous = run.address, 0
    state = listed.get
    for raw in run.raws:
        if previous:
            yield chunk, previous, state(chunk, "used") if raw & PREV_INUSE else "free"
            chunk += previous
        previous = raw & ~SIZE_BITS
    if previous:
        yield chunk, previous, state(chunk, "used") if run.follow & PREV_INUSE else "free"


def listed_chunks(lists: Iterable[Sequence[Bin]]) -> dict[int, str]:
    """The chunks of fastbins and thread caches: "fast" or "tcache"."""
    found: dict[int, str] = {}
    for bins in lists:
        for each in bins:
            found.update(dict.fromkeys(each.addresses, each.kind))
    return found


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
            return Placed(found.chunk, found.bytes, state=found.state, previous=found.previous, next=_first(piece))
        if not piece.address <= address < piece.address + piece.bytes:
            before = piece.address + piece.bytes - (piece.raws[-1] & ~SIZE_BITS) if isinstance(piece, Run) else None
            continue
        if isinstance(piece, Gap):
            if piece.kind != "top":
                return piece
            return Placed(piece.address, piece.bytes, state="top", previous=before, next=None)
        for chunk, size, state in blocks(piece, listed):
            if found is not None:
                return Placed(found.chunk, found.bytes, state=found.state, previous=found.previous, next=chunk)
            if chunk <= address < chunk + size:
                found = Placed(chunk, size, state=state, previous=before, next=None)
            before = chunk
    return found


def _first(piece: Piece) -> Optional[int]:
    """The chunk that a piece begins with."""
    return piece.address if isinstance(piece, Run) or piece.kind == "top" else None
