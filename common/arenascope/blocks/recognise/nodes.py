"""Nodes by their links: what one points to points back. Whose they are, and of which library, is a guess."""

from __future__ import annotations

from typing import Callable, Optional, Sequence

from ...base.errors import MemoryReadError
from ...sources.memory import Memory

WordAt = Callable[[int], Optional[int]]
TREE, LIST, PAGES = "std::map or set node", "list node", "pages, linked"
LARGEST_NODE = 1024
"""A larger block that is linked to others is handed out in pieces, mostly."""


class Links:
    """The links of nodes that lie in heaps."""

    def __init__(self, memory: Memory, low: int, high: int) -> None:
        self._memory = memory
        self._word = memory.pointer_size
        self._little = memory.byte_order == "little"
        self._low, self._high = low, high

    def node_in(self, words: Sequence[int], at: int, base: int, count: int, usable: int) -> Optional[str]:
        """What a block of `usable` bytes is a node of, by `count` words from words[at] on; words[0] lies at `base`."""
        if count < 3:
            return None
        low, high = self._low, self._high
        first, second, third = words[at], words[at + 1], words[at + 2]
        fourth = words[at + 3] if count > 3 else 1
        own = base + at * self._word
        # libstdc++: colour, parent, left, right
        if (
            self._colour(first) < 2
            and (not third or low <= third < high)
            and (not fourth or low <= fourth < high)
            and self._back(words, base, second, (1, 2, 3), own)
            and not (third and not self._back(words, base, third, (1,), own))
            and not (fourth and not self._back(words, base, fourth, (1,), own))
        ):
            return TREE
        # the neighbours' links lie across: next and previous, in either order
        if (
            (low <= first < high or low <= second < high)
            and self._back(words, base, first, (1,), own)
            and self._back(words, base, second, (0,), own)
        ):
            if first == own or not self._goes_on(words, base, first, 0) or not self._goes_on(words, base, second, 1):
                return None
            return LIST if usable < LARGEST_NODE else PAGES
        # libc++: left, right, parent, colour
        if (
            count > 3
            and self._black(fourth) < 2
            and (not first or low <= first < high)
            and (not second or low <= second < high)
            and self._back(words, base, third, (0, 1), own)
            and not (first and not self._back(words, base, first, (2,), own))
            and not (second and not self._back(words, base, second, (2,), own))
        ):
            return TREE
        return None

    def _goes_on(self, words: Sequence[int], base: int, node: int, place: int) -> bool:
        """Whether the node after this one, by the link in that place, leads back to it."""
        following = self._memory.try_word(node + place * self._word)
        return following is not None and self._back(words, base, following, (1 - place,), node)

    def _black(self, word: int) -> int:
        """The first byte."""
        return word & 0xFF if self._little else word >> 8 * (self._word - 1)

    def _colour(self, word: int) -> int:
        """The first four bytes."""
        return word & 0xFFFFFFFF if self._little or self._word == 4 else word >> 32

    def _back(self, words: Sequence[int], base: int, pointer: int, places: Sequence[int], own: int) -> bool:
        """Whether one of these words there is the node's own address."""
        if not pointer or pointer % self._word:
            return False
        at = (pointer - base) // self._word
        if at >= 0 and at + places[-1] < len(words):
            return any(words[at + place] == own for place in places)
        size = places[-1] - places[0] + 1
        first = pointer + places[0] * self._word
        try:
            return own in self._memory.after(first - self._word)[:size]
        except MemoryReadError:
            # what follows may be where memory ends
            data = self._memory.try_read(first, size * self._word)
            return data is not None and own in self._memory.unpack_words(data)
