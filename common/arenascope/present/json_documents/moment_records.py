"""JSON records of snapshot, save, diff and trend."""

from __future__ import annotations

from typing import Annotated, Optional, Sequence

from ...analysis.diff import FIGURES
from ...analysis.trend import COURSES
from ...base.model import KINDS
from .owner_records import OWNER_KINDS
from .record import JUDGEMENT, Document, Record, Size, StatementRecord

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
