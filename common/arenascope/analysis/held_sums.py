"""Who holds the live blocks and what of them is lost, as reports sum it up."""

from __future__ import annotations

from typing import NamedTuple, Optional, Protocol, Sequence

FIRST = 3
"""At most so many owners are reported."""
UNNAMED = "unnamed variables of "
"""The prefix of a file's name: all words of its variables that no symbol covers are one owner."""


def is_unnamed(owner: Optional[str]) -> bool:
    """Tells whether an owner is of this kind."""
    return owner is not None and owner.startswith(UNNAMED)


class Holder(Protocol):
    """The fields of an owner in blocks/graph/main_holders.py, which this package does not import."""

    @property
    def kind(self) -> str: ...

    @property
    def name(self) -> Optional[str]: ...

    @property
    def tid(self) -> Optional[int]: ...

    @property
    def stale(self) -> Optional[str]: ...


class PageSharer(NamedTuple):
    """The owner with most blocks on the same pages."""

    called: str
    more: int
    """What goes back only once these are freed as well."""
    returns: int
    """What goes back in all."""


class MainHolder(NamedTuple):
    """A main holder, as in owners."""

    kind: str
    name: Optional[str]
    tid: Optional[int]
    bytes: int
    """The bytes that it is the main holder of."""
    alone: int
    """The bytes that only it leads to."""
    called: str
    """Its name in messages."""
    stale: Optional[str] = None
    """As in owners."""
    alone_blocks: int = 0
    returns: Optional[int] = None
    """What would leave memory with all that it holds alone, including pages that are free already; None: not known, or
    not asked."""
    resident: Optional[int] = None
    """The resident bytes of what it holds alone."""
    beside: Optional[PageSharer] = None


class JointHolders(NamedTuple):
    """Owners that lead to memory only together: each of them, and nobody else."""

    owners: Sequence[Holder]
    bytes: int
    called: str
    returns: Optional[int] = None
    beside: Optional[PageSharer] = None


class FreedNext(NamedTuple):
    """The next owner to be freed after those before it, the largest first; the last stands for what nobody holds."""

    owners: Sequence[Holder]
    """Empty: held by nobody."""
    bytes: int
    called: str
    alone: int
    """What leaves memory if only this one is freed."""
    returns: int
    """What has left memory in all by then."""
    holds_up: int
    """What stays of all that owners hold if only this one stays."""


class Lost(NamedTuple):
    """What is lost of one type."""

    type: str
    blocks: int
    bytes: int
    """Including the blocks that hang on them."""
    indirect_blocks: int
    """The number of blocks that hang on them."""
    sample: int = 0
    """One of the blocks: what malloc returned."""
    resident: Optional[int] = None
    """What of the bytes is in memory; None: not known."""
    may_be: Sequence[str] = ()
    """A guess at structs, if only their size is known."""
    reason: str = "lost"
    """One of LOST_REASONS."""
    certain: bool = True
    """Whether they certainly have that type."""
    cycle: Sequence[str] = ()
    """The members that lead from one block of a cycle to the next."""
    perhaps: bool = False
    """Only words in the unused room of containers lead to them."""


class HeldSums(NamedTuple):
    """All live blocks, by what leads to them; the bytes sum to `live`."""

    live: int
    reached: int
    possible: int
    """Only interior pointers lead to these."""
    lost: int
    """No pointer leads to these."""
    unknown: int
    """No pointer that was examined leads to these, and not all were examined."""
    lost_blocks: int
    doubted: bool
    """Whether what is unknown stays so, as the image lacks something. Otherwise only the second pass was left out."""
    keepers: Sequence[MainHolder]
    """The owners that hold most; screens show the first."""
    others: int = 0
    """What the other owners hold, which screens do not show."""
    jointly: Sequence[JointHolders] = ()
    """The groups that lead to most together: part of what their owners hold."""
    in_turn: Sequence[FreedNext] = ()
    """The largest owners and groups, if it is known what leaves memory: they may share pages."""
    held_returns: int = 0
    """What leaves memory with all of these, without what nobody holds."""
    lost_rows: Sequence[Lost] = ()
    """What is lost, by type: most first."""
    perhaps_rows: Sequence[Lost] = ()
    """The same of what only words in the unused room of containers lead to, which is reached as well."""
    perhaps: int = 0
    """What only words in the unused room of containers lead to; part of what is reached."""
    cycles: int = 0
    """What cycles of Python's objects keep to which nothing else leads. It is reached, too, and part of it may lie in
    Python's own pools."""
    returns: Optional[int] = None
    """What would leave memory with what is lost; None: not known, or not asked for."""

    @property
    def most_lost(self) -> Optional[Lost]:
        """The type of most of what is lost."""
        return self.lost_rows[0] if self.lost_rows else None

    @property
    def first(self) -> Sequence[MainHolder]:
        return self.keepers[:FIRST]
