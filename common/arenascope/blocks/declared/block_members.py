"""What a block of a declared type has in it: each member with its value, and where its pointers lead."""

from __future__ import annotations

from typing import NamedTuple, Optional, Sequence

from ...session.session import Session
from ...sources.target import text_of
from .named_blocks import NamedBlocks
from .once_per_image import values_of
from .values import MemberValue


class BlockMember(NamedTuple):
    member: MemberValue
    offset: int
    """From the user address."""
    type: str
    leads_to: Optional[str]
    """What a pointer leads to: a block's type, a symbol; None: not known, or it is no pointer."""


def members_of(session: Session, named: NamedBlocks, user: int) -> Optional[Sequence[BlockMember]]:
    """Of the block that begins there; None where its type is not known."""
    number = named.blocks.find(user)
    name = named.name_of(number) if number >= 0 and named.blocks.starts[number] == user else None
    if name is None or name.type is None or named.layouts is None:
        return None
    values = values_of(session, named)
    if values is None:
        return None
    count = named.elements[number] if name.form == "array" else None
    types = named.layouts.types
    return [
        BlockMember(each, each.address - user, types.text(each.type), _leads_to(session, named, each))
        for each in values.members(name.type, user + name.front, count)
    ]


def _leads_to(session: Session, named: NamedBlocks, member: MemberValue) -> Optional[str]:
    place = member.value.number if member.value.form == "pointer" else None
    if not isinstance(place, int) or not place:
        return None
    number = named.blocks.find(place)
    if number < 0:
        return text_of(session.target.describe(place))
    name, into = named.name_of(number), place - named.blocks.starts[number]
    text = name.text if name is not None else f"block of {named.blocks.sizes[number]:,} bytes"
    return f"{text} +{into}" if into else text
