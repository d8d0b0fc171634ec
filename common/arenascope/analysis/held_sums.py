"""Who holds the live blocks and what of them is lost, as reports sum it up."""

from __future__ import annotations

from typing import NamedTuple, Optional, Sequence

from ..base.heap_model import Owner

FIRST = 3
"""At most so many owners are reported."""
UNNAMED = "unnamed variables of "
"""The prefix of a file's name: all words of its variables that no symbol covers are one owner."""


def is_unnamed(owner: Optional[str]) -> bool:
    """Tells whether an owner is of this kind."""
    return owner is not None and owner.startswith(UNNAMED)


class PageSharer(NamedTuple):
    """The owner with most blocks on the same pages."""

    called: str
    more: int
    """What goes back only once these are freed as well."""
    returns: int
    """What goes back in all."""


class MainHolder(NamedTuple):
    """An owner with what it is the main holder of, or several with what each of them leads to, and nobody else."""

    owners: Sequence[Owner]
    bytes: int
    alone: int
    """The bytes that nobody else leads to; of several all of it."""
    called: str
    """What messages call it."""
    alone_blocks: int = 0
    returns: Optional[int] = None
    """What would leave memory with all that it holds alone, including pages that are free already; None: not known, or
    not asked."""
    resident: Optional[int] = None
    """The resident bytes of what it holds alone."""
    beside: Optional[PageSharer] = None

    @property
    def owner(self) -> Owner:
        """The owner, where it is one."""
        return self.owners[0]


class FreedNext(NamedTuple):
    """The next owner to be freed after those before it, the largest first; the last stands for what nobody holds."""

    owners: Sequence[Owner]
    """Empty: held by nobody."""
    bytes: int
    called: str
    alone: int
    """What leaves memory if only this one is freed."""
    returns: int
    """What has left memory in all by then."""
    holds_up: int
    """What stays of all that owners hold if only this one stays."""


class LeakRow(NamedTuple):
    """All heads of one type that are lost in one way."""

    type: str
    certain: bool
    """False: a guess, by what is in the blocks."""
    alike: Optional[int]
    """They hold what so many blocks hold that surely are of the type; None: that is not why they are called so."""
    reason: Optional[str]
    """One of LOST_REASONS; None: pointers to their insides lead there."""
    cycle: Sequence[str]
    """Of blocks that lead to each other: the members that lead from one to the next, until it is round."""
    blocks: int
    bytes: int
    indirect_blocks: int
    indirect_bytes: int
    resident: Optional[int]
    """What of all of it is in memory; None: not known."""
    strength: str
    samples: Sequence[int]
    """What malloc returned for some of them."""
    is_weak: bool = False
    """Nothing but their size is known, and what they look like."""
    may_be: Sequence[str] = ()
    """As in TypeRow."""

    @property
    def all_blocks(self) -> int:
        return self.blocks + self.indirect_blocks

    @property
    def all_bytes(self) -> int:
        return self.bytes + self.indirect_bytes


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
    jointly: Sequence[MainHolder] = ()
    """The groups that lead to most together: part of what their owners hold."""
    in_turn: Sequence[FreedNext] = ()
    """The largest owners and groups, if it is known what leaves memory: they may share pages."""
    held_returns: int = 0
    """What leaves memory with all of these, without what nobody holds."""
    lost_rows: Sequence[LeakRow] = ()
    """What is lost, by type: most first."""
    perhaps_rows: Sequence[LeakRow] = ()
    """The same of what only words in the unused room of containers lead to, which is reached as well."""
    perhaps: int = 0
    """What only words in the unused room of containers lead to; part of what is reached."""
    cycles: int = 0
    """What cycles of Python's objects keep to which nothing else leads. It is reached, too, and part of it may lie in
    Python's own pools."""
    returns: Optional[int] = None
    """What would leave memory with what is lost; None: not known, or not asked for."""

    @property
    def first(self) -> Sequence[MainHolder]:
        return self.keepers[:FIRST]
