"""Computes what each kind of live block keeps from going back: all of a kind freed at once, for every kind in one pass.

A kind holds back what returns to the system once all of its blocks are free and malloc_trim(0) is called, and would not
return at a malloc_trim(0) now. The blocks count as really free: thread caches and fastbins, which would keep some of
them first, are ignored, as in pins. They are freed in the order of their addresses, an arena's oldest heap first. What
free() itself returns meanwhile counts, too: heap_trim at the end of a thread's arena, which malloc_trim never touches.
Memory that any other free() of 64 KiB would return counts for no kind.

Blocks of one kind with only free memory between and beside them are a run: freed, they are one chunk, and malloc_trim
returns its whole pages. Any other block ends a run, so each run is judged independently of the rest; only free memory
at the ends of heaps depends on other heaps.
"""

from __future__ import annotations

from collections import Counter
from typing import Callable, Iterable, Iterator, NamedTuple, Optional, Sequence

from ..base.model import Heap, Kind, Range
from ..sources.target import Span
from .pins import TRIES_TRIMMING, WORTH, Break, HeapTail, HeapTrim, ReleaseStep, Thresholds
from .resident import Present
from .trim import TrimRules, advised, until_locked

SAMPLES = 3


class TypeRow(NamedTuple):
    """All blocks of a kind."""

    kind: Kind
    index: int  # type: ignore[assignment]  # tuple.index is of no use here
    blocks: int
    bytes: int
    resident: Optional[int]
    """None if that cannot be known."""
    holds_back: Optional[int]
    """The bytes that freeing all of them would return to the system beyond what goes back now; None if not known."""
    samples: Sequence[int]
    """The addresses that malloc returned for the first of them."""
    may_be: Sequence[str] = ()
    """A guess at structs, the likeliest first, if only their size is known."""


class Totals(NamedTuple):
    """The sums of the rows with what is no block: bytes + bookkeeping + foreign + damaged = used + mmapped."""

    blocks: int
    bytes: int
    used: int
    """What the arenas took from the kernel, without free chunks in lists and tops."""
    mmapped: int
    bookkeeping: int
    foreign: int
    damaged: int
    caches: int = 0
    """The number of blocks that are glibc's thread caches, which owners and leaks leave out."""


PYMALLOC = 512
"""SMALL_REQUEST_THRESHOLD: CPython calls malloc for larger requests."""


def has_arenas_of_its_own(rows: Iterable[TypeRow]) -> bool:
    """Whether CPython keeps small objects outside malloc; with PYTHONMALLOC=malloc they are among the other blocks."""
    averages = [row.bytes // row.blocks for row in rows if row.kind.kind == "python"]
    return bool(averages) and min(averages) > PYMALLOC


ORDERS: dict[str, Callable[[TypeRow], int]] = {
    "bytes": lambda row: row.bytes,
    "blocks": lambda row: row.blocks,
    "holds-back": lambda row: row.holds_back or 0,
}


def in_order(rows: Iterable[TypeRow], by: str) -> list[TypeRow]:
    """Sorts rows, the largest first."""
    return sorted(rows, key=lambda row: (-ORDERS[by](row), -row.bytes, row.kind.name))


Typed = tuple[int, int, str, int]
"""A heap_ends.Block with its kind's number, which is valid for blocks in use alone."""


class HeldBack(NamedTuple):
    """The memory that a kind keeps from going back."""

    releases: int
    """The address space that goes back."""
    resident: Optional[int]
    """The fall in RSS; None if not known."""
    within: int
    """The part of that (of address space if RSS is not known) that lies among blocks: neither in tops nor in mappings
    of its own."""


class BlocksOfKind(NamedTuple):
    """All blocks of a type, and what freeing them returns."""

    row: TypeRow
    held: HeldBack

    @property
    def beside(self) -> int:
        """The stranded memory that goes back with them: pages that they share, besides the blocks themselves."""
        return max(0, self.held.within - self.row.bytes)


class LiveBlockKinds(NamedTuple):
    """The kinds of live blocks."""

    rows: Sequence[TypeRow]
    """The largest first."""
    groups: Sequence[BlocksOfKind]
    """Kinds that keep more than their own bytes, the one that keeps most besides itself first."""


class Holdings:
    """Sums what each kind holds back over all arenas, by the kind's number."""

    def __init__(self) -> None:
        self.releases: Counter[int] = Counter()
        self.resident: Counter[int] = Counter()
        self.within: Counter[tuple[int, bool]] = Counter()
        """Bytes by kind, and whether they are in memory."""
        self.unknown: set[int] = set()
        """Kinds with blocks where free()'s effect cannot be predicted."""
        self.resident_known = True

    def add(self, kind: int, releases: int, resident: Optional[int]) -> None:
        self.releases[kind] += releases
        self.resident[kind] += resident or 0
        self.resident_known &= resident is not None

    def of(self, kind: int) -> Optional[HeldBack]:
        """Returns what a kind holds back; None if it is not known."""
        if kind in self.unknown:
            return None
        resident = self.resident[kind] if self.resident_known else None
        return HeldBack(self.releases[kind], resident, self.within[kind, self.resident_known])


def seen(rows: Sequence[TypeRow], holdings: Holdings) -> LiveBlockKinds:
    """Returns all rows, and as groups those that would be pins if they were single blocks: they keep more than their
    own pages."""
    groups = []
    for row in rows:
        held = holdings.of(row.index)
        if held is not None and held.releases - row.bytes >= min(row.bytes, WORTH):
            groups.append(BlocksOfKind(row, held))
    groups.sort(key=lambda group: (group.row.bytes - group.held.releases, group.row.kind.name))
    return LiveBlockKinds(in_order(rows, "bytes"), groups)


class _Last(NamedTuple):
    """The run at a heap's end, which reaches to its top or its fencepost."""

    kind: int
    left: int
    chunk: Optional[int]
    """The start of the one chunk that free() of the last block makes; None if a fast chunk ends it."""
    ended: bool
    """In that case: whether that chunk has 64 KiB."""
    tried: bool
    """Whether a chunk before a fast one has 64 KiB, too."""


class _HeapEnd(NamedTuple):
    """The end of one heap."""

    tail: Optional[HeapTail]
    last: Optional[_Last]
    parts: Sequence[Range]
    """What malloc_trim(0) now returns of that run, or of the free memory there."""
    alone: set[int]
    """Kinds whose free() makes a chunk of 64 KiB before the heap's end."""
    joined: set[int]
    """Likewise, once fast chunks are merged."""
    present: Optional[Present]


class _Gain(NamedTuple):
    bytes: int
    resident: int
    """0 if it is not known."""


class HoldSearch:
    """Judges one arena: its heaps are walked one after another, the oldest first, then `finish` judges their ends."""

    def __init__(
        self, main: bool, top_end: int, rules: TrimRules, thresholds: Optional[Thresholds], holdings: Holdings
    ) -> None:
        self.main = main
        self.top_end = top_end
        self.rules = rules
        self.thresholds = thresholds
        self.holdings = holdings
        self.locked: Sequence[Span] = ()
        """Locked pages, where madvise stops."""
        self._ends: list[_HeapEnd] = []

    def walk(self, heap: Heap, blocks: Iterable[Typed], present: Optional[Present]) -> None:
        """Reads one heap in address order."""
        page, kept = self.rules.page, self.rules.layout.chunk_struct
        self._present = present
        self._alone: set[int] = set()
        self._joined: set[int] = set()
        # the run: its kind, its start, and the part that goes back now
        kind: Optional[int] = None
        left = 0
        parts: list[Range] = []
        # what is free and not yet closed; the chunk in it that free() would merge with a block after it
        span = free = 0
        # what free() has merged with this run's blocks, as far as no fast chunk lies in between
        chunk: Optional[int] = None
        ended = tried = False
        end = heap.address
        for address, size, state, what in blocks:
            if state == "used":
                if span:
                    part = advised(span, address, kept, page) if address - span >= page else None
                    if part and part.bytes:
                        parts.append(part)
                    if what != kind:
                        if kind is not None and address - left >= page:
                            self._close(_Last(kind, left, chunk, ended, tried=tried), address, parts)
                        kind, left, chunk, ended, tried = what, span, free or address, False, False
                        parts = [part] if part and part.bytes else []
                    elif chunk is None:
                        chunk, ended, tried = free or address, False, tried or ended
                    span = free = 0
                elif what != kind:
                    if kind is not None and address - left >= page:
                        self._close(_Last(kind, left, chunk, ended, tried=tried), address, parts)
                    kind, left, chunk, parts = what, address, address, []
                    ended = tried = False
            elif state == "free":
                span, free = span or address, address
            elif state == "fast":
                if chunk is not None:
                    ended, chunk = address - chunk >= TRIES_TRIMMING, None
                span, free = span or address, 0
            else:
                if span and state != "top" and address - span >= page:
                    parts.append(advised(span, address, kept, page))
                run = _Last(kind, left, chunk, ended, tried=tried) if kind is not None else None
                if state == "top" or (state == "fencepost" and not self.main):
                    tail = HeapTail(heap, address, span or address, (), right_chunk=address)
                    self._ends.append(_HeapEnd(tail, run, parts, self._alone, joined=self._joined, present=present))
                    return
                if run:
                    self._close(run, address, parts)
                kind, parts, span, free, chunk = None, [], 0, 0, None
            end = address + size
        if kind is not None:
            self._close(_Last(kind, left, chunk, ended, tried=tried), span or end, parts)
        self._ends.append(_HeapEnd(None, None, (), self._alone, joined=self._joined, present=present))

    def _close(self, run: _Last, right: int, parts: Sequence[Range]) -> None:
        """Ends a run at a block of another kind."""
        if right - run.left >= TRIES_TRIMMING:
            self._joined.add(run.kind)
            if run.tried or _tries(run.chunk, right, run.ended):
                self._alone.add(run.kind)
        self._add(run.kind, [self._step(run.left, right)], parts, self._present)

    def _step(self, left: int, right: int) -> ReleaseStep:
        return ReleaseStep("madvise", advised(left, right, self.rules.layout.chunk_struct, self.rules.page))

    def _add(
        self,
        kind: int,
        gone: Sequence[ReleaseStep],
        already: Sequence[Range],
        present: Optional[Present],
        top: Optional[int] = None,
    ) -> None:
        """Adds what goes back in one heap beyond what goes back now; nothing from `top` on lies among blocks."""
        gain = inside = self._gain(gone, already, present)
        if top is not None:
            below = [
                step._replace(range=Range(step.range.address, min(step.range.end, top) - step.range.address))
                for step in gone
            ]
            inside = self._gain([step for step in below if step.range.bytes > 0], already, present)
        self.holdings.add(kind, gain.bytes, gain.resident if present is not None else None)
        self.holdings.within[kind, False] += inside.bytes
        self.holdings.within[kind, True] += inside.resident

    def _gain(self, gone: Sequence[ReleaseStep], already: Sequence[Range], present: Optional[Present]) -> _Gain:
        releases, resident = sum(step.range.bytes - overlap(step.range, already) for step in gone), 0
        if present is not None:
            if self.locked:
                gone = [step._replace(range=each) for step in gone for each in self._really(step)]
                already = list(until_locked(already, self.locked))
            for _, each in gone:
                resident += present.within(each.address, each.end)
                for start, end in _common(each, already):
                    resident -= present.within(start, end)
        return _Gain(releases, resident)

    def _really(self, step: ReleaseStep) -> Iterable[Range]:
        """Returns what a step really frees: brk and munmap free locked pages, madvise does not."""
        return until_locked([step.range], self.locked) if step.how == "madvise" else [step.range]

    def finish(self) -> None:
        """Judges the runs at the ends of heaps."""
        if self.main:
            for end in self._ends:
                if end.tail and end.last:
                    now = Break(self.top_end, self.rules, self.thresholds or Thresholds(0, 0, 0))
                    already = [*end.parts, *(step.range for step in now.trimmed(end.tail.start).steps)]
                    self._add(end.last.kind, now.trimmed(end.last.left).steps, already, end.present)
            return
        kinds = {end.last.kind for end in self._ends if end.last}
        if self.thresholds is None:
            self.holdings.unknown |= kinds
            return
        pending = HeapTrim([end.tail for end in self._ends], self.rules, self.thresholds).shrunk().steps
        for kind in kinds:
            self._finish_thread(kind, [step.range for step in pending], self.thresholds)

    def _finish_thread(self, kind: int, pending: Sequence[Range], limits: Thresholds) -> None:
        tails, gone = self._freed(kind, limits)
        for end in self._ends[: len(tails) - 1]:
            # in front of top's heap: a free chunk like any other
            if end.tail and end.last and end.last.kind == kind:
                gone.append(self._step(end.last.left, end.tail.fence))
        for end in self._ends:
            if end.tail:
                heap = end.tail.heap
                here = [step for step in gone if heap.address <= step.range.address < heap.end]
                already = [*end.parts, *(each for each in pending if heap.address <= each.address < heap.end)]
                self._add(kind, here, already, end.present, top=end.tail.fence)

    def _freed(self, kind: int, limits: Thresholds) -> tuple[list[Optional[HeapTail]], list[ReleaseStep]]:
        """Returns the ends of the heaps that remain once all of a kind are freed, and what free() returned by
        itself."""
        tails = [end.tail for end in self._ends]
        gone: list[ReleaseStep] = []
        merged = False
        for index, end in enumerate(self._ends):
            last = end.last if end.last and end.last.kind == kind else None
            if kind in (end.joined if merged else end.alone) or (last and last.tried):
                merged = True
                tails = self._trimmed(tails, limits, gone)
            tail = tails[index] if index < len(tails) else None
            if tail is None or last is None:
                continue
            right = tail.heap.end if index == len(tails) - 1 else tail.fence
            tails[index] = tail._replace(start=last.left)
            if _tries(last.left if merged else last.chunk, right, last.ended):
                merged = True
                tails = self._trimmed(tails, limits, gone)
        return tails, gone

    def _trimmed(
        self, tails: list[Optional[HeapTail]], limits: Thresholds, gone: list[ReleaseStep]
    ) -> list[Optional[HeapTail]]:
        """Returns the ends of the heaps that heap_trim leaves."""
        shrunk = HeapTrim(tails, self.rules, limits).shrunk()
        gone += shrunk.steps
        left = tails[: shrunk.heap + 1]
        tail = left[-1]
        for step in shrunk.steps:
            if tail and step.how == "madvise":
                left[-1] = tail._replace(heap=tail.heap._replace(end=step.range.address))
        return left


def _tries(chunk: Optional[int], end: int, ended: bool) -> bool:
    """Tells whether the last free() in a run makes a chunk large enough to look at top."""
    return end - chunk >= TRIES_TRIMMING if chunk is not None else ended


def _common(one: Range, others: Iterable[Range]) -> Iterator[Span]:
    """Yields the intersection of a range with each of others."""
    for each in others:
        start, end = max(one.address, each.address), min(one.end, each.end)
        if start < end:
            yield Span(start, end)


def overlap(one: Range, others: Iterable[Range]) -> int:
    return sum(span.end - span.start for span in _common(one, others))
