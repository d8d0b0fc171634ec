"""Where an arena's free chunks can lie: in its own heaps, and in sum no more bytes than it has.

A list that is sound in itself may lead anywhere: it is believed only about memory that the arena has.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import repeat
from operator import add, le
from typing import Mapping, Optional, Sequence

from ..base.model import ArenaHeader, Bin, Finding, Heap, Statement


class Reach:
    """One arena's heaps. Where not all of them are known, nothing can be said to lie outside."""

    def __init__(self, header: ArenaHeader, heaps: Sequence[Heap]) -> None:
        self.header = header
        self.known = sum(heap.bytes for heap in heaps) == header.system_mem
        ranges = sorted((heap.address, heap.end) for heap in heaps)
        self._starts = [start for start, _ in ranges]
        self._ends = [end for _, end in ranges]

    def holds(self, chunk: int, size: int = 1) -> bool:
        """Whether it lies in one heap as a whole."""
        if not self.known:
            return True
        place = bisect_right(self._starts, chunk) - 1
        return place >= 0 and chunk + size <= self._ends[place]

    def first_outside(self, addresses: Sequence[int], sizes: Sequence[int]) -> Optional[int]:
        """Which of the chunks is the first that lies elsewhere."""
        if not self.known or not addresses:
            return None
        if (
            len(self._starts) == 1
            and self._starts[0] <= min(addresses)
            and (max(map(add, addresses, sizes)) <= self._ends[0])
        ):
            return None
        # without a line of Python for each, as there may be millions
        ends = [0, *self._ends]
        limits = map(ends.__getitem__, map(bisect_right, repeat(self._starts), addresses))
        if all(map(le, map(add, addresses, sizes), limits)):
            return None
        holds = self.holds
        return next((index for index, chunk in enumerate(zip(addresses, sizes)) if not holds(*chunk)), None)

    def within(self, walked: Bin, findings: list[Finding]) -> Bin:
        """The list up to its first chunk that lies elsewhere, with a finding where there is one."""
        index = self.first_outside(walked.addresses, walked.sizes)
        if index is None:
            return walked
        chunk = walked.addresses[index]
        of, link = ("fast", "fast-link") if walked.kind == "fast" else ("bin", "bin-link")
        holder = walked.addresses[index - 1] if index else self.header.address
        outside = Statement("link-outside", {"bin": walked.index}, {"list": of})
        findings.append(Finding(outside, chunk, self.header.index, link, holder=holder))
        return walked._replace(
            addresses=walked.addresses[:index],
            sizes=walked.sizes[:index],
            whole=False,
            raw_flags=walked.raw_flags and index,
        )

    def doubt_sum(self, lists: Sequence[Bin], findings: list[Finding]) -> None:
        """More free bytes than bytes: chunks that overlap, or a size that is wrong."""
        free = sum(each.bytes for each in lists) + (self.header.top_bytes or 0)
        if free > self.header.system_mem:
            figures = {"free_bytes": free, "system_bytes": self.header.system_mem}
            beyond = Statement("free-beyond-system-mem", figures)
            findings.append(Finding(beyond, self.header.address, self.header.index, "system-mem"))


Reaches = Mapping[int, Reach]
"""By arena."""


def reaches_of(headers: Sequence[ArenaHeader], heaps: Mapping[int, Sequence[Heap]]) -> Reaches:
    return {header.index: Reach(header, heaps[header.index]) for header in headers}
