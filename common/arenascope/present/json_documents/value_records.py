"""What types --values says of the members of a type."""

from __future__ import annotations

from typing import Annotated, Optional, Sequence

from ...base.block_kinds import MEMBER_FORMS
from .record import Record, Size

OF_WHAT = "of a text its length, of a container its elements, else the value: null without --with-values"


class Frequent(Record):
    """A value that many objects have."""

    value: Annotated[Optional[str], "As the screen has it; null without --with-values"]
    objects: Annotated[Size, "How many have it; of a member with too many values perhaps a few more"]


class Member(Record):
    """A member of all objects."""

    member: Annotated[str, "Its name; with those of the members that it lies in"]
    type: Annotated[str, "Its type"]
    form: Annotated[str, ("enum", MEMBER_FORMS), "What of it is told"]
    objects: Annotated[Size, "Of how many it could be read"]
    unreadable: Annotated[Size, "Of how many not: not in memory, damaged, or not yet made"]
    nulls: Annotated[Size, "How many pointers are null"]
    distinct: Annotated[Optional[Size], "How many values there are; null: more than are counted"]
    least: Annotated[Optional[float], f"The least; {OF_WHAT}"]
    greatest: Annotated[Optional[float], f"The greatest; {OF_WHAT}"]
    average: Annotated[Optional[float], f"The average; {OF_WHAT}"]
    apart: Annotated[Optional[int], "Of integers: all differ by multiples of this; null: they do not"]
    most_frequent: Annotated[Sequence[Frequent], "The most frequent ones first"]


class Values(Record):
    """What all objects of a type have in common."""

    type: Annotated[str, "The type"]
    objects: Annotated[Size, "How many there are in blocks that certainly have it"]
    blocks: Annotated[Size, "In how many blocks"]
    members: Annotated[Sequence[Member], "In the order in which they lie there"]
