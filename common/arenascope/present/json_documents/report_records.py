"""JSON records of report."""

from __future__ import annotations

from typing import Annotated, Optional, Sequence

from ...analysis.report import PARTS
from .arena_records import ALLOCATORS, AllocatorShare
from .moment_records import GrownType
from .owner_records import RootRecord, Written
from .record import JUDGEMENT, Address, Document, Record, Size, StatementRecord
from .type_records import HOLDS_BACK, BlocksOfType


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
