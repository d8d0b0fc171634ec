"""Which live blocks keep memory from going back: what free() of each would trigger, by the allocator's own rules.

Two things can bring memory back once a block is free. free() itself, where the chunk that results reaches
FASTBIN_CONSOLIDATION_THRESHOLD: systrim moves the break, heap_trim unmaps whole heaps and shrinks the last. Or
malloc_trim(0) afterwards, which then finds pages between two free pieces that the block held apart.
"""

from __future__ import annotations

from typing import Callable, Iterable, Optional, Sequence

from ..base.model import Heap, Range
from .freeing import Break, HeapTrim, Shrunk, Thresholds
from .heap_ends import Block, Live, Tail, walk_heap
from .ranking import Gain, Pin, Ranking, Step, Together, bytes_of
from .trim import Rules, advised

TRIES_TRIMMING = 65536
"""FASTBIN_CONSOLIDATION_THRESHOLD, since 2.43 ATTEMPT_TRIMMING_THRESHOLD: a smaller chunk triggers nothing."""


class PinSearch:
    """One arena: its heaps are walked one after another, then `finish` judges the blocks at their ends."""

    def __init__(
        self, arena: int, main: bool, top_end: int, rules: Rules, thresholds: Optional[Thresholds], ranking: Ranking
    ) -> None:
        """`thresholds`: None where mp_ was not found: then it is not known what free() would trigger."""
        self.arena = arena
        self.main = main
        self.top_end = top_end
        self.rules = rules
        self.thresholds = thresholds
        self.ranking = ranking
        self.tails: list[Optional[Tail]] = []
        self.pending: tuple[Step, ...] = ()
        """What goes back at the next free() that makes a chunk of 64 KiB, whichever it is."""

    def walk(self, heap: Heap, blocks: Iterable[Block]) -> Optional[Tail]:
        """Reads one heap in address order, and says what stands at its end, for `tails`."""
        return walk_heap(heap, self.main, blocks, self._between)

    def _advised(self, start: int, end: int) -> Range:
        return advised(start, end, self.rules.layout.chunk_struct, self.rules.page)

    def _between(self, block: int, size: int, left: int, right: int) -> None:
        """What more malloc_trim gets once this block and what is free on both sides are one chunk."""
        if right - left < self.rules.page:
            return
        joined = self._advised(left, right)
        sides = (self._advised(left, block), self._advised(block + size, right))
        if joined.bytes > sum(side.bytes for side in sides):
            already = tuple(Step("madvise", side) for side in sides if side.bytes)
            gain = Gain(size, (Step("madvise", joined),), already)
            self.ranking.offer(Pin(block, self.arena, "between", "trim", gain=gain))

    def _offer(self, pin: Live, reason: str, by: str, gone: Sequence[Step], already: Sequence[Step]) -> None:
        if bytes_of(gone) > bytes_of(already):
            gain = Gain(pin.bytes, tuple(gone), tuple(already))
            self.ranking.offer(Pin(pin.address, self.arena, reason, by, gain=gain))

    def finish(self) -> None:
        """The blocks at the ends of heaps, which free() itself may act on."""
        if self.thresholds is None or not any(self.tails):
            return
        if self.main:
            self._finish_main(next(tail for tail in self.tails if tail), self.thresholds)
        else:
            self._finish_thread(HeapTrim(self.tails, self.rules, self.thresholds))

    def _tries(self, tail: Tail, start: int) -> bool:
        """Whether free() of the last block makes a chunk so large that it looks at top; it begins at `start`."""
        end = tail.right_chunk
        if tail.pin is None or tail.pin.end == tail.fence:
            end = self.top_end if tail.heap.last else tail.fence
        return end - start >= TRIES_TRIMMING

    def _finish_main(self, tail: Tail, limits: Thresholds) -> None:
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
        madvised = [Step("madvise", left)] if left.bytes else []
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

    def _together(self, tail: Tail, freed: Callable[[int], tuple[Step, ...]]) -> None:
        """Several at the end, freed in address order: as many as give the most per block."""
        best: Optional[Together] = None
        total = 0
        for count, block in enumerate(reversed(tail.last), 1):
            total += block.bytes
            if self._tries(tail, block.left_chunk):
                gain = Gain(total, freed(block.left), self.pending)
                if best is None or gain.kept * best.blocks > best.gain.kept * count:
                    best = Together(block.address, self.arena, count, gain)
            if block.left != block.left_chunk:
                # a fast chunk: what free() of the next one up sees then depends on what came before
                break
        if best is not None and best.blocks > 1 and best.gain.kept > 0:
            self.ranking.together.append(best)
