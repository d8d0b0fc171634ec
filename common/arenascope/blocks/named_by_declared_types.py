"""Blocks named by the program's debug information, where whoever looks has it: the last pass.

What it tells with certainty comes before all else. A type that is uncertain (a struct with more behind it) names only
what nothing certain has named, and the member that leads there only what has no name but its size or its looks.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Iterator

from ..glibc.chunk import SIZE_BITS
from ..session.session import Session
from .declared.named_blocks import NamedBlocks
from .declared.once_per_image import declared_blocks
from .live_blocks import Live, Typed
from .recognise.all_recognisers import NONE, Catalogue


def name_by_declared_types(session: Session, catalogue: Catalogue, live: Live) -> None:
    """KeyboardInterrupt, and nothing was named by it."""
    found = declared_blocks(session)
    if found is None or not found.names:
        return
    numbers = _Numbers(catalogue, live, found)
    starts, count = found.blocks.starts, len(found.blocks)
    for heap in live.heaps:
        for piece in heap.pieces:
            if not isinstance(piece, Typed):
                continue
            kinds = piece.kinds
            block = bisect_left(starts, piece.address)
            for index, user in enumerate(_users(piece, session.layout.header)):
                if kinds[index] == NONE:
                    continue
                while block < count and starts[block] < user:
                    block += 1
                if block < count and starts[block] == user:
                    kinds[index] = numbers.of(block, kinds[index])  # type: ignore[index]  # an array
    for at, (mapped, kind) in enumerate(live.mmapped):
        block = found.blocks.find(mapped.chunk + session.layout.header)
        if block >= 0:
            live.mmapped[at] = mapped, numbers.of(block, kind)
    live.kinds += [entry.kind for entry in catalogue.entries[len(live.kinds) :]]


def _users(piece: Typed, header: int) -> Iterator[int]:
    user = piece.address + header
    for raw in piece.raws:
        yield user
        user += raw & ~SIZE_BITS


class _Numbers:
    """The kinds of blocks, by what they were before."""

    def __init__(self, catalogue: Catalogue, live: Live, found: NamedBlocks) -> None:
        self._catalogue, self._found, self._before = catalogue, found, live.kinds
        self._known: dict[tuple[int, bool, int], int] = {}

    def of(self, block: int, before: int) -> int:
        found = self._found
        name = found.name[block]
        if name < 0:
            return before
        key = name, found.is_certain(block), before
        number = self._known.get(key)
        if number is None:
            kind = found.kind(block) if found.is_better(block, self._before[before]) else None
            number = self._known[key] = self._catalogue.plain(kind) if kind is not None else before
        return number
