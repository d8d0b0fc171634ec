"""Nodes by their links: what one points to points back. Whose they are, and of which library, is a guess."""

from __future__ import annotations

from typing import NamedTuple, Optional, Sequence

from ...glibc.chunk import SIZE_BITS
from ...sources.memory import Memory
from .size_fits import SLACK

TREE, LIST, PAGES = "std::map or set node", "list node", "pages, linked"
LARGEST_NODE = 1024
"""A larger block that is linked to others is handed out in pieces, mostly."""


class TreeWords(NamedTuple):
    """The words of a node; in that of the header that is called its root."""

    parent: int
    left: int
    right: int
    root: int


LIBSTDCXX, LIBCXX = TreeWords(1, 2, 3, 1), TreeWords(2, 0, 1, 0)
"""libstdc++'s and libc++'s."""


class NodeLinks:
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
            and self._is_child(own, (first, second, third, fourth), LIBSTDCXX)
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
            if usable >= LARGEST_NODE:
                return PAGES
            return LIST if self._is_as_large(first, usable) or self._is_as_large(second, usable) else None
        # libc++: left, right, parent, colour
        if (
            count > 3
            and self._black(fourth) < 2
            and (not first or low <= first < high)
            and (not second or low <= second < high)
            and self._back(words, base, third, (0, 1), own)
            and not (first and not self._back(words, base, first, (2,), own))
            and not (second and not self._back(words, base, second, (2,), own))
            and self._is_child(own, (first, second, third, fourth), LIBCXX)
        ):
            return TREE
        return None

    def _is_child(self, own: int, words: Sequence[int], tree: TreeWords) -> bool:
        """Whether a node's parent is one itself, which is its own parent's child or the root, or the tree's header: the
        root is what the header leads to, and the header leads to its first and last node besides."""
        above, first, last = words[tree.parent], words[tree.left], words[tree.right]
        near = self._four(above) if above != own else None
        if near is None or not self._may_be_node(near, tree):
            return False
        if own in (near[tree.left], near[tree.right]) and near[tree.parent] not in (0, above, own):
            over = self._four(near[tree.parent])
            # a root's parent is the header
            if over is not None and above in (over[tree.left], over[tree.right], over[tree.root]):
                return self._may_be_node(over, tree)
        if tree == LIBSTDCXX:
            ends = (near[tree.left] == own) == (not first) and (near[tree.right] == own) == (not last)
            return near[tree.root] == own and ends and all(near[1:])
        # where the first node is, the root, how many there are
        front = self._memory.few_words(above - self._word, 3)
        return front is not None and front[1] == own and all(front) and (front[0] == own) == (not first)

    def _four(self, address: int) -> Optional[Sequence[int]]:
        first, last = self._memory.few_words(address, 3), self._memory.few_words(address + 3 * self._word, 1)
        return (*first, *last) if first is not None and last is not None else None

    def _may_be_node(self, words: Sequence[int], tree: TreeWords) -> bool:
        """libstdc++ has the header's colour, too."""
        return tree != LIBSTDCXX or self._colour(words[0]) < 2

    def _is_as_large(self, node: int, usable: int) -> bool:
        """As malloc's header says; a rest too small for another block is handed out with it."""
        size = self._memory.few_words(node - self._word, 1)
        return size is not None and abs((size[0] & ~SIZE_BITS) - self._word - usable) < SLACK

    def _goes_on(self, words: Sequence[int], base: int, node: int, place: int) -> bool:
        """Whether the node after this one, by the link in that place, leads back to it."""
        following = self._memory.few_words(node + place * self._word, 1)
        return following is not None and self._back(words, base, following[0], (1 - place,), node)

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
        return own in (self._memory.few_words(first, size) or ())
