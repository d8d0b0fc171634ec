"""Whether a number is the distance to a block, or only as large as one: sizes and counts lead to one by chance."""

from __future__ import annotations

from functools import cached_property
from typing import Mapping, Sequence

from .encodings import FAR
from .refs import ImageSearch

SAMPLE = 256
"""So many blocks of a size are looked at."""
STRIDE = 2654435761
"""A large prime."""
MOST_PLACES = 1024
"""In so many places of theirs; what is asked for beyond that counts as a distance, so that nothing is called lost."""
MANY = 8
"""Of fewer that all lead to the next block, chance may be the reason."""


class Distances:
    """Numbers in blocks, of which each leads to another's start when it is added to where it lies."""

    def __init__(self, search: ImageSearch) -> None:
        self._search = search
        self._known: dict[tuple[int, int], bool] = {}
        """By size of blocks and offset in them."""

    def is_meant(self, source: int, address: int) -> bool:
        """Where blocks of its size have numbers in this place that lead into the heap, at least half lead to starts of
        blocks; of many not all to the next one, as lengths of the blocks themselves do."""
        blocks = self._search.blocks
        place = blocks.sizes[source], address - blocks.starts[source]
        known = self._known.get(place)
        if known is None and len(self._known) < MOST_PLACES:
            known = self._known[place] = self._is_place(*place)
        return known is not False

    def _is_place(self, size: int, offset: int) -> bool:
        blocks = self._search.blocks
        starts = nexts = others = 0
        for number in self._some[size]:
            target = self._target(blocks.starts[number] + offset)
            to = blocks.find(target)
            if to >= 0 and blocks.starts[to] == target:
                starts += 1
                nexts += to == number + 1
            elif any(start <= target <= end for start, end in blocks.extents):
                others += 1
        return starts >= others and (nexts < starts or starts < MANY)

    def _target(self, address: int) -> int:
        """Where the number there leads; 0 where it is no distance."""
        memory = self._search.session.memory
        distance = memory.try_word(address)
        if distance is None or not FAR <= distance <= memory.top - FAR:
            return 0
        return (address + distance) & memory.top

    @cached_property
    def _some(self) -> Mapping[int, Sequence[int]]:
        """Blocks of each size, from all over the heap."""
        groups: dict[int, list[int]] = {}
        for number, size in enumerate(self._search.blocks.sizes):
            groups.setdefault(size, []).append(number)
        return {size: _spread_over(group) for size, group in groups.items()}


def _spread_over(group: Sequence[int]) -> Sequence[int]:
    """Not each so many-th: what a program allocates in turns would be all of one kind."""
    count = len(group)
    return group if count <= SAMPLE else [group[at * STRIDE % count] for at in range(SAMPLE)]
