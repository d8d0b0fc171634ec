"""The members of types that have values, by their names, and how the engine reads each."""

from __future__ import annotations

import re
from itertools import islice
from typing import Iterator, NamedTuple, Optional, Sequence

from ...engine import TypesQuestion
from ...sources.type_source import BitField, TypeFacts
from .contents import Contents
from .type_table import DEEPEST
from .values import POINTERS, VTABLE, Values, template, view_of

MOST_MEMBERS = 256
"""Members of one type that have a column."""
MOST_PLACES = 1 << 12
"""Objects of a type in a block of another one."""
SCALARS = ("integer", "boolean", "enum", "character", "float")
PLAIN = ("std::pair", "std::tuple", "std::_Tuple_impl", "std::_Head_base", "std::atomic", "std::__atomic_base")
"""Of the library's own structs these are taken apart: what else they are made of tells nobody anything."""
RUST_STRING = "alloc::string::String"
UNSIGNED, SIGNED, FLOAT, BITS, SIGNED_BITS, CHARACTERS, ARRAY, CONTENTS, VARIANT, FLEXIBLE, VIEW = range(11)
"""How the engine reads a member: as MemberForm in engine/src/types/tracer/values.rs."""
STEP = re.compile(r"\.?([A-Za-z_$][\w$]*|\d+)|\[(\d+)\]")


class MemberPlace(NamedTuple):
    name: str
    """"peer.port"; "" for what is a number itself."""
    offset: int
    type: int
    bits: Optional[BitField] = None
    """Of the struct of that type, where it is no member of whole bytes."""
    holder: Optional[MemberPlace] = None
    """Of an array of unknown length: the struct that ends in it."""

    def inner(self, step: str) -> str:
        """The name of a member of it."""
        return f"{self.name}.{step}" if self.name and step else self.name or step


class MemberReading(NamedTuple):
    """How the engine reads a member."""

    form: int
    """UNSIGNED or one of those after it."""
    offset: int
    size: int
    splits: bool = False
    """Whether it may keep objects apart."""
    first: int = 0
    """A type; of bits the first one; of a view how far its length is from the object."""
    second: int = 0
    """How many bits; bytes of a view's letter."""

    def put(self, question: TypesQuestion) -> None:
        question.put(*self)


class TypeMembers:
    """Of the types of one image."""

    def __init__(self, contents: Contents, values: Values) -> None:
        self.contents, self.types, self._values = contents, contents.types, values

    def of(self, type: int) -> list[MemberPlace]:
        """The members with a value, in the order in which they lie there."""
        found = islice(self._members(type, MemberPlace("", 0, type), 0), MOST_MEMBERS)
        return sorted(found, key=lambda each: each.offset)

    def _members(self, type: int, at: MemberPlace, depth: int) -> Iterator[MemberPlace]:
        facts = self.types.facts(type)
        if self._has_value(type, facts):
            yield at._replace(type=type)
        elif facts.form == "struct" and depth < DEEPEST and (type < 0 or _is_plain(facts)):
            for bits in facts.bits:
                yield MemberPlace(at.inner(bits.name), at.offset + bits.offset // 8, type, bits)
            # compilers add the pointer to a vtable, which LLDB does not have among the members
            for each in (field for field in facts.fields if not field.name.startswith(VTABLE)):
                step = "" if each.is_base or each.name.startswith("_M_") else each.name
                inner = MemberPlace(at.inner(step), at.offset + each.offset, each.type)
                # a node's links and a control block's counts are no values of the program's
                if type >= 0 or facts.language or not each.name:
                    yield from self._members(each.type, inner, depth + 1)

    def _has_value(self, type: int, facts: TypeFacts) -> bool:
        if facts.form == "struct":
            return (
                self.contents.nature(type).is_container
                or facts.name == RUST_STRING
                or view_of(self.types, facts) is not None
            )
        return facts.form in (*SCALARS, "pointer", "reference") or self._is_text(facts) or facts.tag is not None

    def _is_text(self, facts: TypeFacts) -> bool:
        return facts.form == "array" and facts.target is not None and self._values.is_letter(facts.target)

    def form(self, place: MemberPlace) -> str:
        """As Value has it; "text" for a pointer to characters, too."""
        facts = self.types.facts(place.type)
        if place.bits is not None:
            return "boolean" if place.bits.size == 1 else "integer"
        if self._is_text(facts) or (facts.form == "pointer" and self._values.is_letter(facts.target)):
            return "text"
        if facts.form == "struct" and template(facts.name) in POINTERS:
            return "pointer"
        if facts.form in ("struct", "array"):
            return "text" if view_of(self.types, facts) else "elements"
        if facts.form == "union":
            return "enum"
        return "pointer" if facts.form == "reference" else facts.form

    def enumerators(self, place: MemberPlace) -> dict[str, int]:
        """The names of a member's values, without what they lie in."""
        facts = self.types.facts(place.type)
        if facts.tag is not None:
            return {each.name: number for number, each in enumerate(facts.fields)}
        return {name.rpartition("::")[2]: value for name, value in facts.enumerators.items()}

    def reading(self, place: MemberPlace) -> MemberReading:
        facts, bits, at = self.types.facts(place.type), place.bits, place.offset
        if bits is not None:
            form = SIGNED_BITS if bits.signed else BITS
            return MemberReading(form, at, 0, splits=True, first=bits.offset % 8, second=bits.size)
        if place.holder is not None:
            return MemberReading(FLEXIBLE, place.holder.offset, 0, first=place.holder.type)
        if facts.form == "float":
            return MemberReading(FLOAT, at, facts.size)
        if facts.form == "array":
            return MemberReading(ARRAY, at, facts.length or 0)
        if facts.form == "pointer" and self._values.is_letter(facts.target):
            return MemberReading(CHARACTERS, at, facts.size)
        if facts.form == "union":
            return MemberReading(VARIANT, at, facts.size, splits=True, first=place.type)
        if facts.form == "struct":
            return self._of_struct(place, facts)
        return MemberReading(SIGNED if facts.signed else UNSIGNED, at, facts.size, splits=facts.form in SCALARS)

    def _of_struct(self, place: MemberPlace, facts: TypeFacts) -> MemberReading:
        if template(facts.name) in POINTERS:
            return MemberReading(UNSIGNED, place.offset, self._values.reader.word_size)
        view = view_of(self.types, facts)
        if view is None:
            return MemberReading(CONTENTS, place.offset, facts.size, first=place.type)
        start, length = place.offset + view.start, place.offset + view.length
        return MemberReading(VIEW, start, 0, first=length, second=view.size or 1)

    def called(self, type: int, name: str) -> Optional[MemberPlace]:
        """A member by its name: "fd", "peer.port", "slots[3].used", "0" for the first of a tuple of Rust's."""
        at, place = 0, MemberPlace("", 0, type)
        while at < len(name):
            step = STEP.match(name, at)
            found = self._step(place, step) if step is not None else None
            if step is None or found is None:
                return None
            at, place = step.end(), found
        facts = self.types.facts(place.type)
        is_known = place.bits is not None or place.holder is not None or self._has_value(place.type, facts)
        return place._replace(name=name) if is_known else None

    def _step(self, place: MemberPlace, step: re.Match[str]) -> Optional[MemberPlace]:
        facts = self.types.facts(place.type)
        if place.bits is not None or (facts.form == "struct" and self.contents.nature(place.type).is_container):
            return None
        if step[2] is None:
            name = f"__{step[1]}" if step[1].isdigit() else step[1]
            return self._member(place, facts, name, 0) if facts.form in ("struct", "union") else None
        number, size = int(step[2]), self.types.facts(facts.target).size if facts.target is not None else 0
        if facts.form != "array" or facts.target is None or not size or number >= (facts.length or 0):
            return None
        return MemberPlace("", place.offset + number * size, facts.target)

    def _member(self, place: MemberPlace, facts: TypeFacts, name: str, depth: int) -> Optional[MemberPlace]:
        """Of a struct or one of its bases; what a library's own member has counts as the struct's."""
        for bits in facts.bits:
            if bits.name == name:
                return MemberPlace("", place.offset + bits.offset // 8, place.type, bits)
        for each in facts.fields:
            if each.name == name and not each.is_base:
                inner = self.types.facts(each.type)
                is_open = inner.form == "array" and not inner.length and not self._is_text(inner)
                return MemberPlace("", place.offset + each.offset, each.type, holder=place if is_open else None)
        for each in facts.fields if depth < DEEPEST else ():
            if each.is_base or not each.name or each.name.startswith("_M_"):
                inner = self.types.facts(each.type)
                if inner.form in ("struct", "union"):
                    within = MemberPlace("", place.offset + each.offset, each.type)
                    found = self._member(within, inner, name, depth + 1)
                    if found is not None:
                        return found
        return None


def _is_plain(facts: TypeFacts) -> bool:
    return not facts.name.startswith("std::") or facts.name.partition("<")[0] in PLAIN


class ObjectsWithin(NamedTuple):
    """Where objects of a type lie in blocks of one name."""

    front: int
    """In an array before its first element."""
    element: int
    """Of an array: bytes of an element."""
    offsets: Sequence[int]
    """From the block's start, or from an element's."""

    def put(self, question: TypesQuestion, name: int, is_text: bool = False) -> None:
        """`name`: of the blocks, by number."""
        question.put(name, is_text, self.element)
        question.put_list([self.front + each for each in self.offsets])


def places_within(
    contents: Contents, whole: int, wanted: set[int], offset: int = 0, depth: int = 0
) -> Iterator[tuple[int, int]]:
    """(type, offset) of objects of wanted types in one of another. Of a union nobody knows which member there is."""
    if whole in wanted:
        yield whole, offset
        return
    types = contents.types
    facts = types.facts(whole)
    if facts.form == "struct" and depth < DEEPEST and not contents.nature(whole).is_container:
        for each in facts.fields:
            yield from places_within(contents, each.type, wanted, offset + each.offset, depth=depth + 1)
    elif facts.form == "array" and facts.target is not None and depth < DEEPEST:
        size = types.facts(facts.target).size
        if next(places_within(contents, facts.target, wanted, 0, depth=depth + 1), None) is not None:
            for number in range(min(facts.length or 0, MOST_PLACES)):
                yield from places_within(contents, facts.target, wanted, offset + number * size, depth=depth + 1)
