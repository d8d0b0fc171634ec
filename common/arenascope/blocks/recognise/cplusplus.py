"""C++ objects by their vtables, of the Itanium C++ ABI: by RTTI in memory, or by the vtable's symbol.

An object's first word points past two words: how far it lies from the object's own start (0 for a whole object), and
its type_info. That is an object itself, whose class is one of three of the ABI's; after its own vtable's address it has
the mangled name.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Optional

from ...base.class_names import named
from ...base.heap_model import Kind
from ...engine import demangled
from .module_memory import LoadedModules

TYPE_INFOS = (
    b"N10__cxxabiv117__class_type_infoE",
    b"N10__cxxabiv120__si_class_type_infoE",
    b"N10__cxxabiv121__vmi_class_type_infoE",
)
"""The classes that type_infos of classes are of: without bases, with a single one, with several or virtual ones."""
_VTABLE = "vtable for "
_MANGLED = re.compile(rb"\*?[A-Za-z0-9_.$]+")


class VtableClass(NamedTuple):
    """What a vtable says of the object that it is in."""

    name: str
    """Of the whole object's class, with all template arguments."""
    how: str
    top: int
    """How far it is from where this word lies to the object's own start: 0 or less."""


class Classes:
    """The classes of one image."""

    def __init__(self, ground: LoadedModules) -> None:
        self._ground = ground
        self._word = ground.memory.pointer_size
        self._metas: dict[int, bool] = {}

    def of(self, table: int) -> Optional[Kind]:
        """Returns the class of an object that begins with this word; None where it is no whole object's vtable."""
        told = self.vtable_class(table)
        if told is None or told.top:
            return None
        of = named(told.name)
        return Kind(of.name, of.kind, self._ground.module_name(table), how=told.how)

    def vtable_class(self, table: int) -> Optional[VtableClass]:
        """Returns what the vtable with this address says; None where it is no vtable."""
        if table % self._word:
            return None
        before = self._ground.words(table - 2 * self._word, 3)
        half = 1 << (8 * self._word - 1)
        if before is None or 0 < before[0] < half:
            return None
        name, how = self._by_type_info(before[1]), "RTTI"
        if name is None and not before[0] and not before[1]:
            # compiled with -fno-rtti
            symbol = self._ground.target.describe(table)
            if symbol is not None and symbol.offset and symbol.name.startswith(_VTABLE):
                name = symbol.name[len(_VTABLE) :]
            how = "the vtable's symbol"
        return VtableClass(name, how, before[0] - 2 * half if before[0] else 0) if name is not None else None

    def _by_type_info(self, address: int) -> Optional[str]:
        if not address or address % self._word:
            return None
        words = self._ground.words(address, 2)
        if words is None or not self._is_meta(words[0]):
            return None
        return self._name(words[1])

    def _is_meta(self, table: int) -> bool:
        """Tells whether that is the vtable of a class that describes classes."""
        if table not in self._metas:
            meta = self._ground.word(table - self._word) if table and not table % self._word else None
            words = self._ground.words(meta, 2) if meta else None
            self._metas[table] = words is not None and self._ground.string(words[1], 64) in TYPE_INFOS
        return self._metas[table]

    def _name(self, address: int) -> Optional[str]:
        mangled = self._ground.string(address)
        if not mangled or not _MANGLED.fullmatch(mangled):
            return None
        # GCC's mark of a class that no other file knows
        return demangled("_ZTS" + mangled.lstrip(b"*").decode()).partition("typeinfo name for ")[2] or mangled.decode()
