"""Why malloc_trim(0) leaves what it leaves."""

from __future__ import annotations

from typing import Iterator, Sequence

from ..base.model import Statement
from ..sources.target import Span
from .trim import Trim, until_locked
from .usage import total


def reasons(plans: Sequence[Trim], whole: bool, locked: Sequence[Span]) -> Iterator[Statement]:
    """One for each kind of memory that stays, with its total over these arenas; `whole`: there are no others."""
    if any(trim.plan.tops for trim in plans):
        figures = {
            "bytes": total((trim.plan.tops_bytes for trim in plans), whole),
            "resident_bytes": total((trim.resident.tops for trim in plans), whole),
        }
        yield Statement("tops-untouched", figures)
    if any(trim.plan.subpage_bytes for trim in plans):
        yield Statement("pages-shared", {"bytes": total((trim.plan.subpage_bytes for trim in plans), whole)})
    if any(trim.plan.tcache_bytes for trim in plans):
        yield Statement("cached-by-threads", {"bytes": total((trim.plan.tcache_bytes for trim in plans), whole)})
    refused = sum(_locked_bytes(trim, locked) for trim in plans)
    if refused:
        yield Statement("pages-locked", {"bytes": refused})
    grows = -sum(min(trim.plan.brk_bytes or 0, 0) for trim in plans)
    if grows:
        yield Statement("break-grows", {"bytes": grows})


def _locked_bytes(trim: Trim, locked: Sequence[Span]) -> int:
    """How much of the known ranges the kernel refuses."""
    released = until_locked(trim.plan.madvise or (), locked)
    return (trim.plan.madvise_bytes or 0) - sum(each.bytes for each in released)
