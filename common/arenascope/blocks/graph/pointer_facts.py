"""What is known of pointers and of the blocks in which they lie, looked up once and before a word of it is written."""

from __future__ import annotations

from typing import Optional, Sequence

from ..declared.claims import member_at
from ..declared.once_per_image import declared_in
from .asked_address import Goal
from .edges import stale_at
from .leaks import types_of
from .pointer_strength import Strength
from .refs import ImageSearch, Ref
from .stale_words import NO_BLOCK


def member_of(type: str, field: str) -> str:
    """ "Session.log"; of an array "Request[3].path"."""
    return f"{type.removesuffix('[]')}{field}" if field[0] == "[" else f"{type}.{field}"


class RefDetails:
    """Of pointers to one goal, or of a way to it."""

    def __init__(self, search: ImageSearch, refs: Sequence[Ref], goal: Optional[Goal]) -> None:
        """What the blocks are in which the pointers lie, and what is asked for."""
        self.blocks, self.names = search.blocks, search.names
        numbers = [*dict.fromkeys(each.block for each in refs if each.block is not None)]
        if goal is not None and goal.number is not None:
            numbers = [goal.number, *numbers]
        self._search = search
        self._header = search.session.layout.header
        self._types = types_of(search, numbers)
        self._strength = Strength(search.session, search.blocks)

    def stale(self, ref: Ref) -> Optional[str]:
        """Why it is stale: one of base/model.py's STALE."""
        if ref.address is None:
            return ref.stale
        return stale_at(self._search, ref.address, ref.block if ref.block is not None else NO_BLOCK)

    def is_sure(self, ref: Ref, goal: Goal) -> bool:
        return self._strength.is_sure(ref, goal)

    def begin_of(self, goal: Goal) -> int:
        """The block's chunk; a mapping's own start."""
        return goal.span.start - (self._header if goal.state != "mapping" else 0)

    def type_of(self, number: Optional[int]) -> Optional[str]:
        kind = self._types.get(number) if number is not None else None
        return kind.name if kind is not None else None

    def is_size(self, number: int) -> bool:
        """Its type says no more than how large it is."""
        return number not in self._types or self._types[number].kind == "size"

    def member(self, ref: Ref) -> Optional[str]:
        """The same with the block's type: "Session.log", "Request[3].path"."""
        named, field = self.type_of(ref.block), self.field(ref)
        if named is None or field is None:
            return None
        return member_of(named, field)

    def field(self, ref: Ref) -> Optional[str]:
        """The member of the block's type in which the pointer lies, where debug information has that type."""
        named, name = declared_in(self._search), self.type_of(ref.block)
        if named is None or named.layouts is None or name is None or ref.block is None or ref.offset is None:
            return None
        types, own = named.layouts.types, named.name_of(ref.block)
        if own is None or own.type is None or own.form not in ("object", "array"):
            # a class that a vtable tells
            whole = types.by_name(name)
            return member_at(types.facts, whole, ref.offset, in_unions=False) or None if whole is not None else None
        facts, within = types.facts, ref.offset - own.front
        if within < 0:
            return None
        if own.form == "object":
            return member_at(facts, own.type, within, in_unions=False) or None
        size = facts(own.type).size
        # what a library's container calls its own has no members
        if not size or not own.text.endswith("[]"):
            return None
        member = member_at(facts, own.type, within % size, in_unions=False) or ""
        return f"[{within // size}]{'.' if member and member[0] != '[' else ''}{member}"
