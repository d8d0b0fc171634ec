"""GLib's hash tables, lists and strings, and the pages of its slices, which are malloc's blocks since 2.76.

A GHashTable says how many places it has, twice, and how many of its entries are left, which its hashes confirm. A slab
of slices ends in its SlabInfo, which is in a ring with those of its size. A GList's neighbours point back.
"""

from __future__ import annotations

from array import array

from ...base.heap_model import Kind
from .module_memory import LoadedModules
from .selection import (
    LONGEST_TEXT,
    LOW,
    USABLE,
    USER,
    Condition,
    Found,
    Numbers,
    Selection,
    Value,
    any_of,
    either,
    value,
)

HOW = "its struct's words, and what they point to"
TABLE = Kind("GHashTable", "holder", how=HOW)
LIST, STRING = (Kind(name, "holder", certain=False, how=HOW) for name in ("GList node", "GString"))
"""A program may have a list of its own that is laid out so."""
SLICES = Kind("GSlice page", "holder", how="its SlabInfo, in a ring with others")
PART = "its GHashTable's own sizes"
KEYS, HASHES, VALUES = (Kind(f"GHashTable {name}", "holder", how=PART) for name in ("keys", "hashes", "values"))
TEXT = Kind("GString text", "holder", how="its GString, which says where it ends")
TABLE_BYTES, MOST_TABLE_BYTES = 88, 128
"""struct _GHashTable (ghash.c): size, mod and mask, nodes and places in use, two bits, keys, hashes, values, and two
functions. So since 2.60."""
KEYS_AT, HASHES_AT, VALUES_AT, FUNCTIONS_AT = range(4, 8)
"""Its words."""
FEWEST, MOST = 8, 1 << 26
MOST_READ = 4 << 30
"""Bytes of hashes: damage could have many tables say that they have all of a large block."""
SLAB_INFO, PADDING = 48, 16
"""SLAB_INFO_SIZE and NATIVE_MALLOC_PADDING of gslice.c: how far from a page's end it is, and what that lacks."""
SLABS = tuple(128 << shift for shift in range(10))
NODES = (24, 40)
"""What malloc makes of three words: a rest too small for another block may go with them."""
NEXT, BEFORE = 1, 2
"""Words of a GList's node."""
MOST_TEXT, LEAST_TEXT = 1 << 32, 4


class Glib:
    """The structs of one process."""

    holders = (TABLE.name, SLICES.name)
    apart = False
    past = (0,)

    def __init__(self, ground: LoadedModules) -> None:
        self._memory, self._code = ground.memory, ground.page_spans
        self._left = MOST_READ
        self.runs = any(each.name.startswith("libglib-2.0.so") for each in ground.modules.all)

    def kinds(self, blocks: Selection) -> Found:
        of_three = USABLE.is_in(NODES)
        text, length, room = map(USER.word, range(3))
        is_string = (length < room) & (room < MOST_TEXT) & _ends(text, length) & room.fits(text.usable())
        yield blocks.where(of_three & is_string), STRING
        yield blocks.where(of_three & _is_listed()), LIST
        is_large = USABLE.between(TABLE_BYTES, MOST_TABLE_BYTES)
        yield self._true_tables(blocks, USER, blocks.where(is_large & self._may_be_table(USER))), TABLE
        yield blocks.where(any_of(map(_is_slab, SLABS))), SLICES

    def kept(self, pointers: Selection) -> Found:
        """What lies in a struct or a page of slices."""
        for place, kind, sizes in ((KEYS_AT, KEYS, (4, 8)), (HASHES_AT, HASHES, (4,)), (VALUES_AT, VALUES, (4, 8))):
            table = USER - 8 * place
            is_part = self._may_be_table(table) & any_of((table.word() * each).fits() for each in sizes)
            yield self._true_tables(pointers, table, pointers.where(is_part)), kind
        length, room = USER.word(1), USER.word(2)
        is_text = (length < room) & (room < MOST_TEXT) & room.fits() & _ends(USER.word(), length)
        yield pointers.where(is_text), TEXT

    def _may_be_table(self, table: Value) -> Condition:
        size, mask, modulo = table.word(), table.word(1) >> 32, table.word(1) & LOW
        nodes, used = table.word(2) & LOW, table.word(2) >> 32
        is_sound = size.between(FEWEST, MOST + 1) & (mask == size - 1) & (size & mask == 0)
        is_counted = (size >> 1 < modulo) & (modulo <= size) & (nodes <= used) & (used <= size)
        # keys that are numbers are equal by themselves
        hash_function, equal = table.word(FUNCTIONS_AT), table.word(FUNCTIONS_AT + 1)
        calls = hash_function.lies_in(self._code) & ((equal == 0) | equal.lies_in(self._code))
        return is_sound & is_counted & calls & (size * 4).fits(table.word(HASHES_AT).usable())

    def _true_tables(self, some: Selection, table: Value, which: Numbers) -> Numbers:
        """Those with as many hashes as they have entries, and as many with those that were removed as are in use."""
        counts = (table.word(HASHES_AT), table.word(), table.word(2) & LOW, table.word(2) >> 32)
        columns = [some.column(each, which) for each in counts]
        return array("I", [each for each, *row in zip(which, *columns) if self._are_hashes(*row)])

    def _are_hashes(self, address: int, size: int, nodes: int, used: int) -> bool:
        """A hash of 0 is of an empty place, 1 of a deleted entry."""
        if 4 * size > self._left:
            return False
        self._left -= 4 * size
        data = self._memory.try_read(address, 4 * size)
        hashes = memoryview(data).cast("I").tolist() if data is not None else []
        return data is not None and (size - hashes.count(0), hashes.count(1)) == (used, used - nodes)


def _ends(text: Value, length: Value) -> Condition:
    """Whether a text is so long, by its zero."""
    seen = length.least(LONGEST_TEXT)
    return (length >= LEAST_TEXT) & ((text + length).number(1) == 0) & (text + length - seen).is_plain(seen)


def _is_listed() -> Condition:
    """A node with one neighbour at least, that has another one or is between it and the end."""
    first, after, before = map(USER.word, range(3))

    def leads_back(node: Value, place: int, to: Value) -> Condition:
        return node.is_multiple(16) & node.usable().is_in(NODES) & (node.word(3 - place) == to)

    def is_chain(node: Value, place: int) -> Condition:
        further = node.word(place)
        return leads_back(node, place, USER) & ((further == 0) | leads_back(further, place, node))

    is_own = (first != after) & (first != before) | (first == 0)
    are_chains = ((after == 0) | is_chain(after, NEXT)) & ((before == 0) | is_chain(before, BEFORE))
    goes_on = either(after > 0, either(before > 0, after, after.word(NEXT)), before.word(BEFORE)) > 0
    return (after != before) & is_own & goes_on & are_chains


def _is_slab(page: int) -> Condition:
    info = USER + (page - SLAB_INFO)
    chunks, after, before = info.word(1) & LOW, info.word(2), info.word(3)
    is_page = value(page - PADDING).fits()
    in_ring = (after.word(3) == info) & (before.word(2) == info)
    return is_page & USER.is_multiple(page) & chunks.between(1, page // 16) & in_ring
