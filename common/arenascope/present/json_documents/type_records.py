"""What types says, and what every document says of a type."""

from __future__ import annotations

from typing import Annotated, Optional, Sequence

from ...base.block_kinds import KINDS
from .owner_records import MAY_BE, Owner
from .record import Address, Document, Record, Size, Told
from .value_records import Values

HOLDS_BACK = "What more would return to the system if all of them were freed; null: not known"
HELD_MOST = "Who holds most of them: as in owners; null without --owners, and where it is not known"


class Typed(Record):
    """What all live blocks of a type have, wherever there are rows of them."""

    type: Annotated[str, "Its name"]
    kind: Annotated[str, ("enum", tuple(KINDS)), "Of which sort"]
    module: Annotated[Optional[str], "The file that it is of"]
    certain: Annotated[bool, "False for a guess, by what is in the blocks"]
    blocks: Annotated[Size, "How many"]
    bytes: Annotated[Size, "Their bytes, headers included"]


class HolderOfMost(Owner):
    """Who holds most of them."""

    blocks: Annotated[Size, "How many"]
    bytes: Annotated[Size, "Their bytes"]


class TypeRow(Typed):
    """All live blocks that are of a kind."""

    how: Annotated[str, "By what it was known"]
    may_be: Annotated[Sequence[Annotated[str, "A struct's name"]], MAY_BE]
    resident_bytes: Annotated[Optional[Size], "What of that is in memory"]
    holds_back_bytes: Annotated[Optional[Size], HOLDS_BACK]
    owner: Annotated[Optional[str], "Whose they are, where another block or a variable tells"]
    held_by: Annotated[Optional[HolderOfMost], HELD_MOST]
    retained_bytes: Annotated[
        Optional[Size],
        "Their bytes with those of all that these blocks alone lead to; null without --owners",
    ]
    samples: Annotated[Sequence[Annotated[Address, "A block"]], "The first of them: what malloc returned"]


class TypeTotals(Record):
    """All of them."""

    blocks: Annotated[Size, "How many blocks"]
    bytes: Annotated[Size, "Their bytes"]
    resident_bytes: Annotated[Optional[Size], "What of that is in memory"]
    used_bytes: Annotated[Size, "What arenas have from the kernel and in no list nor top"]
    mmapped_bytes: Annotated[Size, "In blocks served by mmap"]
    bookkeeping_bytes: Annotated[Size, "Headers of heaps and arenas, fenceposts"]
    foreign_bytes: Annotated[Size, "Somebody else's, by sbrk"]
    damaged_bytes: Annotated[Size, "What could not be read as chunks"]


class Types(Document, command="types"):
    """What types found."""

    types: Annotated[Sequence[TypeRow], "What there is most of first, or as --by has it; --limit at most"]
    left_out: Annotated[Size, "How many more types there are"]
    notes: Annotated[Sequence[Annotated[Told, "A note"]], "What is not among them"]
    totals: Annotated[
        TypeTotals,
        "All of them, shown or not: bytes, bookkeeping, foreign and damaged ones sum to used and mmapped",
    ]
    values: Annotated[Optional[Values], "With --values: what the objects of the type have in common"] = None
