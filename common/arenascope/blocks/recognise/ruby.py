"""Ruby's values (3.0 to 3.2 and their like): what strings, arrays, objects and hashes keep beside their slots.

Slots lie in pages that Ruby maps by itself. A slot begins with flags, the type in the lowest five bits, and its class,
which is such a slot itself. Hashes of more than eight keys are tables (st_table), which say how large their two arrays
are.
"""

from __future__ import annotations

import struct
from typing import Optional, Sequence

from ...base.model import Kind
from .module_memory import PAGE_SHIFT, LoadedModules, fits

TABLE = Kind("st_table", "holder", how="its type, and its entries' size")
ENTRIES = Kind("st_table entries", "holder", how="its table's own words")
BINS = Kind("st_table bins", "holder", how="its table's own words")
STRING = Kind("Ruby String text", "string", how="the words of its RString")
ARRAY = Kind("Ruby Array elements", "holder", how="the words of its RArray")
OBJECT = Kind("Ruby object's variables", "holder", how="the words of its RObject")
TYPE, CLASSES = 0x1F, (2, 3, 0x1C)
"""The lowest bits of flags; T_CLASS, T_MODULE, T_ICLASS."""
T_OBJECT, T_STRING, T_ARRAY = 1, 5, 7
FIRST = 1 << 13
"""FL_USER1: a string that is not in its slot, an array or object that is."""
SHARED = 1 << 14
"""FL_USER2: another has the text, or the elements."""
ENTRY, TABLE_BYTES = 24, 56
_TABLE = struct.Struct("<4BI6Q")
MOST_POWER = 40


class Ruby:
    """The values of one interpreter."""

    holders = (TABLE.name,)
    apart = True
    past = (0,)

    def __init__(self, ground: LoadedModules) -> None:
        self._ground = ground
        self._classes: dict[int, bool] = {}
        self.runs = ground.has("rb_str_new", "libruby")

    def kind_of(self, user: int, usable: int, head: bytes) -> Optional[Kind]:
        if len(head) < TABLE_BYTES or not fits(TABLE_BYTES, usable):
            return None
        power, bins, width, _, _, type_, count, _, first, bound, entries = _TABLE.unpack_from(head)
        if not (power < MOST_POWER and bins <= power + 1 and width < 4 and type_ >> PAGE_SHIFT in self._ground.pages):
            return None
        if not count <= bound - first <= 1 << power or not entries or entries % 16:
            return None
        size = self._ground.word(entries - 8)
        return TABLE if size is not None and fits(ENTRY << power, (size & ~7) - 8) else None

    def kept_by(self, words: Sequence[int], at: int, usable: int) -> Optional[Kind]:
        """What a block of so many bytes is that words[at] points to, which lies in a slot or in a table."""
        if len(words) * 8 <= TABLE_BYTES + 32:
            power, bins, width = (words[0] >> shift & 0xFF for shift in (0, 8, 16))
            if at == 6 and fits(ENTRY << power, usable):
                return ENTRIES
            return BINS if at == 3 and fits(1 << bins + width, usable) else None
        if at < 4 or at + 1 >= len(words):
            return None
        before, after = words[at - 1], words[at + 1]
        flags = words[at - 3]
        if flags & TYPE == T_STRING and flags & FIRST and not flags & SHARED and self._is_class(words[at - 2]):
            return STRING if before <= after and any(fits(after + more, usable) for more in (1, 2, 4)) else None
        if flags & TYPE == T_OBJECT and not flags & FIRST and self._is_class(words[at - 2]):
            return OBJECT if before < 1 << 32 and fits(before * 8, usable) else None
        flags = words[at - 4]
        if flags & TYPE == T_ARRAY and not flags & (FIRST | SHARED) and self._is_class(words[at - 3]):
            return ARRAY if words[at - 2] <= before and fits(before * 8, usable) else None
        return None

    def _is_class(self, slot: int) -> bool:
        if slot not in self._classes:
            flags = self._ground.word(slot) if slot and not slot % 8 else None
            self._classes[slot] = flags is not None and flags & TYPE in CLASSES
        return self._classes[slot]
