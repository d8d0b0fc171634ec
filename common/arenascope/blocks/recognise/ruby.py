"""Ruby's values (3.0 to 3.2 and their like): what strings, arrays, objects and hashes keep beside their slots.

Slots lie in pages that Ruby maps by itself. A slot begins with flags, the type in the lowest five bits, and its class,
which is such a slot itself. Hashes of more than eight keys are tables (st_table), which say how large their two arrays
are.
"""

from __future__ import annotations

from ...base.heap_model import Kind
from .module_memory import LoadedModules
from .selection import BASE, USER, Condition, Found, Selection, Value, any_of, value

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
TO_BINS, TO_ENTRIES = 24, 48
MOST_POWER = 40


class Ruby:
    """The values of one interpreter."""

    holders = (TABLE.name,)
    apart = True
    past = (0,)

    def __init__(self, ground: LoadedModules) -> None:
        self._code = ground.page_spans
        self.runs = ground.has("rb_str_new", "libruby")

    def kinds(self, blocks: Selection) -> Found:
        power, bins, width = ((USER + at).number(1) for at in range(3))
        type_, count, first, bound, entries = (USER.word(place) for place in (1, 2, 4, 5, 6))
        is_sound = (power < MOST_POWER) & (bins <= power + 1) & (width < 4) & type_.lies_in(self._code)
        has_room = (count <= bound - first) & (bound - first <= value(1) << power)
        leads = (entries > 0) & entries.is_multiple(16) & (value(ENTRY) << power).fits(entries.usable())
        yield blocks.where(value(TABLE_BYTES).fits() & is_sound & has_room & leads), TABLE

    def kept(self, pointers: Selection) -> Found:
        """What lies in a slot or in a table."""
        power, bins, width = ((BASE + at).number(1) for at in range(3))
        yield pointers.where((USER - BASE == TO_ENTRIES) & (value(ENTRY) << power).fits()), ENTRIES
        yield pointers.where((USER - BASE == TO_BINS) & (value(1) << bins + width).fits()), BINS
        before, after, flags = USER.word(-1), USER.word(1), USER.word(-3)
        is_text = (before <= after) & any_of((after + more).fits() for more in (1, 2, 4))
        is_slot = (BASE == 0) & _is_class(USER.word(-2))
        yield pointers.where(is_slot & (flags & (TYPE | FIRST | SHARED) == T_STRING | FIRST) & is_text), STRING
        fills = (before < 1 << 32) & (before * 8).fits()
        yield pointers.where(is_slot & (flags & (TYPE | FIRST) == T_OBJECT) & fills), OBJECT
        is_array = (USER.word(-4) & (TYPE | FIRST | SHARED) == T_ARRAY) & (USER.word(-2) <= before)
        yield pointers.where((BASE == 0) & is_array & _is_class(USER.word(-3)) & (before * 8).fits()), ARRAY


def _is_class(slot: Value) -> Condition:
    return (slot > 0) & slot.is_multiple(8) & (slot.word() & TYPE).is_in(CLASSES)
