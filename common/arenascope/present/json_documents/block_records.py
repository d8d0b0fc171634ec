"""JSON records of blocks and who holds them: of chunks, chunk, pins, check, map, types, containers, owners, owner, refs
and leaks."""

from __future__ import annotations

from typing import Annotated, Optional, Sequence, Union

from ...analysis.chunks import WITH_TOP
from ...base.model import CONTAINER_FORMS, KINDS, MEMBER_FORMS, ROOT_KINDS, STALE, WASTE_REASONS
from .arena_records import ArenaOrNone, Index
from .record import JUDGEMENT, Address, ChunkTally, Document, Identity, Record, Size, Spool, StatementRecord

OWNER_KINDS = (*ROOT_KINDS, "unreached")
STRENGTHS = ("definite", "possible")
ENCODINGS = ("tagged", "shifted", "unaligned", "relative")
STATES = ("used", "mmapped", "tcache", "fast", "free", "mapping")
WRITTEN = "The way to it as the program would write it, as in owner; null: its debug information tells none"
HELD_BY = "Who holds it: as in owners; null without --owners, and where it is not known"

MAY_BE = (
    "Of blocks that are known by their size alone: the structs of the program, three at most, that this size and what "
    "is in the blocks allow, the likeliest first: a guess; empty: nothing can be said"
)


class OwnerRecord(Record):
    """An owner; nobody is one, too."""

    kind: Annotated[str, ("enum", OWNER_KINDS), "What owns it; unreached: nothing"]
    name: Annotated[
        Optional[str],
        "The variable, the runtime, vector registers, or what is mapped; of a stack the local variable with its "
        "function, as debug information tells; null: not known, and the rest of a stack",
    ]
    tid: Annotated[Optional[int], "The thread whose it is"]
    stale: Annotated[
        Optional[str],
        ("enum", STALE),
        "It holds this by stale words only: why they are stale. null: by pointers",
    ]


class RootRecord(OwnerRecord):
    """A root: a variable, a thread's stack, the heap of a runtime, a mapping."""

    kind: Annotated[str, ("enum", ROOT_KINDS), "What it is"]


class OtherHoldersRecord(Record):
    """Owners that also lead to what an owner does not hold alone."""

    owners: Annotated[
        Sequence[RootRecord],
        "Whoever leads to a hundredth of that or more, the most first",
    ]
    whole: Annotated[bool, "These are all of those; else others lead there as well"]


class PathStep(Record):
    """A block on the way."""

    block: Annotated[Address, "What malloc returned"]
    type: Annotated[str, "What it is"]
    retained_bytes: Annotated[Size, "It and all blocks that only it leads to"]
    blocks: Annotated[Size, "How many blocks that are"]
    expression: Annotated[Optional[str], WRITTEN]


class TypeCostRecord(Record):
    """All blocks of a type that one owner holds, and their cost."""

    type: Annotated[str, "What they are"]
    certain: Annotated[bool, "False for a guess"]
    blocks: Annotated[Size, "How many"]
    bytes: Annotated[Size, "Their bytes"]
    retained_bytes: Annotated[
        Size,
        "With all that each alone leads to, down to the next of the same type; what several types lead to, one below "
        "the other, counts with each of these",
    ]
    largest_bytes: Annotated[Size, "What the one of them takes that takes most, with that"]
    largest: Annotated[Address, "What malloc returned for that one"]


class OwnerRow(OwnerRecord):
    """An owner with what it holds: it is the main holder of these blocks."""

    type: Annotated[Optional[str], "The type of the last block on `path`; null: `path` is empty"]
    held_bytes: Annotated[Size, "What it is the main holder of"]
    blocks: Annotated[Size, "How many blocks that are"]
    retained_bytes: Annotated[Size, "What of that it alone leads to: what could be freed were it cleared"]
    retained_blocks: Annotated[Size, "How many blocks that are"]
    retained_resident_bytes: Annotated[Optional[Size], "What of that is in memory"]
    returns_bytes: Annotated[Optional[Size], "Pages on which nothing else is: malloc_trim(0) gives them back then"]
    tied_bytes: Annotated[Size, "What of held_bytes another owner leads to equally well"]
    leading: Annotated[
        Optional[OtherHoldersRecord], "Who leads to what of held_bytes it does not hold alone; null: it holds all"
    ]
    also_reached_from: Annotated[
        Sequence[RootRecord],
        "Those of `leading` who are as good holders: each leads to nine tenths of held_bytes or more",
    ]
    path: Annotated[
        Sequence[PathStep], "Down to where it spreads: blocks on which most of what the one before has hangs"
    ]
    by_type: Annotated[
        Optional[Sequence[TypeCostRecord]],
        "What its blocks cost, by what they are, the most first; null without --by type",
    ]


class Written(Record):
    """A file that was written."""

    file: Annotated[str, "Where"]
    bytes: Annotated[Size, "Its size"]


class OwnersDocument(Document, command="owners"):
    """The answer of owners."""

    owners: Annotated[
        Sequence[OwnerRow],
        "Whose memory it is, the largest first; with those that are left out, held_bytes sum to live_bytes",
    ]
    left_out: Annotated[Size, "How many more owners there are"]
    live_bytes: Annotated[Size, "All live blocks"]
    notes: Annotated[
        Sequence[Annotated[StatementRecord, "A note"]],
        "Which files lack symbols, so that all their unnamed variables are one owner (`names.owner`), and the command "
        "that brings the names (`names.command`)",
    ]
    html: Annotated[Optional[Written], "The page that was written"]
    pprof: Annotated[Optional[Written], "The profile that was written"]


class GoalRecord(Record):
    """The block or mapping at the address; null: nothing is mapped there."""

    address: Annotated[Address, "Its header, or the start of the mapping"]
    user_address: Annotated[Address, "What malloc returned, or the start of the mapping"]
    bytes: Annotated[Size, "Its size"]
    state: Annotated[str, ("enum", STATES), "What it is"]
    arena: ArenaOrNone
    type: Annotated[Optional[str], "What the block is; null: not known"]


class PointerRecord(Record):
    """A pointer."""

    kind: Annotated[str, ("enum", (*ROOT_KINDS, "block")), "Who has it: a root of this kind, or a block"]
    address: Annotated[Optional[Address], "Where it lies; null: in a register, or in the kernel"]
    name: Annotated[Optional[str], "The variable, the function, the register, or what is mapped; null: not known"]
    tid: Annotated[Optional[int], "The thread whose stack, register or variable it is"]
    block: Annotated[Optional[Address], "The block that it lies in, by what malloc returned"]
    type: Annotated[Optional[str], "What that block is; null: not known"]
    offset: Annotated[Optional[Size], "From that block's start"]
    field: Annotated[Optional[str], "The member that it is; null: not known"]
    strength: Annotated[str, ("enum", STRENGTHS), "Whether it is certain to be meant"]
    into: Annotated[int, "How far past the start it leads"]
    encoding: Annotated[Optional[str], ("enum", ENCODINGS), "How it is written, where it is no plain pointer"]
    stale: Annotated[Optional[str], ("enum", STALE), "Why the word is stale; null: it is not"]
    expression: Annotated[Optional[str], WRITTEN]


class RefsDocument(Document, command="refs"):
    """The answer of refs."""

    block: Optional[GoalRecord]
    refs: Annotated[Sequence[PointerRecord], "Every pointer to it: those of roots first"]


class OwnerDocument(Document, command="owner"):
    """The answer of owner."""

    block: Optional[GoalRecord]
    held_by: Annotated[
        Optional[OwnerRecord], "Of a live block its main holder: as in owners; null: it is none, or that is not known"
    ]
    tied_with: Annotated[Optional[OwnerRecord], "Another owner, who leads there equally well; null: there is none"]
    path: Annotated[
        Optional[
            Sequence[Annotated[PointerRecord, "A pointer, to the block of the next row or to what was asked for"]]
        ],
        "The path to it, the root's pointer first; null: nothing leads to it",
    ]
    expression: Annotated[
        Optional[str],
        "The same as the program would write it, by its debug information, a step that repeats written once with its "
        "number; null: that does not lead there from the same variable. Elements by their numbers; by their keys with "
        "--with-values",
    ]


class BlockSum(Record):
    """A number of blocks."""

    blocks: Annotated[Size, "How many"]
    bytes: Annotated[Size, "Their bytes"]


class Leak(Record):
    """All lost blocks of one type."""

    type: Annotated[str, "What they are"]
    may_be: Annotated[Sequence[str], MAY_BE]
    blocks: Annotated[Size, "How many nothing leads to; a cycle counts as one"]
    bytes: Annotated[Size, "Their bytes"]
    indirect_blocks: Annotated[Size, "How many blocks only these lead to"]
    indirect_bytes: Annotated[Size, "Their bytes"]
    strength: Annotated[
        str,
        ("enum", STRENGTHS),
        "possible: only pointers to insides lead to it, or epoll may, which this image lacks",
    ]
    samples: Annotated[Sequence[Address], "What malloc returned for some of them"]


class EncodedPointerBlocks(BlockSum, first=True):
    """Blocks that only pointers of one encoding lead to."""

    encoding: Annotated[str, ("enum", (*ENCODINGS, "inside")), "How; inside: at one offset in all blocks of a size"]


class StaleWordsRecord(BlockSum, first=True):
    """Blocks that only similar stale words lead to."""

    name: Annotated[
        Optional[str],
        "The words: a member or an array of blocks of a type, what these blocks are, or a variable; null: not known",
    ]
    why: Annotated[str, ("enum", STALE), "Why they are stale"]
    samples: Annotated[Sequence[Address], "What malloc returned for some to which they lead"]


class LeaksDocument(Document, command="leaks"):
    """The answer of leaks."""

    leaks: Annotated[Sequence[Leak], "What is lost, by what it is"]
    reached: Annotated[BlockSum, "What roots lead to"]
    unknown: Annotated[BlockSum, "What nothing leads to in an image that lacks some of what might"]
    stale: Annotated[BlockSum, "What only stale words lead to: owner says which; part of what is reached"]
    stale_words: Annotated[Sequence[StaleWordsRecord], "Which words these are, those that hold most first"]
    saved: Annotated[
        Sequence[EncodedPointerBlocks],
        "What only encoded pointers lead to, or pointers to insides; part of what is reached",
    ]


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


class WasteRecord(Record):
    """What is reached in one way, and not needed for one reason."""

    reason: Annotated[str, ("enum", WASTE_REASONS), "Why it is not needed"]
    path: Annotated[str, "The way to it, as the program would write it; [] stands for any element"]
    type: Annotated[str, "Of the containers as they are declared, or of the blocks"]
    certain: Annotated[bool, "False: something on the way is a guess"]
    containers: Annotated[Size, "How many containers or blocks waste memory so"]
    all_containers: Annotated[Size, "How many there are on that path"]
    elements: Annotated[Size, "How many elements those have that waste memory"]
    used_bytes: Annotated[Size, "What they use of their memory"]
    room_bytes: Annotated[Size, "What they have"]
    unused_bytes: Annotated[Size, "What they do not use"]
    unused_resident_bytes: Annotated[Optional[Size], "What of that is in memory; null: not known"]
    sample: Annotated[Address, "A block of the largest one: what malloc returned"]
    advice: Annotated[StatementRecord, "What to change in the program"]


class WasteDocument(Document, command="waste"):
    """The answer of waste."""

    waste: Annotated[Sequence[WasteRecord], "What wastes most first; --limit at most"]
    left_out: Annotated[Size, "How many more rows there are"]
    live_bytes: Annotated[Size, "All live blocks"]
    notes: Annotated[Sequence[StatementRecord], "What could not be looked at, and why"]


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
