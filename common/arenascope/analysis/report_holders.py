"""Whether what is in use is held, and by whom: what a report says where pointers were followed."""

from __future__ import annotations

from typing import NamedTuple, Optional, Protocol, Sequence

FIRST = 3
"""So many owners are told."""
UNNAMED = "unnamed variables of "
"""What stands before a file's name: all words of its variables that no symbol covers are one owner."""


def is_unnamed(owner: Optional[str]) -> bool:
    """Whether that is an owner of this kind."""
    return owner is not None and owner.startswith(UNNAMED)


class Holder(Protocol):
    """Of blocks/graph/owners.py, which this room does not know."""

    @property
    def kind(self) -> str: ...

    @property
    def name(self) -> Optional[str]: ...

    @property
    def tid(self) -> Optional[int]: ...

    @property
    def stale(self) -> Optional[str]: ...


class PageSharer(NamedTuple):
    """Who has most blocks on the same pages."""

    called: str
    more: int
    """What leaves memory only once these are freed as well."""
    returns: int
    """What does in all."""


class MainHolder(NamedTuple):
    """A main holder, as in owners."""

    kind: str
    name: Optional[str]
    tid: Optional[int]
    bytes: int
    """What it is the main holder of."""
    alone: int
    """What of that nobody else leads to."""
    called: str
    """What people call it."""
    stale: Optional[str] = None
    """As an owner's."""
    alone_blocks: int = 0
    returns: Optional[int] = None
    """What would leave memory with all that it holds alone, pages among it that are free already; None: not known, or
    not asked."""
    resident: Optional[int] = None
    """Of what it holds alone."""
    beside: Optional[PageSharer] = None


class JointHolders(NamedTuple):
    """Who leads to memory only together: each of them, and nobody else."""

    owners: Sequence[Holder]
    bytes: int
    called: str
    returns: Optional[int] = None
    beside: Optional[PageSharer] = None


class FreedNext(NamedTuple):
    """One more of those that hold most, freed after those before; last, what nobody holds."""

    owners: Sequence[Holder]
    """Empty: nobody."""
    bytes: int
    called: str
    alone: int
    """What leaves memory with this one alone."""
    returns: int
    """What does in all by then."""
    holds_up: int
    """What stays of all that owners hold if only this one does."""


class Lost(NamedTuple):
    """What most of what nothing leads to is."""

    type: str
    blocks: int
    bytes: int
    """With what hangs on them."""
    indirect_blocks: int
    """How many do."""


class HeldSums(NamedTuple):
    """All live blocks, by what leads there; the bytes sum to `live`."""

    live: int
    reached: int
    possible: int
    """Only pointers to insides lead there."""
    lost: int
    """Nothing does."""
    unknown: int
    """Nothing that was looked at does, and that was not all."""
    lost_blocks: int
    doubted: bool
    """Whether what is unknown stays so: the image lacks something. Otherwise only the second look was left out."""
    keepers: Sequence[MainHolder]
    """Those that hold most; people are told of the first."""
    others: int = 0
    """What owners hold that people are not told of."""
    jointly: Sequence[JointHolders] = ()
    """Those that lead to most together: it is among what they hold."""
    in_turn: Sequence[FreedNext] = ()
    """Those that hold most, by themselves or together, where what leaves memory is known: they may share pages."""
    held_returns: int = 0
    """What leaves memory with all of these but what nobody holds."""
    most_lost: Optional[Lost] = None
    returns: Optional[int] = None
    """What would leave memory with what nothing leads to; None: not known, or not asked for."""

    @property
    def first(self) -> Sequence[MainHolder]:
        return self.keepers[:FIRST]
