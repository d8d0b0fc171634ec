"""Following size headers: the hot loop of every sweep.

It does nothing but step: a word is looked up, kept and added. Whether all of them can be chunks is asked afterwards, of
all at once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from itertools import accumulate, count
from typing import Optional, Sequence

from ...base.errors import MemoryReadError
from ...base.model import Ends
from ...sources.memory import Memory
from ..chunk import PREV_INUSE

MANY = 1 << 17
"""How many chunks are followed at a time, however small."""
LARGE, PAGE = 64 << 10, 4096
"""Of chunks as large as that, only pages with a size word are read: the others may never have been touched."""


class Trail:
    """Chunks that lie back to back, by their size words: what was followed in one go."""

    def __init__(self) -> None:
        self.raws: list[int] = []
        self.counts: Counter[int] = Counter()
        """How many there are of each size word."""
        self.end = 0
        """Where the last of them ends."""
        self.follow: Optional[int] = None
        """The size word there; None where it cannot be read."""
        self.broken = False
        """That word is no chunk's."""
        self.marks: list[tuple[int, int]] = []
        """(index, address) of the chunks that were watched for."""
        self.free = Ends([], [], [])
        """Where those end that the word after them calls free."""


class Follower:
    """Follows size words from chunk to chunk, up to the last chunk's end at `limit`."""

    feet = False
    """Whether a trail's `free` is asked for: while its words are at hand."""

    def __init__(self, memory: Memory, least: int, start: int, limit: int, end: int, stops: Sequence[int]) -> None:
        """`least`: the size of the smallest chunk; `end`: the heap's; `stops`: chunks to watch for, by address."""
        self.memory = memory
        self.least = least
        self.limit = limit
        self.end = end
        self.stops = stops
        # of top no more than its header: its pages may never have been touched
        self._until = min(end, limit + 2 * memory.pointer_size)
        self._ahead = memory.read_ahead(start, self._until)
        self._are_large = False
        """The chunks met last."""

    def follow(self, position: int, span: int) -> Trail:
        """Some `span` bytes of chunks from here on, or fewer where something other than a chunk follows."""
        word, start, trail = self.memory.pointer_size, position, Trail()
        view: Sequence[int] = ()
        index = 0
        while position < self.limit and position - start < span and len(trail.raws) < MANY and not trail.broken:
            view = self._window(position)
            most = min(len(view), (self.limit - position) // word)
            if not most:
                break
            before = len(trail.raws)
            index = self._step(view, most, position, trail)
            # counted while the next block is being read
            followed = trail.raws[before:]
            trail.counts.update(followed)
            if self.feet:
                self._add_ends(trail.free, before, followed, view, position)
            trail.broken = index < most
            self._are_large = len(followed) * LARGE <= index * word
            position += index * word
        trail.end = position
        if position < self.end:
            trail.follow = view[index] if index < len(view) else self.memory.try_word(position + word)
            if self.feet and trail.follow is not None and not trail.follow & PREV_INUSE:
                foot = view[index - 1] if 0 < index <= len(view) else self.memory.try_word(position)
                trail.free.add([len(trail.raws)], [position], [foot])
        return trail

    def _add_ends(self, free: Ends, before: int, raws: Sequence[int], view: Sequence[int], position: int) -> None:
        """Those in a window: `raws` were found there, `before` others in front of them."""
        word = self.memory.pointer_size
        # in words, as in the window
        places = accumulate([raw >> 3 for raw in raws] if word == 8 else [raw >> 3 << 1 for raw in raws], initial=0)
        ends = [(at, place) for at, raw, place in zip(count(before), raws, places) if not raw & PREV_INUSE]
        feet: list[Optional[int]] = [view[place - 1] for _, place in ends]
        if ends and not ends[0][1]:
            # in front of the window
            feet[0] = self.memory.try_word(position)
        free.add([at for at, _ in ends], [position + place * word for _, place in ends], feet)

    def _window(self, position: int) -> Sequence[int]:
        """The words from this chunk's size field on."""
        word = self.memory.pointer_size
        base = position + word
        words = self._ahead.words_from(base) if self._ahead and not self._are_large else ()
        if words:
            return words
        most = -base % PAGE or PAGE if self._are_large else self.memory.BLOCK
        size = min(most, self._until - base) // word * word
        while size >= word:
            try:
                return self.memory.block(base, size)
            except MemoryReadError:
                # what can be read ends somewhere in here
                size = size // 8 // word * word
        return ()

    def _step(self, view: Sequence[int], count: int, position: int, trail: Trail) -> int:
        """Goes through a window, and stops at each chunk that is watched for; the index where it ended."""
        word, least, words, stops = self.memory.pointer_size, self.least, trail.raws, self.stops
        step = _step64 if word == 8 else _step32
        index, at = 0, bisect_left(stops, position)
        while at < len(stops) and index < count:
            bound = (stops[at] - position) // word
            if bound >= count:
                break
            index = step(view, index, bound, least, words)
            if index < bound:
                return index
            if index == bound:
                trail.marks.append((len(words), stops[at]))
                at += 1
            else:
                # inside another chunk
                at = bisect_left(stops, position + index * word, at)
        return step(view, index, count, least, words)


def _step64(view: Sequence[int], index: int, count: int, least: int, words: list[int]) -> int:
    """Follows size words up to `count`; a size in words is the size word without its three flags."""
    append = words.append
    while index < count:
        raw = view[index]
        if raw < least:
            break
        append(raw)
        index += raw >> 3
    return index


def _step32(view: Sequence[int], index: int, count: int, least: int, words: list[int]) -> int:
    append = words.append
    while index < count:
        raw = view[index]
        if raw < least:
            break
        append(raw)
        index += raw >> 3 << 1
    return index
