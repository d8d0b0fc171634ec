"""What is known of pointers and of the blocks in which they lie, looked up once and before a word of it is written."""

from __future__ import annotations

from typing import Optional, Sequence

from ...sources.target import StructInfo
from ..declared.members import member_at
from ..declared.once_per_image import declared_in
from .asked_address import Goal
from .edges import stale_at
from .leak_rows import types_of
from .pointer_strength import Strength
from .refs import Ref, Search
from .stale_words import NO_BLOCK

DEEPEST = 8
"""So far members of members are named."""


def member_of(type: str, field: str) -> str:
    """ "Session.log"; of an array "Request[3].path"."""
    return f"{type.removesuffix('[]')}{field}" if field[0] == "[" else f"{type}.{field}"


class Told:
    """Of pointers to one goal, or of a way to it."""

    def __init__(self, search: Search, refs: Sequence[Ref], goal: Optional[Goal]) -> None:
        """What the blocks are in which the pointers lie, and what is asked for."""
        self.blocks, self.names = search.blocks, search.names
        numbers = [*dict.fromkeys(each.block for each in refs if each.block is not None)]
        if goal is not None and goal.number is not None:
            numbers = [goal.number, *numbers]
        self._search = search
        self._header = search.session.layout.header
        self._target = search.session.target
        self._types = types_of(search, numbers)
        self._strength = Strength(search.session, search.blocks)
        self._structs: dict[str, Optional[StructInfo]] = {}

    def stale(self, ref: Ref) -> Optional[str]:
        """Why it is stale: one of base/block_kinds.py's STALE."""
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
        """The member of the block's class in which the pointer lies, where debug information has that class."""
        name = self.type_of(ref.block)
        if name is None or ref.offset is None:
            return None
        declared = self._declared_field(ref)
        return declared if declared is not None else self._member(name, ref.offset, DEEPEST)

    def _declared_field(self, ref: Ref) -> Optional[str]:
        named = declared_in(self._search)
        own = named.name_of(ref.block) if named is not None and ref.block is not None else None
        if named is None or named.layouts is None or own is None or own.type is None or ref.offset is None:
            return None
        facts, within = named.layouts.types.facts, ref.offset - own.front
        if within < 0 or own.form not in ("object", "array"):
            return None
        if own.form == "object":
            return member_at(facts, own.type, within) or None
        size = facts(own.type).size
        # what a library's container calls its own has no members
        if not size or not own.text.endswith("[]"):
            return None
        member = member_at(facts, own.type, within % size) or ""
        return f"[{within // size}]{'.' if member and member[0] != '[' else ''}{member}"

    def _member(self, name: str, offset: int, deep: int) -> Optional[str]:
        """Of a class, of its own members that are classes, and of what it is derived from: "body.text"."""
        if name not in self._structs:
            self._structs[name] = self._target.struct(name)
        info = self._structs[name]
        # what a library's container is made of tells nobody anything
        if info is None or not deep or name.startswith("std::"):
            return None
        for member, at in info.fields.items():
            if at.offset <= offset < at.offset + at.size:
                inner = self._member(at.type, offset - at.offset, deep - 1) if at.type else None
                return f"{member}.{inner}" if inner else member
        for base in info.bases:
            if base.type and base.offset <= offset < base.offset + base.size:
                inherited = self._member(base.type, offset - base.offset, deep - 1)
                if inherited:
                    return inherited
        return None
