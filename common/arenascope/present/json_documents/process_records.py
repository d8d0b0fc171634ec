"""JSON records of documents about a whole process: report, mappings, top; and of its moments: snapshot, save, diff,
trend."""

from __future__ import annotations

from typing import Annotated, Optional, Sequence

from ...analysis.diff import FIGURES
from ...analysis.report import PARTS, USES
from ...analysis.top_order import FIGURES as TOP_FIGURES
from ...analysis.trend import COURSES
from ...base.model import KINDS
from .arena_records import ALLOCATORS, AllocatorShare, Index
from .block_records import HOLDS_BACK, OWNER_KINDS, BlocksOfType, RootRecord, Written
from .record import JUDGEMENT, Address, ChunkTally, Document, Record, Size, StatementRecord


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
        ("enum", TOP_FIGURES),
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
    part: Annotated[str, ("enum", USES), "Whose it is; what lies beside malloc's own in one of malloc's is other"]
    malloc_bytes: Annotated[Optional[Size], "What of it is in memory and malloc's"]
    arenas: Annotated[Sequence[Index], "The arenas that have a heap in it, or that it is reserved for"]
    mmapped_blocks: Annotated[Size, "Blocks with a mapping of their own that begin in it"]
    reserve: Annotated[bool, "Address space after a heap, for it to grow into"]
    tid: Annotated[Optional[int], "The thread whose stack it holds"]
    name: Annotated[Optional[str], "The file, the kernel's name for it, or whose zeroed variables it holds"]


class MappedPart(Record):
    """A part of memory."""

    part: Annotated[str, ("enum", USES), "Which"]
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


SECTIONS = {
    "report": ("rss_bytes", "swap_bytes", "parts", "measure"),
    "arenas": ("arenas", "mmapped", "totals", "allocators"),
    "bins": ("bins",),
    "threads": ("threads",),
    "params": ("params", "arenas"),
}
SIZES = {"chunks": ("summary", "sizes")}
OF_A_TYPE = ("type", "kind", "module", "certain", "blocks", "bytes", "resident_bytes", "holds_back_bytes")
OF_A_CONTAINER = ("path", "type", "form", "containers", "elements", "held_bytes")
OF_AN_OWNER = (
    *("kind", "name", "tid", "stale", "type", "held_bytes", "blocks"),
    *("retained_bytes", "retained_resident_bytes", "returns_bytes"),
)
"""The keys of each command's JSON that a snapshot keeps; of its rows these."""


class SnapshotDocument(Document, command="snapshot"):
    """The answer of snapshot."""

    file: Annotated[str, "Where it was written"]
    bytes: Annotated[Size, "The file's size"]


class SnapshotTarget(Record):
    """The process or core of the snapshot."""

    kind: Annotated[str, ("enum", ("live", "core")), "A process, or a core"]
    pid: Annotated[Optional[int], "Its pid"]
    started: Annotated[Size, "When it was started, in the kernel's ticks; of those that watch keeps"] = 0
    name: Annotated[str, "Its name, as the kernel has it; likewise"] = ""


class SnapshotLimit(Record):
    """The memory limit of the process's control group."""

    path: Annotated[str, "The file that says so"]
    bytes: Annotated[Size, "So much"]
    used: Annotated[Optional[Size], "What counts against it and cannot be dropped"]


class SnapshotFile(Record):
    """The figures of one moment, without any contents of blocks."""

    arenascope_snapshot: Annotated[int, ("enum", (1,)), "The form of this file"]
    arenascope: Annotated[str, "The version that wrote it"]
    taken: Annotated[Optional[float], "When, in seconds since 1970; null: a core"]
    target: SnapshotTarget
    limit: Annotated[
        Optional[SnapshotLimit],
        "What its control group lets it have; null: nothing limits it; of those that watch keeps",
    ] = None
    glibc: Annotated[Optional[str], "Its release"]


class SaveDocument(Document, command="save"):
    """The answer of save."""

    file: Annotated[str, "Where it was written"]
    bytes_written: Annotated[Size, "What the file takes on the disk"]
    resident_bytes: Annotated[Size, "Memory in it"]
    redacted: Annotated[bool, "Whether it has malloc's own words alone"]


class ChangeRecord(Record):
    """A figure before and after."""

    name: Annotated[str, "Whose"]
    before: Annotated[Optional[int], "Before; null: not known"]
    after: Annotated[Optional[int], "After"]
    change: Annotated[Optional[int], "By how much it changed"]
    per_hour: Annotated[Optional[int], "The same per hour; null where the time is not known"]


class OwnedChange(ChangeRecord):
    """The figures of an owner, before and after."""

    name: Annotated[str, "The owner; of threads' stacks, registers and variables all threads' together"]
    before: Annotated[int, "Before"]
    after: Annotated[int, "After"]
    change: Annotated[int, "By how much it changed"]
    kind: Annotated[str, ("enum", OWNER_KINDS), "What it is"]
    type: Annotated[Optional[str], "The type that changed most of what it holds; null: not known"]


class DiffDocument(Document, command="diff"):
    """The answer of diff."""

    seconds: Annotated[Optional[float], "Between the two; null: not known"]
    rss_bytes: ChangeRecord
    parts: Annotated[Sequence[ChangeRecord], "Parts of resident memory"]
    arenas: Annotated[Sequence[ChangeRecord], "Arenas, by what they took"]
    used: Annotated[Sequence[ChangeRecord], "Arenas, by what the program holds"]
    bins: Annotated[Sequence[ChangeRecord], "Lists of free chunks"]
    sizes: Annotated[Sequence[ChangeRecord], "Sizes of blocks in use, where both have them"]
    types: Annotated[Sequence[ChangeRecord], "Types of blocks in use, where both have them"]
    containers: Annotated[
        Sequence[ChangeRecord],
        "Elements of containers by the way to them, where both have them; first those that hold more",
    ]
    owners: Annotated[
        Optional[Sequence[OwnedChange]],
        "What grew and stays first, then what threads are working on, then what shrank; null: not known of both",
    ]
    verdict: Annotated[str, "What changed, in words"]
    judgement: Annotated[StatementRecord, JUDGEMENT]


class LifeRecord(Record):
    """A process from its first snapshot to its last."""

    pid: Annotated[Optional[int], "Its number"]
    name: Annotated[Optional[str], "As the kernel has it"]
    snapshots: Annotated[Size, "How many there are"]
    first: Annotated[float, "When the first was taken, in seconds since 1970"]
    last: Annotated[float, "When the last was taken"]


class SeriesRecord(Record):
    """A figure over time."""

    by: Annotated[str, ("enum", FIGURES), "What kind it is"]
    name: Annotated[
        str, "Whose: the part, the arena's address, the list, the size, the type, the container or the owner"
    ]
    before: Annotated[int, "At first"]
    after: Annotated[int, "At last"]
    change: Annotated[int, "By how much it changed"]
    how: Annotated[str, ("enum", COURSES), "How it changed"]
    since: Annotated[Optional[float], "When that began, in seconds since 1970; null: it held still"]
    until: Annotated[Optional[float], "When it was over; null: it goes on, or held still"]
    per_hour: Annotated[Optional[int], "The median rate in that time; null: there is none"]
    per_hour_slow: Annotated[Optional[int], "The rate that a fifth of all pairs of moments stay below"]
    per_hour_fast: Annotated[Optional[int], "The rate that a fifth of them exceed"]
    moments: Annotated[
        Sequence[
            Annotated[
                tuple[Annotated[float, "When"], Annotated[int, "How many bytes; of a container how many elements"]],
                "A moment",
            ]
        ],
        "All of it",
    ]


class GrownType(Record):
    """A type of blocks that grew, and still grows."""

    type: Annotated[str, "Its name, as in types"]
    kind: Annotated[Optional[str], ("enum", tuple(KINDS)), "Of which sort, as in types; null: not known"]
    certain: Annotated[bool, "Whether all of these blocks certainly have it"]
    blocks: Annotated[Optional[int], "By how many blocks it grew; null: not known"]
    bytes: Annotated[Size, "And by how many bytes"]
    seconds: Annotated[float, "From the first snapshot that tells types to the last"]
    per_minute_bytes: Annotated[Optional[int], "By how much it grows in a minute; null: that is too little time"]
    steadily: Annotated[bool, "Whether it goes up alone; not where it goes up and down, as what is worked on does"]
    owner: Annotated[Optional[str], "Who holds at least half of what it grew by; null: not known, or nobody does"]
    owner_kind: Annotated[Optional[str], ("enum", OWNER_KINDS), "What that is"]


class Limit(Record):
    """The limit that memory may grow to."""

    bytes: Annotated[Size, "So much"]
    used: Annotated[Optional[Size], "What counts against it; null: not known, then RSS alone does"]
    path: Annotated[Optional[str], "The control group's file; null: it was asked for"]


class LimitReachedRecord(Record):
    """When the limit is reached."""

    limit: Annotated[Size, "The limit"]
    room: Annotated[Size, "What is left"]
    soonest: Annotated[float, "In so many seconds from the last moment, by the fast rate"]
    likely: Annotated[float, "By the median rate"]
    latest: Annotated[float, "By the slow rate"]


class TrendDocument(Document, command="trend"):
    """The answer of trend."""

    folder: Annotated[str, "Where the snapshots are"]
    process: LifeRecord
    earlier: Annotated[Sequence[LifeRecord], "The same program before it was started again, the first one first"]
    others: Annotated[Sequence[LifeRecord], "Other processes whose snapshots lie there"]
    series: Annotated[
        Sequence[SeriesRecord], "Every figure over time, the largest growth first (of containers by what they hold)"
    ]
    grown: Annotated[
        Optional[Sequence[GrownType]],
        "Types of blocks that grow: those that do so steadily first, the largest growth first; null: not known, as "
        "fewer than two snapshots tell types",
    ]
    limit: Annotated[Optional[Limit], "What it may grow to; null: nothing is known to limit it"]
    reaches: Annotated[
        Optional[LimitReachedRecord], "When it gets there, if it goes on so; null: it does not grow, or not surely"
    ]
    verdict: Annotated[str, "What grew, in words"]
    judgement: Annotated[StatementRecord, JUDGEMENT]


class ResidentPart(Record):
    """A part of resident memory."""

    part: Annotated[str, ("enum", PARTS), "Which"]
    bytes: Annotated[int, "So much"]
    label: Annotated[str, "What it is, in words"]


class CauseRecord(StatementRecord, first=True):
    """A cause."""

    cause: Annotated[str, "What"]
    evidence: Annotated[str, "The figures that show it, in words"]


class AdviceRecord(StatementRecord, first=True):
    """A piece of advice."""

    action: Annotated[str, "What"]
    effect_bytes: Annotated[Optional[Size], "What it would have changed here; null: not known"]
    bound: Annotated[bool, "Whether that is an upper bound"]
    evidence: Annotated[str, "The figures that speak for it, in words"]
    how: Annotated[Sequence[str], "How it is done, the usual way first"]
    cost: Annotated[Optional[str], "What it costs"]
    not_when: Annotated[Optional[str], "When not to"]


class OtherMapping(Record):
    """A mapping that is not malloc's."""

    address: Annotated[Address, "Where; in one that malloc's blocks or .bss lie in as well, the largest other part"]
    bytes: Annotated[Size, "Resident, and not malloc's"]
    name: Annotated[str, "Its path"]
    allocator: Annotated[Optional[str], "Whose it is known to be"]


class TypeOfReport(BlocksOfType):
    """All blocks of a type."""

    resident_bytes: Annotated[Optional[Size], "In memory"]
    holds_back_bytes: Annotated[Optional[Size], HOLDS_BACK]


class MainHolderRecord(RootRecord):
    """A main holder."""

    held_bytes: Annotated[Size, "What it is the main holder of"]
    retained_bytes: Annotated[Size, "What of that it alone leads to"]


class JointHoldersRecord(Record):
    """Owners that lead to something together."""

    owners: Annotated[Sequence[RootRecord], "Who they are"]
    retained_bytes: Annotated[Size, "What they lead to"]


class FreedNextRecord(Record):
    """The owner to free next."""

    owners: Annotated[Sequence[RootRecord], "Who they are; none: nobody"]
    retained_bytes: Annotated[Size, "What they lead to"]
    alone_bytes: Annotated[Size, "What leaves memory if only that is freed, and malloc_trim(0) called"]
    returns_bytes: Annotated[Size, "What does in all, with those before: pages that they share among it"]
    holds_up_bytes: Annotated[Size, "What stays if all the others are freed, and only that is not"]


class LiveBlockSums(Record):
    """All live blocks, by what leads to them."""

    live_bytes: Annotated[Size, "All live blocks"]
    reached_bytes: Annotated[Size, "What variables, threads, other mappings or the kernel lead to"]
    possible_bytes: Annotated[Size, "What only pointers to insides lead to"]
    lost_bytes: Annotated[Size, "What nothing leads to"]
    lost_blocks: Annotated[Size, "How many blocks that are"]
    unknown_bytes: Annotated[Size, "What nothing leads to in an image that lacks some of what might"]
    owners: Annotated[Sequence[MainHolderRecord], "The three that hold most, as in owners"]
    jointly: Annotated[
        Sequence[JointHoldersRecord],
        "Those that together lead to most, which is among what they hold: each of them leads there, and nobody else "
        "does",
    ]
    in_turn: Annotated[
        Sequence[FreedNextRecord],
        "All of these, freed one after the other, whoever brings most first, then what nobody holds; empty: that is "
        "not known",
    ]


class ReportDocument(Document, command="report"):
    """The answer of report."""

    rss_bytes: Annotated[
        Optional[Size],
        "Resident memory, with anonymous pages of hugetlbfs, which the kernel counts apart; null: the image does not "
        "tell (a core, of the pages of files)",
    ]
    swap_bytes: Annotated[Optional[Size], "What else of it is in swap"]
    parts: Annotated[Sequence[ResidentPart], "They sum to rss_bytes"]
    verdict: Annotated[str, "The answer"]
    causes: Annotated[Sequence[CauseRecord], "Why it stays"]
    advice: Annotated[Sequence[AdviceRecord], "What to do, the most helpful first; then what would not help"]
    other_mappings: Annotated[Sequence[OtherMapping], "The largest that are not this malloc's"]
    allocators: Annotated[Sequence[AllocatorShare], ALLOCATORS]
    types: Annotated[
        Optional[Sequence[TypeOfReport]],
        "What the live blocks are, what there is most of first, 20 at most; null: not looked at",
    ]
    held: Annotated[
        Optional[LiveBlockSums],
        "Whether the blocks in use are held, and by whom; null without --owners or --html. What is reached, possible, "
        "lost and unknown sum to live_bytes",
    ]
    judgement: Annotated[StatementRecord, JUDGEMENT]
    growth: Annotated[Optional[StatementRecord], "With --since or --again: what grew, by two moments"]
    grown: Annotated[
        Optional[Sequence[GrownType]], "The types that grew between the two, as in trend; null: not told by both"
    ]
    measure: Annotated[
        Optional[str],
        ("enum", ("resident", "anonymous", "address-space")),
        "What the parts measure; null: there are none",
    ]
    html: Annotated[Optional[Written], "The page that was written"]
