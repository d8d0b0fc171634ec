"""JSON records of top: the processes of this machine."""

from __future__ import annotations

from typing import Annotated, Optional, Sequence

from ...analysis.mappings import PARTS
from ...analysis.top_order import FIGURES
from .arena_records import Index
from .record import Address, ChunkTally, Document, Record, Size


class WholeLook(Record):
    """Exact figures of a process, which was held once for them."""

    time: Annotated[float, "When that was, in seconds since 1970"]
    held_seconds: Annotated[float, "For how long it was held"]
    rss_bytes: Annotated[Optional[Size], "RSS"]
    used_bytes: Annotated[Optional[Size], "In use, and resident"]
    free_bytes: Annotated[Optional[Size], "Free in malloc, and resident"]
    trim_bytes: Annotated[Optional[Size], "Of that: what malloc_trim(0) would return"]
    tops_bytes: Annotated[Optional[Size], "Of that: tops of thread arenas, which malloc_trim leaves alone"]
    stranded_bytes: Annotated[Optional[Size], "Of that: in pages that also hold something in use"]


class RunningProcess(Record):
    """A process that may be read. Figures of its malloc are null if it has no glibc malloc."""

    pid: Annotated[int, "Its pid"]
    user: Annotated[str, "Whose it is: a name, or the number where there is none"]
    name: Annotated[str, "As the kernel has it"]
    rss_bytes: Annotated[Size, "RSS, as ps shows it: it may lag behind by some pages"]
    allocators: Annotated[Sequence[str], "What serves malloc in place of glibc, as far as that is known"]
    arenas: Annotated[Optional[Size], "How many"]
    system_bytes: Annotated[Optional[Size], "What the arenas have taken from the kernel and not returned"]
    mmapped: Annotated[ChunkTally, "Blocks with mappings of their own"]
    tops_bytes: Annotated[Optional[Size], "Free in the arenas' tops"]
    bins_bytes: Annotated[Optional[Size], "Free in bins, as far as they were followed"]
    free_bytes: Annotated[Optional[Size], "Both: address space, without thread caches and fastbins; see free_whole"]
    free_resident_bytes: Annotated[Optional[Size], "What of that is in memory, as far as it was looked at"]
    stranded_bytes: Annotated[Optional[Size], "Of bins_bytes: in pages that also hold something else; see free_whole"]
    free_whole: Annotated[
        Optional[bool], "Whether all tops were read and all bins followed to their ends; else these are lower bounds"
    ]
    exact: Annotated[Optional[WholeLook], "With --exact: what a whole look found, once; null: it was not asked for"]
    figures: Annotated[
        Optional[str],
        ("enum", FIGURES),
        "What tells how much it has free, and its place: what is in exact; an estimate, read to the end of all lists "
        "while it ran on; or at-least, lower bounds (free_whole is false). null: not known",
    ]


class TopDocument(Document, command="top"):
    """The answer of top: one look at all processes, while they ran on."""

    time: Annotated[float, "When, in seconds since 1970"]
    processes: Annotated[Sequence[RunningProcess], "Up to --limit as sorted, and those of --exact"]
    left_out: Annotated[Size, "How many more there are, beyond --limit"]
    uncertain_pids: Annotated[
        Sequence[int],
        "Those that may belong further up, also of what is left out: not all of their free chunks were followed",
    ]
    unread: Annotated[Size, "How many could not be read: most of them are not permitted"]


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
