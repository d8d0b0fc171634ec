"""How sure it is that a word is a pointer to a block: its start is what malloc gave, its inside may be chance or old.

Some insides are as good as the start, by what the block itself holds (the same that memcheck knows by
--leak-check-heuristics). glibc rounds sizes up: what was asked for lies within a range.
"""

from __future__ import annotations

from functools import cached_property
from typing import Optional

from ...session.session import Session
from ...sources.memory import Memory
from ...sources.target import RegionIndex
from ..name_all_blocks import catalogue_of
from ..pointer_finder import hands_out_pieces, is_by_design
from ..recognise.all_recognisers import Catalogue
from .asked_address import Goal
from .blocks import LiveBlocks
from .refs import Ref

ROUNDED = 3
"""Words by which a block may be larger than was asked for."""
SHORTEST = 4
"""Words of the shortest chunk."""
LONGEST_COUNT = 1 << 40
WIDE_COOKIES = (16, 32, 64)
"""Bytes in front of new T[n] where T is aligned to as many."""


class Strength:
    """Judges pointers into the live blocks of one image."""

    def __init__(self, session: Session, blocks: LiveBlocks) -> None:
        self._session = session
        self._memory: Memory = session.memory
        self._blocks = blocks
        constant = [each for each in session.regions if each.is_file and each.readable and not each.shared]
        self._region = RegionIndex(constant).find
        self._types: dict[int, bool] = {}
        self._fronts: dict[int, int] = {}
        self._pools: dict[int, bool] = {}
        """By the block's number, as far as somebody asked."""

    def is_definite(self, index: int, value: int, at: Optional[int] = None) -> bool:
        """`value` leads into the nth block; `at`: where it lies in memory, if it may be a link."""
        start, usable = self._blocks.starts[index], self._blocks.ends[index] - self._blocks.starts[index]
        past, word = value - start, self._memory.pointer_size
        if not past:
            return True
        if past == word and self._has_count(start, usable - word):
            return True
        if past in WIDE_COOKIES and not value % past and self._has_wide_cookie(value, usable - past, past):
            return True
        if past in (2 * word, 4 * word) and self._is_collected(value):
            return True
        if is_by_design(self._memory, start, usable, past):
            return True
        front = self._front(index)
        if front and (past == front or is_by_design(self._memory, start + front, usable - front, past - front)):
            return True
        if past == 3 * word and self._is_old_string(start, usable):
            return True
        if not past % word and past < usable and self._is_second_base(start, value):
            return True
        # links of lists and trees that a program has amid its structs
        return self._is_pool(index) or (at is not None and self._blocks.engine.leads_back(value, at))

    def _front(self, index: int) -> int:
        """Bytes of an allocator of the program's own in front of what the block is for."""
        if index not in self._fronts:
            self._fronts[index] = self._catalogue.front(self._blocks.starts[index])
        return self._fronts[index]

    def _is_pool(self, index: int) -> bool:
        """Whatever points into one points to a piece that was handed out."""
        if index not in self._pools:
            start = self._blocks.starts[index]
            usable, front = self._blocks.ends[index] - start, self._front(index)
            self._pools[index] = hands_out_pieces(self._memory, start, usable) or (
                front > 0 and self._catalogue.hands_out_pieces(start)
            )
        return self._pools[index]

    @cached_property
    def _catalogue(self) -> Catalogue:
        """Knows what an allocator of the program's own puts in front of blocks, in a program that has one."""
        return catalogue_of(self._session)

    def is_sure(self, ref: Ref, goal: Goal) -> bool:
        """Of what is known to lead there."""
        if ref.encoding is not None:
            return False
        return ref.value == goal.span.start or (
            goal.number is not None and self.is_definite(goal.number, ref.value, ref.address)
        )

    def _has_count(self, start: int, rest: int) -> bool:
        """new T[n] keeps n in front where T has a destructor; others keep the length."""
        count = self._memory.try_word(start)
        if not count or count > min(rest, LONGEST_COUNT):
            return False
        # the largest multiple of it that is not longer than the rest
        return rest - rest // count * count < ROUNDED * self._memory.pointer_size

    def _has_wide_cookie(self, first: int, rest: int, aligned: int) -> bool:
        """The count of T that are aligned to so many bytes stands right in front of the first."""
        count = self._memory.try_word(first - self._memory.pointer_size)
        if not count or count > rest // aligned:
            return False
        # memalign() leaves what is too short to be a chunk
        slack = (ROUNDED + SHORTEST) * self._memory.pointer_size
        return rest - rest // count // aligned * aligned * count < slack

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
        region = self._region(address)
        if region is None or region.executable or (address or 0) % self._memory.pointer_size:
            return False
        entry = self._memory.try_word(address or 0)
        function = self._region(entry)
        # a core need not have what only a file has, nor say what it may be used for
        return entry is None or (function is not None and (function.executable or not function.present))
