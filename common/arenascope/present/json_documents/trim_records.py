"""JSON records of trim."""

from __future__ import annotations

from typing import Annotated, Optional, Sequence

from .arena_records import ArenaIndex
from .record import Document, Range, Record, Size, StatementRecord


class KeptByArena(Record):
    """Memory that stays in an arena."""

    top_bytes: Annotated[Optional[Size], "Its top"]
    top_resident_bytes: Annotated[Optional[Size], "What of that is in memory"]
    subpage_bytes: Annotated[Optional[int], "What shares a page with something else"]
    tcache_bytes: Annotated[Optional[Size], "What threads keep"]


class ArenaTrimRecord(ArenaIndex):
    """The effect of malloc_trim(0) on an arena."""

    madvise_bytes: Annotated[Optional[Size], "Pages released inside its bins"]
    madvise_ranges: Annotated[Optional[Sequence[Annotated[Range, "A range"]]], "With --ranges, in address order"] = None
    brk_bytes: Annotated[Optional[int], "How far the break moves back; negative: the heap grows instead"]
    resident_bytes: Annotated[Optional[Size], "By how much RSS would fall"]
    kept: Annotated[KeptByArena, "What stays, and why"]
    tops_bytes: Annotated[Optional[Size], "What --tops would add"]
    tops_range: Annotated[Optional[Range], "Where"]


class TrimTotals(Record):
    """Sums over all arenas."""

    release_bytes: Annotated[Optional[Size], "Address space"]
    resident_bytes: Annotated[Optional[Size], "RSS"]
    kept_bytes: Annotated[Optional[int], "What stays"]
    tops_bytes: Annotated[Optional[Size], "What --tops would add"]
    tops_resident_bytes: Annotated[Optional[Size], "What of that is in memory"]


class AppliedRecord(Record):
    """The outcome of --apply."""

    rss_before: Annotated[Size, "RSS"]
    rss_after: Annotated[Size, "RSS afterwards"]
    predicted_bytes: Annotated[Optional[Size], "What was predicted"]
    released_bytes: Annotated[int, "What was released"]
    seconds: Annotated[float, "How long the calls took"]
    calls: Annotated[Sequence[StatementRecord], "What each call released"]


class TrimDocument(Document, command="trim"):
    """The answer of trim."""

    arenas: Annotated[Sequence[ArenaTrimRecord], "In the ring's order"]
    totals: Annotated[TrimTotals, "Of all arenas; null where one is not known"]
    reasons: Annotated[Sequence[StatementRecord], "Why the rest stays, and what would release it"]
    applied: Annotated[Optional[AppliedRecord], "With --apply: the outcome"]
