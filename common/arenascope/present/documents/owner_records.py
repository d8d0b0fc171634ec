"""Who holds memory, in every document that names an owner; and what owners says."""

from __future__ import annotations

from typing import Annotated, Optional, Sequence

from .record import Address, Document, Record, Size

ROOT_KINDS = ("global", "tls", "stack", "register", "kernel", "runtime", "mapping")
OWNER_KINDS = (*ROOT_KINDS, "unreached")


class Owner(Record):
    """Any, also nobody."""

    kind: Annotated[str, ("enum", OWNER_KINDS), "What owns it; unreached: nothing"]
    name: Annotated[Optional[str], "The variable, the runtime, or what is mapped; null: not known"]
    tid: Annotated[Optional[int], "The thread whose it is"]


class Root(Owner):
    """A root: a variable, a thread's stack, the heap of a runtime, a mapping."""

    kind: Annotated[str, ("enum", ROOT_KINDS), "What it is"]


class Leading(Record):
    """Who else leads to what an owner does not hold alone."""

    owners: Annotated[
        Sequence[Annotated[Root, "One of them"]],
        "Whoever leads to a hundredth of that or more, the most first",
    ]
    whole: Annotated[bool, "These are all of those; else others lead there as well"]


class Step(Record):
    """A block."""

    block: Annotated[Address, "What malloc returned"]
    type: Annotated[str, "What it is"]
    retained_bytes: Annotated[Size, "What hangs on it, itself included"]
    blocks: Annotated[Size, "How many blocks that are"]


class Held(Owner):
    """What an owner holds: of all that lead to a block it is the first."""

    type: Annotated[Optional[str], "What the block is that most of it hangs on; null: on none"]
    held_bytes: Annotated[Size, "What it is the main holder of"]
    blocks: Annotated[Size, "How many blocks that are"]
    retained_bytes: Annotated[Size, "What of that it alone leads to: what could be freed were it cleared"]
    retained_blocks: Annotated[Size, "How many blocks that are"]
    retained_resident_bytes: Annotated[Optional[Size], "What of that is in memory"]
    returns_bytes: Annotated[Optional[Size], "Pages on which nothing else is: malloc_trim(0) gives them back then"]
    tied_bytes: Annotated[Size, "What of held_bytes another owner leads to equally well"]
    leading: Annotated[Optional[Leading], "Who leads to what of held_bytes it does not hold alone; null: it holds all"]
    path: Annotated[Sequence[Step], "Down to where it spreads: blocks on which most of what the one before has hangs"]


class Written(Record):
    """The page that was written."""

    file: Annotated[str, "Where"]
    bytes: Annotated[Size, "Its size"]


class Owners(Document):
    """What owners found."""

    owners: Annotated[
        Sequence[Held],
        "Whose memory it is, the largest first; with those that are left out, held_bytes sum to live_bytes",
    ]
    left_out: Annotated[Size, "How many more owners there are"]
    live_bytes: Annotated[Size, "All live blocks"]
    html: Annotated[Optional[Written], "The page that was written"]
    pprof: Annotated[Optional[Written], "The profile that was written"]
