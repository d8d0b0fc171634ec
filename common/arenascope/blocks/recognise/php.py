"""PHP's (Zend's) structs among malloc's blocks: persistent strings, functions of extensions, tables of arrays.

What a request makes lies in Zend's own memory; what outlives requests is malloc's.
"""

from __future__ import annotations

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
    any_of,
    first,
    holds_in_each,
    holds_in_one,
    value,
)

STRING = Kind("zend_string", "string", how="its type, length and hash")
FUNCTION = Kind("zend_internal_function", "holder", how="its name, its handler and its module")
TABLE = Kind("HashTable buckets", "holder", how="their keys, which have the same hashes")
IS_STRING, TYPE, PERSISTENT = 6, 0xF, 1 << 7
FRONT = 24
"""Bytes of a zend_string in front of its letters."""
LEAST, SLOT, BUCKET = 8, 8, 32
"""Places of the smallest table; bytes of a place among the slots in front, and of a bucket."""
MOST_SLOTS, LOOKED_AT = 64, 16
"""So many halves of places, and buckets."""
EMPTY = 0xFFFFFFFF
LEAST_FUNCTION, MOST_FUNCTION = 104, 192
HANDLERS = (8, 9)
"""Words of a function where its handler has been so far; its module comes next."""


class Php:
    """Zend's structs in one process."""

    def __init__(self, ground: LoadedModules) -> None:
        self._code = ground.page_spans
        self.runs = ground.has("zend_parse_parameters", "php")

    def kinds(self, blocks: Selection) -> Found:
        count, kind, length = USER.number(4), (USER + 4).number(4), USER.word(2)
        is_kept = (USABLE >= FRONT) & (kind & (TYPE | PERSISTENT) == IS_STRING | PERSISTENT) & (count > 0)
        ends = (length + FRONT + 1).fits() & ((USER + FRONT + length).number(1) == 0)
        yield blocks.where(is_kept & ends & ((USER.word(1) == 0) | _has_hash(USER.word(1)))), STRING
        is_called = any_of(USER.word(at).lies_in(self._code) & USER.word(at + 1).lies_in(self._code) for at in HANDLERS)
        is_large = USABLE.between(LEAST_FUNCTION, MOST_FUNCTION)
        yield blocks.where(is_large & (USER.number(1) == 1) & is_called & _is_string(USER.word(1))), FUNCTION
        yield blocks.where(_is_table()), TABLE


def _has_hash(word: Value) -> Condition:
    return word >> 63 == 1


def _is_string(pointer: Value) -> Condition:
    """Wherever it lies."""
    is_pointer = (pointer > 0) & pointer.is_multiple(8)
    return is_pointer & (pointer.word() >> 32 & TYPE == IS_STRING)


def _is_table() -> Condition:
    """Slots have a bucket's number or none; a bucket has its key's hash and the key."""
    places = value(1) << first((value(SLOT + BUCKET) << PLACE).fits(), 40)
    slot = (USER + PLACE * 4).number(4)
    bucket = USER + places * SLOT + PLACE * BUCKET
    hashed, key = bucket.word(2), bucket.word(3)
    is_keyed = (bucket.word(1) & 0xFF > 0) & (key > 0)
    is_right = _has_hash(hashed) & _is_string(key) & (key.word(1) == hashed)
    looked_at = places.least(LOOKED_AT)
    return (
        (USABLE >= LEAST * (SLOT + BUCKET))
        & holds_in_each((slot == EMPTY) | (slot < places), (places * 2).least(MOST_SLOTS))
        & holds_in_one(is_keyed, looked_at)
        & holds_in_each(~is_keyed | is_right, looked_at)
    )
