"""JSON records of types, and of types in other documents."""

from __future__ import annotations

from typing import Annotated, Optional, Sequence

from ...base.model import CONTAINER_FORMS, KINDS, MEMBER_FORMS
from .owner_records import MAY_BE, OwnerRecord
from .record import Address, Document, Record, Size, StatementRecord

HOLDS_BACK = "What more would return to the system if all of them were freed; null: not known"
HELD_MOST = "Who holds most of them: as in owners; null without --owners, and where it is not known"
OF_WHAT = "of a text its length, of a container its elements, else the value: null without --with-values"


class BlocksOfType(Record):
    """All live blocks of a type."""

    type: Annotated[str, "Its name"]
    kind: Annotated[str, ("enum", tuple(KINDS)), "Of which sort"]
    module: Annotated[Optional[str], "The file that it is of"]
    certain: Annotated[bool, "False for a guess, by what is in the blocks"]
    blocks: Annotated[Size, "How many"]
    bytes: Annotated[Size, "Their bytes, headers included"]


class HolderOfMost(OwnerRecord):
    """The owner that holds most of them."""

    blocks: Annotated[Size, "How many"]
    bytes: Annotated[Size, "Their bytes"]


class TypeRecord(BlocksOfType):
    """All live blocks of a type."""

    how: Annotated[str, "By what it was known"]
    may_be: Annotated[Sequence[str], MAY_BE]
    resident_bytes: Annotated[Optional[Size], "What of that is in memory"]
    holds_back_bytes: Annotated[Optional[Size], HOLDS_BACK]
    owner: Annotated[Optional[str], "Whose they are, where another block or a variable tells"]
    held_by: Annotated[Optional[HolderOfMost], HELD_MOST]
    retained_bytes: Annotated[
        Optional[Size],
        "Their bytes with those of all that these blocks alone lead to; null without --owners",
    ]
    samples: Annotated[Sequence[Address], "The first of them: what malloc returned"]


class TypeTotals(Record):
    """Sums over all types."""

    blocks: Annotated[Size, "How many blocks"]
    bytes: Annotated[Size, "Their bytes"]
    resident_bytes: Annotated[Optional[Size], "What of that is in memory"]
    used_bytes: Annotated[Size, "What arenas have from the kernel and in no list nor top"]
    mmapped_bytes: Annotated[Size, "In blocks served by mmap"]
    bookkeeping_bytes: Annotated[Size, "Headers of heaps and arenas, fenceposts"]
    foreign_bytes: Annotated[Size, "Somebody else's, by sbrk"]
    damaged_bytes: Annotated[Size, "What could not be read as chunks"]


class Frequent(Record):
    """A value that many objects have."""

    value: Annotated[Optional[str], "As the screen has it; null without --with-values"]
    objects: Annotated[Size, "How many have it; of a member with too many values perhaps a few more"]


class MemberValues(Record):
    """A member, over all objects of a type."""

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


class ObjectValues(Record):
    """The members of all objects of a type."""

    type: Annotated[str, "The type"]
    objects: Annotated[Size, "How many there are in blocks that certainly have it"]
    blocks: Annotated[Size, "In how many blocks"]
    members: Annotated[Sequence[MemberValues], "In the order in which they lie there"]


class TypesDocument(Document, command="types"):
    """The answer of types."""

    types: Annotated[Sequence[TypeRecord], "What there is most of first, or as --by has it; --limit at most"]
    left_out: Annotated[Size, "How many more types there are"]
    notes: Annotated[Sequence[StatementRecord], "What is not among them"]
    totals: Annotated[
        TypeTotals,
        "All of them, shown or not: bytes, bookkeeping, foreign and damaged ones sum to used and mmapped",
    ]
    values: Annotated[Optional[ObjectValues], "With --values: what the objects of the type have in common"] = None


class ContainerRecord(Record):
    """All containers with the same path."""

    path: Annotated[str, "The way to them, as the program would write it; [] stands for any element"]
    type: Annotated[str, "As it is declared; of lists and trees that of their elements"]
    form: Annotated[str, ("enum", CONTAINER_FORMS), "What it is"]
    links: Annotated[Sequence[str], "By which its elements lead to each other, where the program links them"]
    certain: Annotated[bool, "False: something on the way is a guess"]
    containers: Annotated[Size, "How many of them have blocks"]
    elements: Annotated[Size, "How many elements they have together"]
    largest_elements: Annotated[Size, "How many the largest of them has"]
    held_bytes: Annotated[Size, "What lies below them: their blocks, and all to which these lead"]
    held_blocks: Annotated[Size, "The same in blocks"]
    buckets: Annotated[Optional[Size], "Of hash tables: how many chains there is room for"]
    longest_chain: Annotated[Optional[Size], "Of hash tables: the most elements in one bucket; null: not known"]
    sample: Annotated[Address, "A block of the largest one: what malloc returned"]


class ContainersDocument(Document, command="containers"):
    """The answer of containers."""

    containers: Annotated[Sequence[ContainerRecord], "What holds most first; --limit at most"]
    left_out: Annotated[Size, "How many more rows there are"]
    notes: Annotated[Sequence[StatementRecord], "What is not among them, and why"]
