"""redis and valkey: robj, sds, dict and dictEntry, quicklist, listpack, skip lists.

Each struct is known by what it points to, read there: an sds says its length and room and ends in a zero, a listpack
its bytes and ends in 0xff, neighbours point back. Strings so short that C strings have their form are left out.
"""

from __future__ import annotations

import struct
from typing import Optional

from ...base.model import Kind
from ..pointer_finder import is_sds
from .contents import PLAIN
from .module_memory import PAGE_SHIFT, LoadedModules, fits

HOW = "its struct's words, and what they point to"
NAMES = ("sds", "robj", "dict", "dictEntry", "dict table", "quicklist", "quicklistNode", "listpack", "zskiplistNode")
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
HEADERS = {1: ("<BBB", 3), 2: ("<HHB", 5), 3: ("<IIB", 9), 4: ("<QQB", 17)}
"""Length, room and type in front of a text."""
LARGE, LEAST_LARGE = ((5, 2), (9, 3)), 256
"""Headers of long texts, and kinds: in a smaller block they are other numbers."""
LONGEST = 1 << 40
LOWEST, HIGHEST = 1 << 16, 1 << 57
"""No process of 64 bits has memory beyond: letters are not read as addresses."""
LISTPACK_HEADER = 6
ENTRY, NODE = 24, 40
"""What malloc makes of a dictEntry and a quicklistNode."""
TABLE_LOOKED_AT, ENTRIES = 512, 8


class Redis:
    """The structs of one process."""

    def __init__(self, ground: LoadedModules) -> None:
        self._memory = ground.memory
        self._pages = ground.pages
        program = ground.modules.program
        found = ground.modules.exported(program, ("sdsnewlen", *DICT_TYPES)) if program is not None else {}
        self.runs = "sdsnewlen" in found
        self._dict_types = {found[name] for name in DICT_TYPES if name in found}

    def kind_of(self, user: int, usable: int, head: bytes) -> Optional[Kind]:
        name = self._name(user, usable, head) if usable >= ENTRY else None
        return KINDS[name] if name is not None else None

    def _name(self, user: int, usable: int, head: bytes) -> Optional[str]:
        first, second, third = struct.unpack_from("<3Q", head)
        if not first:
            return "dict table" if self._is_table(user, usable) else None
        may_be_sds = head[2] == 1 or head[4] == 2 or head[8] == 3 or head[0] >= 0x80
        if may_be_sds and self._is_own_sds(user, usable, head):
            return "sds"
        if self._is_object(user, first, second) and usable < 16 * ENTRY:
            return "robj"
        if first in self._dict_types and usable >= 52:
            return "dict" if self._is_dict(head) else None
        if usable == ENTRY and self._is_entry(first, second) and (not third or self._entry_at(third)):
            return "dictEntry"
        if usable == NODE and self._is_node(head):
            return "quicklistNode"
        if usable == NODE and self._is_list(first, second):
            return "quicklist"
        if self._is_listpack(user, usable, head):
            return "listpack"
        if usable >= NODE and self._is_skip_node(user, head):
            return "zskiplistNode"
        return "dict table" if self._is_table(user, usable) else None

    def _words(self, address: int, count: int) -> Optional[tuple[int, ...]]:
        return self._memory.try_words(address, count) if address and not address % 8 else None

    def _is_own_sds(self, user: int, usable: int, head: bytes) -> bool:
        large = usable >= LEAST_LARGE and any(head[past - 1] == kind for past, kind in LARGE)
        if large and any(is_sds(self._memory, user, usable, past) for past, _ in LARGE):
            return True
        if head[2] == 1 and is_sds(self._memory, user, usable, 3):
            length, start = head[0], 3
        elif head[0] >= 0x80 and is_sds(self._memory, user, usable, 1):
            length, start = head[0] >> 3, 1
        else:
            return False
        return length > 3 and not head[start : start + length].translate(None, PLAIN)

    def _is_sds(self, text: int) -> bool:
        """Whether a text with such a header in front begins there."""
        front = self._memory.try_read(text - 17, 17) if LOWEST < text < HIGHEST else None
        if front is None:
            return False
        kind = front[-1]
        if kind in HEADERS:
            form, size = HEADERS[kind]
            length, room, _ = struct.unpack(form, front[-size:])
        elif kind & 7 == 0 and kind:
            length = room = kind >> 3
        else:
            return False
        return length <= room < LONGEST and self._memory.try_read(text + length, 1) == b"\0"

    def _is_object(self, user: int, first: int, pointer: int) -> bool:
        """Type and encoding in a byte, when it was used, how many refer to it, what it is."""
        kind, encoding, references = first & 15, first >> 4 & 15, first >> 32
        if kind >= MOST_TYPES or not (0 < references < MOST_REFERENCES or references == SHARED):
            return False
        if kind == 0 and encoding == EMBEDDED:
            return pointer == user + 19 and self._is_sds(pointer)
        if kind == 0 and encoding == RAW:
            return self._is_sds(pointer)
        if kind == 0 and encoding == INT:
            return references == SHARED and pointer < SHARED_NUMBERS
        if encoding == HASHTABLE:
            return self._points_to_dict(pointer)
        if encoding == SKIPLIST:
            words = self._words(pointer, 1)
            return words is not None and self._points_to_dict(words[0])
        if encoding == QUICKLIST:
            words = self._words(pointer, 2)
            return words is not None and self._is_list(*words)
        return kind > 0 and encoding == LISTPACK and self._bytes_of_listpack(pointer) is not None

    def _points_to_dict(self, pointer: int) -> bool:
        words = self._words(pointer, 1)
        return words is not None and words[0] in self._dict_types

    def _is_dict(self, head: bytes) -> bool:
        """Two tables, how many are in each, where rehashing is, the logarithms of their sizes."""
        tables, used = struct.unpack_from("<2Q", head, 8), struct.unpack_from("<2Q", head, 24)
        (rehashed,) = struct.unpack_from("<q", head, 40)
        sizes = struct.unpack_from("<2b", head, 50)
        fit = all((not table) == (size == -1) and -1 <= size < 48 for table, size in zip(tables, sizes))
        return fit and rehashed >= -1 and max(used) < LONGEST

    def _is_entry(self, key: int, value: int) -> bool:
        if not self._is_sds(key):
            return False
        words = self._words(value, 2)
        return words is not None and (value >> PAGE_SHIFT in self._pages or self._is_object(value, *words))

    def _entry_at(self, entry: int) -> bool:
        words = self._words(entry, 2)
        return words is not None and self._is_entry(*words)

    def _is_table(self, user: int, usable: int) -> bool:
        size = 1 << usable.bit_length() - 1
        if size < 32 or not fits(size, usable):
            return False
        for place in (0, size // 2):
            words = self._words(user + place, min(size // 2, TABLE_LOOKED_AT) // 8)
            entries = [each for each in words or () if each]
            if entries:
                return all(map(self._entry_at, entries[:ENTRIES]))
        return False

    def _bytes_of_listpack(self, pack: int) -> Optional[tuple[int, int]]:
        """How many bytes it has, and entries."""
        header = self._memory.try_read(pack, LISTPACK_HEADER) if LOWEST < pack < HIGHEST else None
        if header is None:
            return None
        size, entries = struct.unpack("<IH", header)
        if size <= LISTPACK_HEADER or (entries == 0) != (size == LISTPACK_HEADER + 1):
            return None
        return (size, entries) if self._memory.try_read(pack + size - 1, 1) == b"\xff" else None

    def _is_listpack(self, user: int, usable: int, head: bytes) -> bool:
        (size,) = struct.unpack_from("<I", head)
        if not fits(size, usable):
            return False
        found = self._bytes_of_listpack(user)
        return found is not None and found[1] <= found[0] // 2

    def _is_node(self, head: bytes) -> bool:
        """Neighbours, the listpack, its bytes, its entries."""
        _, _, pack, size = struct.unpack_from("<4Q", head)
        return self._bytes_of_listpack(pack) == (size, int.from_bytes(head[32:34], "little"))

    def _is_list(self, first: int, last: int) -> bool:
        """The first has none before it, the last none after it."""
        one, other = self._words(first, NODE // 8), self._words(last, NODE // 8)
        return (
            one is not None
            and other is not None
            and not one[0]
            and not other[1]
            and self._is_node(struct.pack("<5Q", *one))
            and self._is_node(struct.pack("<5Q", *other))
        )

    def _is_skip_node(self, user: int, head: bytes) -> bool:
        """The element, its score, the one before; the next one's third word leads back."""
        element, _, before, after = struct.unpack_from("<4Q", head)
        near = self._words(after, 3) if after else None
        back = near is not None and near[2] == user
        if not after:
            words = self._words(before, 4)
            back = words is not None and words[3] == user
        return back and self._is_sds(element)
