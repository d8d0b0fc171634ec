"""What an image holds and what a session sees, as plain values of one shape: tests compare them by ==."""

from __future__ import annotations

from typing import Any, Iterable

from heap_truth import ArenaTruth, Chunk
from heapbuilder import HeapImage

from arenascope.base.heap_model import Arena, Bin, Tally
from arenascope.session.session import Session


def laid(image: HeapImage) -> dict[str, Any]:
    truth = image.truth
    index = {arena.address: arena.index for arena in truth.arenas}
    return {
        "arenas": [laid_arena(image, arena) for arena in truth.arenas],
        "params": truth.mp,
        "mmapped": sorted((block.chunk, block.base, block.total) for block in truth.mmapped),
        "threads": [
            (thread.tid, None if thread.arena is None else index[thread.arena], thread.tcache, thread.bins)
            for thread in sorted(truth.threads, key=lambda thread: thread.tid)
        ],
    }


def laid_arena(image: HeapImage, arena: ArenaTruth) -> dict[str, Any]:
    # main_arena's regions: one while it is contiguous, whatever others took in between
    spans = [(heap.address, heap.end, heap.mprotect_size) for heap in arena.heaps]
    if arena.contiguous and spans:
        spans = [(spans[0][0], spans[-1][1], None)]
    return {
        "index": arena.index,
        "address": arena.address,
        "system": (arena.system_mem, arena.max_system_mem),
        "attached": arena.attached_threads if "attached_threads" in image.row.state else None,
        "top": arena.top,
        "bins": arena.bins,
        "fastbins": arena.fastbins,
        "heaps": sorted(spans),
    }


def seen(session: Session) -> dict[str, Any]:
    return {
        "arenas": [seen_arena(arena) for arena in session.arenas],
        "params": session.params.values if session.params else None,
        "mmapped": sorted((block.chunk, block.base, block.bytes) for block in session.mmapped),
        "threads": [(cache.tid, cache.arena, cache.address, chunks(cache.bins)) for cache in session.thread_caches],
    }


def seen_arena(arena: Arena) -> dict[str, Any]:
    header = arena.header
    return {
        "index": header.index,
        "address": header.address,
        "system": (header.system_mem, header.max_system_mem),
        "attached": header.attached_threads,
        "top": Chunk(header.top, header.top_bytes) if header.top_bytes else None,
        "bins": chunks(arena.bins),
        "fastbins": chunks(arena.fastbins),
        "heaps": sorted((heap.address, heap.end, heap.mprotect_bytes) for heap in arena.heaps),
    }


def chunks(bins: Iterable[Bin]) -> dict[int, list[Chunk]]:
    return {each.index: [Chunk(*pair) for pair in zip(each.addresses, each.sizes)] for each in bins}


def tally(found: Iterable[Chunk]) -> Tally:
    sizes = [chunk.size for chunk in found]
    return Tally(len(sizes), sum(sizes))


def used_bytes(arena: ArenaTruth) -> int:
    """By the contract: what is left of system_mem once everything free is taken off."""
    top = [arena.top] if arena.top else []
    return arena.system_mem - tally([*arena.fast, *arena.free, *arena.cached, *top]).bytes
