"""What blocks.py tells of a run's chunks one by one, of all of them at once: with numpy."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

from ...base.model import Run
from ..chunk import PREV_INUSE, SIZE_BITS

if TYPE_CHECKING:
    from ...base.array_types import Flags, Numbers


class Chunks(NamedTuple):
    """Arrays, in the order of the addresses."""

    addresses: Numbers
    sizes: Numbers
    taken: Flags
    """Whether each is not free: used, or in a list of those that look used."""
    live: Flags
    """Whether each is used."""


def chunks(numpy: ModuleType, run: Run) -> Chunks:
    """Listed chunks are those that the sweep was told to watch for."""
    raws = numpy.array(run.raws, dtype=numpy.uint64)
    sizes = raws & ~numpy.uint64(SIZE_BITS)
    addresses = numpy.cumsum(sizes)
    addresses -= sizes
    addresses += numpy.uint64(run.address)
    taken = numpy.empty(len(raws), dtype=bool)
    # the next one's size word tells
    taken[:-1] = raws[1:] & numpy.uint64(PREV_INUSE)
    taken[-1:] = run.follow & PREV_INUSE
    live = taken.copy()
    live[[index for index, _ in run.marks]] = False
    return Chunks(addresses, sizes, taken, live)
