"""heap threads: thread, arena, cache."""

from __future__ import annotations

from typing import Iterator, Optional, Sequence

from ..analysis.arena_usage import total
from ..base.heap_model import ThreadCache
from ..present.json_documents.record import Address, Document, Record, Size
from ..present.json_documents.shared_records import ArenaOrNone, ArenaThread
from ..present.shared_text.lines_and_tables import Column, column_table, count, number
from ..session.problems import problems_of
from .framework.command import LIMIT, Answer, Context, command, of_heap


class Cache(Record):
    """A thread's cache."""

    address: Optional[Address]
    """Where it is; null: none, or not found."""
    chunks: Optional[Size]
    """What it keeps; null: not known."""
    bytes: Optional[Size]
    """Their bytes."""


class ThreadRow(ArenaThread):
    """A thread."""

    arena: ArenaOrNone
    tcache: Cache


class ThreadsDocument(Document, command="threads"):
    """The answer of threads."""

    threads: Sequence[ThreadRow]
    """By tid."""
    unattached_arenas: Optional[Sequence[int]]
    """Arenas that no thread uses; null: not known."""


@command(
    "arenas and lists",
    "threads",
    arguments=(LIMIT,),
)
def threads_command(context: Context) -> Answer:
    """List each thread's arena and thread cache, and the arenas that no thread uses.

    A thread that has no arena has not allocated yet. Arenas outlive their threads and are taken up by new ones.
    """
    session = context.session
    caches = session.thread_caches if session.started else []
    taken = {cache.arena for cache in caches}
    alone: Optional[list[int]] = None
    if session.all_arenas and caches and all(cache.known or cache.arena is not None for cache in caches):
        alone = [header.index for header in session.headers if header.index not in taken]
    if not session.started:
        alone = [header.index for header in session.headers]
    found = ThreadsDocument(threads=[_record(cache) for cache in caches], unattached_arenas=alone)
    return Answer(found, of_heap(session, _lines(context, caches, alone)), problems_of(session))


def _record(cache: ThreadCache) -> ThreadRow:
    tally = cache.tally if cache.known else None
    return ThreadRow.of(
        cache,
        tcache=Cache.of(tally, address=cache.address),
    )


def _lines(context: Context, caches: Sequence[ThreadCache], alone: Optional[Sequence[int]]) -> Iterator[str]:
    style, session = context.style, context.session
    used = len({cache.arena for cache in caches if cache.arena is not None})
    held = total(cache.tally.bytes if cache.known else None for cache in caches)
    yield style.bold(f"{count(len(caches), 'thread')} on {count(used, 'arena')}; their caches hold {style.size(held)}")
    yield ""
    columns = (
        Column("tid", lambda cache: str(cache.tid), left=True),
        Column("name", lambda cache: cache.name or "-", left=True),
        Column("arena", _arena, left=True),
        Column("cache at", lambda cache: f"{cache.address:#x}" if cache.address else "-", left=True),
        Column("chunks", lambda cache: number(cache.tally.chunks if cache.known else None)),
        Column("bytes", lambda cache: style.size(cache.tally.bytes if cache.known else None)),
    )
    yield from column_table(style, columns, caches, limit=context.options.limit, what="thread")
    if alone:
        alone_hold = sum(header.system_mem for header in session.headers if header.index in alone)
        which = ", ".join(map(str, alone[:12])) + (" …" if len(alone) > 12 else "")
        yield ""
        yield f"{count(len(alone), 'arena')} without a thread, holding {style.size(alone_hold)}: {which}"


def _arena(cache: ThreadCache) -> str:
    if cache.arena is None:
        return "none yet" if cache.known else "?"
    return "0 main" if cache.arena == 0 else str(cache.arena)
