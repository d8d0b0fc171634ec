"""Perl's values: arenas of their heads and bodies, strings, arrays, hashes and the keys of these.

A head (struct sv) has its body's address, a count of references, flags with the type in the lowest byte, and what it
keeps. Heads lie in arenas, of which the first head says where the next arena is and how many heads there are. Arenas of
bodies are listed, with their sizes, in struct arena_set.
"""

from __future__ import annotations

import struct
from typing import Optional, Sequence

from ...base.model import Kind
from .module_memory import LoadedModules, MemoryPages, fits

HEADS = Kind("Perl SV arena", "holder", how="its first head, and those after it")
ARENAS = Kind("Perl list of body arenas", "holder", how="its counts, and the first arena's size")
BODIES = Kind("Perl body arena", "holder", how="the list of these")
KEY = Kind("Perl shared hash key (HEK)", "string", how="its pointer to itself, and its length")
STRING = Kind("Perl string (PV)", "string", how="the head and body of its SV")
ARRAY = Kind("Perl array (AvARRAY)", "holder", how="the head and body of its AV")
HASH = Kind("Perl hash (HvARRAY)", "holder", how="the head and body of its HV")
HEAD_WORDS, HEAD_BYTES = 3, 24
TYPE, FREED = 0xFF, 0xFF
MOST_TYPES = 18
STRINGS, AV, HV = (3, 5, 6, 7), (11,), (12,)
"""Types of scalars that have a string, since 5.18: PV, PVIV, PVNV, PVMG; of arrays and hashes."""
ENTRY_BYTES, BEFORE_ENTRIES = 24, 16
SHARED = struct.Struct("<QQQIi")
KEY_FRONT, KEY_MORE = 32, 2
"""struct shared_he in front of a key's letters; a zero and flags after them."""


class Perl:
    """The values of one interpreter."""

    holders = (HEADS.name, ARENAS.name)
    apart = False
    past = (0,)

    def __init__(self, ground: LoadedModules) -> None:
        self._ground = ground
        self._words = MemoryPages(ground.memory).words
        self.runs = ground.has("Perl_sv_setsv_flags", "libperl")

    def kind_of(self, user: int, usable: int, head: bytes) -> Optional[Kind]:
        if len(head) < KEY_FRONT:
            return None
        _, second, count, _, length = SHARED.unpack_from(head)
        if second == user + HEAD_BYTES and count and length >= 0 and fits(KEY_FRONT + length + KEY_MORE, usable):
            return KEY
        if fits(second * HEAD_BYTES, usable) and len(head) > 8 * HEAD_BYTES and self._are_heads(head):
            return HEADS
        if fits(BEFORE_ENTRIES + (second & 0xFFFFFFFF) * ENTRY_BYTES, usable) and 0 < second >> 32 < 1 << 16:
            first, size = struct.unpack_from("<2Q", head, BEFORE_ENTRIES)
            return ARENAS if self._block_fits(first, size) else None
        return None

    def kept_by(self, words: Sequence[int], at: int, usable: int) -> Optional[Kind]:
        """What a block of so many bytes is that words[at] points to, of an arena or the list of these."""
        if at % HEAD_WORDS != HEAD_WORDS - 1 or at + 1 >= len(words):
            return None
        if words[1] >> 32:
            return BODIES if fits(words[at + 1], usable) else None
        flags, body = words[at - 1] >> 32, self._words(words[at - 2], 4) or self._ground.words(words[at - 2], 4)
        if body is None or not words[at - 1] & 0xFFFFFFFF:
            return None
        kind, used, room = flags & TYPE, body[2], body[3]
        if kind in STRINGS:
            return STRING if used < room and fits(room, usable) else None
        signed = used if used < 1 << 63 else -1
        if kind in AV and signed <= room and fits((room + 1) * 8, usable):
            return ARRAY
        return HASH if kind in HV and not room & (room + 1) and room < 1 << 32 and usable >= (room + 1) * 8 else None

    def _are_heads(self, head: bytes) -> bool:
        heads = list(struct.iter_unpack("<QIIQ", head[HEAD_BYTES : len(head) // HEAD_BYTES * HEAD_BYTES]))
        kinds = [flags & TYPE for _, _, flags, _ in heads]
        return all(kind < MOST_TYPES or kind == FREED for kind in kinds) and any(flags for _, _, flags, _ in heads)

    def _block_fits(self, user: int, size: int) -> bool:
        header = self._ground.word(user - 8) if user and not user % 16 else None
        return header is not None and fits(size, (header & ~7) - 8)
