"""What each block is: every recogniser in its order, which is nowhere else.

1. A vtable in the first word: C++ objects, and what is told of their names (`templates.py`). Certain.
2. A type in the words where CPython has it (`python.py`). Certain.
3. Links that lead back (`nodes.py`). A guess.
4. What the contents look like (`contents.py`). Guesses, but for zeros.
5. The size.

Nothing overrides what is certain; what holders tell (`holders.py`) comes after all of it, and overrides guesses only.
"""

from __future__ import annotations

from typing import Optional, Sequence

from ..memory import Memory
from .contents import LOOKED_AT, are_addresses, text_in
from .cplusplus import Classes, ClassName
from .ground import PAGE_SHIFT, Ground
from .kinds import Kind

NONE = -1
"""No live block."""
EXACT = 1024
"""Blocks up to here are told apart by their very size; larger ones by powers of two."""
Sizes = dict[int, int]
"""A kind's index, by what is usable of a block."""
_UNKNOWN: Sizes = {}


def _size_text(size: int) -> str:
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size >= 1 << shift:
            return f"{size >> shift} {unit}"
    return f"{size} bytes"


class _Table:
    """A vtable, and the blocks that begin with it."""

    def __init__(self, of: ClassName) -> None:
        self.of = of
        self.sizes: Sizes = {}
        self.arrays: Sizes = {}


class Catalogue:
    """The kinds of one image, as far as they have been met."""

    def __init__(self, ground: Ground, low: int, high: int) -> None:
        """All heaps lie within [low, high)."""
        self.kinds: list[Kind] = []
        self._index: dict[Kind, int] = {}
        self._ground = ground
        self._memory: Memory = ground.memory
        self._word = ground.memory.pointer_size
        self._low, self._high = low, high
        self._classes = Classes(ground)
        self._tables: dict[int, Optional[_Table]] = {}
        self._by_size: Sizes = {}
        self._texts: dict[str, int] = {}
        self._zeros = self._pointers = NONE

    def index_of(self, kind: Kind) -> int:
        if kind not in self._index:
            self._index[kind] = len(self.kinds)
            self.kinds.append(kind)
        return self._index[kind]

    def classify(self, user: int, usable: int, head: bytes) -> int:
        """The index of a block's kind; `head` is its beginning, LOOKED_AT bytes or all of it."""
        return self.classify_many(self._memory.as_words(head), head, user, [user], [usable])[0]

    def classify_many(
        self, words: Sequence[int], data: bytes, base: int, users: Sequence[int], usables: Sequence[int]
    ) -> list[int]:
        """The same of blocks in address order that lie in `data`, which begins at `base`, with all of their heads."""
        found: list[int] = []
        add, known, pages = found.append, self._tables.get, self._ground.pages
        shift = 3 if self._word == 8 else 2
        other = self._other
        for user, usable in zip(users, usables):
            at = (user - base) >> shift
            first = words[at]
            table = known(first)
            if table is None and first >> PAGE_SHIFT in pages and first not in self._tables:
                table = self._learn(first)
            if table is None:
                add(other(words, data, at << shift, usable))
            else:
                add(table.sizes.get(usable, NONE))
                if found[-1] == NONE:
                    found[-1] = self._of_table(table, words, at, usable)
        return found

    def _learn(self, first: int) -> Optional[_Table]:
        of = self._classes.of(first)
        self._tables[first] = _Table(of) if of is not None else None
        return self._tables[first]

    def _of_table(self, table: _Table, words: Sequence[int], at: int, usable: int) -> int:
        of = table.of
        table.sizes[usable] = self.index_of(Kind(of.name, "c++", of.module, how=of.how))
        return table.sizes[usable]

    def _other(self, words: Sequence[int], data: bytes, at: int, usable: int) -> int:
        """Whatever has no vtable; it begins at the byte `at` of the data."""
        head = data[at : at + min(usable, LOOKED_AT)]
        if not head[:16].strip(b"\0") and not head.strip(b"\0"):
            return self._zero()
        encoding = text_in(head, usable)
        if encoding is not None:
            if encoding not in self._texts:
                self._texts[encoding] = self.index_of(Kind(f"text, {encoding}", "text", certain=False, how="its bytes"))
            return self._texts[encoding]
        start = at // self._word
        if are_addresses(words[start : start + len(head) // self._word], self._low, self._high, self._word):
            if self._pointers == NONE:
                self._pointers = self.index_of(Kind("mostly pointers", "pointers", certain=False, how="its words"))
            return self._pointers
        return self.by_size(usable)

    def _zero(self) -> int:
        if self._zeros == NONE:
            self._zeros = self.index_of(Kind("zeros", "zeros", how="its bytes"))
        return self._zeros

    def by_size(self, usable: int) -> int:
        found = self._by_size.get(usable)
        if found is None:
            size = usable + self._word
            name = _size_text(size)
            if size > EXACT:
                low = 1 << size.bit_length() - 1
                name = f"{_size_text(low)} to {_size_text(2 * low)}"
            found = self._by_size[usable] = self.index_of(Kind(name, "size", how="its size"))
        return found
