"""What `report` asks of a session: every resident byte of malloc's, and every mapping beside it."""

from __future__ import annotations

from typing import Optional, Sequence

from ..analysis.report import Extent, Picture, picture
from ..analysis.resident import ArenaResident, arena_resident, clipped
from ..session import Session
from ..target import Residency
from .trims import Trim


def resident_picture(session: Session, plans: Sequence[Trim]) -> Optional[Picture]:
    """None where this image does not tell which pages were in memory."""
    residency, uses = session.residency, session.target.image.mapping_use()
    if residency is None or uses is None:
        return None
    pages, extents = _heap_pages(session, residency)
    cached = _cached_ranges(session)
    arenas: list[ArenaResident] = []
    unread = 0
    for arena, trim in zip(session.arenas, plans):
        ends = pages[arena.header.index]
        if arena.complete and trim.plan.madvise is not None and trim.plan.top is not None and session.caches_known:
            arenas.append(arena_resident(arena, trim.plan, cached.get(arena.header.index, ()), ends))
        else:
            unread += sum(end - start for start, end in ends)
    mmapped = 0
    for block in session.mmapped:
        found = residency.count(block.base, block.base + block.bytes)
        extents.append((block.base, block.base + block.bytes, found.resident if found else 0))
        mmapped += extents[-1][2]
    stacks = [thread.stack_pointer for thread in session.target.threads() if thread.stack_pointer]
    return picture(arenas, unread, mmapped, uses, extents, stacks)


def _heap_pages(session: Session, residency: Residency) -> tuple[dict[int, list[tuple[int, int]]], list[Extent]]:
    """Each arena's resident pages, asked for before lists are walked, as reading can map zero pages; and its heaps."""
    found: dict[int, list[tuple[int, int]]] = {}
    extents: list[Extent] = []
    for index, heaps in session.heaps.items():
        found[index] = []
        for heap in sorted(heaps, key=lambda heap: heap.address):
            ranges = residency.resident_ranges(heap.address, heap.end) or ()
            here = clipped(ranges, heap.address, heap.end)
            extents.append((heap.address, heap.end, sum(high - low for low, high in here)))
            found[index] += here
    return found, extents


def _cached_ranges(session: Session) -> dict[Optional[int], list[tuple[int, int]]]:
    """The chunks in thread caches, by the arena that they came from."""
    found: dict[Optional[int], list[tuple[int, int]]] = {}
    for cache in session.thread_caches:
        for cached in cache.bins:
            for chunk, size in zip(cached.addresses, cached.sizes):
                found.setdefault(session.owner_of(chunk), []).append((chunk, size))
    return found
