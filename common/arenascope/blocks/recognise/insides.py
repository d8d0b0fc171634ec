"""Pointers that lead into a block by design: sqlite's blocks, redis and valkey's sds, PHP's arrays, Rust's hash tables.

What lies in front of the place, or at it, says how large the block is, which proves it.
"""

from __future__ import annotations

from ...sources.memory import Memory
from .sizes import SLACK, fits

SDS = {1: 0, 3: 1, 5: 2, 9: 3, 17: 4}
"""Of an sds header its bytes, the text's type by it."""
BUCKET, SLOTS = 32, 8
"""Bytes of each entry in a PHP array, and of its two places in the table in front."""
PACKED = (16, 32)
"""The same of an array without keys, since 8.2 and before."""
FEWEST = 8
GROUP = 16
"""So many control bytes of a hash table are looked at together, and repeated after its end."""
EMPTY, DELETED = 0xFF, 0x80
LOOKED_AT = 256


def is_by_design(memory: Memory, start: int, usable: int, past: int) -> bool:
    """Whether something that is known to be pointed to `past` its start begins at `start`."""
    return (
        _has_size(memory, start, usable, past)
        or is_sds(memory, start, usable, past)
        or _is_zend_array(memory, start, usable, past)
        or _is_hash_table(memory, start, usable, past)
    )


def _has_size(memory: Memory, start: int, usable: int, past: int) -> bool:
    """How many bytes were asked for stands in front, as in sqlite's blocks and some of MariaDB's."""
    size = memory.try_word(start + past - 8) if past in (8, 16) else None
    return size is not None and fits(past + size, usable)


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


def _is_hash_table(memory: Memory, start: int, usable: int, past: int) -> bool:
    """hashbrown: after the entries a byte for each place, the first of them once more at the end."""
    most = min(past, usable - past - GROUP)
    if past % GROUP or most < 4:
        return False
    return any(
        _has_control(memory, start + past, 1 << bits)
        for bits in range(2, most.bit_length())
        if fits(past + (1 << bits) + GROUP, usable)
    )


def _has_control(memory: Memory, at: int, places: int) -> bool:
    first = memory.try_read(at, min(places, LOOKED_AT)) or b""
    if places < GROUP:
        again = memory.try_read(at, GROUP + places) == first + b"\xff" * (GROUP - places) + first
    else:
        again = memory.try_read(at + places, GROUP) == first[:GROUP]
    return again and EMPTY in first and all(each < DELETED or each in (EMPTY, DELETED) for each in first)
