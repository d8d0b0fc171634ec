"""JSON records of owners, for every document that names one, and of owners, owner, refs and leaks."""

from __future__ import annotations

from typing import Annotated, Optional, Sequence

from ...base.model import ROOT_KINDS, STALE
from .arena_records import ArenaOrNone
from .record import Address, Document, Record, Size, StatementRecord

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
