"""Finds live blocks that keep memory from going back: what free() of each would trigger, by the allocator's own rules.

Memory can go back in two ways once a block is free. free() itself returns it if the resulting chunk reaches
FASTBIN_CONSOLIDATION_THRESHOLD: systrim moves the break, heap_trim unmaps whole heaps and shrinks the last. Or
malloc_trim(0) returns it afterwards: the pages between two free pieces that the block held apart.
"""

from __future__ import annotations

import heapq
from collections import Counter
from typing import Callable, Iterable, Iterator, Mapping, NamedTuple, Optional, Sequence

from ..base.heap_model import ArenaHeader, ChunkRun, Heap, Kind, Piece, Range
from ..glibc.malloc_chunk import PREV_INUSE, SIZE_BITS
from ..glibc.sweep import Block, free_chunks
from ..sources.target import Runs, Span
from .trim_prediction import TrimRules, advised, first_whole, systrim, until_locked

TOGETHER = 64
"""How many blocks at a heap's end are remembered, to be freed together."""


class BlockInUse(NamedTuple):
    """A block in use, and the start of the free memory in front of it (its own address if there is none)."""

    address: int
    bytes: int
    left: int
    """With fast chunks as free, as malloc_consolidate leaves them."""
    left_chunk: int
    """The start of the one free chunk that free() finds by PREV_INUSE."""

    @property
    def end(self) -> int:
        return self.address + self.bytes


class HeapTail(NamedTuple):
    """A heap's end: where its top or its fencepost is, and the free chunk before that, if there is one."""

    heap: Heap
    fence: int
    start: int
    """The start of the free memory before the fence, as malloc_consolidate leaves it."""
    last: Sequence[BlockInUse]
    """The blocks before that, the very last at the end, with only free memory between them. A block in a thread cache
    ends the list."""
    right_chunk: int
    """The end of the one free chunk that free() of the last block would find after it."""

    @property
    def pin(self) -> Optional[BlockInUse]:
        return self.last[-1] if self.last else None


def _not_in_use(run: ChunkRun, listed: Mapping[int, str]) -> list[tuple[int, int, int, str]]:
    """(index, address, bytes, state) of the chunks that are free or in a list."""
    free = free_chunks(run)
    indexes = [at - 1 for at in run.free.indexes if at]
    others = [(index, *chunk, "free") for index, chunk in zip(indexes, free)]
    marked = [
        (index, chunk, run.raws[index] & ~SIZE_BITS, listed[chunk])
        for index, chunk in run.marks
        if run.after(index) & PREV_INUSE
    ]
    return sorted([*others, *marked]) if marked else others


def last_blocks(runs: Sequence[ChunkRun], listed: Mapping[int, str]) -> Sequence[BlockInUse]:
    """The blocks at the end of these runs, which lie side by side: see HeapTail.last."""
    end: list[Block] = []
    used = 0
    for block in _backwards(runs, listed):
        used += block[2] == "used"
        # one more than are needed: what is free in front of it is not known
        if block[2] == "tcache" or used > TOGETHER + 1:
            break
        end.append(block)
    span = last_free = 0
    last: list[BlockInUse] = []
    for chunk, size, state in reversed(end):
        if state == "used":
            last.append(BlockInUse(chunk, size, span or chunk, last_free if span else chunk))
            span = 0
        else:
            span, last_free = span or chunk, chunk if state == "free" else chunk + size
    return tuple(last[-TOGETHER:])


def _backwards(runs: Sequence[ChunkRun], listed: Mapping[int, str]) -> Iterator[Block]:
    for run in reversed(runs):
        end = run.address + run.bytes
        for index in range(len(run.raws) - 1, -1, -1):
            size = run.raws[index] & ~SIZE_BITS
            end -= size
            yield end, size, listed.get(end, "used") if run.after(index) & PREV_INUSE else "free"


WORTH = 65536
"""A block that keeps this much besides itself is a pin, however large it is."""

LARGE = 1 << 20
"""If a single block keeps this much, nothing else need be looked for."""


class ReleaseStep(NamedTuple):
    """A system call that gives memory back."""

    how: str
    """"munmap", "madvise" or "brk"."""
    range: Range


def bytes_of(steps: Sequence[ReleaseStep]) -> int:
    return sum(step.range.bytes for step in steps)


class Gain(NamedTuple):
    """The memory that freeing something returns, beyond what goes back without it."""

    bytes: int
    """The bytes of the freed blocks themselves."""
    gone: tuple[ReleaseStep, ...]
    already: tuple[ReleaseStep, ...]
    """The part that goes back without it: at the next malloc_trim, or at any other free() of 64 KiB."""

    @property
    def releases(self) -> int:
        return bytes_of(self.gone) - bytes_of(self.already)

    @property
    def kept(self) -> int:
        """The free memory that the block keeps from going back."""
        return self.releases - self.bytes


class Pin(NamedTuple):
    """A live block, and what its free() would return."""

    address: int
    arena: int
    reason: str
    """"top": it ends where a top begins, or would begin; "between": it lies between free pieces."""
    by: str
    """"free": free() itself returns it; "trim": malloc_trim(0) after it."""
    gain: Gain


class LastBlocks(NamedTuple):
    """The last blocks below an arena's top, all freed, the lowest first."""

    lowest: int
    arena: int
    blocks: int
    gain: Gain


class Ranking:
    """The best `limit` pins (None: all), how many there were, and the best of each arena: those can be added up."""

    def __init__(self, limit: Optional[int], own: bool = False) -> None:
        self.limit = limit
        self.own = own
        """Whether to include blocks that would mainly return their own pages."""
        self.count = 0
        self.in_all = 0
        """The sum of what each would release alone, without what only two of them together keep."""
        self.own_left_out = 0
        self.best: dict[int, Pin] = {}
        self.together: list[LastBlocks] = []
        self._kept: list[tuple[int, int, int, Pin]] = []

    def leaves_out(self, size: int, releases: int) -> bool:
        """Counts blocks that would mainly return their own pages, if these are not included."""
        left_out = not self.own and releases - size < min(size, WORTH)
        self.own_left_out += left_out
        return left_out

    def offer(self, pin: Pin) -> None:
        gain = pin.gain
        self.count += 1
        self.in_all += gain.releases
        entry = gain.releases, -gain.bytes, -pin.address, pin
        if self.limit is None or len(self._kept) < self.limit:
            heapq.heappush(self._kept, entry)
        elif self._kept and entry > self._kept[0]:
            heapq.heapreplace(self._kept, entry)
        best = self.best.get(pin.arena)
        if best is None or pin.gain.releases > best.gain.releases:
            self.best[pin.arena] = pin

    @property
    def one_tells(self) -> bool:
        """Whether a single block explains much of what is kept. Otherwise it is many small blocks, which have something
        in common."""
        largest = max((pin.gain.releases for pin in self.best.values()), default=0)
        return largest >= LARGE and 4 * largest >= self.in_all

    @property
    def pins(self) -> Sequence[Pin]:
        return [entry[3] for entry in sorted(self._kept, reverse=True)]


def _end_of_top(header: ArenaHeader) -> int:
    return header.top + (header.top_bytes or 0)


TRIES_TRIMMING = 65536
"""FASTBIN_CONSOLIDATION_THRESHOLD, since 2.43 ATTEMPT_TRIMMING_THRESHOLD: freeing a smaller chunk triggers nothing."""


class PinSearch:
    """Judges one arena: its heaps are walked one after another, then `finish` judges the blocks at their ends."""

    def __init__(
        self, header: ArenaHeader, rules: TrimRules, thresholds: Optional[Thresholds], ranking: Ranking
    ) -> None:
        """`thresholds`: None if mp_ was not found: then it is not known what free() would trigger."""
        self.arena, self.main, self.top_end = header.index, header.main, _end_of_top(header)
        self.rules, self.thresholds, self.ranking = rules, thresholds, ranking
        self.tails: list[Optional[HeapTail]] = []
        self.pending: tuple[ReleaseStep, ...] = ()
        """The memory that the next free() of any chunk of 64 KiB returns."""

    def walk(self, heap: Heap, pieces: Iterable[Piece], listed: Mapping[int, str]) -> None:
        """Reads one heap in address order; `listed` are the chunks of thread caches and fastbins."""
        self.tails.append(self._walk(heap, pieces, listed))

    def _walk(self, heap: Heap, pieces: Iterable[Piece], listed: Mapping[int, str]) -> Optional[HeapTail]:
        """Judges each block with free memory on either side, if both and the block are a page at least. Of blocks in
        use that lie side by side only the first and the last can have any: the others are passed over.

        The last block is left for later, as free() itself may act there. Returns None if the end is not known, or is
        one that the main arena never moves back over.
        """
        page, between = self.rules.page, self._between
        # the free stretch that is being walked, and the block before it: 0 where there is none
        span = right_chunk = 0
        block = bytes_of_block = left = 0
        recent: list[ChunkRun] = []
        for piece in pieces:
            if not isinstance(piece, ChunkRun):
                if piece.kind == "top" or (piece.kind == "fencepost" and not self.main):
                    fence, last = piece.address, last_blocks(recent, listed)
                    return HeapTail(heap, fence, span or fence, last, right_chunk=right_chunk if span else fence)
                if block and (span or left != block):
                    between(block, bytes_of_block, left, piece.address)
                recent.clear()
                span = block = left = 0
                continue
            raws, at, address = piece.raws, 0, piece.address
            others = _not_in_use(piece, listed)
            if len(raws) - len(others) > TOGETHER:
                recent.clear()
            recent.append(piece)
            for index, start, size, state in (*others, (len(raws), piece.address + piece.bytes, 0, "")):
                if index > at:
                    first = raws[at] & ~SIZE_BITS
                    if (span or left != block) and block and address - left >= page:
                        between(block, bytes_of_block, left, address)
                    left, span = span or address, 0
                    block, bytes_of_block = address, first
                    if index > at + 1:
                        if left != block and block + first - left >= page:
                            between(block, first, left, block + first)
                        bytes_of_block = raws[index - 1] & ~SIZE_BITS
                        block = left = start - bytes_of_block
                at, address = index + 1, start + size
                if state in ("free", "fast"):
                    if not span:
                        span, right_chunk = start, address if state == "free" else start
                elif state:
                    if block and (span or left != block):
                        between(block, bytes_of_block, left, start)
                    span = block = left = 0
        if block and (span or left != block):
            between(block, bytes_of_block, left, block + bytes_of_block)
        return None

    def _advised(self, start: int, end: int) -> Range:
        return advised(start, end, self.rules.layout.chunk_struct, self.rules.page)

    def _between(self, block: int, size: int, left: int, right: int) -> None:
        """Offers a block if malloc_trim returns more once it and the free memory on both sides are one chunk."""
        kept, page = self.rules.layout.chunk_struct, self.rules.page
        low, high = first_whole(left, kept, page), first_whole(block + size, kept, page)
        if right - low < page:
            return
        # in numbers: of millions few are offered
        joined, before, after = right - low & -page, max(block - low, 0) & -page, max(right - high, 0) & -page
        releases = joined - before - after
        if releases <= 0 or self.ranking.leaves_out(size, releases):
            return
        already = (Range(low, before), Range(high, after))
        gain = Gain(
            size,
            (ReleaseStep("madvise", Range(low, joined)),),
            tuple(ReleaseStep("madvise", each) for each in already if each.bytes),
        )
        self.ranking.offer(Pin(block, self.arena, "between", "trim", gain=gain))

    def _offer(
        self, pin: BlockInUse, reason: str, by: str, gone: Sequence[ReleaseStep], already: Sequence[ReleaseStep]
    ) -> None:
        if bytes_of(gone) > bytes_of(already):
            gain = Gain(pin.bytes, tuple(gone), tuple(already))
            if self.ranking.leaves_out(gain.bytes, gain.releases):
                return
            self.ranking.offer(Pin(pin.address, self.arena, reason, by, gain=gain))

    def finish(self) -> None:
        """Judges the blocks at the ends of heaps, where free() itself may act."""
        if self.thresholds is None or not any(self.tails):
            return
        if self.main:
            self._finish_main(next(tail for tail in self.tails if tail), self.thresholds)
        else:
            self._finish_thread(HeapTrim(self.tails, self.rules, self.thresholds))

    def _tries(self, tail: HeapTail, start: int) -> bool:
        """Tells whether free() of the last block makes a chunk large enough to look at top; it begins at `start`."""
        end = tail.right_chunk
        if tail.pin is None or tail.pin.end == tail.fence:
            end = self.top_end if tail.heap.last else tail.fence
        return end - start >= TRIES_TRIMMING

    def _finish_main(self, tail: HeapTail, limits: Thresholds) -> None:
        now = Break(self.top_end, self.rules, limits)
        pending = now.freed(tail.start, True)
        self.pending = pending.steps
        if tail.pin is None:
            return
        pin, tries = tail.pin, self._tries(tail, tail.pin.left_chunk)
        after = now.freed(pin.left, tries)
        already = pending if tries else now
        self._together(tail, lambda start: now.freed(start, True).steps)
        # malloc_trim goes on from where free() has left the break
        left = self._advised(pin.left, pin.address)
        madvised = [ReleaseStep("madvise", left)] if left.bytes else []
        trimmed = after.trimmed(pin.left).steps
        without = [*already.trimmed(tail.start).steps, *madvised]
        if bytes_of(trimmed) - bytes_of(without) > bytes_of(after.steps) - bytes_of(already.steps):
            self._offer(pin, "top", "trim", trimmed, already=without)
        else:
            self._offer(pin, "top", "free", after.steps, already=already.steps)

    def _finish_thread(self, trim: HeapTrim) -> None:
        self.pending = trim.shrunk().steps
        newest = len(self.tails) - 1
        for index, tail in enumerate(self.tails):
            if tail is None or tail.pin is None:
                continue
            tries = self._tries(tail, tail.pin.left_chunk)
            after = trim.shrunk(index, tail.pin.left) if tries else Shrunk((), newest)
            if index >= after.heap:
                # it ends at top, or at what becomes top: no malloc_trim touches that
                self._offer(tail.pin, "top", "free", after.steps, already=self.pending if tries else ())
            elif tail.pin.left != tail.pin.address or tail.start != tail.fence:
                self._between(tail.pin.address, tail.pin.bytes, tail.pin.left, tail.fence)
        tail = self.tails[newest]
        if tail is not None:
            self._together(tail, lambda start: trim.shrunk(newest, start).steps)

    def _together(self, tail: HeapTail, freed: Callable[[int], tuple[ReleaseStep, ...]]) -> None:
        """Judges several blocks at the end, freed in address order: as many as return the most per block."""
        best: Optional[LastBlocks] = None
        total = 0
        for count, block in enumerate(reversed(tail.last), 1):
            total += block.bytes
            if self._tries(tail, block.left_chunk):
                gain = Gain(total, freed(block.left), self.pending)
                if best is None or gain.kept * best.blocks > best.gain.kept * count:
                    best = LastBlocks(block.address, self.arena, count, gain)
            if block.left != block.left_chunk:
                # a fast chunk: what free() of the next one up sees then depends on what came before
                break
        if best is not None and best.blocks > 1 and best.gain.kept > 0:
            self.ranking.together.append(best)


class Thresholds(NamedTuple):
    """mp_'s thresholds, and the unit that a heap shrinks by."""

    trim_threshold: int
    top_pad: int
    heap_page: int
    """heap_info.pagesize; before 2.35 the system's."""


class Break(NamedTuple):
    """The end of the main arena's top, and how far it moved so far."""

    end: int
    rules: TrimRules
    limits: Thresholds
    steps: tuple[ReleaseStep, ...] = ()

    def freed(self, top: int, tries: bool) -> Break:
        """Returns the state after a free() that left top beginning there."""
        enough = tries and self.end - top >= self.limits.trim_threshold
        return self._moved(top, self.limits.top_pad) if enough else self

    def trimmed(self, top: int) -> Break:
        """Returns the state after malloc_trim(0)."""
        return self._moved(top, 0)

    def _moved(self, top: int, pad: int) -> Break:
        # None: the break is not known; less than 0: a top of MINSIZE makes malloc_trim grow it
        bytes_back = systrim(top, self.end - top, self.rules, pad) or 0
        if bytes_back <= 0:
            return self
        end = self.end - bytes_back
        step = ReleaseStep("brk", Range(end, bytes_back))
        return self._replace(end=end, rules=self.rules._replace(brk=end), steps=(*self.steps, step))


class Shrunk(NamedTuple):
    """The state that heap_trim leaves."""

    steps: tuple[ReleaseStep, ...]
    """The memory that goes back."""
    heap: int
    """The number of the heap that then has the top."""


class HeapTrim(NamedTuple):
    """Simulates heap_trim on a thread's arena, whose heaps end in `tails`, the newest last."""

    tails: Sequence[Optional[HeapTail]]
    rules: TrimRules
    limits: Thresholds

    def shrunk(self, freed: Optional[int] = None, start: int = 0) -> Shrunk:
        """Simulates heap_trim: the free memory at the end of heap `freed` begins at `start`, as malloc_consolidate
        leaves it; at the ends of the others, where it does now."""
        starts = [tail.start if tail else 0 for tail in self.tails]
        if freed is not None:
            starts[freed] = start
        layout = self.rules.layout
        index = len(self.tails) - 1
        steps: list[ReleaseStep] = []
        tail = self.tails[index]
        while tail and index and starts[index] == tail.heap.address + layout.heap.size:
            before = self.tails[index - 1]
            if before is None:
                break
            room = before.heap.end - starts[index - 1] + layout.heap_max - before.heap.bytes
            if room < self.limits.top_pad + layout.min_size + self.limits.heap_page:
                break
            steps.append(ReleaseStep("munmap", Range(tail.heap.address, tail.heap.bytes)))
            index -= 1
            tail = before
        extra = self._shrinks(tail.heap.end - starts[index]) if tail else 0
        if tail and extra > 0:
            steps.append(ReleaseStep("madvise", Range(tail.heap.end - extra, extra)))
        return Shrunk(tuple(steps), index)

    def _shrinks(self, top_bytes: int) -> int:
        """Returns by how much the heap with the top shrinks."""
        layout, page, threshold = self.rules.layout, self.limits.heap_page, self.limits.trim_threshold
        rule = layout.behaviour.heap_trim_threshold
        extra = (top_bytes - layout.min_size - 1 - self.limits.top_pad) // page * page
        if rule == "top":
            return extra if top_bytes >= threshold else 0
        if rule == "extra":
            # a comparison of signed numbers, there alone
            return extra if extra >= threshold - (threshold >> 8 * layout.word - 1 << 8 * layout.word) else 0
        return extra


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


OF_CLASSES = ("declared", "c++", "gobject")
"""Kinds of types that the program's own source names."""
MANY_OBJECTS = 100
"""Fewer blocks of a class are not told as what keeps much: one server object may keep all there is."""


def main_class(rows: Sequence[TypeRow], retained: Mapping[int, int]) -> Optional[TypeRow]:
    """Returns the class of many objects that keep most, by the bytes that only blocks of a type lead to, with their
    own."""
    classes = (row for row in rows if row.kind.certain and row.kind.kind in OF_CLASSES and row.blocks >= MANY_OBJECTS)
    return max(classes, key=lambda row: retained.get(row.index, 0), default=None)


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
    present: Optional[Runs]


class _Gain(NamedTuple):
    bytes: int
    resident: int
    """0 if it is not known."""


class HoldSearch:
    """Judges one arena: its heaps are walked one after another, the oldest first, then `finish` judges their ends."""

    def __init__(
        self, header: ArenaHeader, rules: TrimRules, thresholds: Optional[Thresholds], holdings: Holdings
    ) -> None:
        self.main, self.top_end = header.main, _end_of_top(header)
        self.rules, self.thresholds, self.holdings = rules, thresholds, holdings
        self.locked: Sequence[Span] = ()
        """Locked pages, where madvise stops."""
        self._ends: list[_HeapEnd] = []

    def walk(self, heap: Heap, blocks: Iterable[Typed], present: Optional[Runs]) -> None:
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
        present: Optional[Runs],
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

    def _gain(self, gone: Sequence[ReleaseStep], already: Sequence[Range], present: Optional[Runs]) -> _Gain:
        releases, resident = sum(step.range.bytes - overlap(step.range, already) for step in gone), 0
        if present is not None:
            if self.locked:
                gone = [step._replace(range=each) for step in gone for each in self._really(step)]
                already = list(until_locked(already, self.locked))
            for _, each in gone:
                resident += present.bytes_in(each.address, each.end)
                for start, end in _common(each, already):
                    resident -= present.bytes_in(start, end)
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
