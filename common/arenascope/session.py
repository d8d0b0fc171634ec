"""One process image at one moment: ties a Target to the walkers, and keeps what a command asks for twice.

Made per command and dropped with it, so that a continued process is never read stale.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Iterator, Optional, Sequence

from .errors import MemoryReadError
from .glibc import bins, fastbins, heap, mmapped, params, regions, tcache, thread_pointers, threads
from .glibc.arena import has_heap, walk_ring
from .glibc.chunk import IS_MMAPPED, NON_MAIN_ARENA, masked
from .glibc.derive import settle_release, with_tcache_seen
from .glibc.layout import Layout
from .glibc.locate import Located, locate
from .glibc.sweep import Piece, sweep_heap
from .memory import Memory
from .model import Arena, ArenaHeader, Finding, Heap, MmappedBlock, Params, Tally, ThreadCache
from .target import Pages, Region, Residency, Target


class Session:
    """What the walkers find in one image, each thing read once."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.memory = Memory(target.read, target.pointer_size, target.byte_order)
        self.findings: list[Finding] = []

    @cached_property
    def located(self) -> Located:
        return locate(self.target, self.memory)

    @cached_property
    def layout(self) -> Layout:
        """What the walkers go by. Where the image does not say its release, thread caches tell more than arenas do."""
        layout = self.located.layout
        if self.located.version is not None or not self.started:
            return layout
        sizes = [(each.tcache, self._chunk_size(each.tcache)) for each in self.thread_words[0] if each.tcache]
        arenas = [header.address for header in self.headers]
        return settle_release(self.memory, self.target.machine, layout, sizes, arenas)

    def _chunk_size(self, user: int) -> int:
        return masked(self.memory.try_word(user - self.target.pointer_size) or 0)

    @cached_property
    def regions(self) -> Sequence[Region]:
        return self.target.regions()

    @cached_property
    def any_residency(self) -> Optional[Residency]:
        """Perhaps only a lower bound: `exact` tells."""
        return self.target.residency()

    @property
    def residency(self) -> Optional[Residency]:
        """Only where it is exact: a dense core cannot tell a page of zeros from one that was never there."""
        found = self.any_residency
        return found if found is not None and found.exact else None

    @cached_property
    def locked(self) -> Sequence[tuple[int, int]]:
        return self.target.locked()

    @cached_property
    def params(self) -> Optional[Params]:
        if self.located.params is None:
            return None
        return params.read_params(self.memory, self.located.layout, self.located.params)

    @cached_property
    def headers(self) -> list[ArenaHeader]:
        """The arenas of the ring, main_arena first."""
        return walk_ring(self.memory, self.located.layout, self.located.main_arena, self.findings)

    @cached_property
    def started(self) -> bool:
        """Whether malloc has anything yet: 2.42 and later set main_arena up before the first call."""
        if not self.headers:
            return False
        if not self.headers[0].initialised:
            # a top of 0 beside all this is damage
            return self.headers[0].system_mem != 0 or len(self.headers) > 1
        # a program's only blocks may have been too large for an arena
        mapped = self.params is None or self.params.values["max_n_mmaps"] != 0
        return mapped or any(has_heap(self.located.layout, header) for header in self.headers)

    @cached_property
    def heaps(self) -> dict[int, tuple[Heap, ...]]:
        """Every arena's heaps; the main arena's are the regions that it grew into."""
        found: dict[int, tuple[Heap, ...]] = {}
        for header in self.headers:
            if not has_heap(self.layout, header):
                found[header.index] = ()
            elif header.main:
                found[0] = tuple(
                    regions.main_regions(self.memory, self.layout, header, self.params, self.regions,
                                         self.target.page_size, self.findings))  # fmt: skip
            else:
                found[header.index] = tuple(heap.walk_heaps(self.memory, self.layout, header, self.findings))
        return found

    @cached_property
    def resident(self) -> dict[int, Optional[Pages]]:
        """What each arena has in memory; asked for before lists are walked, as reading can map zero pages."""
        found: dict[int, Optional[Pages]] = {}
        for header in self.headers:
            pages: Optional[Pages] = Pages(0)
            for part in self.heaps[header.index]:
                # what lies behind a heap's end is accessible, yet no longer the arena's (shrink_heap)
                here = self.residency.count(part.address, part.end) if self.residency else None
                pages = Pages(pages.resident + here.resident, pages.swapped + here.swapped) if pages and here else None
            known = sum(part.bytes for part in self.heaps[header.index]) == header.system_mem
            found[header.index] = pages if known else None
        return found

    @cached_property
    def arenas(self) -> list[Arena]:
        """The arenas with all their lists walked."""
        if self.residency is not None:
            _ = self.resident
        heaps = self.heaps
        found = []
        for header in self.headers:
            lists = list(bins.walk_bins(self.memory, self.layout, header, self.findings))
            fast = list(fastbins.walk_fastbins(self.memory, self.layout, header, self.findings))
            # a list, a heap or top: whatever is wrong in an arena makes its figures partial
            sound = all(finding.arena != header.index for finding in self.findings)
            found.append(Arena(header, tuple(lists), tuple(fast), heaps[header.index], complete=sound))
        return found

    @cached_property
    def thread_words(self) -> tuple[list[threads.ThreadWords], str]:
        """Every thread's arena and cache, and how they were found."""
        by_address = {header.address: header.index for header in self.headers}
        told = sorted(self.target.threads(), key=lambda thread: thread.tid)
        everyone = thread_pointers.complete(
            self.memory, self.target.machine, self.located.libc, self.regions, told
        )
        return threads.find_thread_words(self.memory, self.located.layout, self.target, everyone, by_address)

    @cached_property
    def thread_owners(self) -> list[ThreadCache]:
        """The threads with their arenas; what their caches hold is not looked at."""
        by_address = {header.address: header.index for header in self.headers}
        return [
            ThreadCache(
                tid=each.thread.tid,
                name=each.thread.name,
                arena=by_address.get(each.arena) if each.arena else None,
                address=each.tcache or None,
                known=each.arena is not None,
            )
            for each in self.thread_words[0]
        ]

    @cached_property
    def thread_caches(self) -> list[ThreadCache]:
        layout = self._tcache_layout(self.thread_words[0])
        slots = self.params.get("tcache_count") if self.params else None
        found = []
        for owner in self.thread_owners:
            if owner.address:
                lists, whole = tcache.walk_tcache(self.memory, layout, owner.address, slots, self.findings)
                owner = replace(owner, bins=tuple(lists), known=whole)
            found.append(owner)
        return found

    @cached_property
    def listed(self) -> dict[int, str]:
        """Chunks that look used by their headers and are not: "tcache" or "fast" by address."""
        found = {chunk: "fast" for arena in self.arenas for each in arena.fastbins for chunk in each.addresses}
        for cache in self.thread_caches:
            for cached in cache.bins:
                found.update(dict.fromkeys(cached.addresses, "tcache"))
        return found

    def sweep(self, header: ArenaHeader) -> Iterator[Piece]:
        """An arena from its lowest address to its highest; not kept, as it can be as large as the heap itself."""
        for part in self.heaps[header.index]:
            found: list[Finding] = []
            yield from sweep_heap(self.memory, self.layout, header, part, found)
            self.findings += [each for each in found if each not in self.findings]

    @cached_property
    def mmapped(self) -> list[MmappedBlock]:
        """The blocks that malloc got by mmap, as far as they can be recognised."""
        arenas = [part for parts in self.heaps.values() for part in parts]
        ranges = mmapped.search_ranges(self.layout, self.regions, arenas, self.residency)
        return list(mmapped.walk_mmapped(self.memory, self.layout, self.target.page_size, ranges))

    def _tcache_layout(self, words: Sequence[threads.ThreadWords]) -> Layout:
        return with_tcache_seen(self.layout, [self._chunk_size(each.tcache) for each in words if each.tcache])

    @property
    def caches_known(self) -> bool:
        """Whether every thread's cache was found: only then is what is left really in use."""
        if self.layout.tcache is None or not self.started:
            return True
        return bool(self.thread_caches) and all(cache.known for cache in self.thread_caches)

    @cached_property
    def cached_by_arena(self) -> dict[Optional[int], Tally]:
        """Cached chunks by the arena that they came from (None: mmapped); a cache may hold any arena's."""
        tallies: dict[Optional[int], Tally] = {}
        for cache in self.thread_caches:
            for cached in cache.bins:
                for chunk, size in zip(cached.addresses, cached.sizes):
                    owner = self.owner_of(chunk)
                    tallies[owner] = tallies.get(owner, Tally()) + Tally(1, size)
        return tallies

    def owner_of(self, chunk: int) -> Optional[int]:
        """arena_for_chunk(): by the flag in the size word."""
        try:
            raw = self.memory.word(chunk + self.layout.word)
            if raw & IS_MMAPPED:
                return None
            if not raw & NON_MAIN_ARENA:
                return 0
            info = heap.heap_for_ptr(self.layout, chunk)
            known = self._heap_owners.get(info)
            # a heap that the chain no longer leads to still names its arena
            return known or self._heap_owners.get(self.memory.word(info + self.layout.heap["ar_ptr"]))
        except MemoryReadError:
            return None

    @cached_property
    def _heap_owners(self) -> dict[int, int]:
        """The thread arenas' indexes by their heaps and by their own addresses."""
        owners = {part.address: part.arena for parts in self.heaps.values() for part in parts if part.arena}
        for header in self.headers[1:]:
            owners[header.address] = owners[heap.heap_for_ptr(self.layout, header.address)] = header.index
        return owners
