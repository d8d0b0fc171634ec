"""Sweeps heaps with several processes; the results come in the order in which one process would find them."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, closing
from typing import Callable, Generator, Generic, Iterator, NamedTuple, Optional, Sequence, TypeVar

from ..analysis.pins import TOGETHER
from ..base.model import ArenaHeader, ChunkRun, Finding, Heap, Piece
from ..base.worker_pool import SHARES, Meter, Unseen, metered, share_out
from ..glibc.sweep import cuts
from ..sources.target import Span
from .session import Session

SHORTEST = 1 << 20
"""Heaps are cut into stretches of at least this size."""
SAMPLE, SAMPLES = 256 << 10, 4
"""The size of a sample, and the number of samples from a long heap: programs begin with other blocks than they continue
with."""

Result = TypeVar("Result")


class HeapPart(NamedTuple):
    """A heap, or a stretch of it."""

    header: ArenaHeader
    heap: Heap
    stretch: Span

    @property
    def cut(self) -> bool:
        """Whether more of the heap follows."""
        return self.stretch.end < self.heap.end


def likely_chunks(session: Session, limit: int) -> int:
    """Estimates the number of chunks from samples of each heap; it stops once it exceeds `limit`."""
    likely = 0
    for header in session.headers:
        for heap in session.heaps[header.index]:
            if likely > limit:
                return likely
            stretches = _samples(session, header, heap)
            pieces = (piece for each in stretches for piece in session.sweep_part(header, heap, each, []))
            chunks = sum(len(piece.raws) for piece in pieces if isinstance(piece, ChunkRun))
            likely += chunks * heap.bytes // max(sum(each.bytes for each in stretches), 1)
    return likely


def _samples(session: Session, header: ArenaHeader, heap: Heap) -> list[Span]:
    every, starts = heap.bytes // SAMPLES, [heap.address]
    if every > SAMPLES * SAMPLE:
        starts += cuts(session.memory, session.layout, header, heap, listed=session.listed, every=every, after=0)
    return [Span(start, min(heap.end, start + SAMPLE)) for start in starts]


Look = Callable[[HeapPart, Iterator[Piece]], Optional[Result]]
"""Computes a worker's result for a part; only that is sent back. None: the heap must be seen as a whole."""


class _Made(Generic[Result]):
    """The result for one part."""

    def __init__(self, end: int, findings: Sequence[Finding], result: Optional[Result]) -> None:
        self.end = end
        """The end of its last piece."""
        self.findings = findings
        self.result = result


def swept(
    session: Session,
    headers: Sequence[ArenaHeader],
    look: Look[Result],
    processes: int,
    meter: Meter,
    feet: bool = False,
) -> AbstractContextManager[Iterator[list[Result]]]:
    """Yields for every heap of these arenas in turn the results of `look` for its parts, in address order. `feet`: see
    Run.free."""
    return closing(_swept(session, headers, look, processes, meter=meter, feet=feet))


def _swept(
    session: Session, headers: Sequence[ArenaHeader], look: Look[Result], processes: int, meter: Meter, feet: bool
) -> Generator[list[Result], None, None]:
    _ = session.listed_order  # caches and fastbins, which every worker needs: before there are any
    heaps = [(header, heap) for header in headers for heap in session.heaps[header.index]]
    longest: Optional[int] = None
    if processes > 1:
        longest = max(SHORTEST, sum(heap.bytes for _, heap in heaps) // (SHARES * processes))
    parts = [part for header, heap in heaps for part in _parts_of(session, header, heap, longest)]
    own = os.getpid()

    def do(part: HeapPart, telling: Meter) -> _Made[Result]:
        if os.getpid() != own:
            session.memory.read_alone()
        return _make(session, part, look, telling, feet=feet)

    with share_out(parts, [part.stretch.bytes for part in parts], do, processes, meter=meter) as shared:
        made = zip(parts, shared)
        for header, heap in heaps:
            together: list[_Made[Result]] = []
            sure = True
            for part, each in made:
                together.append(each)
                if part.stretch.end == heap.end:
                    break
                # a cut is a guess until the part before it ends there
                sure &= each.end == part.stretch.end
            results = [each.result for each in together if each.result is not None]
            if not sure or len(results) < len(together):
                together = [_make(session, _whole(header, heap), look, Unseen(), feet=feet)]
                results = [each.result for each in together if each.result is not None]
            session.keep_findings([finding for each in together for finding in each.findings])
            yield results


def _whole(header: ArenaHeader, heap: Heap) -> HeapPart:
    return HeapPart(header, heap, Span(heap.address, heap.end))


def _parts_of(session: Session, header: ArenaHeader, heap: Heap, longest: Optional[int]) -> list[HeapPart]:
    if longest is None or heap.bytes < 2 * longest:
        return [_whole(header, heap)]
    inside = cuts(session.memory, session.layout, header, heap, listed=session.listed, every=longest, after=TOGETHER)
    return [
        HeapPart(header, heap, Span(start, end)) for start, end in zip([heap.address, *inside], [*inside, heap.end])
    ]


def _make(session: Session, part: HeapPart, look: Look[Result], meter: Meter, feet: bool) -> _Made[Result]:
    findings: list[Finding] = []
    end = part.stretch.start

    def pieces() -> Iterator[Piece]:
        nonlocal end
        for piece in metered(session.sweep_part(part.header, part.heap, part.stretch, findings, feet=feet), meter):
            end = piece.address + piece.bytes
            yield piece

    made = look(part, pieces())
    return _Made(end, findings, made)
