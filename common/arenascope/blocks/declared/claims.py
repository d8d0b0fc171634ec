"""What tracer and containers say to each other."""

from __future__ import annotations

from typing import Callable, Iterable, NamedTuple, Optional, Protocol, Sequence

from ...sources.debug_info_types import StructField, TypeFacts

CONTAINER, VTABLE, EXACT, ARRAY, LOCAL, RULE, WEAK, FIELD = range(8)
"""How strong a claim is, the strongest first: a container that proved itself, an object's vtable, a pointer to a block
of just that size, an array that its pointers prove, the same by a local variable, which may not be set yet, the same by
a rule of the user's, all else that names a type, and a member that tells no type. What a claim leads to is never
stronger than itself."""


class Claim(NamedTuple):
    """That a block is of a type, or begins with something before what is of this type (`front`)."""

    address: int
    """Where the block must begin; where `inline`: the object."""
    type: int
    """Of one element, where it is an array."""
    strength: int
    step: str
    """The way to it from where the claim is made, as a programmer writes it: "->next", "[3]", ".first->log"."""
    elements: Optional[int] = None
    """An array of so many elements in use, the rest of the block is unused; None: one object."""
    capacity: Optional[int] = None
    """So many elements the block is for, from `front` on; it is refused where they do not fit. None: `elements`."""
    words: bool = True
    """Whether what it holds can lead further; False for characters and numbers."""
    number: Optional[int] = None
    """Of a container that is ordered or counted: which of its elements lies there, the first where there are several.
    It is shown after `step`, as [3], or by the element's key."""
    front: int = 0
    """So many bytes of the block lie before its (first) element: the count for `delete[]`, unused places of a deque."""
    name: str = ""
    """What the block is called, where its type says less: "std::string body", "std::unordered_map<...> buckets"."""
    inline: bool = False
    """No block of its own: it lies within what the container is in, where its declared type does not tell (the buffer
    of an optional, a variant, a small function object). It is to be followed as if it were a member."""


class Reader(Protocol):
    """Memory and live blocks, as containers need them."""

    word_size: int

    def word(self, address: int) -> Optional[int]:
        """None where it cannot be read, as in what follows."""

    def words(self, address: int, count: int) -> Optional[Sequence[int]]: ...

    def bytes(self, address: int, size: int) -> Optional[bytes]: ...

    def number(self, address: int, size: int) -> Optional[int]:
        """An unsigned number of so many bytes."""

    def usable(self, address: int) -> Optional[int]:
        """How many bytes the live block has that begins there; None: no live block begins there."""

    def holds(self, address: int, size: int) -> bool:
        """Whether a live block begins there that malloc gives for exactly this size (the chunk may be larger by as much
        as malloc cannot split off)."""

    def symbol(self, address: int) -> Optional[str]:
        """The demangled name of the function or variable that begins there."""

    def class_of(self, table: int) -> Optional[str]:
        """The class of which complete objects begin with this word, as RTTI or the vtable's symbol has it, demangled;
        None where it is no vtable's."""


class Types(Protocol):
    """Types by number: a TypeSource's, and those that containers make up."""

    def facts(self, type: int) -> TypeFacts: ...

    def by_name(self, name: str) -> Optional[int]: ...

    def classes_at(self, code: int) -> Sequence[int]: ...

    def pointer_to(self, type: int) -> int: ...

    def made_up(self, name: str, size: int, fields: Sequence[StructField], key: Optional[StructField] = None) -> int:
        """A struct that debug information does not have, or not under a name that can be found: the node of a map.
        The same number for the same name and size. `key`: where it has what its container finds it by, if no other
        element can have the same."""


new_record = tuple.__new__
"""new_record(Claim, (ADDRESS, TYPE, ...)): twice as fast as Claim(ADDRESS, TYPE, ...), for loops over millions."""


class Container(Protocol):
    """A class template of a standard library with known arguments, as `std::map<int, Session>`."""

    def claims(self, reader: Reader, address: int) -> Optional[Iterable[Claim]]:
        """What the one at this address holds, once it has proved itself (its counts agree, its links lead back): never
        more than its count. None: it is damaged, or not yet made. Empty: it holds no block. Each block that is claimed
        was asked by `holds`, but the one object of a pointer (unique_ptr), of which the dynamic type may be another."""

    def elements(self, reader: Reader, address: int) -> Optional[int]:
        """How many elements it has; None where it has not proved itself."""


class Library(Protocol):
    """A standard library's containers."""

    def container(self, types: Types, type: int) -> Optional[Container]:
        """None where the type is none of its containers. Asked once for each type."""


Facts = Callable[[int], TypeFacts]
"""Of a type by its number."""
PAIR = "std::pair<"
DEEPEST = 16
"""So far members of members are named."""


def member_at(facts_of: Facts, type: int, offset: int, in_unions: bool = True) -> Optional[str]:
    """None where none does, or more than one: a union's. Without `in_unions` a union is named by the member that it is,
    whatever it has."""
    name = _within(facts_of, type, offset, DEEPEST, in_unions=in_unions)
    return name.removeprefix(".") if name else None


def _within(facts_of: Facts, type: int, offset: int, deep: int, in_unions: bool) -> Optional[str]:
    """Empty: the type itself, which has no members."""
    facts = facts_of(type)
    if facts.form == "array" and facts.target is not None and deep:
        size = facts_of(facts.target).size
        inner = _within(facts_of, facts.target, offset % size, deep - 1, in_unions=in_unions) if size else None
        return f"[{offset // size}]{inner}" if inner is not None else None
    if facts.form not in ("struct", "union"):
        return "" if offset < facts.size else None
    # what a library's container is made of tells nobody anything, but of its nodes and pairs the elements do
    if facts.name.startswith("std::") and type >= 0 and not facts.name.startswith(PAIR):
        return ""
    found = []
    for each in facts.fields if deep else ():
        size = facts_of(each.type).size
        inner = (
            _within(facts_of, each.type, offset - each.offset, deep - 1, in_unions=in_unions)
            if 0 <= offset - each.offset < size
            else None
        )
        if inner is not None:
            found.append(inner if each.is_base or not each.name else f".{each.name}{inner}")
    if len(found) > 1 and facts.form == "union" and not in_unions:
        return ""
    return found[0] if len(found) == 1 else None
