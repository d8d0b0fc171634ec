"""Nodes by their links: what one points to points back. Whose they are, and of which library, is a guess."""

from __future__ import annotations

from typing import Callable, Optional, Sequence

from ..memory import Memory

WordAt = Callable[[int], Optional[int]]
TREE, LIST = "std::map or set node", "list node"


class Links:
    """The links of nodes that lie in heaps."""

    def __init__(self, memory: Memory, low: int, high: int) -> None:
        self._memory = memory
        self._word = memory.pointer_size
        self._little = memory.byte_order == "little"
        self._low, self._high = low, high

    def node_in(self, words: Sequence[int], at: int, base: int, count: int) -> Optional[str]:
        """What a block is a node of; it has `count` words from words[at] on, and `base` is where words[0] lies."""
        if count < 3:
            return None
        first, second, third = words[at], words[at + 1], words[at + 2]
        fourth = words[at + 3] if count > 3 else None
        own = base + at * self._word

        def tree(parent: int, of_parent: Sequence[int], children: Sequence[int], of_child: int) -> bool:
            """Whether parent and children lead back, by the words that they keep the address in."""
            return (
                all(not child or self._low <= child < self._high for child in children)
                and self._back(words, base, parent, of_parent, own)
                and all(not child or self._back(words, base, child, (of_child,), own) for child in children)
            )

        # libstdc++: colour, parent, left, right
        if fourth is not None and self._colour(first) < 2 and tree(second, (1, 2, 3), (third, fourth), 1):
            return TREE
        # the neighbours' links lie across: next and previous, in either order
        near = self._low <= first < self._high or self._low <= second < self._high
        if near and self._back(words, base, first, (1,), own) and self._back(words, base, second, (0,), own):
            return LIST if first != own else None
        # libc++: left, right, parent, colour
        if fourth is not None and self._black(fourth) < 2 and tree(third, (0, 1), (first, second), 2):
            return TREE
        return None

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
        first = pointer + places[0] * self._word
        data = self._memory.try_read(first, (places[-1] - places[0] + 1) * self._word)
        return data is not None and own in self._memory.unpack_words(data)
