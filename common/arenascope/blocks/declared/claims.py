"""How strong claims about blocks are, and what members are called."""

from __future__ import annotations

import re
from typing import Callable, Optional

from ...sources.type_source import TypeFacts

CONTAINER, VTABLE, EXACT, ARRAY, LISTED, LOCAL, RULE, WORDS, WEAK, ALIKE, FIELD = range(11)
"""How strong a claim is, the strongest first: a container that proved itself, an object's vtable, a pointer to a block
of just that size, an array that its pointers prove, a list that leads from member to member, the same by a local
variable, which may not be set yet, the same by a rule of the user's, what the block holds, all else that names a type,
what others of the type hold as well, and a member that tells no type. What a claim leads to is never stronger than
itself."""

Facts = Callable[[int], TypeFacts]
"""Of a type by its number."""
PAIR = "std::pair<"
INDEX = re.compile(r"\[\d+\]")
DEEPEST = 16
"""So far members of members are named."""


def member_at(facts_of: Facts, type: int, offset: int, in_unions: bool = True) -> Optional[str]:
    """None where none does, or more than one: a union's. Without `in_unions` a union is named by the member that it is,
    whatever it has."""
    name = _within(facts_of, type, offset, DEEPEST, in_unions=in_unions)
    return name.removeprefix(".") if name else None


def without_numbers(name: str) -> str:
    """ "[].log" of "[3].log"."""
    return INDEX.sub("[]", name)


def is_void_pointer(facts_of: Facts, type: int, offset: int, deep: int = DEEPEST) -> bool:
    """Whether there is a `void *` at this offset; of a union's members one that is a pointer counts."""
    facts = facts_of(type)
    if facts.form == "array" and facts.target is not None and deep:
        size = facts_of(facts.target).size
        return bool(size) and is_void_pointer(facts_of, facts.target, offset % size, deep - 1)
    if facts.form in ("struct", "union"):
        inner = [each for each in facts.fields if each.offset <= offset < each.offset + facts_of(each.type).size]
        found = [is_void_pointer(facts_of, each.type, offset - each.offset, deep - 1) for each in inner if deep]
        return any(found)
    return facts.form == "pointer" and facts.target is None and offset == 0


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
