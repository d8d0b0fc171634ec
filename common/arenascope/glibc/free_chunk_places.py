"""Finds every chunk that the lists of free chunks lead to, without checks, to be read in bulk.

A running process changes under the reader: an irregularity is no finding, and what was skipped is looked at again when
the process is held. Then everything that changed or is new is followed, so that all chunks that a walk will need are
there. A list ends at a known chunk, at the header of a bin, or at anything that can be no free chunk.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from contextlib import suppress
from typing import Iterable, Optional, Sequence

from ..base.errors import MemoryReadError
from ..base.model import ArenaHeader
from ..sources.memory import Memory
from ..sources.target import Nodes, Span, Words
from .bins import NBINS, fastbin_size, ring_starts
from .bins_in_bulk import follow_rings
from .chunk import PREV_INUSE, SIZE_BITS, masked, reveal
from .process_layout import Layout
from .tcache import LIST_LIMIT, read_tcache

MANY = 8
"""With fewer links, reading them together takes longer than one by one."""


class FreeListLinks:
    """The chunks that the arenas' lists lead to, in their heaps."""

    def __init__(
        self, memory: Memory, layout: Layout, headers: Sequence[ArenaHeader], chunks: Iterable[Span], nodes: Nodes
    ) -> None:
        """`chunks`: the ranges of heaps where chunks can lie; a thread's bins lie in front of its first."""
        self._memory, self._layout, self._headers, self._nodes = memory, layout, headers, nodes
        # the first is before all others: whatever address is asked about, one span begins before it
        ordered = [Span(-1, -1), *sorted(chunks)]
        self._starts = [span.start for span in ordered]
        self._ends = [span.end for span in ordered]
        self._most = sum(header.system_mem for header in headers) // layout.min_size
        self._largest_fast = fastbin_size(layout, layout.fastbins - 1) if layout.fastbins else 0
        self._bins: list[int] = []
        self._fast: list[int] = []
        for header in headers:
            with suppress(MemoryReadError):
                self._bins += memory.words(header.address + layout.arena["bins"], 2 * (NBINS - 1))
            if layout.fastbins:
                with suppress(MemoryReadError):
                    self._fast += memory.words(header.address + layout.arena["fastbinsY"], layout.fastbins)

    def find(self) -> None:
        """Finds chunks while the process runs: all rings at once, then the rest of those that changed meanwhile."""
        nodes, broken = self._nodes, array("Q")
        starts = ring_starts(self._memory, self._layout, self._headers)
        rings = follow_rings(
            starts,
            self._layout,
            nodes.read_nodes,
            self._most,
            beside=True,
            broken=broken,
            read_pair=nodes.read_pair,
        )
        nodes.add_rings(rings, PREV_INUSE)
        self._follow(self._fast, fast=True, bins=False)
        self._follow([*broken, *self._bins], fast=False, bins=True, back=True)

    def find_again(self) -> None:
        """Reads again while it is held: from every changed chunk, which may have moved to another kind of list."""
        nodes = self._nodes
        links = [*self._fast, *self._bins, *nodes.passed]
        for chunk in nodes.read_again():
            links += self._after(chunk, nodes.node(chunk), fast=True, bins=True)
        self._follow(links, fast=True, bins=True)

    def _after(self, chunk: int, words: Words, fast: bool, bins: bool, back: bool = False) -> list[int]:
        """Returns the chunks that a chunk may lead to."""
        raw, forward, backward = words
        layout, leads = self._layout, []
        if fast and masked(raw) <= self._largest_fast:
            safe = layout.behaviour.safe_linking
            leads.append(reveal(forward, chunk + layout.header) if safe else forward)
        if bins and raw & (layout.mask | SIZE_BITS) == PREV_INUSE:
            leads += [backward, forward] if back else [forward]
        return leads

    def _follow(self, links: Sequence[int], fast: bool, bins: bool, back: bool = False) -> None:
        """Follows all of them, then all that they lead to, and so on: together if they are many, or one by one."""
        nodes, mask, header = self._nodes, self._layout.mask, self._layout.header
        starts, ends, passed = self._starts, self._ends, nodes.passed
        wave = set(links)
        while wave:
            if len(wave) < MANY:
                chunk = wave.pop()
                if chunk in nodes:
                    continue
                outside = (chunk + header) & mask or chunk >= ends[bisect_right(starts, chunk) - 1]
                words = nodes.add(chunk) if not outside and len(nodes) < self._most else None
                if words is None:
                    passed.add(chunk)
                else:
                    wave.update(self._after(chunk, words, fast, bins, back))
                continue
            fresh = [chunk for chunk in wave if chunk not in nodes]
            inside = [
                chunk
                for chunk in fresh
                if not (chunk + header) & mask and chunk < ends[bisect_right(starts, chunk) - 1]
            ]
            if len(nodes) + len(inside) > self._most:
                inside = []
            read = dict(zip(inside, nodes.add_many(inside)))
            wave.clear()
            for chunk in fresh:
                words = read.get(chunk)
                if words is None:
                    passed.add(chunk)
                else:
                    wave.update(self._after(chunk, words, fast, bins, back))


def read_caches(memory: Memory, layout: Layout, caches: Iterable[Optional[int]], nodes: Nodes) -> None:
    """Reads the contents of thread caches in bulk: the first chunk of every list, then the second of every list."""
    form, safe = layout.tcache, layout.behaviour.safe_linking
    users: list[int] = []
    seen: set[int] = set()
    for cache in caches if form is not None else ():
        if cache and form is not None:
            with suppress(MemoryReadError):
                users += read_tcache(memory, form, cache).entries
    for _ in range(LIST_LIMIT):
        users = [user for user in users if user and not user & layout.mask and user not in seen]
        if not users:
            return
        seen.update(users)
        read = nodes.read_many([user - layout.header for user in users])
        users = [reveal(words[1], user) if safe else words[1] for user, words in zip(users, read) if words is not None]
