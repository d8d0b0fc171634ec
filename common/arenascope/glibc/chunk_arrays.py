"""Splits the runs of a sweep into chunks: address, size and state of each."""

from __future__ import annotations

from bisect import bisect_left
from types import ModuleType
from typing import TYPE_CHECKING, Iterable, Iterator, Mapping, NamedTuple, Optional, Sequence, Union

from ..base.model import Bin, ChunkRun, Gap, Piece
from .chunk import PREV_INUSE, SIZE_BITS

if TYPE_CHECKING:
    from ..base.array_types import Flags, Numbers


Block = tuple[int, int, str]
"""(chunk address, bytes, "used", "tcache", "fast" or "free")."""


def blocks(run: ChunkRun, listed: Mapping[int, str]) -> Iterator[Block]:
    """Returns a run's chunks in address order; `listed` are those of thread caches and fastbins, which look used."""
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
    """Returns the chunks of fastbins and thread caches: "fast" or "tcache"."""
    kind_of: dict[int, str] = {}
    for bins in lists:
        for each in bins:
            kind_of.update(dict.fromkeys(each.addresses, each.kind))
    return kind_of


class Placed(NamedTuple):
    """A chunk among its neighbours in memory."""

    chunk: int
    bytes: int
    state: str
    """"used", "tcache", "fast", "free" or "top"."""
    previous: Optional[int]
    next: Optional[int]
    """Adjacent chunks; None if there are none."""


Enclosing = Union[Placed, Gap]
"""The chunk that contains an address, or the part of the heap that is there."""


def find_blocks(pieces: Iterable[Piece], listed: Mapping[int, str], addresses: Iterable[int]) -> dict[int, Enclosing]:
    """Finds chunks by address, without addresses that no piece has. It reads the pieces once, no further than
    needed."""
    wanted = sorted(set(addresses))
    by_address: dict[int, Enclosing] = {}
    before: Optional[int] = None
    last: list[int] = []
    at = 0
    for piece in pieces:
        # what ends with a piece has its neighbour in the next one
        _followed_by(_first(piece), last, by_address)
        end = piece.address + piece.bytes
        here = wanted[bisect_left(wanted, piece.address, at) : bisect_left(wanted, end, at)]
        at = bisect_left(wanted, end, at)
        if here and isinstance(piece, ChunkRun):
            last = _in_run(piece, listed, here, before, by_address=by_address)
        elif here and isinstance(piece, Gap):
            top = Placed(piece.address, piece.bytes, state="top", previous=before, next=None)
            by_address.update(dict.fromkeys(here, top if piece.kind == "top" else piece))
        if at == len(wanted) and not last:
            break
        before = end - (piece.raws[-1] & ~SIZE_BITS) if isinstance(piece, ChunkRun) else None
    return by_address


def _in_run(
    run: ChunkRun,
    listed: Mapping[int, str],
    wanted: Sequence[int],
    before: Optional[int],
    by_address: dict[int, Enclosing],
) -> list[int]:
    """Adds the chunks of addresses in this run to `by_address`; returns those in its last chunk."""
    held: list[int] = []
    at = 0
    for chunk, size, state in blocks(run, listed):
        _followed_by(chunk, held, by_address)
        while at < len(wanted) and wanted[at] < chunk + size:
            by_address[wanted[at]] = Placed(chunk, size, state=state, previous=before, next=None)
            held.append(wanted[at])
            at += 1
        if at == len(wanted) and not held:
            break
        before = chunk
    return held


def _followed_by(chunk: Optional[int], held: list[int], by_address: dict[int, Enclosing]) -> None:
    """Completes what was found for the addresses in `held`, which is emptied, with this neighbour."""
    for address in held:
        placed = by_address[address]
        assert isinstance(placed, Placed)
        by_address[address] = placed._replace(next=chunk)
    held.clear()


def _first(piece: Piece) -> Optional[int]:
    """Returns a piece's first chunk."""
    return piece.address if isinstance(piece, ChunkRun) or piece.kind == "top" else None


class ChunkArrays(NamedTuple):
    """Chunks as arrays, in address order."""

    addresses: Numbers
    sizes: Numbers
    taken: Flags
    """Whether each is not free: used, or in a list of chunks that look used."""
    live: Flags
    """Whether each is used."""


def chunks(numpy: ModuleType, run: ChunkRun) -> ChunkArrays:
    """Returns chunks; listed chunks are those that the sweep was told to watch for."""
    raws = numpy.array(run.raws, dtype=numpy.uint64)
    sizes = raws & ~numpy.uint64(SIZE_BITS)
    addresses = numpy.cumsum(sizes)
    addresses -= sizes
    addresses += numpy.uint64(run.address)
    taken = numpy.empty(len(raws), dtype=bool)
    # the next one's size word tells
    taken[:-1] = raws[1:] & numpy.uint64(PREV_INUSE)
    taken[-1:] = run.follow & PREV_INUSE
    live = taken.copy()
    live[[index for index, _ in run.marks]] = False
    return ChunkArrays(addresses, sizes, taken, live)
