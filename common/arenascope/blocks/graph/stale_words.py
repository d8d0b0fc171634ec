"""Which words of a range or a block can hold pointers at all: one table for all that is known about that.

What leads to a block from another word is an edge that is marked STALE. It counts where it could be wrong to leave it
out (leaks), and holds a block only where nothing else does: see leads.py. What is not in the table may hold
pointers.

stale_rows.py fills the table with what an image itself tells. Types from debug information are rows of the same table:
whoever knows the types of blocks calls `declare` once for each type, with the starts of all blocks that are of it, from
a function in stale_rows.SOURCES. That runs before the heap is looked through. The pointers of roots are known by then
(pointers_to.py); the graph is not there yet, so that a source reads blocks by itself.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import Iterator, Mapping, NamedTuple, Optional, Sequence, Union

from ...base.heap_model import STALE as WHYS
from ...engine import EngineImage, StaleRows
from ...sources.target import Span

NO_BLOCK = -1
"""In place of a block's number: a root has the word."""
MAY_HOLD, UNUSED, NEVER_HOLDS = range(3)
"""How sure it is that an excluded word holds nothing. UNUSED: it lies in room that a container of the program's types
does not use; NEVER_HOLDS: not even a program that writes past a container's end reads it, so that there is no edge."""
SURE_SHIFT = 6
"""Of a number in the engine's table: what is above these bits is one of them."""
COUNTS = 0
"""Of a word: it may hold a pointer. Else 1 and more: the place in WHYS, and one."""


class PointerWords(NamedTuple):
    """Which words of some blocks can hold pointers."""

    why: str
    """One of WHYS: what is said of the others."""
    size: int
    """After so many bytes the same comes again: of one element of an array, or of the whole struct."""
    offsets: Sequence[int]
    """Where in these a pointer can be. Every other word is excluded."""
    begins: int = 0
    """So far into the block the first begins (behind the count of new T[n]). In front of it no word holds a pointer."""
    beyond: Optional[str] = None
    """What is said of words behind the part that is used; None: they may hold pointers, too (a struct and a tail of
    which nothing is known)."""
    beyond_sure: int = MAY_HOLD
    """MAY_HOLD or UNUSED: how sure that is."""


class StaleWords:
    """The table, for one image. The engine has it."""

    def __init__(self, engine: EngineImage, word: int) -> None:
        self._engine, self._word = engine, word
        self._ranges: list[tuple[int, int, int]] = []
        self._is_told = True

    def exclude(self, start: int, end: int, why: str, sure: int = MAY_HOLD) -> None:
        """No word of the range, which no other row may share words with, holds a pointer."""
        if start < end:
            self._ranges.append((start, end, number_of(why) | sure << SURE_SHIFT))
            self._is_told = False

    def declare(
        self, starts: Sequence[int], layout: PointerWords, used: Union[int, Sequence[int], None] = None
    ) -> None:
        """Of the blocks that begin at `starts` (what malloc returned) only some words can hold pointers. `used`: so
        many bytes of each are laid out so, of all or one by one; None: the whole block is. What is no live block's
        start is left out. What was declared last counts."""
        words = max(1, layout.size // self._word)
        may = bytearray(words)
        for offset in layout.offsets:
            may[offset // self._word % words] = 1
        several = array("Q", () if used is None else (used,) if isinstance(used, int) else used)
        why, beyond = number_of(layout.why), number_of(layout.beyond) | layout.beyond_sure << SURE_SHIFT
        self._engine.declare(array("Q", starts), several, may, layout.begins, why, beyond)

    def why(self, address: int, block: int, odd: bool = False) -> int:
        """Of one word: COUNTS or why it does not. `block`: which one it lies in, or NO_BLOCK. `odd`: it may be a
        number, where no type says that it is a pointer."""
        self.tell()
        why = self._engine.why(address, block, number_of("low-number") if odd else COUNTS)
        return why & (1 << SURE_SHIFT) - 1

    def tell(self) -> None:
        """Tells the engine of all ranges."""
        if not self._is_told:
            self._engine.exclude(self._ranges)
            self._is_told = True

    def ranges(self) -> Iterator[Span]:
        """What is excluded by addresses, in order."""
        return (Span(start, end) for start, end, _ in sorted(self._ranges))


def number_of(why: Optional[str]) -> int:
    """The place in WHYS, and one."""
    return WHYS.index(why) + 1 if why is not None else COUNTS


NO_ROWS = StaleRows()


class StaleEdges:
    """The edges that come from excluded words. Why they are excluded: places in WHYS, and one."""

    def __init__(self, rows: StaleRows = NO_ROWS) -> None:
        self.addresses, self.sources, self.edges, self.whys, self.sure = rows
        self.gone: Mapping[int, int] = {}
        """By the address of a word that never holds anything: why. There is no edge from it."""

    @classmethod
    def of(cls, rows: StaleRows, more: Sequence[tuple[int, int, int, int, int]]) -> StaleEdges:
        """Those of blocks, which are in order, and those of roots."""
        is_plain = NEVER_HOLDS not in array("I", rows.sure)
        if not more and is_plain:
            return cls(rows)
        every = sorted([*(row for row in zip(*rows) if row[-1] != NEVER_HOLDS), *more])
        found = cls(StaleRows(*(array(code, column) for code, column in zip("QqIBB", zip(*every)))))
        if not is_plain:
            found.gone = {row[0]: row[3] for row in zip(*rows) if row[-1] == NEVER_HOLDS}
        return found

    def unused(self) -> Iterator[tuple[int, int]]:
        """The edges (block, edge) from room that containers do not use."""
        if UNUSED in array("I", self.sure):
            for source, edge, sure in zip(self.sources, self.edges, self.sure):
                if sure == UNUSED and source != NO_BLOCK:
                    yield source, edge

    def __len__(self) -> int:
        return len(self.addresses)

    def why(self, address: int) -> int:
        at = bisect_left(self.addresses, address)
        return self.whys[at] if at < len(self) and self.addresses[at] == address else self.gone.get(address, COUNTS)


def why_text(why: int) -> Optional[str]:
    """One of WHYS; None: the word counts."""
    return WHYS[why - 1] if why != COUNTS else None
