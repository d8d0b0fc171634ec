"""Invariants of malloc_state itself, and of what malloc counts without listing it."""

from __future__ import annotations

from typing import Iterator, Optional, Sequence

from ...model import ARENA_FLAGS, ArenaHeader, Breach, MmappedBlock, Params
from ..arena import LEAST_PAGE
from ..layout import Layout
from ..mmapped import counts_headers_twice

MUTEX_MOST = 2
"""A low-level lock: free, taken, taken and waited for."""


def header_breaches(layout: Layout, header: ArenaHeader) -> Iterator[Breach]:
    """What one malloc_state says of itself."""

    def say(rule: str, expected: str, found: str) -> Breach:
        return Breach(header.address, header.index, rule, expected, found)

    if header.mutex > MUTEX_MOST:
        yield say("mutex", "0, 1 or 2", f"{header.mutex:#x}")
    if header.flags & ~ARENA_FLAGS or (not header.main and header.contiguous):
        yield say(
            "arena-flags",
            "NONCONTIGUOUS and nothing unknown" if not header.main else "no unknown flag",
            f"{header.flags:#x}",
        )
    if header.system_mem > header.max_system_mem and not _grown_by_systrim(layout, header):
        yield say(
            "system-mem", f"system_mem of at most {header.max_system_mem:#x}, its maximum", f"{header.system_mem:#x}"
        )


def _grown_by_systrim(layout: Layout, header: ArenaHeader) -> bool:
    """Whether malloc_trim explains it: since 2.19 it makes a top of MINSIZE longer, by pages.

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
    """Blocks served by mmap: fewer than counted means that a header was overwritten. More can be a likeness."""
    if params is None or not all_is_here:
        return
    count, total = params.values["n_mmaps"], params.values["mmapped_mem"]
    size = sum(block.bytes for block in blocks)
    if len(blocks) < count or (len(blocks) == count and size != total):
        if len(blocks) == count and counts_headers_twice(layout, total, size):
            return
        yield Breach(
            params.address,
            None,
            "mmapped-count",
            f"{count} blocks of {total} bytes, as mp_ counts",
            f"{len(blocks)} of {size} bytes",
        )
