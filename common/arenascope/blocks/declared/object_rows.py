"""Objects of one type as rows of arrays, for many_objects_with_numpy.py."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple, Optional, Sequence

from .many_objects import Found, Plan
from .name_numbers import Claimed
from .named_blocks import UNNUMBERED

if TYPE_CHECKING:
    from ...base.array_types import Numbers


class Rows:
    """The objects of some blocks: of one each, or all elements of arrays."""

    def __init__(
        self, claims: Sequence[Claimed], parents: Numbers, of: Numbers, at: Numbers, numbers: Optional[Numbers]
    ) -> None:
        self.claims, self.parents, self.of, self.at, self.numbers = claims, parents, of, at, numbers
        """`of`: whose each row is, among the claims; `parents`: the block of that."""
        self.every = 1
        """So many members each has."""
        self.keys: list[Numbers] = []
        """Of what is claimed: by row, then by member."""
        self.found: list[Claimed] = []

    def number(self, row: int) -> int:
        return int(self.numbers[row]) if self.numbers is not None else UNNUMBERED

    def add(self, numpy: ModuleType, row: int, member: int, found: Sequence[Claimed]) -> None:
        if found:
            self.keys.append(numpy.full(len(found), row * self.every + member))
            self.found += found

    def in_order(self, numpy: ModuleType, bad: Numbers) -> list[Found]:
        """What each block claims. `bad`: so many words of each row contradict its type."""
        count = len(self.claims)
        wrong = numpy.bincount(self.of, weights=bad, minlength=count).astype(numpy.int64).tolist()
        if not self.keys:
            return [Found([], each) for each in wrong]
        keys = numpy.concatenate(self.keys)
        order = numpy.argsort(keys, kind="stable")
        found = list(map(self.found.__getitem__, order.tolist()))
        whose = self.of[keys[order] // self.every]
        ends = numpy.searchsorted(whose, numpy.arange(count + 1)).tolist()
        return [Found(found[ends[each] : ends[each + 1]], wrong[each]) for each in range(count)]


class Hits(NamedTuple):
    rows: Numbers
    blocks: Numbers


class Elements(NamedTuple):
    """Those of all arrays that are the same member of some objects."""

    plan: Plan
    rows: Rows
    of: Numbers
    """The row of the object that has it."""
    columns: Sequence[Numbers]
    """Its pointers."""
