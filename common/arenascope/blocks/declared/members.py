"""Which member of a type lies at an offset, by name: "peer.port", "buckets[3].key"."""

from __future__ import annotations

from typing import Optional

from ...sources.debug_info_types import TypeSource

DEEPEST = 16
"""So far members of members are named."""


def member_at(source: TypeSource, type: int, offset: int) -> Optional[str]:
    """None where none does, or more than one: a union's."""
    name = _within(source, type, offset, DEEPEST)
    return name.removeprefix(".") if name else None


def _within(source: TypeSource, type: int, offset: int, deep: int) -> Optional[str]:
    """Empty: the type itself, which has no members."""
    facts = source.facts(type)
    if facts.form == "array" and facts.target is not None and deep:
        size = source.facts(facts.target).size
        inner = _within(source, facts.target, offset % size, deep - 1) if size else None
        return f"[{offset // size}]{inner}" if inner is not None else None
    if facts.form not in ("struct", "union"):
        return "" if offset < facts.size else None
    # what a library's container is made of tells nobody anything
    if facts.name.startswith("std::"):
        return ""
    found = []
    for each in facts.fields if deep else ():
        size = source.facts(each.type).size
        inner = _within(source, each.type, offset - each.offset, deep - 1) if 0 <= offset - each.offset < size else None
        if inner is not None:
            found.append(inner if each.is_base or not each.name else f".{each.name}{inner}")
    return found[0] if len(found) == 1 else None
