"""What is held and what is lost, summed up for the report."""

from __future__ import annotations

from typing import Callable, Iterable, Iterator, Optional, Sequence

from ..analysis.causes import WORTH
from ..analysis.held import FIRST, Beside, HeldSums, Holder, Joint, Keeper, Lost, Turn
from ..records import NamedTuple
from .components import Lump
from .edges import build
from .leak_rows import rows_of
from .leaks import Leaks, doubts, find_leaks
from .owned import owned
from .owners import SHARED, UNREACHED, Owner, find_owners
from .reach import POSSIBLE, UNMARKED, Reach, marked
from .refs import Search
from .shared_pages import SharedPages, numbers_of, shared_pages

ASKED = 6
"""Of so many owners it is asked whose pages they share: who holds little can be in the way."""
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
    turns: Sequence[Turn] = ()
    keepers = [Keeper(*each.owner, each.bytes, words([each.owner]), blocks=each.blocks) for each in named[:ASKED]]
    jointly = [Joint(each.owners, each.bytes, words(each.owners)) for each in owners.jointly]
    if asked and max([each.bytes for each in keepers] + [each.bytes for each in jointly], default=0) >= WORTH:
        groups = [*([each.number] for each in named[:ASKED]), *(numbers_of(search, each) for each in owners.jointly)]
        pages = shared_pages(search, groups)
        if pages is not None:
            keepers, jointly = _with_pages(pages, keepers, jointly)
            turns = list(_in_turn(pages, keepers, jointly))
    held = blocks.bytes - nowhere - possible
    return HeldSums(
        live=blocks.bytes,
        reached=held,
        possible=possible,
        lost=nowhere if known else 0,
        unknown=0 if known else nowhere,
        lost_blocks=lost_blocks,
        doubted=doubted,
        keepers=keepers[:FIRST],
        others=max(0, held - sum(each.bytes for each in keepers[:FIRST]) - sum(each.bytes for each in jointly)),
        jointly=jointly,
        in_turn=turns,
        most_lost=most_lost,
        returns=back and back.returns,
        returns_bound=back is not None and back.bytes != nowhere,
    )


def _with_pages(
    pages: SharedPages, keepers: Sequence[Keeper], jointly: Sequence[Joint]
) -> tuple[list[Keeper], list[Joint]]:
    called = [*(each.called for each in keepers), *(each.called for each in jointly)]

    def beside(group: int) -> Optional[Beside]:
        most = next(pages.beside(group), None)
        return Beside(called[most.other], most.more, most.returns) if most is not None else None

    def own(place: int, each: Keeper) -> Keeper:
        kept = pages.of(place)
        return each._replace(returns=kept.returns, resident=kept.resident, beside=beside(place))

    def theirs(place: int, each: Joint) -> Joint:
        kept = pages.of(place)
        return each._replace(returns=kept.returns, beside=beside(place)) if kept.resident else each

    return (
        [own(place, each) for place, each in enumerate(keepers)],
        [theirs(place, each) for place, each in enumerate(jointly, len(keepers))],
    )


def _in_turn(pages: SharedPages, keepers: Sequence[Keeper], jointly: Sequence[Joint]) -> Iterator[Turn]:
    """Whoever brings most first, then whoever brings most after these."""
    held: list[tuple[str, Sequence[Holder], int]] = [
        (each.called, [Owner(each.kind, each.name, each.tid)], each.bytes) for each in keepers
    ]
    held += [(each.called, each.owners, each.bytes) for each in jointly]
    alone = [pages.of(place).returns for place in range(len(held))]
    every = (1 << len(held)) - 1
    returns = pages.together(every)

    def turn(place: int, so_far: int) -> Turn:
        called, owners, size = held[place]
        holds_up = returns - pages.together(every & ~(1 << place))
        return Turn(owners, size, called, alone=alone[place], returns=so_far, holds_up=holds_up)

    first = max(range(len(held)), key=lambda place: alone[place])
    yield turn(first, alone[first])
    for each in pages.beside(first):
        yield turn(each.other, each.returns)


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
