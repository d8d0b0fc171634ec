"""What one block of a type costs: it, and all that it alone leads to."""

from __future__ import annotations

from array import array
from typing import Mapping, NamedTuple, Optional, Sequence

from ...base.model import Kind
from .blocks import NOBODY
from .holders import kinds_of_all
from .owners import find_owners
from .refs import ImageSearch
from .returns import above_all


class TypeCost(NamedTuple):
    """Of all blocks of a type below one owner."""

    kind: Kind
    blocks: int
    bytes: int
    retained_bytes: int
    """With what hangs on each, down to the next of the same type, which is one of them, too."""
    largest_bytes: int
    """What the one takes that takes most, with what hangs on it."""
    largest: int
    """That block's number."""


def costs_by_type(search: ImageSearch) -> Mapping[int, Sequence[TypeCost]]:
    """By the owners' numbers: what costs most comes first. KeyboardInterrupt."""
    kinds: list[Optional[Kind]] = []
    known: dict[Optional[tuple[str, bool]], int] = {}
    numbers = array("I")
    for each in kinds_of_all(search):
        # one row, however it was known
        number = known.setdefault((each.name, each.certain) if each is not None else None, len(kinds))
        if number == len(kinds):
            kinds.append(each)
        numbers.append(number)
    sizes = search.blocks.sizes
    costs = costs_of_each(above_all(search), numbers, sizes)
    whose = find_owners(search).whose
    rows: dict[tuple[int, int], list[int]] = {}
    for block, cost in enumerate(costs):
        key = whose[block], numbers[block]
        row = rows.get(key)
        if row is None:
            row = rows[key] = [0, 0, 0, 0, block]
        row[0] += 1
        row[1] += sizes[block]
        row[2] += cost
        if cost > row[3]:
            row[3:] = cost, block
    found: dict[int, list[TypeCost]] = {}
    for (owner, number), (blocks, size, retained, most, largest) in rows.items():
        kind = kinds[number]
        if kind is not None:
            row_of = TypeCost(
                kind, blocks=blocks, bytes=size, retained_bytes=retained, largest_bytes=most, largest=largest
            )
            found.setdefault(owner, []).append(row_of)
    return {
        owner: sorted(each, key=lambda cost: (-cost.retained_bytes, cost.kind.name)) for owner, each in found.items()
    }


def costs_of_each(above: Sequence[int], kinds: Sequence[int], sizes: Sequence[int]) -> array[int]:
    """Of each block, by the tree of those that alone lead to it. What hangs on a block of its own kind, however far
    down, is that one's."""
    count = len(sizes)
    first, following = array("q", [NOBODY]) * (count + 1), array("q", [NOBODY]) * count
    for block in range(count - 1, -1, -1):
        # those that have none above them stand below one more
        over = above[block] if above[block] != NOBODY else count
        following[block], first[over] = first[over], block
    below, costs = array("Q", sizes), array("q", bytes(8 * count))
    within = array("q", [NOBODY]) * (1 + max(kinds, default=0))
    """Of each kind the block that is the nearest above."""
    nearest = array("q", [NOBODY]) * count
    at, downwards = first[count], True
    while at != NOBODY:
        if downwards:
            nearest[at], within[kinds[at]] = within[kinds[at]], at
            if first[at] != NOBODY:
                at = first[at]
                continue
        within[kinds[at]] = nearest[at]
        costs[at] += below[at]
        if nearest[at] != NOBODY:
            costs[nearest[at]] -= below[at]
        over = above[at]
        if over != NOBODY:
            below[over] += below[at]
        downwards = following[at] != NOBODY
        at = following[at] if downwards else over
    return costs
