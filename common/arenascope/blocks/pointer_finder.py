"""Blocks that are known to be pointed to past their starts: whose program has words of its own in front, or hands out
pieces of them."""

from __future__ import annotations

from ..sources.memory import Memory
from .recognise.containers import is_table
from .recognise.module_memory import SLACK, fits

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
