"""One pass over a heap's blocks: those that lie beside something free, and what stands at the heap's end."""

from __future__ import annotations

from collections import deque
from typing import Callable, Iterable, NamedTuple, Optional, Sequence

from ..base.model import Heap

Block = tuple[int, int, str]
"""(address, bytes, "used", "tcache", "fast" or "free"); or what is no block: "header", "fencepost", "top" ..."""
TOGETHER = 64
"""How many blocks at a heap's end are remembered, to be freed together."""


class Live(NamedTuple):
    """A block in use, and where what is free in front of it begins (its own address: nothing is)."""

    address: int
    bytes: int
    left: int
    """Fast chunks taken for free, as malloc_consolidate makes them."""
    left_chunk: int
    """That of the one free chunk that free() finds by PREV_INUSE."""

    @property
    def end(self) -> int:
        return self.address + self.bytes


class Tail(NamedTuple):
    """A heap's end: where its top or its fencepost is, and the free chunk before that, if there is one."""

    heap: Heap
    fence: int
    start: int
    """Of what is free before the fence, as malloc_consolidate leaves it."""
    last: Sequence[Live]
    """The blocks before that, the very last at the end, with nothing between them but what is free. None where one
    of a thread cache lies there."""
    right_chunk: int
    """The end of the one free chunk that free() of the last block would find after it."""

    @property
    def pin(self) -> Optional[Live]:
        return self.last[-1] if self.last else None


Between = Callable[[int, int, int, int], None]
"""(block, its bytes, start of what is free in front of it, end of what is free after it)."""


def walk_heap(heap: Heap, main: bool, walked: Iterable[Block], between: Between) -> Optional[Tail]:
    """Calls `between` for each block with something free on either side.

    The block at the very end is left to the caller: free() itself may act there. None where the end is not known, or
    is one that the main arena never moves back over.
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
            live = tuple(Live(*each) for each in last)
            return Tail(heap, address, span or address, live, right_chunk=right_chunk if span else address)
        else:
            if block and (span or left != block):
                between(block, bytes_of_block, left, address)
            last.clear()
            span = block = left = 0
    if block and (span or left != block):
        between(block, bytes_of_block, left, block + bytes_of_block)
    return None
