"""JSON records of chunks, chunk, pins, check and map."""

from __future__ import annotations

from typing import Annotated, Optional, Sequence, Union

from ...analysis.chunks import WITH_TOP
from ...base.model import KINDS
from ..formats.spool import Spool
from .arena_records import ArenaOrNone, Index
from .owner_records import HELD_BY, WRITTEN, OwnerRecord, Written
from .record import JUDGEMENT, Address, ChunkTally, Document, Identity, Record, Size, StatementRecord
from .type_records import HELD_MOST, BlocksOfType, HolderOfMost

State = Annotated[Optional[str], ("enum", WITH_TOP), "What it is; null: not known"]


class Summary(Record):
    """All swept chunks, by state."""

    used: Annotated[ChunkTally, "In the program's hands"]
    tcache: Annotated[ChunkTally, "In thread caches"]
    fast: Annotated[ChunkTally, "In fastbins"]
    free: Annotated[ChunkTally, "In bins"]
    top: Annotated[ChunkTally, "At arenas' ends"]
    bookkeeping_bytes: Annotated[Size, "Headers of heaps and arenas, fenceposts"]
    foreign_bytes: Annotated[Size, "Somebody else's, by sbrk"]
    damaged_bytes: Annotated[Size, "What could not be read as chunks"]
    system_bytes: Annotated[Size, "What these arenas took from the kernel"]


class SizeRow(Record):
    """Chunks of one class of sizes."""

    min_bytes: Annotated[Size, "From this size on"]
    max_bytes: Annotated[Size, "Up to this size"]
    used_chunks: Annotated[Optional[Size], "In use; null: not asked for, or not known"]
    used_bytes: Annotated[Optional[Size], "Their bytes"]
    free_chunks: Annotated[Optional[Size], "Not in use"]
    free_bytes: Annotated[Optional[Size], "Their bytes"]


class ExactSizeRecord(Record):
    """Chunks of one size."""

    bytes: Annotated[Size, "The size"]
    used_chunks: Annotated[Optional[Size], "In use; null: not asked for, or not known"]
    free_chunks: Annotated[Optional[Size], "Not in use"]


class ChunkRow(Record):
    """A chunk; a Spool has these as they are written."""

    address: Annotated[Address, "Its header"]
    bytes: Annotated[Size, "Its size"]
    state: State
    arena: Index
    type: Annotated[str, "With --type: its type"] = ""


class ChunksDocument(Document, command="chunks"):
    """The answer of chunks."""

    summary: Summary
    sizes: Annotated[Sequence[SizeRow], "A histogram"]
    chunks: Annotated[
        Union[Sequence[ChunkRow], Spool],
        "Arena by arena in address order, or as --sort has them; --limit at most",
    ]
    left_out: Annotated[Optional[Size], "How many more there are; null where it was stopped"]
    exact_sizes: Annotated[Sequence[ExactSizeRecord], "What holds most first, --limit at most"]
    exact_sizes_left_out: Annotated[Size, "How many more sizes there are"]


class WordRecord(Record):
    """A word of a block."""

    offset: Annotated[int, "From the user address"]
    value: Annotated[Address, "What it holds"]
    symbol: Annotated[Optional[str], "What that points to, by name"]


class MemberRecord(Record):
    """A part of a block, according to debug information."""

    name: Annotated[str, 'As it is reached from the object: peer.port, [3].name; "": the whole']
    offset: Annotated[int, "From the user address"]
    type: Annotated[str, "Its type"]
    value: Annotated[Optional[float], "Of a number, a character, a boolean, an enum; null: it is none, or not known"]
    enumerator: Annotated[Optional[str], "Of an enum, the name of its value; null: it has none"]
    text: Annotated[Optional[str], "With --with-values: of a string, or of what leads to one; else null"]
    target: Annotated[Optional[Address], "Where a pointer leads; null: it is none"]
    leads_to: Annotated[Optional[str], "What is there: the type of a block, a symbol; null: not known"]
    elements: Annotated[Optional[Size], "How many a container has; null: it is none, or damaged"]
    left_out: Annotated[Size, "Of an array: how many elements more there are, which have no rows of their own"]


class Chunk(Record):
    """A chunk, with all that is known of it."""

    address: Annotated[Address, "Its header"]
    user_address: Annotated[Address, "What malloc returned"]
    bytes: Annotated[Size, "Its size"]
    state: Annotated[Optional[str], ("enum", (*WITH_TOP, "mmapped")), "What it is; null: not known"]
    arena: ArenaOrNone
    heap: Annotated[Optional[Address], "The heap that it lies in"]
    bin: Annotated[Optional[str], "The list that it is in"]
    tid: Annotated[Optional[int], "The thread whose cache keeps it"]
    previous: Annotated[Optional[Address], "The previous chunk in memory"]
    next: Annotated[Optional[Address], "The next chunk in memory"]
    type: Annotated[Optional[str], "What it is; null: not in use, malloc's own, or not known"]
    kind: Annotated[Optional[str], ("enum", tuple(KINDS)), "Of which sort"]
    module: Annotated[Optional[str], "The file that it is of"]
    certain: Annotated[Optional[bool], "False for a guess, by what it holds"]
    how: Annotated[Optional[str], "By what it was known"]
    members: Annotated[
        Optional[Sequence[MemberRecord]],
        "What it has in it; null: no debug information tells its type",
    ]
    words: Annotated[Sequence[WordRecord], "Its first words"]

    def without_contents(self) -> Chunk:
        """Neither words nor what members are."""
        unknown = dict.fromkeys(("value", "enumerator", "text", "target", "leads_to", "elements"))
        members = None if self.members is None else [MemberRecord.of(each, **unknown) for each in self.members]
        return Chunk.of(self, members=members, words=[])


class AskedAddress(Record):
    """An address that was asked for."""

    asked: Annotated[Address, "As it was asked for"]
    chunk: Annotated[Optional[Chunk], "The chunk that holds it; null: none does"]
    problem: Annotated[Optional[StatementRecord], "Where it lies then"]


class ChunkDocument(Document, command="chunk"):
    """The answer of chunk."""

    chunk: Annotated[
        Optional[Chunk],
        "The chunk that holds the (first) address; null: none does, and a problem says what is there",
    ]
    answers: Annotated[Sequence[AskedAddress], "Of several addresses: one for each, in their order"] = ()

    def without_contents(self) -> ChunkDocument:
        """See Chunk."""

        def bare(chunk: Optional[Chunk]) -> Optional[Chunk]:
            return None if chunk is None else chunk.without_contents()

        found = ChunkDocument(chunk=bare(self.chunk))
        if self.answers:
            found = ChunkDocument.of(
                found, answers=[AskedAddress.of(each, chunk=bare(each.chunk)) for each in self.answers]
            )
        found.within(self.envelope)
        return found


class GainRecord(Record):
    """Memory that would return to the system."""

    releases_bytes: Annotated[Size, "What would return to the system"]
    resident_bytes: Annotated[Optional[int], "What of that is in memory"]


class PinGroup(BlocksOfType, GainRecord):
    """All blocks of a type."""

    held_by: Annotated[Optional[HolderOfMost], HELD_MOST]


Ranges = Sequence[
    Annotated[
        tuple[
            Annotated[str, ("enum", ("munmap", "madvise", "brk")), "By which call"],
            Annotated[Address, "Its start"],
            Annotated[int, "Its bytes"],
        ],
        "A range",
    ]
]


class Returned(Record):
    """Memory that would return to the system, range by range."""

    ranges: Annotated[Ranges, "With --ranges: what would return"] = ()
    already: Annotated[Ranges, "With --ranges: what of that would return without freeing anything"] = ()


class PinRecord(Returned, first=True):
    """A block in use."""

    address: Annotated[Address, "Its header"]
    bytes: Annotated[Size, "Its size"]
    arena: Index
    reason: Annotated[
        str, ("enum", ("top", "between")), "Whether it ends where a top begins, or lies between free pieces"
    ]
    releases_bytes: Annotated[Size, "What would return to the system"]
    symbol: Annotated[Optional[str], "What its first word points to"]
    type: Annotated[Optional[str], "The class whose table of virtual functions that is; null: it is none"]
    held_by: Annotated[Optional[OwnerRecord], HELD_BY]
    expression: Annotated[Optional[str], WRITTEN]
    by: Annotated[str, ("enum", ("free", "trim")), "What would give it back"]
    user_address: Annotated[Address, "What malloc returned"]
    resident_bytes: Annotated[Optional[int], "What of that is in memory"]
    note: Annotated[Optional[str], "What comes before"]
    note_records: Annotated[Sequence[StatementRecord], "The same, apart from its words"]


class PinSums(GainRecord, first=True):
    """The best block of each arena, summed."""

    blocks: Annotated[Size, "How many"]
    bytes: Annotated[Size, "Their bytes"]


class TailRecord(Returned, first=True):
    """The last blocks of an arena."""

    arena: Index
    blocks: Annotated[Size, "How many"]
    bytes: Annotated[Size, "Their bytes"]
    lowest: Annotated[Address, "The lowest"]
    releases_bytes: Annotated[Size, "What would return to the system"]
    resident_bytes: Annotated[Optional[int], "What of that is in memory"]


class Pending(Record):
    """Memory of an arena that the next free() returns in any case."""

    arena: Index
    bytes: Annotated[int, "So much"]


class PinsDocument(Document, command="pins"):
    """The answer of pins."""

    groups: Annotated[
        Optional[Sequence[PinGroup]],
        "Types of which all blocks together keep more than they are, what keeps most besides first; none where a "
        "single block does; null: not looked at, as the heaps are large and --types was not given",
    ]
    pins: Annotated[Sequence[PinRecord], "Those that hold back the most first"]
    left_out: Annotated[Size, "How many more there are"]
    own_left_out: Annotated[Size, "How many would mainly give back their own pages"]
    one_per_arena: PinSums
    together: Annotated[Sequence[TailRecord], "The last blocks of an arena, all freed"]
    pending: Annotated[Sequence[Pending], "What is returned anyway at the next free() of 64 KiB"]


class BreachRecord(StatementRecord, first=True):
    """A broken invariant."""

    address: Annotated[Address, "Where"]
    arena: ArenaOrNone
    rule: Annotated[Identity, "Which; of several things that break it the id says which"]
    expected: Annotated[str, "What should be there"]
    found: Annotated[str, "What is"]
    culprit: Annotated[Optional[Address], "The block in front, which may have been written beyond its end"]
    transient: Annotated[bool, "Whether a call in progress explains it"]


class BusyRecord(Record):
    """An arena or a thread at work in malloc."""

    arena: ArenaOrNone
    tid: Annotated[Optional[int], "The thread inside"]
    locked: Annotated[bool, "Whether the arena is locked"]


class Checked(Record):
    """How much was checked."""

    arenas: Annotated[Size, "Arenas"]
    heaps: Annotated[Size, "Heaps"]
    chunks: Annotated[Size, "Chunks"]
    bin_entries: Annotated[Size, "Chunks in bins"]
    tcache_entries: Annotated[Size, "Chunks in thread caches"]


class CheckDocument(Document, command="check"):
    """The answer of check."""

    breaches: Annotated[Sequence[BreachRecord], "Damage first"]
    busy: Annotated[Sequence[BusyRecord], "Malloc at work"]
    checked: Checked
    verdict: Annotated[str, "Sound, busy or damaged, in words"]
    judgement: Annotated[StatementRecord, JUDGEMENT]


Cells = Optional[Sequence[Size]]


class StripRecord(Record):
    """The strip of a heap."""

    arena: Index
    address: Annotated[Address, "Where it starts"]
    end: Annotated[Address, "Where it ends"]
    cell_bytes: Annotated[Size, "What a cell stands for"]
    types: Annotated[
        Sequence[Sequence[Size]],
        "With --types: for each type its bytes in each cell",
    ] = ()
    used: Annotated[Cells, "In use: bytes in each cell; null: not known"]
    cached: Annotated[Cells, "In a thread cache or fastbin: bytes in each cell; null: not known"]
    free: Annotated[Cells, "In bins: bytes in each cell; null: not known"]
    top: Annotated[Cells, "At an arena's end: bytes in each cell; null: not known"]
    bookkeeping: Annotated[Cells, "malloc's own: bytes in each cell; null: not known"]
    foreign: Annotated[Cells, "Somebody else's, by sbrk: bytes in each cell; null: not known"]
    damaged: Annotated[Cells, "What could not be read as chunks: bytes in each cell; null: not known"]
    resident: Annotated[Cells, "In memory: bytes in each cell; null: not known"]
    releasable: Annotated[Cells, "What malloc_trim(0) would give back: bytes in each cell; null: not known"]
    releasable_resident: Annotated[Cells, "What of that is in memory: bytes in each cell; null: not known"]
    tops: Annotated[Cells, "What only trim --tops gives back: bytes in each cell; null: not known"]
    splits: Annotated[
        Sequence[Annotated[Size, "How many"]],
        "Stretches in use that split free memory, and are smaller than what is free on their two sides: those that "
        "begin in each cell",
    ]


class StripTotals(Record):
    """Sums over all heaps."""

    used_bytes: Annotated[Optional[Size], "In use"]
    cached_bytes: Annotated[Optional[Size], "In a thread cache or fastbin"]
    free_bytes: Annotated[Optional[Size], "In bins"]
    top_bytes: Annotated[Optional[Size], "At an arena's end"]
    bookkeeping_bytes: Annotated[Optional[Size], "malloc's own"]
    foreign_bytes: Annotated[Optional[Size], "Somebody else's, by sbrk"]
    damaged_bytes: Annotated[Optional[Size], "What could not be read as chunks"]
    resident_bytes: Annotated[Optional[Size], "In memory"]
    releasable_bytes: Annotated[Optional[Size], "What malloc_trim(0) would give back"]
    releasable_resident_bytes: Annotated[Optional[Size], "What of that is in memory"]
    tops_bytes: Annotated[Optional[Size], "What only trim --tops gives back"]
    splits: Annotated[
        Size, "Stretches in use that split free memory, and are smaller than what is free on their two sides"
    ]


class MapDocument(Document, command="map"):
    """The answer of map."""

    heaps: Annotated[Sequence[StripRecord], "A strip of cells for each"]
    totals: StripTotals
    html: Annotated[Optional[Written], "The page that was written"]
    types: Annotated[
        Sequence[Annotated[BlocksOfType, "All live blocks of a type, mmapped ones included"]],
        "With --types: those that hold back the most, 8 at most",
    ] = ()
