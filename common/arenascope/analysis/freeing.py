"""What free() does at the end of an arena once its chunk is large enough to look there: systrim, or heap_trim."""

from __future__ import annotations

from typing import NamedTuple, Optional, Sequence

from ..base.model import Range
from .heap_ends import Tail
from .ranking import Step
from .trim import Rules, systrim


class Thresholds(NamedTuple):
    """mp_'s, and what a heap shrinks by."""

    trim_threshold: int
    top_pad: int
    heap_page: int
    """heap_info.pagesize; before 2.35 the system's."""


class Break(NamedTuple):
    """The end of the main arena's top, and how it moved so far."""

    end: int
    rules: Rules
    limits: Thresholds
    steps: tuple[Step, ...] = ()

    def freed(self, top: int, tries: bool) -> Break:
        """After a free() that left top beginning there."""
        enough = tries and self.end - top >= self.limits.trim_threshold
        return self._moved(top, self.limits.top_pad) if enough else self

    def trimmed(self, top: int) -> Break:
        """After malloc_trim(0)."""
        return self._moved(top, 0)

    def _moved(self, top: int, pad: int) -> Break:
        # None: the break is not known; less than 0: a top of MINSIZE makes malloc_trim grow it
        bytes_back = systrim(top, self.end - top, self.rules, pad) or 0
        if bytes_back <= 0:
            return self
        end = self.end - bytes_back
        step = Step("brk", Range(end, bytes_back))
        return self._replace(end=end, rules=self.rules._replace(brk=end), steps=(*self.steps, step))


class Shrunk(NamedTuple):
    """What heap_trim leaves."""

    steps: tuple[Step, ...]
    """What goes back."""
    heap: int
    """The heap that top is in then, by its number."""


class HeapTrim(NamedTuple):
    """heap_trim on a thread's arena, whose heaps end in `tails`, the newest last."""

    tails: Sequence[Optional[Tail]]
    rules: Rules
    limits: Thresholds

    def shrunk(self, freed: Optional[int] = None, start: int = 0) -> Shrunk:
        """What is free at the end of heap `freed` begins at `start`,
        as malloc_consolidate leaves it; at the ends of the others, where it does now."""
        starts = [tail.start if tail else 0 for tail in self.tails]
        if freed is not None:
            starts[freed] = start
        layout = self.rules.layout
        index = len(self.tails) - 1
        steps: list[Step] = []
        tail = self.tails[index]
        while tail and index and starts[index] == tail.heap.address + layout.heap.size:
            before = self.tails[index - 1]
            if before is None:
                break
            room = before.heap.end - starts[index - 1] + layout.heap_max - before.heap.bytes
            if room < self.limits.top_pad + layout.min_size + self.limits.heap_page:
                break
            steps.append(Step("munmap", Range(tail.heap.address, tail.heap.bytes)))
            index -= 1
            tail = before
        extra = self._shrinks(tail.heap.end - starts[index]) if tail else 0
        if tail and extra > 0:
            steps.append(Step("madvise", Range(tail.heap.end - extra, extra)))
        return Shrunk(tuple(steps), index)

    def _shrinks(self, top_bytes: int) -> int:
        """By how much the heap that top is in gets smaller."""
        layout, page, threshold = self.rules.layout, self.limits.heap_page, self.limits.trim_threshold
        rule = layout.behaviour.heap_trim_threshold
        extra = (top_bytes - layout.min_size - 1 - self.limits.top_pad) // page * page
        if rule == "top":
            return extra if top_bytes >= threshold else 0
        if rule == "extra":
            # a comparison of signed numbers, there alone
            return extra if extra >= threshold - (threshold >> 8 * layout.word - 1 << 8 * layout.word) else 0
        return extra
