"""What the containers of all libraries are made of, by debug information: members, template arguments, nodes."""

from __future__ import annotations

from typing import NamedTuple, Optional, Sequence

from ....sources.debug_info_types import StructField, TypeFacts
from ..claims import ARRAY, CONTAINER, EXACT, Claim, Reader, Types

DEEPEST = 24
"""So deep members are looked for: bases of bases, members of members."""


class PlacedMember(NamedTuple):
    """A member, or a member of members, and where it is in the whole."""

    offset: int
    type: int


class Table(NamedTuple):
    """An array of pointers to nodes or buffers: the type of one, and what the array is called."""

    type: int
    name: str


def find(types: Types, type: int, path: str) -> Optional[PlacedMember]:
    """A member of a member: "_M_impl._M_start". Each may be a base's, at any depth."""
    found = PlacedMember(0, type)
    for name in path.split("."):
        inner = _member(types, found.type, name, DEEPEST)
        if inner is None:
            return None
        found = PlacedMember(found.offset + inner.offset, inner.type)
    return found


def _member(types: Types, type: int, name: str, deepest: int) -> Optional[PlacedMember]:
    if not deepest:
        return None
    fields = types.facts(type).fields
    for field in fields:
        if field.name == name and not field.is_base:
            return PlacedMember(field.offset, field.type)
    for field in fields:
        # a base's members, and an anonymous union's
        if field.is_base or not field.name:
            inner = _member(types, field.type, name, deepest - 1)
            if inner is not None:
                return PlacedMember(field.offset + inner.offset, inner.type)
    return None


def inside(types: Types, type: int, name: str, deepest: int = DEEPEST) -> Optional[PlacedMember]:
    """The first member of a member whose type's name begins so, or the type itself."""
    facts = types.facts(type)
    if facts.name.startswith(name):
        return PlacedMember(0, type)
    for field in facts.fields if deepest else ():
        inner = inside(types, field.type, name, deepest - 1)
        if inner is not None:
            return PlacedMember(field.offset + inner.offset, inner.type)
    return None


def argument(types: Types, facts: TypeFacts, number: int) -> Optional[int]:
    """The type that is a template's argument, where it is complete."""
    if number >= len(facts.arguments):
        return None
    type = facts.arguments[number].type
    return type if type is not None and types.facts(type).size else None


def known(*members: Optional[PlacedMember]) -> Optional[list[int]]:
    """Where all of them lie."""
    offsets = [each.offset for each in members if each is not None]
    return offsets if len(offsets) == len(members) else None


def words_at(reader: Reader, address: int, places: Sequence[int]) -> Optional[list[int]]:
    """The words at these places of an object; None where one of them cannot be read."""
    words = [word for place in places if (word := reader.word(address + place)) is not None]
    return words if len(words) == len(places) else None


def alignment(types: Types, type: int, word: int, deepest: int = DEEPEST) -> int:
    """As far as the members tell: `alignas` is not in debug information's facts."""
    facts = types.facts(type)
    if facts.form in ("struct", "union") and facts.fields and deepest:
        return max(alignment(types, each.type, word, deepest - 1) for each in facts.fields)
    if facts.form == "array" and facts.target is not None and deepest:
        return alignment(types, facts.target, word, deepest - 1)
    whole = facts.size & -facts.size or 1
    # what has no members that we see has bit-fields
    return min(whole, word if facts.form in ("struct", "union") else 2 * word)


def rounded(size: int, to: int) -> int:
    return -(-size // to) * to


def link(types: Types) -> int:
    """A pointer from node to node. What it leads to the container tells, not its type."""
    return types.pointer_to(types.made_up("node", 0, ()))


def links(types: Types, names: Sequence[str], word: int, start: int = 0) -> list[StructField]:
    pointer = link(types)
    return [StructField(name, start + number * word, pointer) for number, name in enumerate(names)]


def table_of_links(types: Types, name: str, word: int) -> Table:
    return Table(types.made_up(name, word, links(types, ("",), word)), name)


class Object(NamedTuple):
    """What a pointer that owns leads to: one object, of this type or one derived from it, or an array."""

    type: int
    size: int
    front: Optional[int] = None
    """Of an array: so many bytes lie before it, where their number does (for `delete[]`)."""

    def claims(self, reader: Reader, address: int) -> Optional[Sequence[Claim]]:
        if not address:
            return ()
        if self.front is None:
            return (Claim(address, self.type, EXACT, ""),)
        usable = reader.usable(address)
        if usable is not None:
            # as many as there is room for
            count = usable // self.size
            return (Claim(address, self.type, ARRAY, "", elements=count, number=0),) if count else None
        noted = reader.word(address - reader.word_size)
        if not noted or not reader.holds(address - self.front, self.front + noted * self.size):
            return None
        return (Claim(address - self.front, self.type, CONTAINER, "", elements=noted, number=0, front=self.front),)


def object_of(types: Types, pointer: int, array: bool) -> Optional[Object]:
    facts = types.facts(pointer)
    if facts.form != "pointer" or facts.target is None or not types.facts(facts.target).size:
        return None
    front = max(facts.size, alignment(types, facts.target, facts.size)) if array else None
    return Object(facts.target, types.facts(facts.target).size, front)
