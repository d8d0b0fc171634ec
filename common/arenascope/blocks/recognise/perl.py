"""Perl's values: arenas of their heads and bodies, strings, arrays, hashes and the keys of these.

A head (struct sv) has its body's address, a count of references, flags with the type in the lowest byte, and what it
keeps. Heads lie in arenas, of which the first head says where the next arena is and how many heads there are. Arenas of
bodies are listed, with their sizes, in struct arena_set.
"""

from __future__ import annotations

from ...base.heap_model import Kind
from .module_memory import LoadedModules
from .selection import BASE, LOW, PLACE, USABLE, USER, Found, Selection, holds_in_each, holds_in_one

HEADS = Kind("Perl SV arena", "holder", how="its first head, and those after it")
ARENAS = Kind("Perl list of body arenas", "holder", how="its counts, and the first arena's size")
BODIES = Kind("Perl body arena", "holder", how="the list of these")
KEY = Kind("Perl shared hash key (HEK)", "string", how="its pointer to itself, and its length")
STRING = Kind("Perl string (PV)", "string", how="the head and body of its SV")
ARRAY = Kind("Perl array (AvARRAY)", "holder", how="the head and body of its AV")
HASH = Kind("Perl hash (HvARRAY)", "holder", how="the head and body of its HV")
HEAD_BYTES, FLAGS_AT, KEPT_AT = 24, 12, 16
FEWEST, MOST_HEADS = 8, 10
"""So many heads of an arena are looked at."""
TYPE, FREED = 0xFF, 0xFF
MOST_TYPES = 18
STRINGS, AV, HV = (3, 5, 6, 7), 11, 12
"""Types of scalars that have a string, since 5.18: PV, PVIV, PVNV, PVMG; of arrays and hashes."""
ENTRY_BYTES, BEFORE_ENTRIES = 24, 16
KEY_FRONT, KEY_MORE = 32, 2
"""struct shared_he in front of a key's letters; a zero and flags after them."""


class Perl:
    """The values of one interpreter."""

    holders = (HEADS.name, ARENAS.name)
    apart = False
    past = (0,)

    def __init__(self, ground: LoadedModules) -> None:
        self.runs = ground.has("Perl_sv_setsv_flags", "libperl")

    def kinds(self, blocks: Selection) -> Found:
        second, length = USER.word(1), (USER + 28).number(4)
        is_key = (second == USER + HEAD_BYTES) & (USER.word(2) > 0) & (length < 1 << 31)
        yield blocks.where((USABLE >= KEY_FRONT) & is_key & (length + KEY_FRONT + KEY_MORE).fits()), KEY
        flags = (USER + PLACE * HEAD_BYTES + HEAD_BYTES + FLAGS_AT).number(4)
        has_type = (flags & TYPE < MOST_TYPES) | (flags & TYPE == FREED)
        # but for the first one
        heads = second.least(MOST_HEADS) - 1
        are_heads = (second >= FEWEST) & holds_in_each(has_type, heads) & holds_in_one(flags > 0, heads)
        yield blocks.where((second * HEAD_BYTES).fits() & are_heads), HEADS
        is_list = ((second & LOW) * ENTRY_BYTES + BEFORE_ENTRIES).fits() & (second >> 32).between(1, 1 << 16)
        arena = USER.word(2)
        leads = (arena > 0) & arena.is_multiple(16) & USER.word(3).fits(arena.usable())
        yield blocks.where((USABLE >= KEY_FRONT) & is_list & leads), ARENAS

    def kept(self, pointers: Selection) -> Found:
        """What lies in an arena or the list of these."""
        is_kept = (USER - BASE) % HEAD_BYTES == KEPT_AT
        is_listed = is_kept & (BASE.word(1) >> 32 > 0)
        yield pointers.where(is_listed & USER.word(1).fits()), BODIES
        kind, body = USER.word(-1) >> 32 & TYPE, USER.word(-2)
        used, room = body.word(2), body.word(3)
        is_head = is_kept & (BASE.word(1) >> 32 == 0) & (USER.word(-1) & LOW > 0)
        yield pointers.where(is_head & kind.is_in(STRINGS) & (used < room) & room.fits()), STRING
        # that of an empty one is -1
        is_array = (kind == AV) & ((used >> 63 == 1) | (used <= room)) & ((room + 1) * 8).fits()
        yield pointers.where(is_head & is_array), ARRAY
        is_hash = (kind == HV) & (room & room + 1 == 0) & (room < 1 << 32) & ((room + 1) * 8 <= USABLE)
        yield pointers.where(is_head & is_hash), HASH
