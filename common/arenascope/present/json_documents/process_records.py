"""JSON records of documents about a whole process: report, mappings, top; and of its moments: snapshot, save, diff,
trend."""

from __future__ import annotations

from typing import Annotated, Optional, Sequence

from ...analysis.diff import FIGURES
from ...analysis.report import PARTS, USES
from ...analysis.top_order import FIGURES as TOP_FIGURES
from ...analysis.trend import COURSES
from ...base.model import FINDING_REASONS, KINDS
from .arena_records import ALLOCATORS, AllocatorShare, Index
from .block_records import HOLDS_BACK, OWNER_KINDS, BlocksOfType, ContainerRecord, RootRecord, Written
from .record import JUDGEMENT, Address, ChunkTally, Document, Record, Size, StatementRecord


class WholeLook(Record):
    """Exact figures of a process, which was held once for them."""

    time: float
    """When that was, in seconds since 1970."""
    held_seconds: float
    """For how long it was held."""
    rss_bytes: Optional[Size]
    """RSS."""
    used_bytes: Optional[Size]
    """In use, and resident."""
    free_bytes: Optional[Size]
    """Free in malloc, and resident."""
    trim_bytes: Optional[Size]
    """Of that: what malloc_trim(0) would return."""
    tops_bytes: Optional[Size]
    """Of that: tops of thread arenas, which malloc_trim leaves alone."""
    stranded_bytes: Optional[Size]
    """Of that: in pages that also hold something in use."""


class RunningProcess(Record):
    """A process that may be read. Figures of its malloc are null if it has no glibc malloc."""

    pid: int
    """Its pid."""
    user: str
    """Whose it is: a name, or the number where there is none."""
    name: str
    """As the kernel has it."""
    rss_bytes: Size
    """RSS, as ps shows it: it may lag behind by some pages."""
    allocators: Sequence[str]
    """What serves malloc in place of glibc, as far as that is known."""
    arenas: Optional[Size]
    """How many."""
    system_bytes: Optional[Size]
    """What the arenas have taken from the kernel and not returned."""
    mmapped: ChunkTally
    """Blocks with mappings of their own."""
    tops_bytes: Optional[Size]
    """Free in the arenas' tops."""
    bins_bytes: Optional[Size]
    """Free in bins, as far as they were followed."""
    free_bytes: Optional[Size]
    """Both: address space, without thread caches and fastbins; see free_whole."""
    free_resident_bytes: Optional[Size]
    """What of that is in memory, as far as it was looked at."""
    stranded_bytes: Optional[Size]
    """Of bins_bytes: in pages that also hold something else; see free_whole."""
    free_whole: Optional[bool]
    """Whether all tops were read and all bins followed to their ends; else these are lower bounds."""
    exact: Optional[WholeLook]
    """With --exact: what a whole look found, once; null: it was not asked for."""
    figures: Annotated[Optional[str], ("enum", TOP_FIGURES)]
    """What tells how much it has free, and its place: what is in exact; an estimate, read to the end of all lists while
    it ran on; or at-least, lower bounds (free_whole is false). null: not known."""


class TopDocument(Document, command="top"):
    """The answer of top: one look at all processes, while they ran on."""

    time: float
    """When, in seconds since 1970."""
    processes: Sequence[RunningProcess]
    """Up to --limit as sorted, and those of --exact."""
    left_out: Size
    """How many more there are, beyond --limit."""
    uncertain_pids: Sequence[int]
    """Those that may belong further up, also of what is left out: not all of their free chunks were followed."""
    unread: Size
    """How many could not be read: most of them are not permitted."""


class MappingRow(Record):
    """A mapping."""

    address: Address
    """Where it starts."""
    end: Address
    """Where it ends."""
    bytes: Size
    """Its size."""
    resident_bytes: Optional[Size]
    """What of it is in memory; null: not known."""
    swap_bytes: Optional[Size]
    """What of it is in swap."""
    access: str
    """As in /proc/PID/maps: r, w, x, and p for private or s for shared."""
    part: Annotated[str, ("enum", USES)]
    """Whose it is; what lies beside malloc's own in one of malloc's is other."""
    malloc_bytes: Optional[Size]
    """What of it is in memory and malloc's."""
    arenas: Sequence[Index]
    """The arenas that have a heap in it, or that it is reserved for."""
    mmapped_blocks: Size
    """Blocks with a mapping of their own that begin in it."""
    reserve: bool
    """Address space after a heap, for it to grow into."""
    tid: Optional[int]
    """The thread whose stack it holds."""
    name: Optional[str]
    """The file, the kernel's name for it, or whose zeroed variables it holds."""


class MappedPart(Record):
    """A part of memory."""

    part: Annotated[str, ("enum", USES)]
    """Which."""
    bytes: Optional[int]
    """In memory."""


class MappingTotals(Record):
    """Sums over all mappings."""

    mappings: Size
    """How many."""
    bytes: Size
    """Address space."""
    resident_bytes: Optional[Size]
    """In memory; null: not known of each."""
    parts: Sequence[MappedPart]
    """They sum to resident_bytes; malloc's is the sum of the parts of report that are malloc's, the others are
    report's."""


class MappingsDocument(Document, command="mappings"):
    """The answer of mappings."""

    mappings: Optional[Sequence[MappingRow]]
    """In address order; null: what is mapped is not known."""
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

    file: str
    """Where it was written."""
    bytes: Size
    """The file's size."""


class SnapshotTarget(Record):
    """The process or core of the snapshot."""

    kind: Annotated[str, ("enum", ("live", "core"))]
    """A process, or a core."""
    pid: Optional[int]
    """Its pid."""
    started: Size = 0
    """When it was started, in the kernel's ticks; of those that watch keeps."""
    name: str = ""
    """Its name, as the kernel has it; likewise."""


class SnapshotLimit(Record):
    """The memory limit of the process's control group."""

    path: str
    """The file that says so."""
    bytes: Size
    """So much."""
    used: Optional[Size]
    """What counts against it and cannot be dropped."""


class SnapshotFile(Record):
    """The figures of one moment, without any contents of blocks."""

    arenascope_snapshot: Annotated[int, ("enum", (1,))]
    """The form of this file."""
    arenascope: str
    """The version that wrote it."""
    taken: Optional[float]
    """When, in seconds since 1970; null: a core."""
    target: SnapshotTarget
    limit: Optional[SnapshotLimit] = None
    """What its control group lets it have; null: nothing limits it; of those that watch keeps."""
    glibc: Optional[str]
    """Its release."""


class SaveDocument(Document, command="save"):
    """The answer of save."""

    file: str
    """Where it was written."""
    bytes_written: Size
    """What the file takes on the disk."""
    resident_bytes: Size
    """Memory in it."""
    redacted: bool
    """Whether it has malloc's own words alone."""


class ChangeRecord(Record):
    """A figure before and after."""

    name: str
    """Whose."""
    before: Optional[int]
    """Before; null: not known."""
    after: Optional[int]
    """After."""
    change: Optional[int]
    """By how much it changed."""
    per_hour: Optional[int]
    """The same per hour; null where the time is not known."""


class OwnedChange(ChangeRecord):
    """The figures of an owner, before and after."""

    name: str
    """The owner; of threads' stacks, registers and variables all threads' together."""
    before: int
    """Before."""
    after: int
    """After."""
    change: int
    """By how much it changed."""
    kind: Annotated[str, ("enum", OWNER_KINDS)]
    """What it is."""
    type: Optional[str]
    """The type that changed most of what it holds; null: not known."""


class DiffDocument(Document, command="diff"):
    """The answer of diff."""

    seconds: Optional[float]
    """Between the two; null: not known."""
    rss_bytes: ChangeRecord
    parts: Sequence[ChangeRecord]
    """Parts of resident memory."""
    arenas: Sequence[ChangeRecord]
    """Arenas, by what they took."""
    used: Sequence[ChangeRecord]
    """Arenas, by what the program holds."""
    bins: Sequence[ChangeRecord]
    """Lists of free chunks."""
    sizes: Sequence[ChangeRecord]
    """Sizes of blocks in use, where both have them."""
    types: Sequence[ChangeRecord]
    """Types of blocks in use, where both have them."""
    containers: Sequence[ChangeRecord]
    """Elements of containers by the way to them, where both have them; first those that hold more."""
    owners: Optional[Sequence[OwnedChange]]
    """What grew and stays first, then what threads are working on, then what shrank; null: not known of both."""
    verdict: str
    """What changed, in words."""
    judgement: Annotated[StatementRecord, JUDGEMENT]


class LifeRecord(Record):
    """A process from its first snapshot to its last."""

    pid: Optional[int]
    """Its number."""
    name: Optional[str]
    """As the kernel has it."""
    snapshots: Size
    """How many there are."""
    first: float
    """When the first was taken, in seconds since 1970."""
    last: float
    """When the last was taken."""


class SeriesRecord(Record):
    """A figure over time."""

    by: Annotated[str, ("enum", FIGURES)]
    """What kind it is."""
    name: str
    """Whose: the part, the arena's address, the list, the size, the type, the container or the owner."""
    before: int
    """At first."""
    after: int
    """At last."""
    change: int
    """By how much it changed."""
    how: Annotated[str, ("enum", COURSES)]
    """How it changed."""
    since: Optional[float]
    """When that began, in seconds since 1970; null: it held still."""
    until: Optional[float]
    """When it was over; null: it goes on, or held still."""
    per_hour: Optional[int]
    """The median rate in that time; null: there is none."""
    per_hour_slow: Optional[int]
    """The rate that a fifth of all pairs of moments stay below."""
    per_hour_fast: Optional[int]
    """The rate that a fifth of them exceed."""
    moments: Sequence[
        Annotated[
            tuple[Annotated[float, "When"], Annotated[int, "How many bytes; of a container how many elements"]],
            "A moment",
        ]
    ]
    """All of it."""


class GrownType(Record):
    """A type of blocks that grew, and still grows."""

    type: str
    """Its name, as in types."""
    kind: Annotated[Optional[str], ("enum", tuple(KINDS))]
    """Of which sort, as in types; null: not known."""
    certain: bool
    """Whether all of these blocks certainly have it."""
    blocks: Optional[int]
    """By how many blocks it grew; null: not known."""
    bytes: Size
    """And by how many bytes."""
    seconds: float
    """From the first snapshot that tells types to the last."""
    per_minute_bytes: Optional[int]
    """By how much it grows in a minute; null: that is too little time."""
    steadily: bool
    """Whether it goes up alone; not where it goes up and down, as what is worked on does."""
    owner: Optional[str]
    """Who holds at least half of what it grew by; null: not known, or nobody does."""
    owner_kind: Annotated[Optional[str], ("enum", OWNER_KINDS)]
    """What that is."""


class Limit(Record):
    """The limit that memory may grow to."""

    bytes: Size
    """So much."""
    used: Optional[Size]
    """What counts against it; null: not known, then RSS alone does."""
    path: Optional[str]
    """The control group's file; null: it was asked for."""


class LimitReachedRecord(Record):
    """When the limit is reached."""

    limit: Size
    """The limit."""
    room: Size
    """What is left."""
    soonest: float
    """In so many seconds from the last moment, by the fast rate."""
    likely: float
    """By the median rate."""
    latest: float
    """By the slow rate."""


class TrendDocument(Document, command="trend"):
    """The answer of trend."""

    folder: str
    """Where the snapshots are."""
    process: LifeRecord
    earlier: Sequence[LifeRecord]
    """The same program before it was started again, the first one first."""
    others: Sequence[LifeRecord]
    """Other processes whose snapshots lie there."""
    series: Sequence[SeriesRecord]
    """Every figure over time, the largest growth first (of containers by what they hold)."""
    grown: Optional[Sequence[GrownType]]
    """Types of blocks that grow: those that do so steadily first, the largest growth first; null: not known, as fewer
    than two snapshots tell types."""
    limit: Optional[Limit]
    """What it may grow to; null: nothing is known to limit it."""
    reaches: Optional[LimitReachedRecord]
    """When it gets there, if it goes on so; null: it does not grow, or not surely."""
    verdict: str
    """What grew, in words."""
    judgement: Annotated[StatementRecord, JUDGEMENT]


class ResidentPart(Record):
    """A part of resident memory."""

    part: Annotated[str, ("enum", PARTS)]
    """Which."""
    bytes: int
    """So much."""
    label: str
    """What it is, in words."""


class CauseRecord(StatementRecord, first=True):
    """A cause."""

    cause: str
    """What."""
    evidence: str
    """The figures that show it, in words."""


class AdviceRecord(StatementRecord, first=True):
    """A piece of advice."""

    action: str
    """What."""
    effect_bytes: Optional[Size]
    """What it would have changed here; null: not known."""
    bound: bool
    """Whether that is an upper bound."""
    evidence: str
    """The figures that speak for it, in words."""
    how: Sequence[str]
    """How it is done, the usual way first."""
    cost: Optional[str]
    """What it costs."""
    not_when: Optional[str]
    """When not to."""


class OtherMapping(Record):
    """A mapping that is not malloc's."""

    address: Address
    """Where; in one that malloc's blocks or .bss lie in as well, the largest other part."""
    bytes: Size
    """Resident, and not malloc's."""
    name: str
    """Its path."""
    allocator: Optional[str]
    """Whose it is known to be."""


class TypeOfReport(BlocksOfType):
    """All blocks of a type."""

    resident_bytes: Optional[Size]
    """In memory."""
    holds_back_bytes: Annotated[Optional[Size], HOLDS_BACK]


class MainHolderRecord(RootRecord):
    """A main holder."""

    held_bytes: Size
    """What it is the main holder of."""
    retained_bytes: Size
    """What of that it alone leads to."""


class JointHoldersRecord(Record):
    """Owners that lead to something together."""

    owners: Sequence[RootRecord]
    """Who they are."""
    retained_bytes: Size
    """What they lead to."""


class FreedNextRecord(Record):
    """The owner to free next."""

    owners: Sequence[RootRecord]
    """Who they are; none: nobody."""
    retained_bytes: Size
    """What they lead to."""
    alone_bytes: Size
    """What leaves memory if only that is freed, and malloc_trim(0) called."""
    returns_bytes: Size
    """What does in all, with those before: pages that they share among it."""
    holds_up_bytes: Size
    """What stays if all the others are freed, and only that is not."""


class LiveBlockSums(Record):
    """All live blocks, by what leads to them."""

    live_bytes: Size
    """All live blocks."""
    reached_bytes: Size
    """What variables, threads, other mappings or the kernel lead to."""
    perhaps_lost_bytes: Size
    """The part of that to which nothing but unused room of containers leads."""
    cycle_bytes: Size
    """What nothing but cycles of Python's objects leads to: part of what is reached, and objects in Python's own
    pools."""
    possible_bytes: Size
    """What only pointers to insides lead to."""
    lost_bytes: Size
    """What nothing leads to."""
    lost_blocks: Size
    """How many blocks that are."""
    unknown_bytes: Size
    """What nothing leads to in an image that lacks some of what might."""
    owners: Sequence[MainHolderRecord]
    """The three that hold most, as in owners."""
    jointly: Sequence[JointHoldersRecord]
    """Those that together lead to most, which is among what they hold: each of them leads there, and nobody else
    does."""
    in_turn: Sequence[FreedNextRecord]
    """All of these, freed one after the other, whoever brings most first, then what nobody holds; empty: that is not
    known."""


class FindingRecord(Record):
    """Much memory that the program need not have. Findings may overlap: bytes of one may be another's, too."""

    reason: Annotated[str, ("enum", FINDING_REASONS)]
    """Why it need not: one of waste's reasons, lost or cycle as in leaks, or pinned-free (it is free, and blocks of a
    type keep it)."""
    path: Optional[str]
    """The way to it, as the program would write it; null: nothing leads there, or it is told by type alone."""
    type: Optional[str]
    """Of the containers or of the blocks; null: not known."""
    may_be: Sequence[str]
    """Of lost blocks of which only the size is known: structs that they may be, the likeliest first."""
    certain: bool
    """False: something of it is a guess."""
    blocks: Size
    """How many containers or blocks are at fault."""
    bytes: Size
    """What it costs; of what is lost with all that only that leads to."""
    resident_bytes: Optional[Size]
    """What of that is in memory; null: not known."""
    sample: Address
    """One of the blocks: what malloc returned."""
    text: str
    """The finding in words."""
    advice: StatementRecord
    """What to change in the program."""
    until: StatementRecord
    """What can be done while the program is as it is."""


class ReportDocument(Document, command="report"):
    """The answer of report."""

    rss_bytes: Optional[Size]
    """Resident memory, with anonymous pages of hugetlbfs, which the kernel counts apart; null: the image does not tell
    (a core, of the pages of files)."""
    swap_bytes: Optional[Size]
    """What else of it is in swap."""
    parts: Sequence[ResidentPart]
    """They sum to rss_bytes."""
    verdict: str
    """The answer."""
    causes: Sequence[CauseRecord]
    """Why it stays."""
    advice: Sequence[AdviceRecord]
    """What to do, the most helpful first; then what would not help."""
    other_mappings: Sequence[OtherMapping]
    """The largest that are not this malloc's."""
    allocators: Annotated[Sequence[AllocatorShare], ALLOCATORS]
    types: Optional[Sequence[TypeOfReport]]
    """What the live blocks are, what there is most of first, 20 at most; null: not looked at."""
    held: Optional[LiveBlockSums]
    """Whether the blocks in use are held, and by whom; null: not looked at. What is reached, possible, lost and unknown
    sum to live_bytes."""
    findings: Optional[Sequence[FindingRecord]]
    """Memory that the program need not have, where it is much, the largest first; null: not looked at (of a large
    process --owners looks)."""
    containers: Optional[Sequence[ContainerRecord]]
    """The containers that hold most, three at most, as in containers: whether they need it only the program knows;
    null: not looked at."""
    judgement: Annotated[StatementRecord, JUDGEMENT]
    growth: Optional[StatementRecord]
    """With --since or --again: what grew, by two moments."""
    grown: Optional[Sequence[GrownType]]
    """The types that grew between the two, as in trend; null: not told by both."""
    measure: Annotated[Optional[str], ("enum", ("resident", "anonymous", "address-space"))]
    """What the parts measure; null: there are none."""
    html: Optional[Written]
    """The page that was written."""
