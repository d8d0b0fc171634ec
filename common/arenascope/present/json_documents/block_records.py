"""JSON records of blocks and who holds them: of chunks, chunk, pins, check, map, types, containers, owners, owner, refs
and leaks."""

from __future__ import annotations

from typing import Annotated, Optional, Sequence, Union

from ...analysis.chunks import WITH_TOP
from ...base.model import CONTAINER_FORMS, KINDS, LOST_REASONS, MEMBER_FORMS, ROOT_KINDS, STALE, WASTE_REASONS
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

    kind: Annotated[str, ("enum", OWNER_KINDS)]
    """What owns it; unreached: nothing."""
    name: Optional[str]
    """The variable, the runtime, vector registers, or what is mapped; of a stack the local variable with its function,
    as debug information tells; null: not known, and the rest of a stack."""
    tid: Optional[int]
    """The thread whose it is."""
    stale: Annotated[Optional[str], ("enum", STALE)]
    """It holds this by stale words only: why they are stale. null: by pointers."""


class RootRecord(OwnerRecord):
    """A root: a variable, a thread's stack, the heap of a runtime, a mapping."""

    kind: Annotated[str, ("enum", ROOT_KINDS)]
    """What it is."""


class OtherHoldersRecord(Record):
    """Owners that also lead to what an owner does not hold alone."""

    owners: Sequence[RootRecord]
    """Whoever leads to a hundredth of that or more, the most first."""
    whole: bool
    """These are all of those; else others lead there as well."""


class PathStep(Record):
    """A block on the way."""

    block: Address
    """What malloc returned."""
    type: str
    """What it is."""
    retained_bytes: Size
    """It and all blocks that only it leads to."""
    blocks: Size
    """How many blocks that are."""
    expression: Annotated[Optional[str], WRITTEN]


class TypeCostRecord(Record):
    """All blocks of a type that one owner holds, and their cost."""

    type: str
    """What they are."""
    certain: bool
    """False for a guess."""
    blocks: Size
    """How many."""
    bytes: Size
    """Their bytes."""
    retained_bytes: Size
    """With all that each alone leads to, down to the next of the same type; what several types lead to, one below the
    other, counts with each of these."""
    largest_bytes: Size
    """What the one of them takes that takes most, with that."""
    largest: Address
    """What malloc returned for that one."""


class OwnerRow(OwnerRecord):
    """An owner with what it holds: it is the main holder of these blocks."""

    type: Optional[str]
    """The type of the last block on `path`; null: `path` is empty."""
    held_bytes: Size
    """What it is the main holder of."""
    blocks: Size
    """How many blocks that are."""
    retained_bytes: Size
    """What of that it alone leads to: what could be freed were it cleared."""
    retained_blocks: Size
    """How many blocks that are."""
    retained_resident_bytes: Optional[Size]
    """What of that is in memory."""
    returns_bytes: Optional[Size]
    """Pages on which nothing else is: malloc_trim(0) gives them back then."""
    tied_bytes: Size
    """What of held_bytes another owner leads to equally well."""
    leading: Optional[OtherHoldersRecord]
    """Who leads to what of held_bytes it does not hold alone; null: it holds all."""
    also_reached_from: Sequence[RootRecord]
    """Those of `leading` who are as good holders: each leads to nine tenths of held_bytes or more."""
    path: Sequence[PathStep]
    """Down to where it spreads: blocks on which most of what the one before has hangs."""
    by_type: Optional[Sequence[TypeCostRecord]]
    """What its blocks cost, by what they are, the most first; null without --by type."""
    matching_blocks: Optional[Size] = None
    """With --where: how many of its blocks have an object for which the condition holds."""
    matching_bytes: Optional[Size] = None
    """With --where: their bytes."""


class Written(Record):
    """A file that was written."""

    file: str
    """Where."""
    bytes: Size
    """Its size."""


class WhereRecord(Record):
    """For which objects the condition of --where holds."""

    condition: str
    """As it was typed."""
    types: Sequence[str]
    """The types that have its members."""
    objects: Size
    """How many objects of these there are."""
    matching_objects: Size
    """For how many it holds."""
    guessed_objects: Size
    """Those of them in blocks that only a guess names."""
    unknown_objects: Size
    """Of how many a member cannot be read: they are none of those for which it holds."""


class OwnersDocument(Document, command="owners"):
    """The answer of owners."""

    owners: Sequence[OwnerRow]
    """Whose memory it is, the largest first; with those that are left out, held_bytes sum to live_bytes."""
    left_out: Size
    """How many more owners there are."""
    live_bytes: Size
    """All live blocks."""
    notes: Sequence[Annotated[StatementRecord, "A note"]]
    """Which files lack symbols, so that all their unnamed variables are one owner (`names.owner`), and the command that
    brings the names (`names.command`)."""
    html: Optional[Written]
    """The page that was written."""
    pprof: Optional[Written]
    """The profile that was written."""
    where: Optional[WhereRecord] = None
    """With --where: for which objects it holds. The owners are those that hold any, those with most first."""


class GoalRecord(Record):
    """The block or mapping at the address; null: nothing is mapped there."""

    address: Address
    """Its header, or the start of the mapping."""
    user_address: Address
    """What malloc returned, or the start of the mapping."""
    bytes: Size
    """Its size."""
    state: Annotated[str, ("enum", STATES)]
    """What it is."""
    arena: ArenaOrNone
    type: Optional[str]
    """What the block is; null: not known."""


class PointerRecord(Record):
    """A pointer."""

    kind: Annotated[str, ("enum", (*ROOT_KINDS, "block"))]
    """Who has it: a root of this kind, or a block."""
    address: Optional[Address]
    """Where it lies; null: in a register, or in the kernel."""
    name: Optional[str]
    """The variable, the function, the register, or what is mapped; null: not known."""
    tid: Optional[int]
    """The thread whose stack, register or variable it is."""
    block: Optional[Address]
    """The block that it lies in, by what malloc returned."""
    type: Optional[str]
    """What that block is; null: not known."""
    offset: Optional[Size]
    """From that block's start."""
    field: Optional[str]
    """The member that it is; null: not known."""
    strength: Annotated[str, ("enum", STRENGTHS)]
    """Whether it is certain to be meant."""
    into: int
    """How far past the start it leads."""
    encoding: Annotated[Optional[str], ("enum", ENCODINGS)]
    """How it is written, where it is no plain pointer."""
    stale: Annotated[Optional[str], ("enum", STALE)]
    """Why the word is stale; null: it is not."""
    expression: Annotated[Optional[str], WRITTEN]


class RefsDocument(Document, command="refs"):
    """The answer of refs."""

    block: Optional[GoalRecord]
    refs: Sequence[PointerRecord]
    """Every pointer to it: those of roots first."""


class OwnerDocument(Document, command="owner"):
    """The answer of owner."""

    block: Optional[GoalRecord]
    held_by: Optional[OwnerRecord]
    """Of a live block its main holder: as in owners; null: it is none, or that is not known."""
    tied_with: Optional[OwnerRecord]
    """Another owner, who leads there equally well; null: there is none."""
    path: Optional[
        Sequence[Annotated[PointerRecord, "A pointer, to the block of the next row or to what was asked for"]]
    ]
    """The path to it, the root's pointer first; null: nothing leads to it."""
    expression: Optional[str]
    """The same as the program would write it, by its debug information, a step that repeats written once with its
    number; null: that does not lead there from the same variable. Elements by their numbers; by their keys with
    --with-values. Of Python the way to the object that has the block."""


class BlockSum(Record):
    """A number of blocks."""

    blocks: Size
    """How many."""
    bytes: Size
    """Their bytes."""


class Leak(Record):
    """All lost blocks of one type that are lost in one way."""

    type: str
    """What they are."""
    certain: bool
    """Whether that is certain."""
    alike: Optional[Size]
    """They are called so as they hold what so many blocks hold that surely are of the type: a guess; null: that is not
    why."""
    reason: Annotated[Optional[str], ("enum", LOST_REASONS)]
    """cycle: they lead to each other, and count their owners; null: only pointers to insides lead to them."""
    cycle: Sequence[str]
    """Of blocks that lead to each other: the members that lead from one to the next, until it is round; else empty."""
    may_be: Annotated[Sequence[str], MAY_BE]
    blocks: Size
    """How many nothing leads to; a cycle counts as one."""
    bytes: Size
    """Their bytes."""
    indirect_blocks: Size
    """How many blocks only these lead to; of a cycle the others as well."""
    indirect_bytes: Size
    """Their bytes."""
    all_bytes: Size
    """Of both."""
    resident_bytes: Optional[Size]
    """What of that is in memory; null: not known."""
    strength: Annotated[str, ("enum", STRENGTHS)]
    """possible: only pointers to insides lead to it, or words in unused room of containers, or epoll may, which this
    image lacks."""
    samples: Sequence[Address]
    """What malloc returned for some of them."""


class EncodedPointerBlocks(BlockSum, first=True):
    """Blocks that only pointers of one encoding lead to."""

    encoding: Annotated[str, ("enum", (*ENCODINGS, "inside"))]
    """How; inside: at one offset in all blocks of a size."""


class StaleWordsRecord(BlockSum, first=True):
    """Blocks that only similar stale words lead to."""

    name: Optional[str]
    """The words: a member or an array of blocks of a type, what these blocks are, or a variable; null: not known."""
    why: Annotated[str, ("enum", STALE)]
    """Why they are stale."""
    samples: Sequence[Address]
    """What malloc returned for some to which they lead."""


class LeaksDocument(Document, command="leaks"):
    """The answer of leaks."""

    leaks: Sequence[Leak]
    """What is lost, by what it is."""
    perhaps: Sequence[Leak]
    """What only words in room that containers do not use lead to, as debug information tells; part of what is stale."""
    reached: BlockSum
    """What roots lead to."""
    unknown: BlockSum
    """What nothing leads to in an image that lacks some of what might."""
    stale: BlockSum
    """What only stale words lead to: owner says which; part of what is reached."""
    stale_words: Sequence[StaleWordsRecord]
    """Which words these are, those that hold most first."""
    saved: Sequence[EncodedPointerBlocks]
    """What only encoded pointers lead to, or pointers to insides; part of what is reached."""


HOLDS_BACK = "What more would return to the system if all of them were freed; null: not known"
HELD_MOST = "Who holds most of them: as in owners; null without --owners, and where it is not known"
OF_WHAT = "of a text its length, of a container its elements, else the value: null without --with-values"


class BlocksOfType(Record):
    """All live blocks of a type."""

    type: str
    """Its name."""
    kind: Annotated[str, ("enum", tuple(KINDS))]
    """Of which sort."""
    module: Optional[str]
    """The file that it is of."""
    certain: bool
    """False for a guess, by what is in the blocks."""
    blocks: Size
    """How many."""
    bytes: Size
    """Their bytes, headers included."""


class HolderOfMost(OwnerRecord):
    """The owner that holds most of them."""

    blocks: Size
    """How many."""
    bytes: Size
    """Their bytes."""


class TypeRecord(BlocksOfType):
    """All live blocks of a type."""

    how: str
    """By what it was known."""
    may_be: Annotated[Sequence[str], MAY_BE]
    resident_bytes: Optional[Size]
    """What of that is in memory."""
    holds_back_bytes: Annotated[Optional[Size], HOLDS_BACK]
    owner: Optional[str]
    """Whose they are, where another block or a variable tells."""
    held_by: Annotated[Optional[HolderOfMost], HELD_MOST]
    retained_bytes: Optional[Size]
    """Their bytes with those of all that these blocks alone lead to; null without --owners."""
    samples: Sequence[Address]
    """The first of them: what malloc returned."""


class TypeTotals(Record):
    """Sums over all types."""

    blocks: Size
    """How many blocks."""
    bytes: Size
    """Their bytes."""
    resident_bytes: Optional[Size]
    """What of that is in memory."""
    used_bytes: Size
    """What arenas have from the kernel and in no list nor top."""
    mmapped_bytes: Size
    """In blocks served by mmap."""
    bookkeeping_bytes: Size
    """Headers of heaps and arenas, fenceposts."""
    foreign_bytes: Size
    """Somebody else's, by sbrk."""
    damaged_bytes: Size
    """What could not be read as chunks."""


class Frequent(Record):
    """A value that many objects have."""

    value: Optional[str]
    """As the screen has it; null without --with-values."""
    objects: Size
    """How many have it; of a member with too many values perhaps a few more."""
    guessed_objects: Size
    """Those of them in blocks that only a guess names."""


class MemberValues(Record):
    """A member, over all objects of a type."""

    member: str
    """Its name; with those of the members that it lies in."""
    type: str
    """Its type."""
    form: Annotated[str, ("enum", MEMBER_FORMS)]
    """What of it is told."""
    objects: Size
    """Of how many it could be read."""
    unreadable: Size
    """Of how many not: not in memory, damaged, or not yet made."""
    nulls: Size
    """How many pointers are null."""
    distinct: Optional[Size]
    """How many values there are; null: more than are counted."""
    least: Optional[float]
    """The least; of a text its length, of a container its elements, else the value: null without --with-values."""
    greatest: Optional[float]
    """The greatest; of a text its length, of a container its elements, else the value: null without --with-values."""
    average: Optional[float]
    """The average; of a text its length, of a container its elements, else the value: null without --with-values."""
    apart: Optional[int]
    """Of integers: all differ by multiples of this; null: they do not."""
    most_frequent: Sequence[Frequent]
    """The most frequent ones first."""


class WayRecord(Record):
    """Objects that just these paths lead to."""

    paths: Sequence[str]
    """The paths, as the program would write them; none: no variable leads there by types."""
    objects: Size
    """How many objects."""


class ValuePart(Record):
    """Objects with one value of a member."""

    value: Optional[str]
    """As the screen has it; null without --with-values."""
    objects: Size
    """How many have it."""
    reached: Sequence[WayRecord]
    """By which paths; what leads to most first, three at most."""


class SplitRecord(Record):
    """A member with one value in objects that are reached in one way, and another one in the others."""

    member: str
    """Its name."""
    parts: Sequence[ValuePart]
    """The most frequent value first."""


class ObjectValues(Record):
    """The members of all objects of a type."""

    type: str
    """The type."""
    objects: Size
    """How many there are in blocks that certainly have it."""
    blocks: Size
    """In how many blocks."""
    guessed_objects: Size
    """How many more there are in blocks that only a guess names; what is told of members counts them, too."""
    guessed_blocks: Size
    """In how many more blocks."""
    whole: bool
    """False: blocks of other types have more of them than were looked at."""
    members: Sequence[MemberValues]
    """In the order in which they lie there."""
    splits: Sequence[SplitRecord]
    """Members whose values tell objects apart that are reached by different paths."""


class TypesDocument(Document, command="types"):
    """The answer of types."""

    types: Sequence[TypeRecord]
    """What there is most of first, or as --by has it; --limit at most."""
    left_out: Size
    """How many more types there are."""
    notes: Sequence[StatementRecord]
    """What is not among them."""
    totals: TypeTotals
    """All of them, shown or not: bytes, bookkeeping, foreign and damaged ones sum to used and mmapped."""
    values: Optional[ObjectValues] = None
    """With --values: what the objects of the type have in common."""
    where: Optional[WhereRecord] = None
    """With --where: for which objects it holds. The types are those of blocks that have such an object."""


class ContainerRecord(Record):
    """All containers with the same path."""

    path: str
    """The way to them, as the program would write it; [] stands for any element."""
    type: str
    """As it is declared; of lists and trees that of their elements."""
    form: Annotated[str, ("enum", CONTAINER_FORMS)]
    """What it is."""
    links: Sequence[str]
    """By which its elements lead to each other, where the program links them."""
    certain: bool
    """False: something on the way is a guess."""
    containers: Size
    """How many of them have blocks."""
    elements: Size
    """How many elements they have together."""
    largest_elements: Size
    """How many the largest of them has."""
    held_bytes: Size
    """What lies below them: their blocks, and all to which these lead."""
    held_blocks: Size
    """The same in blocks."""
    buckets: Optional[Size]
    """Of hash tables: how many chains there is room for."""
    longest_chain: Optional[Size]
    """Of hash tables: the most elements in one bucket; null: not known."""
    sample: Address
    """A block of the largest one: what malloc returned; of CPython's the object."""
    matching_blocks: Optional[Size] = None
    """With --where: how many of the blocks that it holds have an object for which the condition holds."""
    matching_bytes: Optional[Size] = None
    """With --where: their bytes."""


class ContainersDocument(Document, command="containers"):
    """The answer of containers."""

    containers: Sequence[ContainerRecord]
    """What holds most first; --limit at most."""
    left_out: Size
    """How many more rows there are."""
    notes: Sequence[StatementRecord]
    """What is not among them, and why."""
    where: Optional[WhereRecord] = None
    """With --where: for which objects it holds. The containers are those that hold any, those with most first."""


class EqualContents(Record):
    """Contents that several blocks have."""

    value: Optional[str]
    """A text, as the screen has it; null without --with-values, and of what is no text."""
    blocks: Size
    """How many blocks have it."""
    bytes: Size
    """What of a block counts."""
    sample: Address
    """Where it is in one of them."""


class ListedElsewhereRecord(Record):
    """What keeps objects apart that one list has alone."""

    path: str
    """The list that does not have them."""
    member: str
    """The member that has one value in what both lists have, and another one in the others."""
    listed_value: Optional[int]
    """Its value in what both have; null without --with-values."""
    unlisted_value: Optional[int]
    """Its value in the others; null without --with-values."""


class WasteRecord(Record):
    """What is reached in one way, and not needed for one reason."""

    reason: Annotated[str, ("enum", WASTE_REASONS)]
    """Why it is not needed."""
    path: str
    """The way to it, as the program would write it; [] stands for any element."""
    type: str
    """Of the containers as they are declared, or of the blocks."""
    certain: bool
    """False: something on the way is a guess."""
    containers: Size
    """How many containers or blocks waste memory so; of duplicates those that are not the first of their kind."""
    all_containers: Size
    """How many there are on that path."""
    elements: Size
    """How many elements those have that waste memory; of destroyed objects their weak pointers, of duplicates the
    different contents, of what is unlisted the objects that are in both lists, of Python's cycles all objects that hang
    on them."""
    used_bytes: Size
    """What they use of their memory."""
    room_bytes: Size
    """What they have."""
    unused_bytes: Size
    """What they do not use."""
    unused_resident_bytes: Optional[Size]
    """What of that is in memory; null: not known."""
    sample: Address
    """A block of the largest one: what malloc returned; of CPython's containers the object."""
    hits: Optional[Size]
    """Of functools.lru_cache: how often a result was found; null: it is none."""
    mostly: Optional[str]
    """Of Python: the type whose objects take most of it; null: not told."""
    mostly_bytes: Optional[Size]
    """What these take, with what they keep apart."""
    frequent: Sequence[EqualContents]
    """Of duplicates: the most frequent contents first, three at most."""
    elsewhere: Optional[ListedElsewhereRecord]
    """Of what is unlisted; null: it is something else, or a table of shared texts has what nobody else has."""
    advice: StatementRecord
    """What to change in the program."""


class WasteDocument(Document, command="waste"):
    """The answer of waste."""

    waste: Sequence[WasteRecord]
    """What wastes most first; --limit at most."""
    left_out: Size
    """How many more rows there are."""
    live_bytes: Size
    """All live blocks."""
    notes: Sequence[StatementRecord]
    """What could not be looked at, and why."""


State = Annotated[Optional[str], ("enum", WITH_TOP), "What it is; null: not known"]


class Summary(Record):
    """All swept chunks, by state."""

    used: ChunkTally
    """In the program's hands."""
    tcache: ChunkTally
    """In thread caches."""
    fast: ChunkTally
    """In fastbins."""
    free: ChunkTally
    """In bins."""
    top: ChunkTally
    """At arenas' ends."""
    bookkeeping_bytes: Size
    """Headers of heaps and arenas, fenceposts."""
    foreign_bytes: Size
    """Somebody else's, by sbrk."""
    damaged_bytes: Size
    """What could not be read as chunks."""
    system_bytes: Size
    """What these arenas took from the kernel."""


class SizeRow(Record):
    """Chunks of one class of sizes."""

    min_bytes: Size
    """From this size on."""
    max_bytes: Size
    """Up to this size."""
    used_chunks: Optional[Size]
    """In use; null: not asked for, or not known."""
    used_bytes: Optional[Size]
    """Their bytes."""
    free_chunks: Optional[Size]
    """Not in use."""
    free_bytes: Optional[Size]
    """Their bytes."""


class ExactSizeRecord(Record):
    """Chunks of one size."""

    bytes: Size
    """The size."""
    used_chunks: Optional[Size]
    """In use; null: not asked for, or not known."""
    free_chunks: Optional[Size]
    """Not in use."""


class ChunkRow(Record):
    """A chunk; a Spool has these as they are written."""

    address: Address
    """Its header."""
    bytes: Size
    """Its size."""
    state: State
    arena: Index
    type: str = ""
    """With --type: its type."""


class ChunksDocument(Document, command="chunks"):
    """The answer of chunks."""

    summary: Summary
    sizes: Sequence[SizeRow]
    """A histogram."""
    chunks: Union[Sequence[ChunkRow], Spool]
    """Arena by arena in address order, or as --sort has them; --limit at most."""
    left_out: Optional[Size]
    """How many more there are; null where it was stopped."""
    exact_sizes: Sequence[ExactSizeRecord]
    """What holds most first, --limit at most."""
    exact_sizes_left_out: Size
    """How many more sizes there are."""
    where: Optional[WhereRecord] = None
    """With --where: for which objects it holds. The chunks are those that have any."""


class WordRecord(Record):
    """A word of a block."""

    offset: int
    """From the user address."""
    value: Address
    """What it holds."""
    symbol: Optional[str]
    """What that points to, by name."""


class MemberRecord(Record):
    """A part of a block, according to debug information."""

    name: str
    """As it is reached from the object: peer.port, [3].name; "": the whole."""
    offset: int
    """From the user address."""
    type: str
    """Its type."""
    value: Optional[float]
    """Of a number, a character, a boolean, an enum; null: it is none, or not known."""
    enumerator: Optional[str]
    """Of an enum, the name of its value; null: it has none."""
    text: Optional[str]
    """With --with-values: of a string, or of what leads to one; else null."""
    target: Optional[Address]
    """Where a pointer leads; null: it is none."""
    leads_to: Optional[str]
    """What is there, or in the first block of a container: the type of a block, a symbol; null: not known."""
    place: Annotated[Optional[str], ("enum", ("block", "freed", "elsewhere", "nowhere"))]
    """Where a pointer leads: to a live block, to memory of malloc's that is in none, to somebody else's, or to what is
    not mapped; null: it is none, or null."""
    target_elements: Optional[Size]
    """Of a block there that is an array: how many are in use; null: it is none."""
    first_block: Optional[Address]
    """Of a container: where the first of its blocks begins; null: it is none, or has none."""
    elements: Optional[Size]
    """How many a container has; null: it is none, or damaged."""
    left_out: Size
    """Of an array: how many elements more there are, which have no rows of their own."""


class Chunk(Record):
    """A chunk, with all that is known of it."""

    address: Address
    """Its header."""
    user_address: Address
    """What malloc returned."""
    bytes: Size
    """Its size."""
    state: Annotated[Optional[str], ("enum", (*WITH_TOP, "mmapped"))]
    """What it is; null: not known."""
    arena: ArenaOrNone
    heap: Optional[Address]
    """The heap that it lies in."""
    bin: Optional[str]
    """The list that it is in."""
    tid: Optional[int]
    """The thread whose cache keeps it."""
    previous: Optional[Address]
    """The previous chunk in memory."""
    next: Optional[Address]
    """The next chunk in memory."""
    type: Optional[str]
    """What it is; null: not in use, malloc's own, or not known."""
    kind: Annotated[Optional[str], ("enum", tuple(KINDS))]
    """Of which sort."""
    module: Optional[str]
    """The file that it is of."""
    certain: Optional[bool]
    """False for a guess, by what it holds."""
    how: Optional[str]
    """By what it was known."""
    members: Optional[Sequence[MemberRecord]]
    """What it has in it; null: no debug information tells its type."""
    pointers: Optional[Sequence[PointerRecord]]
    """Who points to it, as refs has it, the first ones; null: its members are not known."""
    pointers_left_out: Optional[Size]
    """How many more pointers lead to it; null: its members are not known."""
    words: Sequence[WordRecord]
    """Its first words."""

    def without_contents(self) -> Chunk:
        """Neither words nor what members are."""
        unknown = dict.fromkeys(("value", "enumerator", "text", "target", "leads_to", "elements"))
        members = None if self.members is None else [MemberRecord.of(each, **unknown) for each in self.members]
        return Chunk.of(self, members=members, words=[])


class AskedAddress(Record):
    """An address that was asked for."""

    asked: Address
    """As it was asked for."""
    chunk: Optional[Chunk]
    """The chunk that holds it; null: none does."""
    problem: Optional[StatementRecord]
    """Where it lies then."""


class ChunkDocument(Document, command="chunk"):
    """The answer of chunk."""

    chunk: Optional[Chunk]
    """The chunk that holds the (first) address; null: none does, and a problem says what is there."""
    answers: Sequence[AskedAddress] = ()
    """Of several addresses: one for each, in their order."""

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

    releases_bytes: Size
    """What would return to the system."""
    resident_bytes: Optional[int]
    """What of that is in memory."""


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

    ranges: Ranges = ()
    """With --ranges: what would return."""
    already: Ranges = ()
    """With --ranges: what of that would return without freeing anything."""


class PinRecord(Returned, first=True):
    """A block in use."""

    address: Address
    """Its header."""
    bytes: Size
    """Its size."""
    arena: Index
    reason: Annotated[str, ("enum", ("top", "between"))]
    """Whether it ends where a top begins, or lies between free pieces."""
    releases_bytes: Size
    """What would return to the system."""
    symbol: Optional[str]
    """What its first word points to."""
    type: Optional[str]
    """The class whose table of virtual functions that is; null: it is none."""
    held_by: Annotated[Optional[OwnerRecord], HELD_BY]
    expression: Annotated[Optional[str], WRITTEN]
    by: Annotated[str, ("enum", ("free", "trim"))]
    """What would give it back."""
    user_address: Address
    """What malloc returned."""
    resident_bytes: Optional[int]
    """What of that is in memory."""
    note: Optional[str]
    """What comes before."""
    note_records: Sequence[StatementRecord]
    """The same, apart from its words."""


class PinSums(GainRecord, first=True):
    """The best block of each arena, summed."""

    blocks: Size
    """How many."""
    bytes: Size
    """Their bytes."""


class TailRecord(Returned, first=True):
    """The last blocks of an arena."""

    arena: Index
    blocks: Size
    """How many."""
    bytes: Size
    """Their bytes."""
    lowest: Address
    """The lowest."""
    releases_bytes: Size
    """What would return to the system."""
    resident_bytes: Optional[int]
    """What of that is in memory."""


class Pending(Record):
    """Memory of an arena that the next free() returns in any case."""

    arena: Index
    bytes: int
    """So much."""


class PinsDocument(Document, command="pins"):
    """The answer of pins."""

    groups: Optional[Sequence[PinGroup]]
    """Types of which all blocks together keep more than they are, what keeps most besides first; none where a single
    block does; null: not looked at, as the heaps are large and --types was not given."""
    pins: Sequence[PinRecord]
    """Those that hold back the most first."""
    left_out: Size
    """How many more there are."""
    own_left_out: Size
    """How many would mainly give back their own pages."""
    one_per_arena: PinSums
    together: Sequence[TailRecord]
    """The last blocks of an arena, all freed."""
    pending: Sequence[Pending]
    """What is returned anyway at the next free() of 64 KiB."""


class BreachRecord(StatementRecord, first=True):
    """A broken invariant."""

    address: Address
    """Where."""
    arena: ArenaOrNone
    rule: Identity
    """Which; of several things that break it the id says which."""
    expected: str
    """What should be there."""
    found: str
    """What is."""
    culprit: Optional[Address]
    """The block in front, which may have been written beyond its end."""
    transient: bool
    """Whether a call in progress explains it."""


class BusyRecord(Record):
    """An arena or a thread at work in malloc."""

    arena: ArenaOrNone
    tid: Optional[int]
    """The thread inside."""
    locked: bool
    """Whether the arena is locked."""


class Checked(Record):
    """How much was checked."""

    arenas: Size
    """Arenas."""
    heaps: Size
    """Heaps."""
    chunks: Size
    """Chunks."""
    bin_entries: Size
    """Chunks in bins."""
    tcache_entries: Size
    """Chunks in thread caches."""


class CheckDocument(Document, command="check"):
    """The answer of check."""

    breaches: Sequence[BreachRecord]
    """Damage first."""
    busy: Sequence[BusyRecord]
    """Malloc at work."""
    checked: Checked
    verdict: str
    """Sound, busy or damaged, in words."""
    judgement: Annotated[StatementRecord, JUDGEMENT]


Cells = Optional[Sequence[Size]]


class StripRecord(Record):
    """The strip of a heap."""

    arena: Index
    address: Address
    """Where it starts."""
    end: Address
    """Where it ends."""
    cell_bytes: Size
    """What a cell stands for."""
    types: Sequence[Sequence[Size]] = ()
    """With --types: for each type its bytes in each cell."""
    used: Cells
    """In use: bytes in each cell; null: not known."""
    cached: Cells
    """In a thread cache or fastbin: bytes in each cell; null: not known."""
    free: Cells
    """In bins: bytes in each cell; null: not known."""
    top: Cells
    """At an arena's end: bytes in each cell; null: not known."""
    bookkeeping: Cells
    """malloc's own: bytes in each cell; null: not known."""
    foreign: Cells
    """Somebody else's, by sbrk: bytes in each cell; null: not known."""
    damaged: Cells
    """What could not be read as chunks: bytes in each cell; null: not known."""
    resident: Cells
    """In memory: bytes in each cell; null: not known."""
    releasable: Cells
    """What malloc_trim(0) would give back: bytes in each cell; null: not known."""
    releasable_resident: Cells
    """What of that is in memory: bytes in each cell; null: not known."""
    tops: Cells
    """What only trim --tops gives back: bytes in each cell; null: not known."""
    splits: Sequence[Annotated[Size, "How many"]]
    """Stretches in use that split free memory, and are smaller than what is free on their two sides: those that begin
    in each cell."""


class StripTotals(Record):
    """Sums over all heaps."""

    used_bytes: Optional[Size]
    """In use."""
    cached_bytes: Optional[Size]
    """In a thread cache or fastbin."""
    free_bytes: Optional[Size]
    """In bins."""
    top_bytes: Optional[Size]
    """At an arena's end."""
    bookkeeping_bytes: Optional[Size]
    """malloc's own."""
    foreign_bytes: Optional[Size]
    """Somebody else's, by sbrk."""
    damaged_bytes: Optional[Size]
    """What could not be read as chunks."""
    resident_bytes: Optional[Size]
    """In memory."""
    releasable_bytes: Optional[Size]
    """What malloc_trim(0) would give back."""
    releasable_resident_bytes: Optional[Size]
    """What of that is in memory."""
    tops_bytes: Optional[Size]
    """What only trim --tops gives back."""
    splits: Size
    """Stretches in use that split free memory, and are smaller than what is free on their two sides."""


class MapDocument(Document, command="map"):
    """The answer of map."""

    heaps: Sequence[StripRecord]
    """A strip of cells for each."""
    totals: StripTotals
    html: Optional[Written]
    """The page that was written."""
    types: Sequence[Annotated[BlocksOfType, "All live blocks of a type, mmapped ones included"]] = ()
    """With --types: those that hold back the most, 8 at most."""
