"""Reading a process ahead: all that a command will want of it, but the lists of free chunks, which its image knows.

See sources/live/short_hold.py for what becomes of it.
"""

from __future__ import annotations

from functools import cached_property

from ..base.model import Lists, ThreadCache
from ..glibc import bins
from ..glibc.chunks.sweep import first_chunk
from ..glibc.free_chunk_places import Links, read_caches
from ..glibc.unknown_release.fitting_layout import with_tcache_seen
from ..sources.free_chunk_reader import Nodes
from ..sources.target import Span
from .session import Session


def links_of(session: Session, nodes: Nodes) -> Links:
    """Where the lists of free chunks begin; nothing is walked."""
    layout = session.layout
    chunks = [
        Span(first_chunk(layout, header, heap), heap.end)
        for header in session.headers
        for heap in session.heaps[header.index]
    ]
    return Links(session.memory, layout, session.headers, chunks, nodes=nodes)


class Ahead(Session):
    """A session in which no chunk is free: all that a command wants besides is read as it would be."""

    reads_only = True

    @cached_property
    def fastbins(self) -> dict[int, Lists]:
        return {header.index: Lists() for header in self.headers}

    def walk_bins(self) -> bins.Walked:
        return bins.Walked({header.index: Lists() for header in self.headers})

    @cached_property
    def thread_caches(self) -> list[ThreadCache]:
        self.read_params()  # the session that walks them has a cache's length from there
        chunks = [self.chunk_size(each.tcache) for each in self.thread_words if each.tcache]
        layout, owners = with_tcache_seen(self.layout, chunks), self.thread_owners
        if self.target.nodes is not None:
            read_caches(self.memory, layout, [each.address for each in owners], self.target.nodes)
        return owners

    def hand_over(self, to: Session) -> None:
        """What was looked for page by page, and no list has a part in: to a session of the same moment."""
        mmapped = self.so_far.mmapped
        if mmapped is not None:
            to.mmapped = mmapped


def find_lists(session: Session, nodes: Nodes) -> None:
    """While the process runs on."""
    if session.started:
        links_of(session, nodes).find()


def find_lists_again(session: Session, nodes: Nodes) -> None:
    """While it is held."""
    if session.started:
        links_of(session, nodes).find_again()
