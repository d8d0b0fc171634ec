"""Checks malloc_state itself, and what malloc counts without a list."""

from __future__ import annotations

import heapq
from typing import Callable, Iterator, Optional, Sequence

from ...base.model import ARENA_FLAGS, ArenaHeader, Breach, MmappedBlock, Params, Statement
from ..arena import LEAST_PAGE
from ..mmapped import counts
from ..params import counts as counts_of
from ..process_layout import Layout

MUTEX_MAX = 2
"""The largest value of a low-level lock: free, taken, taken and waited for."""


def header_breaches(layout: Layout, header: ArenaHeader) -> Iterator[Breach]:
    """Checks the invariants of one malloc_state by itself."""

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
    """Tells whether malloc_trim explains it: since 2.19 it extends a top of MINSIZE by whole pages.

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
    layout: Layout, params: Optional[Params], blocks: Sequence[MmappedBlock], unclaimed: Callable[[], Sequence[int]]
) -> Iterator[Breach]:
    """Checks the number of mmapped blocks: fewer than counted means that a header was overwritten.

    `unclaimed` are the bytes of each stretch where the missing ones can lie. Without room for them they may just not be
    recognised. More than counted can be false matches: problems report that.
    """
    if params is None:
        return
    counted = counts_of(params)
    held = counts(blocks)
    missing, lacking = counted.chunks - held.chunks, counted.bytes - held.bytes
    if missing <= 0 or lacking < missing * LEAST_PAGE:
        return
    if layout.behaviour.mmapped_size_less_header:
        lacking -= lacking % LEAST_PAGE  # what each realloc() that moved one counts too many
    if sum(heapq.nlargest(missing, unclaimed())) >= lacking:
        figures = {
            "counted_blocks": counted.chunks,
            "counted_bytes": counted.bytes,
            "blocks": held.chunks,
            "bytes": held.bytes,
        }
        yield Breach(params.address, None, "mmapped-count", Statement("mmapped-count", figures))
