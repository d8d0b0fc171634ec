"""Pointers in words: those of roots, with which all that is looked for begins, and those of the heap."""

from __future__ import annotations

from typing import NamedTuple, Sequence

from .blocks import STALE, edge_to
from .refs import ImageSearch


class Seed(NamedTuple):
    """A pointer that a root has."""

    root: int
    """Its number among the ranges, or after these among the words."""
    address: int
    """Where it lies; 0 for a word of its own."""
    edge: int


def root_pointers(search: ImageSearch) -> Sequence[Seed]:
    """All that roots have, looked for once. Of those in ranges none is marked as stale: the table may need them."""
    if search.root_pointers is None:
        search.root_pointers = _found(search)
    return search.root_pointers


def _found(search: ImageSearch) -> list[Seed]:
    blocks, roots = search.blocks, search.roots
    with search.meter("looking into roots", search.root_spans.spans) as meter:
        found = search.engine.pointers(search.root_spans.spans, meter)
        seeds = [Seed(search.root_spans.of[span], address, edge) for address, _, edge, span in found]
    for number, word in enumerate(roots.words, len(roots.ranges)):
        index = blocks.find(word.value)
        if index >= 0:
            edge = edge_to(index, word.value - blocks.starts[index])
            seeds.append(Seed(number, 0, edge if word.stale is None else edge | STALE))
    return seeds
