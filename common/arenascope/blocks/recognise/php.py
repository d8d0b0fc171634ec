"""PHP's (Zend's) structs among malloc's blocks: persistent strings, functions of extensions, tables of arrays.

What a request makes lies in Zend's own memory; what outlives requests is malloc's.
"""

from __future__ import annotations

import struct
from typing import Optional

from ...base.model import Kind
from .module_memory import PAGE_SHIFT, LoadedModules, fits

STRING = Kind("zend_string", "string", how="its type, length and hash")
FUNCTION = Kind("zend_internal_function", "holder", how="its name, its handler and its module")
TABLE = Kind("HashTable buckets", "holder", how="their keys, which have the same hashes")
IS_STRING, TYPE, PERSISTENT = 6, 0xF, 1 << 7
FRONT = 24
"""Bytes of a zend_string in front of its letters."""
HASHED = 1 << 63
LEAST, SLOT, BUCKET = 8, 8, 32
"""Places of the smallest table; bytes of a place among the slots in front, and of a bucket."""
LOOKED_AT = 16
"""Buckets."""
EMPTY = 0xFFFFFFFF
LEAST_FUNCTION, MOST_FUNCTION = 104, 192
HANDLERS = (8, 9)
"""Words of a function where its handler has been so far; its module comes next."""


class Php:
    """Zend's structs in one process."""

    def __init__(self, ground: LoadedModules) -> None:
        self._ground = ground
        self.runs = ground.has("zend_parse_parameters", "php")

    def kind_of(self, user: int, usable: int, head: bytes) -> Optional[Kind]:
        if len(head) < FRONT:
            return None
        count, kind, hashed, length = struct.unpack_from("<2I2Q", head)
        if kind & TYPE == IS_STRING and kind & PERSISTENT and count and self._is_string(user, usable, hashed, length):
            return STRING
        if LEAST_FUNCTION <= usable < MOST_FUNCTION and head[0] == 1 and self._is_function(head):
            return FUNCTION
        if usable >= LEAST * (SLOT + BUCKET) and self._is_table(user, usable, head):
            return TABLE
        return None

    def _is_string(self, user: int, usable: int, hashed: int, length: int) -> bool:
        if not fits(FRONT + length + 1, usable) or not (not hashed or hashed & HASHED):
            return False
        return self._ground.memory.try_read(user + FRONT + length, 1) == b"\0"

    def _is_function(self, head: bytes) -> bool:
        words = struct.unpack_from(f"<{len(head) // 8}Q", head)
        pages = self._ground.pages
        if not any(words[at] >> PAGE_SHIFT in pages and words[at + 1] >> PAGE_SHIFT in pages for at in HANDLERS):
            return False
        return self._hash_of(words[1]) is not None

    def _hash_of(self, string: int) -> Optional[int]:
        """Of a string, wherever it lies."""
        words = self._ground.words(string, 2) if string and not string % 8 else None
        return words[1] if words is not None and words[0] >> 32 & TYPE == IS_STRING else None

    def _is_table(self, user: int, usable: int, head: bytes) -> bool:
        """Slots have a bucket's number or none; a bucket has its key's hash and the key."""
        places = 1 << (usable // (SLOT + BUCKET)).bit_length() - 1
        if not fits(places * (SLOT + BUCKET), usable):
            return False
        slots = memoryview(head[: min(len(head), places * SLOT) // 4 * 4]).cast("I")
        if any(slot != EMPTY and slot >= places for slot in slots):
            return False
        data = self._ground.memory.try_read(user + places * SLOT, min(places, LOOKED_AT) * BUCKET) or b""
        used = [(hashed, key) for _, kind, hashed, key in struct.iter_unpack("<4Q", data) if kind & 0xFF]
        keyed = [(hashed, key) for hashed, key in used if key]
        return len(keyed) > 0 and all(hashed & HASHED and self._hash_of(key) == hashed for hashed, key in keyed)
