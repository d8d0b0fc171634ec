"""With whom those that hold most share pages: what leaves memory with each of them, and what only with several."""

from __future__ import annotations

from operator import or_
from typing import Iterator, Mapping, NamedTuple, Optional, Sequence

from .owner_pages import OwnerPages
from .owners import ALONE, JOINTLY, find_owners
from .refs import ImageSearch
from .returns import returns


class PageSharing(NamedTuple):
    """One more of the groups."""

    other: int
    more: int
    """What leaves memory only with both."""
    returns: int
    """What does in all."""


class SharedPages(NamedTuple):
    """Of groups of blocks by their places; what is in none of them is the last."""

    kept: Sequence[OwnerPages]
    """By who has something on a page, a bit for each group."""
    returning: Mapping[int, int]
    """What leaves memory with all of these, by the same; of most there is nothing."""

    def of(self, group: int) -> OwnerPages:
        """With this group alone."""
        return self.kept[1 << group]

    def together(self, groups: int) -> int:
        """What leaves memory with all of some, a bit for each."""
        return sum(size for who, size in self.returning.items() if who & groups == who)

    def beside(self, group: int, among: int) -> Iterator[PageSharing]:
        """With it and one other after the other, whoever it shares most pages with first; `among`: a bit for each."""
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
    """Groups: what each of some holdings has alone, by their numbers; what the first few hold jointly; what nobody
    does. None where it is not known what is in memory."""
    owners = find_owners(search)
    count = len(alone) + jointly + 1
    of_one = {number: 1 << place for place, number in enumerate(alone)}
    if nobody is not None:
        of_one[nobody] = 1 << count - 1
    of_several = {JOINTLY + at: 1 << len(alone) + at for at in range(jointly)}
    rest = 1 << count
    whose = [
        of_one.get(number, rest) if lead == ALONE else of_several.get(lead, rest)
        for number, lead in zip(owners.whose, owners.lead)
    ]
    # all that is set stays so beside nobody's
    kept = returns(search, whose, 2 << count, or_)
    if kept is None:
        return None
    return SharedPages(kept, {who: each.returns for who, each in enumerate(kept) if who and each.returns})
