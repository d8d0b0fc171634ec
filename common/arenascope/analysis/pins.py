"""Finds live blocks that keep memory from going back: what free() of each would trigger, by the allocator's own rules.

Memory can go back in two ways once a block is free. free() itself returns it if the resulting chunk reaches
FASTBIN_CONSOLIDATION_THRESHOLD: systrim moves the break, heap_trim unmaps whole heaps and shrinks the last. Or
malloc_trim(0) returns it afterwards: the pages between two free pieces that the block held apart.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import Callable, Iterable, NamedTuple, Optional, Sequence

from ..base.model import Heap, Range
from .trim import TrimRules, advised, systrim

Block = tuple[int, int, str]
"""(address, bytes, "used", "tcache", "fast" or "free"), or with the kind of a gap: "header", "fencepost", "top" ..."""
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


Between = Callable[[int, int, int, int], None]
"""(block, its bytes, start of what is free in front of it, end of what is free after it)."""


def walk_heap(heap: Heap, main: bool, walked: Iterable[Block], between: Between) -> Optional[HeapTail]:
    """Calls `between` for each block with free memory on either side.

    The last block is left to the caller, as free() itself may act there. Returns None if the end is not known, or is
    one that the main arena never moves back over.
    """
    # the free stretch that is being walked, and the block before it: 0 where there is none
    span = last_free = right_chunk = 0
    block = bytes_of_block = left = 0
    last: deque[tuple[int, int, int, int]] = deque(maxlen=TOGETHER)
    remember = last.append
    for address, size, state in walked:
        if state == "used":
            if span:
                if block:
                    between(block, bytes_of_block, left, address)
                left = span
                remember((address, size, span, last_free))
                span = 0
            else:
                if left != block:
                    between(block, bytes_of_block, left, address)
                left = address
                remember((address, size, address, address))
            block, bytes_of_block = address, size
        elif state == "free" or state == "fast":
            if not span:
                span = address
                right_chunk = address + size if state == "free" else address
            last_free = address if state == "free" else address + size
        elif state == "top" or (state == "fencepost" and not main):
            live = tuple(BlockInUse(*each) for each in last)
            return HeapTail(heap, address, span or address, live, right_chunk=right_chunk if span else address)
        else:
            if block and (span or left != block):
                between(block, bytes_of_block, left, address)
            last.clear()
            span = block = left = 0
    if block and (span or left != block):
        between(block, bytes_of_block, left, block + bytes_of_block)
    return None


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

    def absorb(self, other: Ranking) -> None:
        """Adds what was offered to a later ranking."""
        self.count += other.count
        self.in_all += other.in_all
        self.own_left_out += other.own_left_out
        for entry in other._kept:
            self._keep(entry)
        for pin in other.best.values():
            self._compare(pin)

    def offer(self, pin: Pin) -> None:
        gain = pin.gain
        if not self.own and gain.kept < min(gain.bytes, WORTH):
            self.own_left_out += 1
            return
        self.count += 1
        self.in_all += gain.releases
        self._keep((gain.releases, -gain.bytes, -pin.address, pin))
        self._compare(pin)

    def _keep(self, entry: tuple[int, int, int, Pin]) -> None:
        if self.limit is None or len(self._kept) < self.limit:
            heapq.heappush(self._kept, entry)
        elif self._kept and entry > self._kept[0]:
            heapq.heapreplace(self._kept, entry)

    def _compare(self, pin: Pin) -> None:
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


TRIES_TRIMMING = 65536
"""FASTBIN_CONSOLIDATION_THRESHOLD, since 2.43 ATTEMPT_TRIMMING_THRESHOLD: freeing a smaller chunk triggers nothing."""


class PinSearch:
    """Judges one arena: its heaps are walked one after another, then `finish` judges the blocks at their ends."""

    def __init__(
        self, arena: int, main: bool, top_end: int, rules: TrimRules, thresholds: Optional[Thresholds], ranking: Ranking
    ) -> None:
        """`thresholds`: None if mp_ was not found: then it is not known what free() would trigger."""
        self.arena = arena
        self.main = main
        self.top_end = top_end
        self.rules = rules
        self.thresholds = thresholds
        self.ranking = ranking
        self.tails: list[Optional[HeapTail]] = []
        self.pending: tuple[ReleaseStep, ...] = ()
        """The memory that the next free() of any chunk of 64 KiB returns."""

    def walk(self, heap: Heap, blocks: Iterable[Block]) -> Optional[HeapTail]:
        """Reads one heap in address order, and returns its end, for `tails`."""
        return walk_heap(heap, self.main, blocks, self._between)

    def _advised(self, start: int, end: int) -> Range:
        return advised(start, end, self.rules.layout.chunk_struct, self.rules.page)

    def _between(self, block: int, size: int, left: int, right: int) -> None:
        """Offers a block if malloc_trim returns more once it and the free memory on both sides are one chunk."""
        if right - left < self.rules.page:
            return
        joined = self._advised(left, right)
        sides = (self._advised(left, block), self._advised(block + size, right))
        if joined.bytes > sum(side.bytes for side in sides):
            already = tuple(ReleaseStep("madvise", side) for side in sides if side.bytes)
            gain = Gain(size, (ReleaseStep("madvise", joined),), already)
            self.ranking.offer(Pin(block, self.arena, "between", "trim", gain=gain))

    def _offer(
        self, pin: BlockInUse, reason: str, by: str, gone: Sequence[ReleaseStep], already: Sequence[ReleaseStep]
    ) -> None:
        if bytes_of(gone) > bytes_of(already):
            gain = Gain(pin.bytes, tuple(gone), tuple(already))
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
