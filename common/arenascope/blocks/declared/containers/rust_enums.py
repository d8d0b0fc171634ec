"""Rust's enums: which variant there is tells a number. It has bytes of its own, and is the variant's number; or it lies
where one variant has what cannot have all values (a pointer is never null, no capacity has its highest bit), and the
others are told by what is left."""

from __future__ import annotations

from typing import Iterator, NamedTuple, Optional, Sequence

from ....sources.debug_info_types import TypeFacts
from ..claims import Container, Reader, Types
from .forms import OfValue
from .parts import DEEPEST

CAPACITY = ("Cap", "UsizeNoHighBit")
"""Last parts of the names of numbers that are less than half of all."""
MOST_VARIANTS = 1 << 10


class Tag(NamedTuple):
    """Where the number lies."""

    offset: int
    size: int


class Variants(OfValue):
    """An enum."""

    def __init__(self, tag: Tag, variants: Sequence[int], *, full: Optional[int], first: int) -> None:
        """`variants`: their types. `full`: the one that has something else where the tag is, if there is one; `first`:
        the lowest tag of the others, which go on from there in their order."""
        super().__init__(0, variants)
        self._tag, self._full, self._first = tag, full, first
        self._others = range(len(variants))
        if full is not None:
            others = [number for number in self._others if number != full]
            self._others = range(others[0], others[-1] + 1)

    def which(self, reader: Reader, address: int) -> Optional[int]:
        """The variant's number."""
        value = reader.number(address + self._tag.offset, self._tag.size)
        if value is None:
            return None
        at = value - self._first
        if 0 <= at < len(self._others):
            # what lies between the others in their order has a number, too, but no tag
            return self._others[at] if self._others[at] != self._full else None
        return self._full if value < self._first or not self._first else None


class Leaf(NamedTuple):
    """What a variant has in the place of the tag."""

    type: int
    owner: str
    """The struct that it is a member of."""
    offset: int


def enum(types: Types, type: int, facts: TypeFacts) -> Optional[Container]:
    """None where it is not certain how its variants are told."""
    if facts.tag is None or not 0 < len(facts.fields) <= MOST_VARIANTS or any(each.offset for each in facts.fields):
        return None
    tag = Tag(facts.tag.offset, types.facts(facts.tag.type).size)
    variants = [each.type for each in facts.fields]
    found = {number: list(_at(types, each, tag, DEEPEST)) for number, each in enumerate(variants)}
    full = [number for number, leaves in found.items() if leaves]
    if not full:
        return Variants(tag, variants, full=None, first=0)
    if len(full) > 1 or len(variants) < 2 or len(found[full[0]]) != 1:
        return None
    first = _first(types, found[full[0]][0], tag)
    if first is None or (not first and len(variants) > 2):
        return None
    return Variants(tag, variants, full=full[0], first=first)


def _first(types: Types, leaf: Leaf, tag: Tag) -> Optional[int]:
    """The lowest value that what lies there cannot have; None: it is not known."""
    facts = types.facts(leaf.type)
    if leaf.offset != tag.offset or facts.size != tag.size:
        return None
    if facts.form in ("pointer", "reference"):
        return 0
    is_capacity = facts.form == "integer" and leaf.owner.partition("<")[0].rpartition("::")[2] in CAPACITY
    return 1 << 8 * facts.size - 1 if is_capacity else None


def _at(types: Types, type: int, tag: Tag, deepest: int, offset: int = 0, owner: str = "") -> Iterator[Leaf]:
    """All that has bytes in common with the tag; an enum in it is one thing."""
    facts = types.facts(type)
    if not facts.size or offset >= tag.offset + tag.size or offset + facts.size <= tag.offset:
        return
    if facts.form == "struct" and facts.fields and deepest:
        for each in facts.fields:
            yield from _at(types, each.type, tag, deepest - 1, offset=offset + each.offset, owner=facts.name)
    elif facts.form != "struct":
        yield Leaf(type, owner, offset)
