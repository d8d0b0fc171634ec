"""What is held and what is lost, summed up for the report."""

from __future__ import annotations

from typing import Callable, Iterable, Optional, Sequence

from ..analysis.causes import WORTH
from ..analysis.held import FIRST, HeldSums, Joint, Keeper, Lost
from ..records import NamedTuple
from .components import Lump
from .edges import build
from .leak_rows import rows_of
from .leaks import Leaks, doubts, find_leaks
from .owned import owned
from .owners import SHARED, UNREACHED, Holding, Owner, find_owners
from .reach import POSSIBLE, UNMARKED, Reach, marked
from .refs import Search

QUICK = 16 << 20
"""So many bytes are looked through a second time unasked without numpy: about a second."""


def summed(search: Search, lost: int, words: Callable[[Sequence[Owner]], str], asked: bool) -> HeldSums:
    """`lost`: bytes of a process that could not be copied; `words` names owners. Unless it was `asked` for, what
    nothing plain leads to is looked for again only where that is little work."""
    blocks = search.blocks
    marks = Reach(search, build(search)).marks
    unreached, inside = marked(marks, UNMARKED), marked(marks, POSSIBLE)
    leaks: Optional[Leaks] = None
    if unreached and (asked or search.numpy is not None or search.bytes <= QUICK):
        leaks = find_leaks(search, lost)
        unreached, inside = _blocks(leaks.definite), _blocks(leaks.possible)
    nowhere, possible = blocks.bytes_of(unreached), blocks.bytes_of(inside)
    doubted = bool(leaks.doubts if leaks is not None else doubts(search.session, search.roots, blocks, lost))
    known = leaks is not None and not doubted
    owners = find_owners(search)
    named = [each for each in owners.holdings if each.owner.kind not in (SHARED, UNREACHED)]
    lost_blocks = len(unreached) if known else 0
    most_lost = _most_lost(search, leaks) if leaks is not None and lost_blocks else None
    back = _returned(search) if asked and lost_blocks else None
    keepers = [_keeper(search, each, words([each.owner]), asked=asked) for each in named[:FIRST]]
    jointly = [Joint(each.owners, each.bytes, words(each.owners)) for each in owners.jointly]
    held = blocks.bytes - nowhere - possible
    return HeldSums(
        live=blocks.bytes,
        reached=held,
        possible=possible,
        lost=nowhere if known else 0,
        unknown=0 if known else nowhere,
        lost_blocks=lost_blocks,
        doubted=doubted,
        keepers=keepers,
        others=max(0, held - sum(each.bytes for each in keepers) - sum(each.bytes for each in jointly)),
        jointly=jointly,
        most_lost=most_lost,
        returns=back and back.returns,
        returns_bound=back is not None and back.bytes != nowhere,
    )


def _keeper(search: Search, holding: Holding, called: str, asked: bool) -> Keeper:
    kept = owned(search).kept if asked and holding.bytes >= WORTH else None
    back = kept[holding.number].returns if kept is not None else None
    return Keeper(*holding.owner, holding.bytes, called, blocks=holding.blocks, returns=back)


def _most_lost(search: Search, leaks: Leaks) -> Lost:
    row = rows_of(search, leaks.definite, "definite")[0]
    return Lost(row.type, row.blocks, row.all_bytes, row.indirect_blocks)


class _Returned(NamedTuple):
    """What no plain pointer leads to: owners tells pages of that."""

    bytes: int
    returns: int


def _returned(search: Search) -> Optional[_Returned]:
    whose = owned(search)
    nobodys = [each for each in whose.owners.holdings if each.owner.kind == UNREACHED]
    if whose.kept is None or not nobodys:
        return None
    return _Returned(nobodys[0].bytes, whose.kept[nobodys[0].number].returns)


def _blocks(lumps: Iterable[Lump]) -> list[int]:
    return [block for each in lumps for block in (each.head, *each.others)]
