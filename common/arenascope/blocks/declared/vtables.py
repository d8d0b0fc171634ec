"""Objects by their vtables, with the types that debug information has of their classes."""

from __future__ import annotations

from typing import NamedTuple, Optional

from ..recognise.module_memory import PAGE_SHIFT
from .containers import libcxx, libstdcxx_pointers
from .layouts import FlatType, TypeTable
from .memory_reader import MemoryReader

HIDING = (libstdcxx_pointers.INSIDE, f"std::__1::{libcxx.INSIDE}")
"""Templates of classes."""


class DynamicClass(NamedTuple):
    """What a vtable tells."""

    top: int
    type: int
    size: int
    hides_object: bool
    """Debug information has the object in it as bytes: a control block of make_shared. Its container tells more."""


class Vtables:
    """The classes of one image, by the words with which their objects begin."""

    def __init__(self, reader: MemoryReader, types: TypeTable, pages: set[int]) -> None:
        """`pages`: the numbers of those that modules have."""
        self._reader, self._types, self._pages = reader, types, pages
        self._known: dict[int, Optional[DynamicClass]] = {}

    def dynamic(self, value: int, static: FlatType) -> Optional[tuple[DynamicClass, int]]:
        """The class of an object by its vtable, and the block that it is in from its start on."""
        table = self._reader.word(value)
        of = self.class_of(table, static) if table else None
        if of is None:
            return None
        block = self._reader.at(value + of.top)
        return (of, block) if block >= 0 and self._reader.fits(block, of.size, self._reader.slack) else None

    def class_of(self, table: int, static: Optional[FlatType] = None) -> Optional[DynamicClass]:
        """`static`: what a pointer to the object says, where the class may have no name that can be found."""
        if table >> PAGE_SHIFT not in self._pages:
            return None
        known = self._known.get(table)
        if known is None and (table not in self._known or static is not None):
            self._known[table] = known = self._class(table, static)
        return known

    def _class(self, table: int, static: Optional[FlatType]) -> Optional[DynamicClass]:
        told = self._reader.classes.vtable_class(table)
        if told is None:
            return None
        type = self._types.by_name(told.name)
        if type is None and static is not None and static.name == told.name:
            type = static.type
        size = self._types.facts(type).size if type is not None else 0
        if type is None or not size:
            return None
        return DynamicClass(told.top, type, size, told.name.partition("<")[0] in HIDING)
