"""With whom those that hold most share pages: what leaves memory with each of them, and what only with several."""

from __future__ import annotations

from operator import or_
from typing import Iterator, Mapping, Optional, Sequence

from ...base.records import NamedTuple
from .kept import NOBODY, Kept
from .owners import Jointly, find_owners
from .refs import Search
from .returns import returns
from .together import TRIFLE


class Shared(NamedTuple):
    """One more of the groups."""

    other: int
    more: int
    """What leaves memory only with both."""
    returns: int
    """What does in all."""


class SharedPages(NamedTuple):
    """Of groups of holdings by their places; what is in none of them is the last."""

    kept: Sequence[Kept]
    """By who has something on a page, a bit for each group."""
    returning: Mapping[int, int]
    """What leaves memory with all of these, by the same; of most there is nothing."""

    def of(self, group: int) -> Kept:
        """With this group alone."""
        return self.kept[1 << group]

    def together(self, groups: int) -> int:
        """What leaves memory with all of some, a bit for each."""
        return sum(size for who, size in self.returning.items() if who & groups == who)

    def beside(self, group: int, among: int) -> Iterator[Shared]:
        """With it and one other after the other, whoever it shares most pages with first; `among`: a bit for each."""
        groups, rest = 1 << group, among & ~(1 << group)
        while rest:
            found = [self._with(groups, other) for other in range(rest.bit_length()) if rest >> other & 1]
            most = max(found, key=lambda each: each.more)
            yield most
            groups, rest = groups | 1 << most.other, rest & ~(1 << most.other)

    def _with(self, groups: int, other: int) -> Shared:
        returns = self.together(groups | 1 << other)
        return Shared(other, returns - self.together(groups) - self.together(1 << other), returns)


def shared_pages(search: Search, groups: Sequence[Sequence[int]]) -> Optional[SharedPages]:
    """`groups`: the holdings' numbers; None where it is not known what is in memory."""
    owners = find_owners(search)
    bits = [1 << len(groups)] * (1 + max((each.number for each in owners.holdings), default=0))
    for place, numbers in enumerate(groups):
        for number in numbers:
            bits[number] = 1 << place
    bits.append(NOBODY)  # which is the last as well as -1
    whose = [bits[number] for number in owners.whose]
    # all that is set stays so beside nobody's
    kept = returns(search, whose, 2 << len(groups), or_)
    if kept is None:
        return None
    return SharedPages(kept, {who: each.returns for who, each in enumerate(kept) if who and each.returns})


def numbers_of(search: Search, jointly: Jointly) -> Sequence[int]:
    """The holdings of what these lead to, all of them and nobody else but for trifles; none where that is not so."""
    found = [
        each
        for each in find_owners(search).holdings
        if each.leading is not None and each.leading.whole and set(each.leading.owners) == set(jointly.owners)
    ]
    size = sum(each.bytes for each in found)
    return [each.number for each in found] if TRIFLE * abs(size - jointly.bytes) <= size else ()
