"""redis and valkey: redisObject, sds, dict and dictEntry, quicklist, listpack, skip lists.

Each struct is known by what it points to, read there: an sds says its length and room and ends in a zero, a listpack
its bytes and ends in 0xff, neighbours point back. Strings so short that C strings have their form are left out.
"""

from __future__ import annotations

from typing import Callable

from ...base.heap_model import Kind
from .module_memory import LoadedModules
from .selection import (
    PLACE,
    USABLE,
    USER,
    Condition,
    Found,
    Selection,
    Value,
    all_of,
    any_of,
    either,
    first,
    holds_in_each,
    holds_in_one,
    value,
)

HOW = "its struct's words, and what they point to"
NAMES = (
    "sds",
    "redisObject",
    "dict",
    "dictEntry",
    "dict table",
    "quicklist",
    "quicklistNode",
    "listpack",
    "zskiplistNode",
)
KINDS = {name: Kind(name, "holder", how=HOW) for name in NAMES}
DICT_TYPES = (
    "dbDictType",
    "dbExpiresDictType",
    "hashDictType",
    "setDictType",
    "zsetDictType",
    "commandTableDictType",
    "keylistDictType",
    "objectKeyPointerValueDictType",
    "stringSetDictType",
    "externalStringType",
    "sdsHashDictType",
)
RAW, INT, HASHTABLE, SKIPLIST, EMBEDDED, QUICKLIST, LISTPACK = 0, 1, 2, 7, 8, 9, 11
SHARED, MOST_REFERENCES, SHARED_NUMBERS = (1 << 31) - 1, 1 << 20, 10_000
MOST_TYPES = 7
HEADERS = (1, 3, 5, 9, 17)
"""Bytes in front of a text: length, room and type, which is the number here."""
LEAST_LARGE = 256
"""Bytes of a block with a long text's header: in a smaller one they are other numbers."""
LONGEST = 1 << 40
LOWEST, HIGHEST = 1 << 16, 1 << 57
"""No process of 64 bits has memory beyond: letters are not read as addresses."""
LISTPACK_HEADER = 6
ENTRY, NODE = 24, 40
"""What malloc makes of a dictEntry and a quicklistNode."""
DICT, EMBEDDED_AT = 52, 19
TABLE_LOOKED_AT, ENTRIES = 64, 8


class Redis:
    """The structs of one process."""

    def __init__(self, ground: LoadedModules) -> None:
        self._code = ground.page_spans
        program = ground.modules.program
        found = ground.modules.exported(program, ("sdsnewlen", *DICT_TYPES)) if program is not None else {}
        self.runs = "sdsnewlen" in found
        self._dict_types = [found[name] for name in DICT_TYPES if name in found]

    def kinds(self, blocks: Selection) -> Found:
        first, _, third = map(USER.word, range(3))
        is_dict = first.is_in(self._dict_types) & (USABLE >= DICT)
        is_other = (USABLE >= ENTRY) & ~is_dict
        has_next = (third == 0) | (_is_pointer(third) & self._is_entry(third))
        is_empty = first == 0
        for name, condition in {
            "sds": (USABLE >= ENTRY) & ~is_empty & _is_own_sds(),
            "redisObject": USABLE.between(ENTRY, 16 * ENTRY) & ~is_empty & self._is_object(USER),
            "dict": is_dict & _has_tables(),
            "dictEntry": (USABLE == ENTRY) & self._is_entry(USER) & has_next,
            "quicklistNode": (USABLE == NODE) & ~is_empty & _is_node(USER),
            "quicklist": (USABLE == NODE) & _is_list(USER),
            "listpack": is_other & ~is_empty & _is_own_listpack(),
            "zskiplistNode": is_other & (USABLE >= NODE) & ~is_empty & _is_skip_node(),
            "dict table": is_other & _is_table(self._is_entry),
        }.items():
            yield blocks.where(condition), KINDS[name]

    def _is_object(self, robj: Value) -> Condition:
        """Type and encoding in a byte, when it was used, how many refer to it, what it is."""
        first, pointer = robj.word(), robj.word(1)
        kind, encoding, references = first & 15, first >> 4 & 15, first >> 32
        is_kept = (kind < MOST_TYPES) & (references.between(1, MOST_REFERENCES) | (references == SHARED))
        is_text, is_other = kind == 0, kind > 0
        has_dict = _is_pointer(pointer) & pointer.word().is_in(self._dict_types)
        list_dict = pointer.word()
        has_sorted = _is_pointer(pointer) & _is_pointer(list_dict) & list_dict.word().is_in(self._dict_types)
        return is_kept & any_of(
            (
                is_text & (encoding == EMBEDDED) & (pointer == robj + EMBEDDED_AT) & _is_sds(pointer),
                is_text & (encoding == RAW) & _is_sds(pointer),
                is_text & (encoding == INT) & (references == SHARED) & (pointer < SHARED_NUMBERS),
                (encoding == HASHTABLE) & has_dict,
                (encoding == SKIPLIST) & has_sorted,
                (encoding == QUICKLIST) & _is_pointer(pointer) & _is_list(pointer),
                is_other & (encoding == LISTPACK) & _is_listpack(pointer),
            )
        )

    def _is_entry(self, entry: Value) -> Condition:
        key, value_at = entry.word(), entry.word(1)
        return _is_sds(key) & _is_pointer(value_at) & (value_at.lies_in(self._code) | self._is_object(value_at))


def _is_pointer(word: Value) -> Condition:
    return (word > 0) & word.is_multiple(8)


def _is_own_sds() -> Condition:
    """One with a header of 3 bytes or a single one has a text; others are long."""
    head = USER.number(1)
    return any_of(
        (
            *((USABLE >= LEAST_LARGE) & _fills_as_sds(past) for past in (5, 9)),
            _fills_as_sds(3) & (head > 3) & (USER + 3).is_plain(head),
            ~_fills_as_sds(3) & (head >= 0x80) & _fills_as_sds(1) & (USER + 1).is_plain(head >> 3),
        )
    )


def _fills_as_sds(past: int) -> Condition:
    """Whether a block is one whose text begins so far from its start."""
    length, room, is_kind = _sds_header(USER + past, past)
    return (past < USABLE) & is_kind & (length <= room) & (room + past + 1).fits() & _ends(USER + past, length)


def _sds_header(text: Value, size: int) -> tuple[Value, Value, Condition]:
    """Length and room in front of a text, and whether its header has so many bytes."""
    kind = (text - 1).number(1)
    if size == 1:
        return kind >> 3, kind >> 3, (kind & 7 == 0) & (kind > 0)
    half = size // 2
    return (text - size).number(half), (text - (half + 1)).number(half), kind == HEADERS.index(size)


def _is_sds(text: Value) -> Condition:
    """Whether a text with such a header in front begins there."""
    headers = [_sds_header(text, size) for size in HEADERS]
    are_right = (kind & (length <= room) & (room < LONGEST) & _ends(text, length) for length, room, kind in headers)
    return text.between(LOWEST + 1, HIGHEST) & any_of(are_right)


def _ends(text: Value, length: Value) -> Condition:
    return (text + length).number(1) == 0


def _has_tables() -> Condition:
    """Two tables, how many are in each, where rehashing is, the logarithms of their sizes."""
    tables = ((USER.word(1), (USER + 50).number(1)), (USER.word(2), (USER + 51).number(1)))
    fit = [((table == 0) & (size == 0xFF)) | ((table > 0) & (size < 48)) for table, size in tables]
    return all_of(fit) & (USER.word(5) + 1 < 1 << 63) & (USER.word(3) < LONGEST) & (USER.word(4) < LONGEST)


def _is_table(is_entry: Callable[[Value], Condition]) -> Condition:
    """In the first half of it that has any, the first ones are entries."""
    size = value(1) << first(value(2) << PLACE > USABLE, 48)
    half = size >> 1
    count = (half >> 3).least(TABLE_LOOKED_AT)

    def has_any(start: Value) -> Condition:
        return holds_in_one((start + PLACE * 8).word() > 0, count)

    def are_entries(start: Value) -> Condition:
        seen = value(0)
        for _ in range(ENTRIES):
            following = first((start + (seen + PLACE) * 8).word() > 0, count - seen)
            seen = either(following >= 0, seen + following + 1, count)
        entry = (start + PLACE * 8).word()
        return holds_in_each((entry == 0) | (_is_pointer(entry) & is_entry(entry)), seen)

    is_first = has_any(USER) & are_entries(USER)
    return (size >= 32) & size.fits() & (is_first | (~has_any(USER) & has_any(USER + half) & are_entries(USER + half)))


def _is_listpack(pack: Value) -> Condition:
    """How many bytes it has, and entries; it ends in 0xff."""
    size, entries = pack.number(4), (pack + 4).number(2)
    is_empty = size == LISTPACK_HEADER + 1
    has_some = (entries > 0) & (size > LISTPACK_HEADER + 1)
    ends = (pack + size - 1).number(1) == 0xFF
    return pack.between(LOWEST + 1, HIGHEST) & (((entries == 0) & is_empty) | has_some) & ends


def _is_own_listpack() -> Condition:
    size = USER.number(4)
    return size.fits() & _is_listpack(USER) & ((USER + 4).number(2) <= size >> 1)


def _is_node(node: Value) -> Condition:
    """Neighbours, the listpack, its bytes, its entries."""
    pack = node.word(2)
    is_same = (pack.number(4) == node.word(3)) & ((pack + 4).number(2) == (node + 32).number(2))
    return _is_listpack(pack) & is_same


def _is_list(quicklist: Value) -> Condition:
    """The first has none before it, the last none after it."""
    one, other = quicklist.word(), quicklist.word(1)
    are_ends = (one.word() == 0) & (other.word(1) == 0)
    return _is_pointer(one) & _is_pointer(other) & are_ends & _is_node(one) & _is_node(other)


def _is_skip_node() -> Condition:
    """The element, its score, the one before; the next one's third word leads back."""
    element, _, before, after = map(USER.word, range(4))
    is_last = (after == 0) & _is_pointer(before) & (before.word(3) == USER)
    return (is_last | (_is_pointer(after) & (after.word(2) == USER))) & _is_sds(element)
