"""Invariants of malloc_state itself, and of what malloc counts but keeps no list of."""

from __future__ import annotations

from typing import Iterator, Optional, Sequence

from ...model import ARENA_FLAGS, ArenaHeader, Breach, MmappedBlock, Params, Statement
from ..arena import LEAST_PAGE
from ..layout import Layout
from ..mmapped import counts_headers_twice

MUTEX_MAX = 2
"""A low-level lock: free, taken, taken and waited for."""


def header_breaches(layout: Layout, header: ArenaHeader) -> Iterator[Breach]:
    """The invariants of one malloc_state by itself."""

    def say(rule: str, what: str, **figures: int) -> Breach:
        return Breach(header.address, header.index, rule, Statement(what, figures))

    if header.mutex > MUTEX_MAX:
        yield say("mutex", "mutex", value=header.mutex)
    if header.flags & ~ARENA_FLAGS or (not header.main and header.contiguous):
        yield say("arena-flags", "flags-of-main-arena" if header.main else "flags-of-thread-arena", flags=header.flags)
    if header.system_mem > header.max_system_mem and not _grown_by_systrim(layout, header):
        yield say(
            "system-mem",
            "system-mem-over-maximum",
            system_bytes=header.system_mem,
            max_system_bytes=header.max_system_mem,
        )


def _grown_by_systrim(layout: Layout, header: ArenaHeader) -> bool:
    """Whether malloc_trim explains it: since 2.19 it extends a top of MINSIZE by whole pages.

    It adds them to system_mem and leaves max_system_mem behind until the heap grows next.
    """
    excess = header.system_mem - header.max_system_mem
    return (
        header.main
        and layout.behaviour.systrim_unsigned
        and header.max_system_mem >= LEAST_PAGE
        and excess % LEAST_PAGE == 0
    )


def mmapped_breach(
    layout: Layout, params: Optional[Params], blocks: Sequence[MmappedBlock], all_is_here: bool
) -> Iterator[Breach]:
    """Blocks served by mmap: fewer than counted means that a header was overwritten; more can be false matches."""
    if params is None or not all_is_here:
        return
    count, total = params.values["n_mmaps"], params.values["mmapped_mem"]
    size = sum(block.bytes for block in blocks)
    if len(blocks) < count or (len(blocks) == count and size != total):
        if len(blocks) == count and counts_headers_twice(layout, total, size):
            return
        figures = {"counted_blocks": count, "counted_bytes": total, "blocks": len(blocks), "bytes": size}
        yield Breach(params.address, None, "mmapped-count", Statement("mmapped-count", figures))
