"""GLib's hash tables, lists and strings, and the pages of its slices, which are malloc's blocks since 2.76.

A GHashTable says how many places it has, twice, and how many of its entries are left, which its hashes confirm. A slab
of slices ends in its SlabInfo, which is in a ring with those of its size. A GList's neighbours point back.
"""

from __future__ import annotations

import struct
from typing import Optional, Sequence

from ...base.model import Kind
from .contents import PLAIN
from .module_memory import PAGE_SHIFT, LoadedModules, fits

HOW = "its struct's words, and what they point to"
TABLE = Kind("GHashTable", "holder", how=HOW)
LIST, STRING = (Kind(name, "holder", certain=False, how=HOW) for name in ("GList node", "GString"))
"""A program may have a list of its own that is laid out so."""
SLICES = Kind("GSlice page", "holder", how="its SlabInfo, in a ring with others")
PART = "its GHashTable's own sizes"
KEYS, HASHES, VALUES = (Kind(f"GHashTable {name}", "holder", how=PART) for name in ("keys", "hashes", "values"))
TEXT = Kind("GString text", "holder", how="its GString, which says where it ends")
WORDS = struct.Struct("<QIIIIQQQQQQ")
"""struct _GHashTable (ghash.c): size, mod and mask, nodes and places in use, two bits, keys, hashes, values, and two
functions. So since 2.60."""
TABLE_BYTES = (88, 96)
FIRST, KEYS_AT, HASHES_AT, VALUES_AT = 0, 4, 5, 6
FEWEST, MOST = 8, 1 << 26
MOST_READ = 4 << 30
"""Bytes of hashes: damage could have many tables say that they have all of a large block."""
REAL = 2
"""The least hash of an entry: 0 is empty, 1 deleted."""
SLAB_INFO, PADDING = 48, 16
"""SLAB_INFO_SIZE and NATIVE_MALLOC_PADDING of gslice.c: how far from a page's end it is, and what that lacks."""
LEAST_SLAB, MOST_SLAB = 128, 64 << 10
NODES = (24, 40)
"""What malloc makes of three words: a rest too small for another block may go with them."""
MOST_TEXT = 1 << 32
LEAST_TEXT, LOOKED_AT = 4, 256


class _GHashTable:
    """As its struct has it."""

    def __init__(self, words: Sequence[int]) -> None:
        self.size, self.mask, self.nodes = words[FIRST], words[1] >> 32, words[2] & 0xFFFFFFFF
        self.modulo, self.used = words[1] & 0xFFFFFFFF, words[2] >> 32
        self.keys, self.hashes, self.values = words[KEYS_AT : VALUES_AT + 1]
        self.functions = words[VALUES_AT + 1 : VALUES_AT + 3]

    @property
    def may_be(self) -> bool:
        size = self.size
        return (
            FEWEST <= size <= MOST
            and self.mask == size - 1
            and not size & self.mask
            and size // 2 < self.modulo <= size
            and self.nodes <= self.used <= size
        )


class Glib:
    """The structs of one process."""

    holders = (TABLE.name, SLICES.name)
    apart = False
    past = (0,)

    def __init__(self, ground: LoadedModules) -> None:
        self._memory = ground.memory
        self._pages = ground.pages
        self._left = MOST_READ
        self.runs = any(each.name.startswith("libglib-2.0.so") for each in ground.modules.all)

    def kind_of(self, user: int, usable: int, head: bytes) -> Optional[Kind]:
        if usable in NODES:
            return self._of_three(user, head)
        if usable >= TABLE_BYTES[0] and TABLE_BYTES[0] <= usable < TABLE_BYTES[1] + 32:
            table = _GHashTable(self._memory.unpack_words(head[: 8 * 9]))
            if table.may_be and self._is_table(table):
                return TABLE
        return SLICES if self._is_slab(user, usable) else None

    def kept_by(self, words: Sequence[int], at: int, usable: int) -> Optional[Kind]:
        """What a block of so many bytes is that words[at] points to, of a struct or a page of slices."""
        for place, kind in ((KEYS_AT, KEYS), (HASHES_AT, HASHES), (VALUES_AT, VALUES)):
            own = words[at - place : at - place + 9] if at >= place else ()
            table = _GHashTable(own) if len(own) == 9 else None
            if table is not None and table.may_be and self._is_table(table):
                sizes = (4,) if kind is HASHES else (4, 8)
                return kind if any(fits(table.size * each, usable) for each in sizes) else None
        if at + 2 < len(words) and words[at + 1] < words[at + 2] < MOST_TEXT and fits(words[at + 2], usable):
            return TEXT if self._ends(words[at], words[at + 1]) else None
        return None

    def _is_table(self, table: _GHashTable) -> bool:
        """As many hashes as it has entries, and as many with those that were removed as are in use."""
        hash_function, equal = table.functions
        # keys that are numbers are equal by themselves
        if hash_function >> PAGE_SHIFT not in self._pages or (equal and equal >> PAGE_SHIFT not in self._pages):
            return False
        size = 4 * table.size
        if size > self._left or not fits(size, self._usable(table.hashes)):
            return False
        self._left -= size
        data = self._memory.try_read(table.hashes, size)
        if data is None:
            return False
        hashes = memoryview(data).cast("I")
        used = table.size - hashes.tolist().count(0)
        return used == table.used and used - hashes.tolist().count(1) == table.nodes

    def _ends(self, text: int, length: int) -> bool:
        """Whether a text is so long, by its zero."""
        seen = min(length, LOOKED_AT)
        data = self._memory.try_read(text + length - seen, seen + 1) if length >= LEAST_TEXT else None
        return data is not None and not data[seen] and not data[:seen].translate(None, PLAIN)

    def _of_three(self, user: int, head: bytes) -> Optional[Kind]:
        first, second, third = struct.unpack_from("<3Q", head)
        if second < third < MOST_TEXT and self._ends(first, second) and fits(third, self._usable(first)):
            return STRING
        # a node with one neighbour at least, that has another one or is between it and the end
        near = [(each, place) for each, place in ((second, 1), (third, 2)) if each]
        if not near or (first and first in (second, third)) or second == third:
            return None
        steps = 0
        for node, place in near:
            before = user
            for _ in range(2):
                if node % 16 or self._usable(node) not in NODES:
                    return None
                own = self._memory.try_read(node, 24)
                words = struct.unpack("<3Q", own) if own is not None else (0, 0, 0)
                if words[3 - place] != before:
                    return None
                steps += 1
                before, node = node, words[place]
                if not node:
                    break
        return LIST if steps > 1 else None

    def _usable(self, user: int) -> int:
        """By malloc's header, if that is a block's."""
        return ((self._memory.try_word(user - 8) or 0) & ~7) - 8

    def _is_slab(self, user: int, usable: int) -> bool:
        page = usable + PADDING & ~15
        while page & page - 1:
            page &= page - 1
        if not LEAST_SLAB <= page <= MOST_SLAB or user % page or not fits(page - PADDING, usable):
            return False
        info = user + page - SLAB_INFO
        data = self._memory.try_read(info, 32)
        _, chunks, after, before = struct.unpack("<4Q", data) if data is not None else (0, 0, 0, 0)
        if not 0 < chunks & 0xFFFFFFFF < page // 16:
            return False
        return self._memory.try_word(after + 24) == info == self._memory.try_word(before + 16)
