"""Which local variable of a function a word of a thread's stack or registers is, where that variable holds blocks."""

from __future__ import annotations

from typing import Optional

from ..graph.refs import ImageSearch
from .named_blocks import StartVariable
from .once_per_image import declared_in
from .path_text import start_of


class HoldingLocals:
    """Of one image. Only of a variable from which types lead to the block: what else lies on a stack may be old."""

    def __init__(self, search: ImageSearch) -> None:
        self._search = search
        self._named = declared_in(search)
        self._has_any = self._named is not None and any(each.frame is not None for each in self._named.starts)

    def label(self, block: int, tid: Optional[int], address: Optional[int], value: Optional[int] = None) -> str:
        """Of a pointer of this thread's to the block: "main(): book"; "": it is no such variable's. `address`: where it
        lies, None in a register, of which `value` is told."""
        named = self._named if self._has_any else None
        if named is None or named.name_of(block) is None:
            return ""
        start = start_of(named, block)
        if start is None or start.frame is None or start.tid != tid:
            return ""
        return start.label if self._is_of(start, address, value) else ""

    def _is_of(self, start: StartVariable, address: Optional[int], value: Optional[int]) -> bool:
        memory, named = self._search.session.memory, self._named
        if start.address is not None and named is not None and named.layouts is not None:
            size = named.layouts.types.facts(start.type).size
            return address is not None and start.address <= address < start.address + size
        if address is not None:
            # a caller's registers lie on the stack of what it calls
            value = memory.word(address)
        return value is not None and start.data == value.to_bytes(memory.pointer_size, memory.byte_order)
