"""Reads a process while it is held, so that it is released before a command computes anything.

The lists of free chunks are searched before the hold, and only read again during it (glibc/free_chunk_places.py). Each
command on lists names one of the functions here, which reads everything else that it will need:
sources/live/short_hold.py keeps it. What was not kept is refused afterwards, and the look starts again with a process
that is held to its end.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Callable

from ..base.errors import ArenascopeError, HoldOver
from ..glibc.free_chunk_places import FreeListLinks, read_caches
from ..glibc.sweep import first_chunk
from ..glibc.unknown_release.fitting_layout import with_tcache_seen
from ..sources.target import Nodes, Span, Target
from .resident import heap_pages, mmapped_extents, share_of, trim_rules
from .session import Session


def links_of(session: Session, nodes: Nodes) -> FreeListLinks:
    """Returns the starts of the lists of free chunks, without walking them."""
    layout = session.layout
    chunks = [
        Span(first_chunk(layout, header, heap), heap.end)
        for header in session.headers
        for heap in session.heaps[header.index]
    ]
    return FreeListLinks(session.memory, layout, session.headers, chunks, nodes=nodes)


Reads = Callable[[Session], None]
"""One of these functions, for a session that is dropped afterwards."""


def read_lists(session: Session) -> None:
    """Reads what all commands on lists need, besides the lists. Residency comes first, as in any look."""
    session.measure_residency()
    # their registers cannot be read after the release
    _ = session.target_threads
    if session.started:
        session.read_params()
        if session.target.nodes is not None:
            caches = [each.tcache for each in session.thread_words if each.tcache]
            layout = with_tcache_seen(session.layout, [session.chunk_size(each) for each in caches])
            read_caches(session.memory, layout, caches, session.target.nodes)
    else:
        # empty arenas: there are no chunks to search for
        _ = session.arenas


def read_trims(session: Session) -> None:
    """Also reads what tells how much goes back."""
    read_lists(session)
    _ = session.locked
    residency = session.any_residency
    if session.started:
        rules, main = trim_rules(session), session.headers[0]
        if residency is not None and main.top_bytes is not None:
            # malloc_trim may let it grow by a page
            residency.count(main.top, main.top + main.top_bytes + rules.page)
    share_of(session)


def read_moment(session: Session) -> None:
    """Also reads resident memory and malloc's settings: everything in a snapshot."""
    read_trims(session)
    session.target.image.mapping_use()
    _ = session.bss_ends, session.max_fast, session.perturb
    if session.started and session.residency is not None:
        heap_pages(session, session.regions, session.residency)
        mmapped_extents(session, session.regions, session.residency)
    session.target.environment()
    session.target.is_secure()


def find_lists(session: Session, nodes: Nodes) -> None:
    """Finds the lists while the process runs."""
    if session.started:
        links_of(session, nodes).find()


def find_lists_again(session: Session, nodes: Nodes) -> None:
    """Reads the lists again while it is held."""
    if session.started:
        links_of(session, nodes).find_again()


def read_held(target: Target, nodes: Nodes, libc: int, reads: Reads) -> Session:
    """Reads everything that a command will need into the image, so that the process may be released. Returns the
    session that read it."""
    session = Session(target, libc)
    with suppress(ArenascopeError):
        reads(session)
    try:
        with suppress(ArenascopeError):
            find_lists_again(session, nodes)
    except HoldOver:
        nodes.cut_short()
    return session
