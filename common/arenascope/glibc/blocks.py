"""Chunks one by one, out of the runs of a sweep: where each lies, how large it is and what it is."""

from __future__ import annotations

from typing import Iterable, Iterator, Mapping, Sequence

from ..model import Bin, Run
from .chunk import PREV_INUSE, SIZE_BITS

Block = tuple[int, int, str]
"""(chunk address, bytes, "used", "tcache", "fast" or "free")."""


def blocks(run: Run, listed: Mapping[int, str]) -> Iterator[Block]:
    """A run's chunks in address order; `listed` are those of thread caches and fastbins, which look used."""
    chunk, previous = run.address, 0
    state = listed.get
    for raw in run.raws:
        if previous:
            yield chunk, previous, state(chunk, "used") if raw & PREV_INUSE else "free"
            chunk += previous
        previous = raw & ~SIZE_BITS
    if previous:
        yield chunk, previous, state(chunk, "used") if run.follow & PREV_INUSE else "free"


def listed_chunks(lists: Iterable[Sequence[Bin]]) -> dict[int, str]:
    """The chunks of fastbins and thread caches: "fast" or "tcache"."""
    found: dict[int, str] = {}
    for bins in lists:
        for each in bins:
            found.update(dict.fromkeys(each.addresses, each.kind))
    return found
