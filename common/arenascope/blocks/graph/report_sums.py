"""What is held and what is lost, summed up for the report."""

from __future__ import annotations

from array import array
from typing import Callable, Iterator, Mapping, NamedTuple, Optional, Sequence

from ...analysis.causes import WORTH
from ...analysis.report import FIRST, FreedNext, HeldSums, Holder, JointHolders, Lost, MainHolder, PageSharer
from ...engine import chosen, places_of
from .blocks import OwnerPages
from .edges import build
from .leads import Owner
from .leaks import POSSIBLE, UNMARKED, Leaks, Reach, doubts, find_leaks, rows_of
from .owners import JOINTLY, UNREACHED, find_owners
from .refs import ImageSearch
from .returns import owned, returns


class PageSharing(NamedTuple):
    """Another group that shares pages."""

    other: int
    more: int
    """Bytes that leave memory only if this group is freed as well."""
    returns: int
    """Bytes that leave memory in all."""


class SharedPages(NamedTuple):
    """Resident memory of groups of blocks. The last group has all blocks that are in no other."""

    kept: Sequence[OwnerPages]
    """By the set of groups that have something on a page (a bit for each group)."""
    returning: Mapping[int, int]
    """Bytes that leave memory only once all of a set of groups are freed, by the set. Sets without any are left out."""

    def of(self, group: int) -> OwnerPages:
        """What the group has in memory, and what would leave if it alone were freed."""
        return self.kept[1 << group]

    def together(self, groups: int) -> int:
        """Bytes that leave memory if all groups of a set are freed (a bit for each)."""
        return sum(size for who, size in self.returning.items() if who & groups == who)

    def beside(self, group: int, among: int) -> Iterator[PageSharing]:
        """Adds groups of `among` (a bit for each) to this one, always the one that brings most with those added
        before."""
        groups, rest = 1 << group, among & ~(1 << group)
        while rest:
            found = [self._with(groups, other) for other in range(rest.bit_length()) if rest >> other & 1]
            most = max(found, key=lambda each: each.more)
            yield most
            groups, rest = groups | 1 << most.other, rest & ~(1 << most.other)

    def _with(self, groups: int, other: int) -> PageSharing:
        returns = self.together(groups | 1 << other)
        return PageSharing(other, returns - self.together(groups) - self.together(1 << other), returns)


def shared_pages(
    search: ImageSearch, alone: Sequence[int], jointly: int, nobody: Optional[int]
) -> Optional[SharedPages]:
    """The groups are: what each of some holdings has alone, by their numbers; what each of the first joint owners
    holds; what nobody holds. None if it is not known what is in memory."""
    owners = find_owners(search)
    count = len(alone) + jointly + 1
    rest = array("i", [1 << count])
    of_one = rest * (1 + max((each.number for each in owners.holdings), default=0))
    for place, number in enumerate(alone):
        of_one[number] = 1 << place
    if nobody is not None:
        of_one[nobody] = 1 << count - 1
    of_several = rest * (JOINTLY + len(owners.jointly))
    for at in range(jointly):
        of_several[JOINTLY + at] = 1 << len(alone) + at
    whose = chosen(owners.whose, owners.lead, of_one, of_several)
    # all that is set stays so beside nobody's
    kept = returns(search, whose, 2 << count, "sets")
    if kept is None:
        return None
    return SharedPages(kept, {who: each.returns for who, each in enumerate(kept) if who and each.returns})


NOBODYS = "what nobody holds"
ASKED = 6
"""For how many owners the report works out whose pages they share. An owner that holds little can be in the way."""


def summed(search: ImageSearch, lost: int, words: Callable[[Sequence[Owner]], str], asked: bool) -> HeldSums:
    """`lost`: bytes of a process that could not be copied; `words` names owners; `asked`: the owners are asked for
    themselves, not only with something else."""
    blocks = search.blocks
    marks = Reach(search, build(search)).marks
    unreached: Sequence[int] = places_of(UNMARKED, marks)
    inside: Sequence[int] = places_of(POSSIBLE, marks)
    leaks: Optional[Leaks] = None
    if unreached:
        leaks = find_leaks(search, lost)
        unreached, inside = leaks.definite.blocks(), leaks.possible.blocks()
    nowhere, possible = blocks.bytes_of(unreached), blocks.bytes_of(inside)
    doubted = bool(leaks.doubts if leaks is not None else doubts(search.session, search.roots, blocks, lost))
    known = leaks is not None and not doubted
    owners = find_owners(search)
    named = [each for each in owners.holdings if each.owner.kind != UNREACHED][:ASKED]
    lost_blocks = len(unreached) if known else 0
    most_lost = _most_lost(search, leaks) if leaks is not None and lost_blocks else None
    keepers = [
        MainHolder(
            each.owner.kind,
            each.owner.name,
            each.owner.tid,
            stale=each.owner.stale,
            bytes=each.bytes,
            alone=each.alone_bytes,
            called=words([each.owner]),
            alone_blocks=each.alone_blocks,
        )
        for each in named
    ]
    jointly = [JointHolders(each.owners, each.bytes, words(each.owners)) for each in owners.jointly]
    steps: Optional[_Steps] = None
    if asked and max([each.alone for each in keepers] + [each.bytes for each in jointly], default=0) >= WORTH:
        nobody = next((each.number for each in owners.holdings if each.owner.kind == UNREACHED and lost_blocks), None)
        pages = shared_pages(search, [each.number for each in named], len(jointly), nobody)
        if pages is not None:
            steps = _Steps(pages, keepers, jointly, nowhere)
            keepers, jointly = steps.owners()
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
        others=max(0, held - sum(each.bytes for each in keepers[:FIRST])),
        jointly=jointly,
        in_turn=list(steps.in_turn()) if steps is not None else (),
        held_returns=steps.returns if steps is not None else 0,
        most_lost=most_lost,
        returns=_returned(search) if asked and lost_blocks else None,
    )


class _Member(NamedTuple):
    """A group of blocks that shares pages with others."""

    place: int
    called: str
    owners: Sequence[Holder]
    bytes: int


class _Steps:
    """What leaves memory if groups of blocks are freed: each alone, and one after the other."""

    def __init__(
        self, pages: SharedPages, keepers: Sequence[MainHolder], jointly: Sequence[JointHolders], lost: int
    ) -> None:
        """`lost`: bytes of the last group, which nobody holds."""
        self._pages, self._keepers, self._jointly, self._lost = pages, keepers, jointly, lost
        self._called = [*(each.called for each in keepers), *(each.called for each in jointly)]
        self._nobody = len(self._called)
        held = [_Member(at, each.called, [_owner(each)], each.alone) for at, each in enumerate(keepers)]
        held += [_Member(at, each.called, each.owners, each.bytes) for at, each in enumerate(jointly, len(keepers))]
        # of some that hold together it is not known which blocks are theirs alone
        self._held = [each for each in held if pages.of(each.place).resident]
        self._every = sum(1 << each.place for each in self._held)
        self.returns = pages.together(self._every)

    def owners(self) -> tuple[list[MainHolder], list[JointHolders]]:
        """The owners, each with what freeing it alone returns, and the owner that it shares most pages with."""
        return (
            [self._own(place, each) for place, each in enumerate(self._keepers)],
            [self._theirs(place, each) for place, each in enumerate(self._jointly, len(self._keepers))],
        )

    def _own(self, place: int, each: MainHolder) -> MainHolder:
        kept = self._pages.of(place)
        return each._replace(returns=kept.returns, resident=kept.resident, beside=self._beside(place))

    def _theirs(self, place: int, each: JointHolders) -> JointHolders:
        kept = self._pages.of(place)
        return each._replace(returns=kept.returns, beside=self._beside(place)) if kept.resident else each

    def _beside(self, place: int) -> Optional[PageSharer]:
        most = next(self._pages.beside(place, self._every), None)
        return PageSharer(self._called[most.other], most.more, most.returns) if most is not None else None

    def in_turn(self) -> Iterator[FreedNext]:
        """Groups in the order in which to free them: always the one that brings most next; what nobody holds comes
        last."""
        if not self._held:
            return
        held, pages = {each.place: each for each in self._held}, self._pages
        first = max(held, key=lambda place: pages.of(place).returns)
        yield self._turn(held[first], pages.of(first).returns)
        for each in pages.beside(first, self._every):
            yield self._turn(held[each.other], each.returns)
        if pages.of(self._nobody).resident:
            returns = pages.together(self._every | 1 << self._nobody)
            yield self._turn(_Member(self._nobody, NOBODYS, (), self._lost), returns)

    def _turn(self, member: _Member, so_far: int) -> FreedNext:
        place, called, owners, size = member
        holds_up = self.returns - self._pages.together(self._every & ~(1 << place))
        alone = self._pages.of(place).returns
        return FreedNext(owners, size, called, alone=alone, returns=so_far, holds_up=holds_up)


def _owner(keeper: MainHolder) -> Owner:
    return Owner(keeper.kind, keeper.name, keeper.tid, keeper.stale)


def _most_lost(search: ImageSearch, leaks: Leaks) -> Lost:
    row = rows_of(search, leaks.definite, "definite")[0]
    return Lost(row.type, row.blocks, row.all_bytes, row.indirect_blocks)


def _returned(search: ImageSearch) -> Optional[int]:
    """Bytes that leave memory if all lost blocks are freed."""
    whose = owned(search)
    nobodys = [each for each in whose.owners.holdings if each.owner.kind == UNREACHED]
    if whose.kept is None or not nobodys:
        return None
    return whose.kept[nobodys[0].number].returns
