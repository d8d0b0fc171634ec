"""Which struct a pointer into a block is to a member of: container_of, as C programs link what they have in lists.

All structs of the program are asked for: only where pointers lead into blocks that nothing else names.
"""

from __future__ import annotations

from typing import Iterable, Optional

from .layouts import TypeTable
from .memory_reader import MemoryReader

DEEPEST = 8
MOST_MEMBERS = 1 << 20


class Enclosing:
    def __init__(self, types: TypeTable, structs: Iterable[int]) -> None:
        self._types = types
        self._by_member: dict[tuple[int, int], list[int]] = {}
        """Structs by the type of a member that is a struct, and where it lies."""
        self._left = MOST_MEMBERS
        for each in structs:
            self._add(each, each, 0, 0)
            if self._left < 0:
                # what is not seen might fit as well
                self._by_member.clear()
                break

    def _add(self, whole: int, type: int, offset: int, depth: int) -> None:
        for field in self._types.facts(type).fields if depth < DEEPEST else ():
            inner = self._types.facts(field.type)
            if inner.form == "struct":
                self._left -= 1
                known = self._by_member.setdefault((field.type, offset + field.offset), [])
                if whole not in known:
                    known.append(whole)
                self._add(whole, field.type, offset + field.offset, depth=depth + 1)

    def only(self, member: int, offset: int, block: int, reader: MemoryReader) -> Optional[int]:
        """The one type that has such a member there, and for which malloc gives such a block."""
        fitting = [
            each
            for each in self._by_member.get((member, offset), ())
            if reader.fits(block, self._types.facts(each).size)
        ]
        return fitting[0] if len(fitting) == 1 else None
