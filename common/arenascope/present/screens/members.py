"""What a block has in it, by its declared type, in words and as JSON has it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Iterator, Optional, Sequence

from ...base.class_names import named
from ...base.user_data import UserData
from ...blocks.declared.values import value_text
from ..formats.json import address
from ..json_documents.chunk_records import MemberRecord

if TYPE_CHECKING:
    from ...blocks.declared.block_members import BlockMember


def member_lines(members: Sequence[BlockMember]) -> Iterator[str]:
    """Each with its value, as on the user's own screen."""
    names = [each.member.name or each.type for each in members]
    width = max(map(len, names), default=0)
    for name, each in zip(names, members):
        more = each.member.more
        said = f"... {more:,} more" if more else value_text(each.member.value)
        leads_to = f" ({_short(each.leads_to)})" if each.leads_to is not None else ""
        yield f"{name:{width}}  {said}{leads_to}"


def _short(leads_to: str) -> str:
    """A type as people write it, with the offset in it."""
    name, plus, into = leads_to.rpartition(" +")
    return f"{named(name).name}{plus}{into}" if into.isdecimal() and plus else named(leads_to).name


def member_record(each: BlockMember, user_data: UserData) -> MemberRecord:
    value = each.member.value
    is_pointer, number = value.form == "pointer", value.number
    has_text = value.form == "text" or (is_pointer and bool(value.name))
    plain: Optional[float] = number
    if value.form in ("pointer", "elements") or (isinstance(number, float) and not math.isfinite(number)):
        plain = None
    return MemberRecord(
        name=each.member.name,
        offset=each.offset,
        type=each.type,
        value=plain,
        enumerator=value.name or None if value.form == "enum" else None,
        text=value.data.decode("utf-8", "backslashreplace") if has_text and user_data.in_documents else None,
        target=address(number) if is_pointer and isinstance(number, int) else None,
        leads_to=each.leads_to,
        elements=int(number) if value.form == "elements" and number is not None else None,
        left_out=each.member.more,
    )
