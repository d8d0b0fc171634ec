"""Sums what every arena holds, for several commands."""

from __future__ import annotations

from typing import Optional

from ..analysis.usage import ArenaUsage, header_usage
from ..base.model import NOT_AS_COUNTED, Statement, Tally
from ..glibc import mmapped
from .session import Session


def quick_usages(session: Session) -> list[ArenaUsage]:
    return header_usage(session.headers, session.heaps, session.thread_owners, session.resident)


def mmapped_tally(session: Session) -> Optional[Tally]:
    params = session.params
    return Tally(params.values["n_mmaps"], params.values["mmapped_mem"]) if params else None


def mmapped_mismatch(session: Session) -> Optional[Statement]:
    """Reports that the blocks found are not those that glibc counts."""
    blocks = session.mmapped if session.started else []
    expected = mmapped_tally(session)
    if expected is None:
        return Statement("blocks-uncounted")
    if mmapped.agree(session.layout, blocks, expected):
        return None
    tally = mmapped.counts(blocks)
    return Statement(
        NOT_AS_COUNTED,
        {"found_blocks": tally.chunks, "found_bytes": tally.bytes, "blocks": expected.chunks, "bytes": expected.bytes},
    )
