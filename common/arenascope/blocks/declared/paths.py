"""The ways to blocks and to pointers in the program's own words, for commands: with keys where these may be shown."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property
from typing import Callable, NamedTuple, Optional, Sequence

from ...base.printable import UserData
from ..graph.leads import Owner
from ..graph.refs import ImageSearch, Ref
from .claims import member_at
from .named_blocks import ELEMENT, NamedBlocks, StartVariable
from .once_per_image import declared_in, values_in
from .path_text import MOST_STEPS, is_pointed_to, length_of, path_text, start_of, start_text
from .values import Values

ON_A_STACK = ("stack", "register")
INNER = re.compile(r"(_M_|_vptr)")
"""Members of libstdc++'s own, and what a compiler adds: the way to the object says more."""


class WrittenPath(NamedTuple):
    """A way, as it is written."""

    on_screen: str
    in_documents: str


class Paths:
    """Of one image."""

    def __init__(self, search: ImageSearch, user_data: UserData) -> None:
        self._search, self._user_data = search, user_data
        self._left = MOST_STEPS

    @cached_property
    def _named(self) -> Optional[NamedBlocks]:
        return declared_in(self._search)

    def block(self, number: int) -> Optional[WrittenPath]:
        """None where no variable leads there by types."""
        named = self._named
        if named is None or named.name_of(number) is None or start_of(named, number) is None:
            return None
        return self._written(number, lambda values: path_text(named, number, values))

    def way(self, root: Ref, number: int) -> Optional[WrittenPath]:
        """To a block, where types lead there from the same variable, or from one of the same thread's stack."""
        start = start_of(self._named, number) if self._named is not None else None
        if start is None or root.block is not None or not self._is_same(start, root):
            return None
        return self.block(number)

    def held(self, owner: Owner, number: int) -> Optional[WrittenPath]:
        """To a block, where it begins at its main holder."""
        start = start_of(self._named, number) if self._named is not None else None
        return self.block(number) if start is not None and _is_of(start, owner) else None

    def pointer(self, ref: Ref) -> Optional[WrittenPath]:
        """To the pointer itself: the variable, or the member of a block."""
        named = self._named
        if named is None:
            return None
        number, offset = ref.block, ref.offset
        if number is None:
            text = self._variable(ref)
            return WrittenPath(text, text) if text is not None else None
        member = self._member(named, number, offset) if offset is not None else None
        if member is None or start_of(named, number) is None:
            return None

        def written(values: Optional[Values]) -> Optional[str]:
            way = path_text(named, number, values)
            return f"{way}{member}" if way is not None else None

        return self._written(number, written)

    def _written(self, number: int, text: Callable[[Optional[Values]], Optional[str]]) -> Optional[WrittenPath]:
        assert self._named is not None
        self._left -= length_of(self._named, number)
        if self._left < 0:
            return None
        plain = text(None)
        values = values_in(self._search) if self._user_data.anywhere else None
        keyed = text(values) if values is not None else plain
        if plain is None or keyed is None:
            return None
        shown = self._user_data
        return WrittenPath(keyed if shown.on_screen else plain, keyed if shown.in_documents else plain)

    def _is_same(self, start: StartVariable, root: Ref) -> bool:
        if start.frame is not None:
            return root.kind in ON_A_STACK and root.tid == start.tid
        if start.address is None or root.address is None:
            return False
        return start.address <= root.address < start.address + self._size(start)

    def _size(self, start: StartVariable) -> int:
        named = self._named
        return named.layouts.types.facts(start.type).size if named is not None and named.layouts is not None else 0

    @cached_property
    def _starts(self) -> tuple[Sequence[int], Sequence[StartVariable]]:
        """Those that lie in memory, in order, after their addresses."""
        starts = self._named.starts if self._named is not None else ()
        placed = {each.address: each for each in starts if each.address is not None}
        addresses = sorted(placed)
        return addresses, [placed[each] for each in addresses]

    def _variable(self, ref: Ref) -> Optional[str]:
        named = self._named
        if ref.address is None or named is None or named.layouts is None:
            return None
        addresses, starts = self._starts
        at = bisect_right(addresses, ref.address) - 1
        if at < 0:
            return None
        address, start = addresses[at], starts[at]
        if ref.address >= address + self._size(start):
            return None
        member = member_at(named.layouts.types.facts, start.type, ref.address - address) or ""
        dot = "." if member and member[0] != "[" else ""
        return f"{start_text(named, start)}{dot}{member}"

    def _member(self, named: NamedBlocks, number: int, offset: int) -> Optional[str]:
        """As it follows the way to its block; None where no member lies there."""
        name = named.name_of(number)
        if name is None or name.type is None or named.layouts is None or offset < name.front:
            return None
        types = named.layouts.types
        if name.form != "array":
            member = member_at(types.facts, name.type, offset - name.front)
            if member and INNER.match(member):
                return ""
            return f"{'->' if is_pointed_to(named, name) else '.'}{member}" if member else None
        size = types.facts(name.type).size
        element, within = divmod(offset - name.front, size) if size else (named.elements[number], 0)
        member = member_at(types.facts, name.type, within) or ""
        if element >= named.elements[number]:
            return None
        first = named.number[number] if named.steps[named.step[number]].endswith(ELEMENT) else 0
        dot = "." if member and member[0] != "[" else ""
        return f"[{first + element}]{dot}{member}"


def _is_of(start: StartVariable, owner: Owner) -> bool:
    if start.frame is not None:
        return owner.kind in ON_A_STACK and owner.tid == start.tid and owner.name in (start.label, None)
    if start.tid is not None:
        return owner.kind == "tls" and owner.tid == start.tid
    name = start.name.rpartition("::")[2]
    return owner.kind == "global" and re.search(rf"\b{re.escape(name)}\b", owner.name or "") is not None
