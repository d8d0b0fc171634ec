"""JSON records of arenas, heaps, bins, threads, params, mmapped, trim, info, stats and version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Mapping, Optional, Sequence

from ...base.model import Allocator
from .record import Address, ChunkTally, Document, Range, Record, Size, StatementRecord

if TYPE_CHECKING:
    from ...session.resident import GlibcShare

Index = Annotated[int, "The arena's number, malloc_info's <heap nr>; 0: main_arena"]
ArenaOrNone = Annotated[Optional[int], "The arena's index"]


class ArenaThread(Record):
    """A thread."""

    tid: int
    """The thread's id in its process."""
    name: Optional[str]
    """The thread's name."""


class ArenaIndex(Record):
    """Identifies an arena."""

    index: Index
    address: Address
    """Its malloc_state."""


class ArenaPlace(ArenaIndex):
    """An arena, its heaps and threads."""

    main: bool
    """Whether it is main_arena."""
    heaps: Optional[Size]
    """How many heaps it has."""
    attached_threads: Optional[int]
    """How many threads it counts."""
    threads: Sequence[ArenaThread]
    """Those that use it."""


class ArenaFigures(Record):
    """The figures of one arena, or of all."""

    system_bytes: Optional[Size]
    """What it took from the kernel (system_mem)."""
    max_system_bytes: Optional[Size]
    """Its maximum so far."""
    used_bytes: Optional[int]
    """Blocks in the program's hands, with malloc's bookkeeping."""
    tcache: ChunkTally
    """Chunks that thread caches keep of it."""
    fast: ChunkTally
    """Chunks in fastbins."""
    bins: ChunkTally
    """Chunks in unsorted, small and large bins."""
    top_bytes: Optional[Size]
    """The chunk at its end, which new blocks are cut from."""
    resident_bytes: Optional[Size]
    """What of it is in memory."""
    trim_bytes: Optional[Size]
    """What malloc_trim(0) would give back, of address space."""
    trim_resident_bytes: Optional[Size]
    """How much RSS would fall."""


class ArenaRecord(ArenaPlace, ArenaFigures):
    """An arena."""


class OtherAllocator(Record):
    """An allocator besides glibc's malloc."""

    name: str
    """Its name, or the file that exports a malloc of its own."""
    how: str
    """What it was recognised by."""
    replaces_malloc: Optional[bool]
    """Whether malloc leads to it; null: not known."""
    shadowed_by: Optional[str]
    """The file whose malloc is called in its stead, as the linker asks it first."""
    instead: str
    """What reports on its memory."""


def other_allocators(allocators: Sequence[Allocator]) -> list[OtherAllocator]:
    return [OtherAllocator.of(each) for each in allocators]


class AllocatorShare(OtherAllocator):
    """Another allocator, with its resident memory."""

    resident_bytes: Optional[Size]
    """What its mappings have in memory; null: its mappings are not known."""
    at_most_bytes: Optional[Size]
    """An upper bound of that; null: not known."""


class GlibcShareRecord(Record):
    """How much resident memory is glibc's."""

    glibc_resident_bytes: Optional[Size]
    """Resident bytes of glibc's arenas and of blocks served by mmap."""
    rss_bytes: Optional[Size]
    """RSS of the process."""


def share_record(share: Optional[GlibcShare]) -> Optional[GlibcShareRecord]:
    return None if share is None else GlibcShareRecord(glibc_resident_bytes=share.glibc, rss_bytes=share.rss)


ALLOCATORS = "Other allocators, and runtimes with a heap of their own"
SHARE = "How much of what is in memory is glibc's; null where there is no other allocator"


class ArenasDocument(Document, command="arenas"):
    """The answer of arenas."""

    arenas: Sequence[ArenaRecord]
    """In the ring's order."""
    mmapped: ChunkTally
    """Blocks served by mmap, by mp_."""
    totals: ArenaFigures
    """The same of all arenas; null where one is not known."""
    allocators: Annotated[Sequence[OtherAllocator], ALLOCATORS]
    share: Annotated[Optional[GlibcShareRecord], SHARE]


class HeapRow(Record):
    """A heap, or a region that the main arena grew into."""

    arena: Index
    address: Address
    """Where it starts."""
    end: Address
    """Where it ends."""
    bytes: Size
    """Its size."""
    mprotect_bytes: Optional[Size]
    """What mprotect opened; null: the main arena's."""
    resident_bytes: Optional[Size]
    """What of it is in memory."""
    last: bool
    """Whether top lies in it."""


class HeapsDocument(Document, command="heaps"):
    """The answer of heaps."""

    heaps: Sequence[HeapRow]
    """Arena by arena, in address order."""


class BinRow(Record):
    """A list of free chunks."""

    arena: Optional[int]
    """Its owner; null: a thread's cache."""
    tid: Optional[int]
    """Whose cache it is; null: an arena's."""
    kind: Annotated[str, ("enum", ("tcache", "fast", "unsorted", "small", "large"))]
    """Which kind."""
    index: int
    """Its index among those of its kind."""
    min_bytes: Size
    """The smallest chunk that belongs there."""
    max_bytes: Optional[Size]
    """The largest; null: any."""
    chunks: Optional[Size]
    """How many; null where it could not be read to its end."""
    bytes: Optional[Size]
    """Their bytes."""


class BinsDocument(Document, command="bins"):
    """The answer of bins."""

    bins: Sequence[BinRow]
    """Bins that are not empty."""


class Cache(Record):
    """A thread's cache."""

    address: Optional[Address]
    """Where it is; null: none, or not found."""
    chunks: Optional[Size]
    """What it keeps; null: not known."""
    bytes: Optional[Size]
    """Their bytes."""


class ThreadRow(ArenaThread):
    """A thread."""

    arena: ArenaOrNone
    tcache: Cache


class ThreadsDocument(Document, command="threads"):
    """The answer of threads."""

    threads: Sequence[ThreadRow]
    """By tid."""
    unattached_arenas: Optional[Sequence[int]]
    """Arenas that no thread uses; null: not known."""


class ParamRecord(Record):
    """A parameter."""

    name: str
    """mp_'s field, or global_max_fast (M_MXFAST), perturb_byte (M_PERTURB)."""
    value: Optional[int]
    """As it stands; null: nothing tells, or this glibc has none."""
    default: Optional[int]
    """In this glibc."""
    requested: Optional[str]
    """What the environment asked for."""
    note: Optional[str]
    """Whether it took effect, or how it changed."""
    note_record: Optional[StatementRecord]
    """The note, apart from its words."""


class ArenaLimits(Record):
    """How many arenas there are and may be."""

    count: Optional[Size]
    """How many there are."""
    limit: Optional[float]
    """The maximum that this glibc makes."""


class ParamsDocument(Document, command="params"):
    """The answer of params."""

    params: Sequence[ParamRecord]
    """In mp_'s own order, then what lies beside it."""
    arenas: ArenaLimits
    note: Optional[str]
    """Whether any of them was changed."""
    note_record: Optional[StatementRecord]
    """The same, apart from its words: how many have a default, how many are not at it, how many the environment asked
    for; the arenas' limit, where it follows from the number of processors, with that."""


class MmappedRow(Record):
    """A block with a mapping of its own."""

    address: Address
    """Its chunk."""
    bytes: Size
    """Its mapping."""
    resident_bytes: Optional[Size]
    """What of it is in memory."""
    type: Optional[str]
    """What it is; null: known by its size alone."""
    certain: Optional[bool]
    """False for a guess, by what it holds."""


class MmappedDocument(Document, command="mmapped"):
    """The answer of mmapped."""

    blocks: Sequence[MmappedRow]
    """In address order."""
    expected: ChunkTally
    """What mp_ counts."""
    match: bool
    """Whether the two agree."""


class KeptByArena(Record):
    """Memory that stays in an arena."""

    top_bytes: Optional[Size]
    """Its top."""
    top_resident_bytes: Optional[Size]
    """What of that is in memory."""
    subpage_bytes: Optional[int]
    """What shares a page with something else."""
    tcache_bytes: Optional[Size]
    """What threads keep."""


class ArenaTrimRecord(ArenaIndex):
    """The effect of malloc_trim(0) on an arena."""

    madvise_bytes: Optional[Size]
    """Pages released inside its bins."""
    madvise_ranges: Optional[Sequence[Annotated[Range, "A range"]]] = None
    """With --ranges, in address order."""
    brk_bytes: Optional[int]
    """How far the break moves back; negative: the heap grows instead."""
    resident_bytes: Optional[Size]
    """By how much RSS would fall."""
    kept: KeptByArena
    """What stays, and why."""
    tops_bytes: Optional[Size]
    """What --tops would add."""
    tops_range: Optional[Range]
    """Where."""


class TrimTotals(Record):
    """Sums over all arenas."""

    release_bytes: Optional[Size]
    """Address space."""
    resident_bytes: Optional[Size]
    """RSS."""
    kept_bytes: Optional[int]
    """What stays."""
    tops_bytes: Optional[Size]
    """What --tops would add."""
    tops_resident_bytes: Optional[Size]
    """What of that is in memory."""


class AppliedRecord(Record):
    """The outcome of --apply."""

    rss_before: Size
    """RSS."""
    rss_after: Size
    """RSS afterwards."""
    predicted_bytes: Optional[Size]
    """What was predicted."""
    released_bytes: int
    """What was released."""
    seconds: float
    """How long the calls took."""
    calls: Sequence[StatementRecord]
    """What each call released."""


class TrimDocument(Document, command="trim"):
    """The answer of trim."""

    arenas: Sequence[ArenaTrimRecord]
    """In the ring's order."""
    totals: TrimTotals
    """Of all arenas; null where one is not known."""
    reasons: Sequence[StatementRecord]
    """Why the rest stays, and what would release it."""
    applied: Optional[AppliedRecord]
    """With --apply: the outcome."""


class InfoDocument(Document, command="info"):
    """The answer of info."""

    xml: Optional[str]
    """malloc_info's; null where not all of it can be read."""


class StatsDocument(Document, command="stats"):
    """The answer of stats."""

    text: Optional[str]
    """malloc_stats'; null where not all of it can be read."""


class LayoutCheckRecord(StatementRecord, first=True):
    """A check; holds_in tells in how many of the arenas it holds."""

    check: str
    """What it checks, and in how many arenas it does not hold."""
    held: bool
    """Whether it holds."""


class Checks(Record):
    """Checks of the layout."""

    held: Size
    """How many hold."""
    tried: Size
    """How many there are."""
    list: Sequence[LayoutCheckRecord]
    """Each."""


class LibcRecord(Record):
    """A libc of the process."""

    libc: int
    """Its number, for --libc."""
    path: Optional[str]
    """Its file."""
    version: Optional[str]
    """Its release."""
    main_arena: Address
    """Its main_arena."""
    used: bool
    """Whether its malloc was called."""
    chosen: bool
    """Whether it is the one that was examined."""


class CandidateRecord(Record):
    """A candidate."""

    name: str
    """An address, a release, a distance from the thread pointer; once in its list."""
    taken: bool
    """Whether it is the one that was taken."""
    for_: Sequence[str]
    """What spoke for it."""
    against: Sequence[str]
    """What spoke against it."""
    for_records: Sequence[StatementRecord]
    """The same, with ids."""
    against_records: Sequence[StatementRecord]
    """The same, with ids."""


Found = Annotated[Sequence[CandidateRecord], "Empty where nothing did"]


class Candidates(Record):
    """With --full: the candidates, the chosen one first."""

    main_arena: Found
    mp_: Found
    layout: Found
    thread_arena: Found
    thread_caches: Found


class EngineRecord(Record):
    """The compiled engine, which reads every block."""

    interface: Optional[int]
    """The release of its interface; null: it cannot be used."""
    path: Optional[str]
    """Its file; null: it cannot be used."""
    problem: Optional[str]
    """Why it cannot be used, and what to do; null: it can."""


class VersionDocument(Document, command="version"):
    """The answer of version."""

    arenascope: str
    """Its version."""
    debugger: Optional[str]
    """The debugger, or that there is none."""
    python: str
    """Its version."""
    libraries: Mapping[str, Annotated[str, "Which and where"]]
    """Optional libraries, and where they are."""
    engine: EngineRecord
    layout: Optional[str]
    """What is known of glibc's structures; null: no glibc."""
    checks: Checks
    libcs: Sequence[LibcRecord]
    """Every glibc in the process."""
    allocators: Annotated[Sequence[OtherAllocator], ALLOCATORS]
    share: Annotated[Optional[GlibcShareRecord], SHARE]
    without_debug_information: Optional[Sequence[str]]
    """Files of modules that have none here, or that of another build; null: nobody asked."""
    candidates: Candidates = None  # type: ignore[assignment]  # left out: there only with --full
