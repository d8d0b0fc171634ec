"""What a damage hurts, and where: shared by the collections of damages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable, Optional

from heap_chunks import ArenaBuilder
from heapbuilder import ArenaTruth, HeapImage


@dataclass
class Hurt:
    """What was damaged, and what has to be said of it."""

    arenas: set[int] = field(default_factory=set)
    """Whose figures can not be known any more."""
    address: Optional[int] = None
    """What a problem must name."""
    lost: set[int] = field(default_factory=set)
    """Arenas that nothing leads to any more."""
    caches: bool = False
    """A thread's cache: whose chunks it holds can not be told, so no arena's use is known."""


Wound = Callable[[HeapImage], Optional[Hurt]]
"""Damages the image; None where this release has nothing of the kind."""


def victim(image: HeapImage) -> ArenaBuilder:
    """Arena 2 of 3: one that has its neighbours in the ring."""
    return image.thread(2).arena


def truth_of(image: HeapImage, arena: ArenaBuilder) -> ArenaTruth:
    return image.truth.arena(arena.address)
