"""What objects of well-known classes keep in blocks of their own, each with the member that says how large it is."""

from __future__ import annotations

from typing import Mapping, NamedTuple, Optional, Sequence

from ...base.model import Kind
from .size_fits import fits

DATA = Kind("ArrayBuffer data", "holder", how="its v8::BackingStore, and the length there")


class BlockPointer(NamedTuple):
    """A member that points to a block."""

    place: int
    """Of the pointer among the object's words."""
    length: int
    """Of the bytes."""
    kind: Kind


BUFFER_START = BlockPointer(0, 1, DATA)
"""Where v8::internal::BackingStore begins: buffer_start_, byte_length_, max_byte_length_."""
MEMBERS: Mapping[str, BlockPointer] = {
    "v8::BackingStore": BUFFER_START,
    "v8::internal::BackingStore": BUFFER_START,
}


def kept_by_member(class_name: Optional[str], words: Sequence[int]) -> Optional[BlockPointer]:
    """The member of an object that points to a block, if its class is known here."""
    member = MEMBERS.get(class_name or "")
    return member if member is not None and len(words) > max(member.place, member.length) else None


def is_kept(member: BlockPointer, words: Sequence[int], usable: int) -> bool:
    """Whether a block of so many bytes is what the object says that it keeps; of none malloc gives a byte."""
    return fits(max(1, words[member.length]), usable)
