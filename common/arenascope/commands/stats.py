"""heap stats: malloc_stats' text."""

from __future__ import annotations

from typing import Iterator, Optional, Sequence

from ..base.heap_model import Arena, Params
from ..present.json_documents.record import Document
from ..session.problems import problems_of
from .framework.command import Answer, Context, always, command
from .info import may_be_written

UNSIGNED = 0xFFFFFFFF
"""glibc prints with %10u: sums are truncated to 32 bits."""


class StatsDocument(Document, command="stats"):
    """The answer of stats."""

    text: Optional[str]
    """malloc_stats'; null where not all of it can be read."""


def malloc_stats(arenas: Sequence[Arena], params: Optional[Params]) -> str:
    """malloc_stats' text, of arenas that were read completely: it cannot express what is not known."""
    return "\n".join(_lines(arenas, params)) + "\n"


def _lines(arenas: Sequence[Arena], params: Optional[Params]) -> Iterator[str]:
    values = params.values if params else {}
    system_total = in_use_total = values.get("mmapped_mem", 0) & UNSIGNED
    for arena in arenas:
        header = arena.header
        assert arena.fast is not None
        assert arena.binned is not None
        assert header.top_bytes is not None
        free = arena.fast.bytes + arena.binned.bytes + header.top_bytes
        in_use = header.system_mem - free
        yield f"Arena {header.index}:"
        yield f"system bytes     = {header.system_mem & UNSIGNED:10d}"
        yield f"in use bytes     = {in_use & UNSIGNED:10d}"
        system_total += header.system_mem
        in_use_total += in_use
    yield "Total (incl. mmap):"
    yield f"system bytes     = {system_total & UNSIGNED:10d}"
    yield f"in use bytes     = {in_use_total & UNSIGNED:10d}"
    yield f"max mmap regions = {values.get('max_n_mmaps', 0) & UNSIGNED:10d}"
    yield f"max mmap bytes   = {values.get('max_mmapped_mem', 0):10d}"


@command(
    "as glibc prints it",
    "stats",
    lists=always,
)
def stats_command(context: Context) -> Answer:
    """Print the text of malloc_stats(), byte for byte, without calling it.

    Where not all of it can be read nothing is printed, as the text has no word for what is not known.
    """
    session = context.session
    text = malloc_stats(session.arenas, session.params) if may_be_written(context, "malloc_stats' text") else None
    return Answer(StatsDocument(text=text), (text or "").rstrip("\n").split("\n"), problems_of(session), exact=True)
