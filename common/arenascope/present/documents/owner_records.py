"""Who holds memory, in every document that names an owner; and what owners says."""

from __future__ import annotations

from typing import Annotated, Optional, Sequence

from .record import Address, Document, Record, Size

ROOT_KINDS = ("global", "tls", "stack", "register", "kernel", "mapping")
OWNER_KINDS = (*ROOT_KINDS, "shared", "unreached")


class Owner(Record):
    """Any, also several together, and nobody."""

    kind: Annotated[str, ("enum", OWNER_KINDS), "What owns it; shared: several together, unreached: nothing"]
    name: Annotated[Optional[str], "The variable, or what is mapped; null: not known"]
    tid: Annotated[Optional[int], "The thread whose it is"]


class Root(Owner):
    """A root: a variable, a thread's stack, a mapping."""

    kind: Annotated[str, ("enum", ROOT_KINDS), "What it is"]


class Leading(Record):
    """Who leads to what several lead to."""

    owners: Annotated[
        Sequence[Annotated[Root, "One of them"]],
        "Whoever leads to a hundredth of it or more, the most first",
    ]
    whole: Annotated[bool, "These are all of those; else others lead there as well"]


class Step(Record):
    """A block."""

    block: Annotated[Address, "What malloc returned"]
    type: Annotated[str, "What it is"]
    retained_bytes: Annotated[Size, "What hangs on it, itself included"]
    blocks: Annotated[Size, "How many blocks that are"]


class Held(Owner):
    """What an owner alone leads to."""

    name: Annotated[Optional[str], "The variable, what is mapped, or of what is shared its type; null: not known"]
    type: Annotated[Optional[str], "What the block is that most of it hangs on; null: on none"]
    retained_bytes: Annotated[Size, "What could be freed were it cleared"]
    retained_resident_bytes: Annotated[Optional[Size], "What of that is in memory"]
    returns_bytes: Annotated[Optional[Size], "Pages on which nothing else is: malloc_trim(0) gives them back then"]
    blocks: Annotated[Size, "How many blocks that are"]
    leading: Annotated[Optional[Leading], "Of what several lead to: who does; null: of any other"]
    path: Annotated[Sequence[Step], "Down to where it spreads: blocks that each have most of what the one before has"]


class Written(Record):
    """The page that was written."""

    file: Annotated[str, "Where"]
    bytes: Annotated[Size, "Its size"]


class Owners(Document):
    """What owners found."""

    owners: Annotated[
        Sequence[Held],
        "Whose memory it is, the largest first; with those that are left out they sum to live_bytes",
    ]
    left_out: Annotated[Size, "How many more owners there are"]
    live_bytes: Annotated[Size, "All live blocks"]
    html: Annotated[Optional[Written], "The page that was written"]
    pprof: Annotated[Optional[Written], "The profile that was written"]
