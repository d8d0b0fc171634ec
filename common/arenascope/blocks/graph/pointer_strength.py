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
from ..recognise.all_recognisers import Catalogue
from ..recognise.containers import is_table
from ..recognise.module_memory import SLACK, fits
from .asked_address import Goal
from .blocks import LiveBlocks
from .refs import Ref

SDS = {1: 0, 3: 1, 5: 2, 9: 3, 17: 4}
"""Of an sds header its bytes, the text's type by it."""
BUCKET, SLOTS = 32, 8
"""Bytes of each entry in a PHP array, and of its two places in the table in front."""
PACKED = (16, 32)
"""The same of an array without keys, since 8.2 and before."""
FEWEST = 8
LOOKED_AT = 256
OP_SLAB = 40
"""Bytes in front of what perl's struct opslab (since 5.34) hands out."""
SLICES, MOST_SLICES = 128, 1 << 16
SLICES_BEHIND, SLAB_INFO = 16, 48
"""Of a slab of glib's: so much is left to malloc at its end, and from there the ring of all slabs is so far ahead."""
LINE = 64
LUA_THREAD = 8
"""LUA_TTHREAD."""
SMALLEST_POOL, POOL_HEADER = 256, 5
"""Bytes; words that are looked at."""


def is_by_design(memory: Memory, start: int, usable: int, past: int) -> bool:
    """Whether something that is known to be pointed to `past` its start begins at `start`."""
    return (
        _has_size(memory, start, usable, past)
        or is_sds(memory, start, usable, past)
        or _is_zend_array(memory, start, usable, past)
        or is_table(memory, start, usable, past)
        or _keeps_the_start(memory, start, usable, past)
        or _is_lua_state(memory, start, usable, past)
    )


def hands_out_pieces(memory: Memory, start: int, usable: int) -> bool:
    """Whether a pool of a known make begins at `start`."""
    return is_op_slab(memory, start, usable) or _keeps_the_end(memory, start, usable) or _is_slab(memory, start, usable)


def _has_size(memory: Memory, start: int, usable: int, past: int) -> bool:
    """How many bytes were asked for stands in front, as in sqlite's blocks and some of MariaDB's; or how many these are
    with what is in front, as in those that node gives zlib."""
    size = memory.try_word(start + past - 8) if past in (8, 16) else None
    whole = memory.try_word(start) if past == 16 else None
    return (size is not None and fits(past + size, usable)) or (whole is not None and fits(whole, usable))


def is_sds(memory: Memory, start: int, usable: int, past: int) -> bool:
    """Length, room and type, in front of the text; it ends in a zero."""
    kind = SDS.get(past)
    header = memory.try_read(start, past) if kind is not None and past < usable else None
    if kind is None or header is None or header[-1] & 7 != kind:
        return False
    size = past // 2
    length = int.from_bytes(header[:size], "little") if kind else header[0] >> 3
    room = int.from_bytes(header[size:-1], "little") if kind else length
    if length > room or not fits(past + room + 1, usable):
        return False
    return memory.try_read(start + past + length, 1) == b"\0"


def _is_zend_array(memory: Memory, start: int, usable: int, past: int) -> bool:
    """Places of the entries by hash, or none where they have no keys, in front of these."""
    if past == SLOTS and memory.try_read(start, SLOTS) == b"\xff" * SLOTS:
        return any((usable - past) // size >= FEWEST and (usable - past) % size < SLACK for size in PACKED)
    entries = past // SLOTS
    if entries < FEWEST or entries & entries - 1 or past % SLOTS or not fits(past + BUCKET * entries, usable):
        return False
    table = memory.try_read(start, min(past, LOOKED_AT)) or b""
    places = [int.from_bytes(table[at : at + 4], "little") for at in range(0, len(table), 4)]
    return bool(places) and all(each < entries or each == 0xFFFFFFFF for each in places)


def _keeps_the_start(memory: Memory, start: int, usable: int, past: int) -> bool:
    """Whoever aligns by hand, or puts a header behind a buffer, keeps what free() wants: in front of the place
    (MariaDB's LF_DYNARRAY), or as the header's first or second word (GCC's struct _cpp_buff). What is aligned to a line
    of the processor's cache may have it further behind (ld.so's struct dlfo_mappings_segment, haproxy's struct
    pool_head)."""
    word = memory.pointer_size
    if not past or past % word:
        return False
    first, last = past - word, past + (word if (start + past) % LINE else LINE)
    data = memory.try_read(start + first, min(last + word, usable // word * word) - first)
    return data is not None and start in memory.unpack_words(data)


def _is_lua_state(memory: Memory, start: int, usable: int, past: int) -> bool:
    """lua_State since 5.2, which has a word of the host's in front: its type, and the global state, which lies behind
    the state of the main thread."""
    word = memory.pointer_size
    head = memory.try_read(start, 5 * word) if past == word and usable >= 5 * word else None
    if head is None or head[2 * word] != LUA_THREAD:
        return False
    common = memory.unpack_words(head)[4]
    mains = (common - size for size in range(usable - SLACK, usable + 1, word))
    return start < common < start + usable or any(memory.try_word(main + 4 * word) == common for main in mains)


def _keeps_the_end(memory: Memory, start: int, usable: int) -> bool:
    """Pools of nginx and PostgreSQL, and obstacks know where they end."""
    if usable < SMALLEST_POOL:
        return False
    return any(fits(each - start, usable) for each in memory.try_words(start, POOL_HEADER) or ())


def is_op_slab(memory: Memory, start: int, usable: int) -> bool:
    """struct opslab of perl: the next one, the first of them, which is its own first; how many words there are to be
    handed out."""
    if usable < OP_SLAB + 8:
        return False
    words = (memory.try_word(start + 32) or 0) >> 16 & 0xFFFF
    first = memory.try_word(start + 8) or 0
    return bool(first) and fits(OP_SLAB + 8 * words, usable) and memory.try_word(first + 8) == first


def _is_slab(memory: Memory, start: int, usable: int) -> bool:
    """Pages of g_slice_alloc() (glib before 2.76): struct _SlabInfo at the end is in a ring of such."""
    page = 1 << usable.bit_length()
    if not SLICES <= page <= MOST_SLICES or start % page or not fits(page - SLICES_BEHIND, usable):
        return False
    info = start + page - SLAB_INFO
    after, before = memory.try_word(info + 16) or 0, memory.try_word(info + 24) or 0
    return bool(after and before) and memory.try_word(after + 24) == info == memory.try_word(before + 16)


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
