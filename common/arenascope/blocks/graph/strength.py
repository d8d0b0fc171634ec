"""How sure it is that a word is a pointer to a block: its start is what malloc gave, its inside may be chance or old.

Some insides are as good as the start, by what the block itself holds (the same that memcheck knows by
--leak-check-heuristics). glibc rounds sizes up: what was asked for lies within a range.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from typing import Optional

from ...session.session import Session
from ...sources.memory import Memory
from ...sources.target import Region
from ..recognise.catalogue import Catalogue
from ..recognise.insides import is_by_design
from ..recognise.mysql import FRONTS
from ..types import catalogue_of
from .blocks import LiveBlocks
from .refs import Ref
from .whose import Goal

ROUNDED = 3
"""Words by which a block may be larger than was asked for."""
LONGEST_COUNT = 1 << 40


class Strength:
    """Judges pointers into the live blocks of one image."""

    def __init__(self, session: Session, blocks: LiveBlocks) -> None:
        self._session = session
        self._memory: Memory = session.memory
        self._blocks = blocks
        self._constant = [each for each in session.regions if each.is_file and each.readable and not each.shared]
        self._starts = [each.start for each in self._constant]
        self._types: dict[int, bool] = {}

    def is_definite(self, index: int, value: int) -> bool:
        """`value` leads into the nth block."""
        start, usable = self._blocks.starts[index], self._blocks.ends[index] - self._blocks.starts[index]
        past, word = value - start, self._memory.pointer_size
        if not past:
            return True
        if past == word and self._has_count(start, usable - word):
            return True
        if past in (2 * word, 4 * word) and self._is_collected(value):
            return True
        if is_by_design(self._memory, start, usable, past):
            return True
        if past in FRONTS and self._catalogue.front(start, usable) == past:
            return True
        if past == 3 * word and self._is_old_string(start, usable):
            return True
        return not past % word and past < usable and self._is_second_base(start, value)

    @cached_property
    def _catalogue(self) -> Catalogue:
        """Knows what an allocator of the program's own puts in front of blocks, in a program that has one."""
        return catalogue_of(self._session)

    def is_sure(self, ref: Ref, goal: Goal) -> bool:
        """Of what is known to lead there."""
        if ref.encoding is not None:
            return False
        return ref.value == goal.span.start or (goal.number is not None and self.is_definite(goal.number, ref.value))

    def _has_count(self, start: int, rest: int) -> bool:
        """new T[n] keeps n in front where T has a destructor; others keep the length."""
        count = self._memory.try_word(start)
        if not count or count > min(rest, LONGEST_COUNT):
            return False
        # the largest multiple of it that is not longer than the rest
        return rest - rest // count * count < ROUNDED * self._memory.pointer_size

    def _is_old_string(self, start: int, usable: int) -> bool:
        """std::string before C++11's ABI: length, capacity and the count of users stand in front of the text."""
        word = self._memory.pointer_size
        length, capacity = (self._memory.try_word(start + at * word) or 0 for at in range(2))
        room = usable - 3 * word - 1
        return length <= capacity <= room and room - capacity < ROUNDED * word

    def _is_collected(self, value: int) -> bool:
        """CPython puts two words of its collector's in front of objects, and since 3.11 two more where their dict is
        managed: what follows is a count and a type, whose own type's type is itself."""
        word = self._memory.pointer_size
        kind = self._memory.try_word(value + word) or 0
        if kind not in self._types:
            # PyObject: ob_refcnt, ob_type
            kinds = self._memory.try_word(kind + word) or 0
            self._types[kind] = bool(kind and kinds) and self._memory.try_word(kinds + word) == kinds
        return self._types[kind]

    def _is_second_base(self, start: int, value: int) -> bool:
        """Both the block and what is pointed to begin with a table of virtual functions."""
        return self._is_vtable(self._memory.try_word(start)) and self._is_vtable(self._memory.try_word(value))

    def _is_vtable(self, address: Optional[int]) -> bool:
        region = self._region(address or 0)
        if region is None or region.executable or (address or 0) % self._memory.pointer_size:
            return False
        entry = self._memory.try_word(address or 0)
        function = self._region(entry or 0)
        # a core need not have what only a file has, nor say what it may be used for
        return entry is None or (function is not None and (function.executable or not function.present))

    def _region(self, address: int) -> Optional[Region]:
        at = bisect_right(self._starts, address) - 1
        return self._constant[at] if at >= 0 and self._constant[at].contains(address) else None
