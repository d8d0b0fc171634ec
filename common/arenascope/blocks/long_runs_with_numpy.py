"""The blocks of a heap by which analysis/holds_back.py can judge what a kind holds: all but short runs, with numpy.

Of a run that is shorter than a page nothing can go back, and most are: such runs, one after another, are one item here.
"""

from __future__ import annotations

from types import ModuleType
from typing import Iterator

from ..base.model import Gap
from ..glibc.chunk import PREV_INUSE, SIZE_BITS
from ..session.session import Session
from .live_blocks import Block, HeapBlocks, NamedRun
from .recognise.all_recognisers import NONE

SHORT_RUNS, SHORT = "short runs", NONE - 1
"""In place of a state, and of a kind's number."""


def long_runs(numpy: ModuleType, session: Session, heap: HeapBlocks) -> Iterator[Block]:
    """As Live.blocks."""
    for piece in heap.pieces:
        if isinstance(piece, Gap):
            yield piece.address, piece.bytes, piece.kind, NONE
        else:
            yield from _of_piece(numpy, session, piece)


def _of_piece(numpy: ModuleType, session: Session, piece: NamedRun) -> Iterator[Block]:
    kinds = numpy.array(piece.kinds)
    raws = numpy.append(numpy.asarray(piece.raws, dtype=numpy.uint64), numpy.uint64(piece.follow))
    is_free = raws[1:] & numpy.uint64(PREV_INUSE) == 0
    places = numpy.append(0, numpy.cumsum((raws[:-1] & ~numpy.uint64(SIZE_BITS)).astype(numpy.int64)))
    used = numpy.flatnonzero(kinds != NONE)
    changes = numpy.flatnonzero(numpy.diff(kinds[used]))
    # of all runs but the last, and of all but the first: where they end, and begin
    lasts, firsts = used[changes], used[changes + 1]
    # of those in between: they reach from the run before to the next one at most
    is_short = places[firsts[1:]] - places[lasts[:-1] + 1] < session.target.page_size
    edges = numpy.flatnonzero(numpy.diff(is_short, prepend=False, append=False))
    # of several short runs the first block stands for all
    begins, ends = firsts[edges[::2]], lasts[edges[1::2]]
    kinds[begins] = SHORT
    steps = numpy.zeros(len(kinds) + 1, dtype=numpy.int64)
    steps[begins + 1] -= 1
    steps[ends + 1] += 1
    kept = numpy.flatnonzero(numpy.cumsum(steps)[:-1] == 0)
    starts = places[kept]
    sizes = numpy.diff(starts, append=places[-1])
    columns = (starts, sizes, kinds[kept], is_free[kept])
    for start, size, kind, free in zip(*(each.tolist() for each in columns)):
        chunk = piece.address + start
        if kind == SHORT:
            yield chunk, size, SHORT_RUNS, NONE
        elif kind == NONE:
            yield chunk, size, "free" if free else session.listed.get(chunk, "used"), NONE
        else:
            yield chunk, size, "used", kind
