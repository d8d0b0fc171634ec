"""What each kind of live block keeps from going back: all of a kind freed at once, for every kind in one pass.

What a kind holds is what goes back once all of its blocks are free and malloc_trim(0) was called after that, and does
not go back at a malloc_trim(0) now. Really free, that is: that thread caches and fastbins keep some of them first is
left out of account, as in pins. They are freed in the order of their addresses, an arena's oldest heap first, and
free() does meanwhile what it does by itself: heap_trim at the end of a thread's arena, too, which no malloc_trim
touches. What any other free() of 64 KiB would give back there is nobody's.

Blocks of one kind with nothing but free memory between and beside them are a run: once they are freed it is one chunk,
of which malloc_trim gives back the whole pages. Any other block ends it, so each run can be judged by itself, whatever
becomes of the rest; only what is free at the ends of heaps depends on other heaps.
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
    """None where that cannot be known."""
    holds_back: Optional[int]
    """What more would go back to the system if all of them were freed; None where that is not known."""
    samples: Sequence[int]
    """What malloc returned for the first of them."""
    may_be: Sequence[str] = ()
    """A guess, where nothing is known but their size: structs, the likeliest first."""


class Totals(NamedTuple):
    """The rows' blocks and bytes with what is no block's: bytes + bookkeeping + foreign + damaged = used + mmapped."""

    blocks: int
    bytes: int
    used: int
    """What the arenas took from the kernel and have in no list of free chunks, nor in their tops."""
    mmapped: int
    bookkeeping: int
    foreign: int
    damaged: int
    caches: int = 0
    """How many of the blocks are glibc's thread caches, which owners and leaks leave out."""


PYMALLOC = 512
"""SMALL_REQUEST_THRESHOLD: what is larger CPython asks malloc for."""


def has_arenas_of_its_own(rows: Iterable[TypeRow]) -> bool:
    """Whether small objects of CPython are missing: PYTHONMALLOC=malloc has them among the others."""
    averages = [row.bytes // row.blocks for row in rows if row.kind.kind == "python"]
    return bool(averages) and min(averages) > PYMALLOC


ORDERS: dict[str, Callable[[TypeRow], int]] = {
    "bytes": lambda row: row.bytes,
    "blocks": lambda row: row.blocks,
    "holds-back": lambda row: row.holds_back or 0,
}


def in_order(rows: Iterable[TypeRow], by: str) -> list[TypeRow]:
    """What there is most of first."""
    return sorted(rows, key=lambda row: (-ORDERS[by](row), -row.bytes, row.kind.name))


Typed = tuple[int, int, str, int]
"""A heap_ends.Block with its kind's number, which says something of blocks in use alone."""


class HeldBack(NamedTuple):
    """What a kind keeps from going back."""

    releases: int
    """Of address space."""
    resident: Optional[int]
    """What RSS would fall by; None where that is not known."""
    within: int
    """The part of that (of address space where it is not known) which lies among blocks: neither in tops nor in
    mappings of its own."""


class BlocksOfKind(NamedTuple):
    """All blocks of a type, freed."""

    row: TypeRow
    held: HeldBack

    @property
    def beside(self) -> int:
        """What of stranded memory goes back with them: pages that they share, besides the blocks themselves."""
        return max(0, self.held.within - self.row.bytes)


class LiveBlockKinds(NamedTuple):
    """What the live blocks are."""

    rows: Sequence[TypeRow]
    """What there is most of first."""
    groups: Sequence[BlocksOfKind]
    """Those that keep more than their own bytes; what keeps most besides itself first."""


class Holdings:
    """By the kind's number, over all arenas."""

    def __init__(self) -> None:
        self.releases: Counter[int] = Counter()
        self.resident: Counter[int] = Counter()
        self.within: Counter[tuple[int, bool]] = Counter()
        """By the kind, and whether in memory."""
        self.unknown: set[int] = set()
        """Kinds of which blocks lie where it cannot be told what free() would do."""
        self.resident_known = True

    def add(self, kind: int, releases: int, resident: Optional[int]) -> None:
        self.releases[kind] += releases
        self.resident[kind] += resident or 0
        self.resident_known &= resident is not None

    def of(self, kind: int) -> Optional[HeldBack]:
        """None where it is not known."""
        if kind in self.unknown:
            return None
        resident = self.resident[kind] if self.resident_known else None
        return HeldBack(self.releases[kind], resident, self.within[kind, self.resident_known])


def seen(rows: Sequence[TypeRow], holdings: Holdings) -> LiveBlockKinds:
    """The rows, and those that pins would have among single blocks: they keep more than their own pages."""
    groups = []
    for row in rows:
        held = holdings.of(row.index)
        if held is not None and held.releases - row.bytes >= min(row.bytes, WORTH):
            groups.append(BlocksOfKind(row, held))
    groups.sort(key=lambda group: (group.row.bytes - group.held.releases, group.row.kind.name))
    return LiveBlockKinds(in_order(rows, "bytes"), groups)


class _Last(NamedTuple):
    """The run at a heap's end, which goes as far as its top or its fencepost."""

    kind: int
    left: int
    chunk: Optional[int]
    """Where the one chunk begins that free() of the last block makes; None where a fast one ends it."""
    ended: bool
    """In that case: it has 64 KiB."""
    tried: bool
    """So had one further up, before a fast one."""


class _HeapEnd(NamedTuple):
    """A heap's."""

    tail: Optional[HeapTail]
    last: Optional[_Last]
    parts: Sequence[Range]
    """What malloc_trim(0) gives back now of that run, or of what is free there."""
    alone: set[int]
    """Kinds whose free() makes a chunk of 64 KiB further up."""
    joined: set[int]
    """The same once fast chunks are merged."""
    present: Optional[Present]


class _Gain(NamedTuple):
    bytes: int
    resident: int
    """0 where it is not known."""


class HoldSearch:
    """One arena: its heaps are walked one after another, the oldest first, then `finish` judges their ends."""

    def __init__(
        self, main: bool, top_end: int, rules: TrimRules, thresholds: Optional[Thresholds], holdings: Holdings
    ) -> None:
        self.main = main
        self.top_end = top_end
        self.rules = rules
        self.thresholds = thresholds
        self.holdings = holdings
        self.locked: Sequence[Span] = ()
        """madvise ends there."""
        self._ends: list[_HeapEnd] = []

    def walk(self, heap: Heap, blocks: Iterable[Typed], present: Optional[Present]) -> None:
        """Reads one heap in address order."""
        page, kept = self.rules.page, self.rules.layout.chunk_struct
        self._present = present
        self._alone: set[int] = set()
        self._joined: set[int] = set()
        # the run: what kind it is of, where it begins, and what of it goes back now
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
        """A run that another block ends."""
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
        """What goes back of one heap, without what does now; from `top` on nothing lies among blocks."""
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
        """The break moves back over locked pages, and so does munmap; madvise does not."""
        return until_locked([step.range], self.locked) if step.how == "madvise" else [step.range]

    def finish(self) -> None:
        """The runs at the ends of heaps."""
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
        """The ends of the heaps that are left once all of a kind are freed, and what free() gave back by itself."""
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
        """heap_trim, which leaves these."""
        shrunk = HeapTrim(tails, self.rules, limits).shrunk()
        gone += shrunk.steps
        left = tails[: shrunk.heap + 1]
        tail = left[-1]
        for step in shrunk.steps:
            if tail and step.how == "madvise":
                left[-1] = tail._replace(heap=tail.heap._replace(end=step.range.address))
        return left


def _tries(chunk: Optional[int], end: int, ended: bool) -> bool:
    """Whether the last free() in a run makes a chunk so large that it looks at top."""
    return end - chunk >= TRIES_TRIMMING if chunk is not None else ended


def _common(one: Range, others: Iterable[Range]) -> Iterator[Span]:
    """What a range has in common with each of others."""
    for each in others:
        start, end = max(one.address, each.address), min(one.end, each.end)
        if start < end:
            yield Span(start, end)


def overlap(one: Range, others: Iterable[Range]) -> int:
    return sum(span.end - span.start for span in _common(one, others))
