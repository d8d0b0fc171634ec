"""Everything that a sweep finds in an image, to compare two ways to sweep."""

from __future__ import annotations

from typing import Any

from arenascope.base.model import ChunkRun, Gap
from arenascope.glibc.sweep import blocks
from arenascope.session.session import Session


def seen(session: Session) -> list[Any]:
    """All of every heap: runs may be cut elsewhere."""
    rows: list[Any] = []
    for header in session.headers:
        for heap in session.heaps[header.index]:
            for piece in session.sweep(header, heap):
                if isinstance(piece, Gap):
                    rows.append(piece)
                    continue
                rows += blocks(piece, session.listed)
                assert piece.bytes == sum(size for _, size, _ in blocks(piece, {}))
                agrees_with_itself(piece)
    return [*rows, *session.findings]


def agrees_with_itself(run: ChunkRun) -> None:
    assert sum(run.counts.values()) == len(run.raws)
    assert all([*run.raws].count(raw) == run.counts[raw] for raw in [*run.counts][:3])
    chunks = [*blocks(run, {})]
    free = [(at, chunk + size) for at, (chunk, size, state) in enumerate(chunks, 1) if state == "free"]
    in_front = [(0, run.address)] if not run.raws[0] & 1 else []
    assert [*zip(run.free.indexes, run.free.addresses)] == in_front + free
    assert all(chunks[at][0] == chunk for at, chunk in run.marks)
