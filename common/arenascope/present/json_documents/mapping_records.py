"""JSON records of mappings."""

from __future__ import annotations

from typing import Annotated, Optional, Sequence

from ...analysis.mappings import PARTS
from .arena_records import Index
from .record import Address, Document, Record, Size


class MappingRow(Record):
    """A mapping."""

    address: Annotated[Address, "Where it starts"]
    end: Annotated[Address, "Where it ends"]
    bytes: Annotated[Size, "Its size"]
    resident_bytes: Annotated[Optional[Size], "What of it is in memory; null: not known"]
    swap_bytes: Annotated[Optional[Size], "What of it is in swap"]
    access: Annotated[str, "As in /proc/PID/maps: r, w, x, and p for private or s for shared"]
    part: Annotated[str, ("enum", PARTS), "Whose it is; what lies beside malloc's own in one of malloc's is other"]
    malloc_bytes: Annotated[Optional[Size], "What of it is in memory and malloc's"]
    arenas: Annotated[Sequence[Index], "The arenas that have a heap in it, or that it is reserved for"]
    mmapped_blocks: Annotated[Size, "Blocks with a mapping of their own that begin in it"]
    reserve: Annotated[bool, "Address space after a heap, for it to grow into"]
    tid: Annotated[Optional[int], "The thread whose stack it holds"]
    name: Annotated[Optional[str], "The file, the kernel's name for it, or whose zeroed variables it holds"]


class MappedPart(Record):
    """A part of memory."""

    part: Annotated[str, ("enum", PARTS), "Which"]
    bytes: Annotated[Optional[int], "In memory"]


class MappingTotals(Record):
    """Sums over all mappings."""

    mappings: Annotated[Size, "How many"]
    bytes: Annotated[Size, "Address space"]
    resident_bytes: Annotated[Optional[Size], "In memory; null: not known of each"]
    parts: Annotated[
        Sequence[MappedPart],
        "They sum to resident_bytes; malloc's is the sum of the parts of report that are malloc's, the others are "
        "report's",
    ]


class MappingsDocument(Document, command="mappings"):
    """The answer of mappings."""

    mappings: Annotated[Optional[Sequence[MappingRow]], "In address order; null: what is mapped is not known"]
    totals: Optional[MappingTotals]
