"""Blocks named by the program's debug information, where whoever looks has it: before blocks are asked what they are
and what they hold, and after it.

What it tells with certainty comes before all else. A type that is uncertain (a struct with more behind it) names only
what nothing certain has named, and the member that leads there only what has no name but its size or its looks.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from itertools import accumulate
from types import ModuleType
from typing import Iterator, Sequence

from ..glibc.chunk import SIZE_BITS
from ..session.session import Session
from .block_index import WEAK, Known
from .declared.named_blocks import NamedBlocks
from .live_blocks import NamedLiveBlocks, NamedRun
from .pointer_finder import library
from .recognise.all_recognisers import NONE, Catalogue

REPLACED_HOLDERS = ("c++", "control", "node")
REPLACED = (*WEAK, *REPLACED_HOLDERS)
"""What blocks are by their own words, of which no runtime asks later."""


class DeclaredNames:
    """Names the blocks of one look, in steps."""

    def __init__(self, session: Session, catalogue: Catalogue, found: NamedBlocks) -> None:
        self._catalogue, self._found, self._starts = catalogue, found, found.blocks.starts
        self._header, self._word = session.layout.header, session.layout.word
        self._certain = array("i", [NONE]) * len(found.name)
        """Of each block the number of its kind, where it is certain; or NONE."""
        numbers: dict[int, int] = {}
        for block in found.certain():
            name = found.name[block]
            kind = found.kind(block) if name not in numbers else None
            if kind is not None:
                numbers[name] = catalogue.plain(kind)
            self._certain[block] = numbers[name]
        self._numpy = library(found.blocks.bytes) if len(self._starts) else None
        self._numbers: dict[tuple[int, int, int], int] = {}
        self._users, self._usables, self._before = array("Q"), array("Q"), array("i")
        """What was known to hold others before it had a certain name."""

    def certain_of(self, users: Sequence[int]) -> Sequence[int]:
        """Of each block the number of its kind, where it is certain, or NONE. In address order."""
        if not users:
            return ()
        first, count = bisect_left(self._starts, users[0]), len(users)
        if self._starts[first : first + count] == array("Q", users):
            return self._certain[first : first + count]
        # thread caches are among them, or what is damaged
        last = bisect_right(self._starts, users[-1])
        certain = dict(zip(self._starts[first:last], self._certain[first:last]))
        return [certain.get(user, NONE) for user in users]

    def put_certain(self, live: NamedLiveBlocks) -> None:
        """Before holders are asked, which takes longer than all else: what is certain needs none. What a runtime's own
        words tell stays, as these tell of other blocks, too."""
        replaced = [each.kind in REPLACED for each in live.kinds]
        holds = [each.kind in REPLACED_HOLDERS for each in live.kinds]
        if self._catalogue.asks_blocks_alone and not any(holds):
            return
        starts, sizes, certain = self._starts, self._found.blocks.sizes, self._certain
        for piece in _typed_pieces(live):
            kinds = piece.kinds
            for index, block in self._placed(piece):
                before = kinds[index]
                if certain[block] != NONE and replaced[before]:
                    if holds[before]:
                        self._users.append(starts[block])
                        self._usables.append(sizes[block] - self._word)
                        self._before.append(before)
                    kinds[index] = certain[block]  # type: ignore[index]  # an array

    def holders(self) -> Iterator[Known]:
        """What was known to hold others, with the kinds that it had before."""
        return zip(self._users, self._usables, self._before)

    def put_rest(self, live: NamedLiveBlocks) -> None:
        """What is less than certain names what nothing else has, or says more."""
        names, certain, known = self._found.name, self._certain, self._numbers.get
        for piece in _typed_pieces(live):
            kinds = piece.kinds
            for index, block in self._placed(piece):
                before = kinds[index]
                if before != certain[block]:
                    number = known((names[block], certain[block], before))
                    if number is None:
                        number = self._number(live, block, before)
                    kinds[index] = number  # type: ignore[index]  # an array
        for at, (mapped, kind) in enumerate(live.mmapped):
            block = self._found.blocks.find(mapped.chunk + self._header)
            if block >= 0:
                live.mmapped[at] = mapped, self._number(live, block, kind)
        live.kinds += [entry.kind for entry in self._catalogue.entries[len(live.kinds) :]]

    def _placed(self, piece: NamedRun) -> Iterator[tuple[int, int]]:
        """(place, number) of each block that has a name: both sweeps met them in the order of their addresses."""
        starts, names = self._starts, self._found.name
        if self._numpy is not None:
            yield from _placed_at_once(self._numpy, piece, self._header, starts=starts, names=names)
            return
        block, count = bisect_left(starts, piece.address), len(starts)
        sizes = (raw & ~SIZE_BITS for raw in piece.raws)
        users = accumulate(sizes, initial=piece.address + self._header)
        for index, (kind, user) in enumerate(zip(piece.kinds, users)):
            if kind == NONE:
                continue
            while block < count and starts[block] < user:
                block += 1
            if block < count and starts[block] == user:
                if names[block] >= 0:
                    yield index, block
                block += 1

    def _number(self, live: NamedLiveBlocks, block: int, before: int) -> int:
        """Of a block's kind, by what it was before."""
        found = self._found
        key = found.name[block], self._certain[block], before
        number = self._numbers.get(key)
        if number is None:
            kind = found.kind(block) if found.is_better(block, live.kinds[before]) else None
            number = self._numbers[key] = self._catalogue.plain(kind) if kind is not None else before
        return number


def _placed_at_once(
    numpy: ModuleType, piece: NamedRun, header: int, *, starts: Sequence[int], names: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """The same with numpy."""
    raws = numpy.asarray(piece.raws).astype(numpy.uint64)
    sizes = raws & numpy.uint64(~SIZE_BITS & (1 << 64) - 1)
    used = numpy.flatnonzero(numpy.asarray(piece.kinds) != NONE)
    users = (numpy.cumsum(sizes) - sizes + numpy.uint64(piece.address + header))[used]
    blocks = numpy.searchsorted(starts, users, side="right") - 1
    named = (numpy.asarray(starts)[blocks] == users) & (numpy.asarray(names)[blocks] >= 0)
    return zip(used[named].tolist(), blocks[named].tolist())


def _typed_pieces(live: NamedLiveBlocks) -> Iterator[NamedRun]:
    return (piece for heap in live.heaps for piece in heap.pieces if isinstance(piece, NamedRun))
