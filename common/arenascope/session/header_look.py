"""Reads the headers of a running process's arenas without holding it: `top` looks at each process in this way.

Malloc's structures are located once for each libc, by build-id, and confirmed in each process by its ring of arenas. A
list or a top that changes while it is read is read again, and left out if that fails: free memory is what was seen of
it.
"""

from __future__ import annotations

import os
from typing import Iterable, NamedTuple, Optional, Sequence

from ..analysis.trim_prediction import advised
from ..base.errors import ArenascopeError, MemoryReadError
from ..base.heap_model import ArenaHeader, Finding, Range, Tally
from ..glibc import malloc_par
from ..glibc.arena import has_heap, is_closed, walk_ring
from ..glibc.find.libc_file import LIBC_NAME
from ..glibc.find.other_allocators import find_allocators
from ..glibc.process_layout import Layout
from ..glibc.regular_bins import first_chunks
from ..sources.elf.elf_file import module_build_id
from ..sources.elf.modules import programs_of
from ..sources.live.live_target import ProcessTarget
from ..sources.live.pagemap import PagemapResidency
from ..sources.live.process import ProcessImage
from ..sources.memory import Memory
from ..sources.target import Region
from .session import Session

TRIES = 3
"""Attempts at a ring or a top that changes while it is read."""


class MallocPlace(NamedTuple):
    """The addresses of malloc's structures in a process."""

    main_arena: int
    params: Optional[int]
    layout: Layout


class FreeSeen(NamedTuple):
    """Free memory of one process in bytes, as far as it was seen."""

    tops: int
    bins: int
    whole: bool
    """Whether every top and every bin was read to its end. Thread caches and fastbins are never counted."""
    pages: Optional[int]
    """Its whole pages that are in memory; None if page tables do not tell."""
    stranded: int
    """The part of `bins` in pages that something else shares."""
    followed: int
    """The number of chunks that were read."""
    cut: bool
    """Whether a limit ended it, rather than a list that changed meanwhile."""

    @property
    def all(self) -> int:
        return self.tops + self.bins

    @property
    def resident(self) -> Optional[int]:
        """A page that something else shares counts, though it may be in swap."""
        return None if self.pages is None else self.pages + self.stranded


class HeaderLook(NamedTuple):
    """The malloc figures of one process."""

    uid: int
    """The user that it runs as."""
    allocators: tuple[str, ...]
    """The known allocators that replace glibc's malloc."""
    arenas: Optional[int] = None
    """None, like all that follows, if no glibc malloc was found, or its arenas could not be read."""
    system: Optional[int] = None
    mmapped: Optional[Tally] = None
    free: Optional[FreeSeen] = None


class _EarlierLook(NamedTuple):
    """The results of an earlier look at a process."""

    identity: tuple[int, bytes]
    place: Optional[MallocPlace]
    maps: Sequence[Region]
    """The mappings of a process where nothing was found: it is searched again once they change."""
    allocators: tuple[str, ...]


class HeaderReader:
    """Looks at processes repeatedly. It keeps addresses, never values."""

    def __init__(self) -> None:
        self._processes: dict[int, _EarlierLook] = {}
        self._libcs: dict[str, MallocPlace] = {}
        """By build-id: offsets from the file's first byte."""
        self._allocators: dict[object, tuple[str, ...]] = {}
        """By the modules of a process."""

    def forget_all_but(self, pids: Iterable[int]) -> None:
        self._processes = {pid: self._processes[pid] for pid in pids if pid in self._processes}

    def look(self, pid: int, identity: tuple[int, bytes], chunks: int) -> HeaderLook:
        """Reads at most so many free chunks. `identity`: its start time, and its program. TargetError if it has ended
        or may not be read."""
        with ProcessImage(pid) as image:
            return self._look(image, identity, chunks)

    def _look(self, image: ProcessImage, identity: tuple[int, bytes], chunks: int) -> HeaderLook:
        pid = image.pid
        memory = Memory(image.read, image.pointer_size, image.byte_order, image.fill)
        known = self._processes.get(pid)
        if known is None or known.identity != identity or (known.place is None and known.maps != image.regions()):
            known = self._find(image, memory, identity)
            self._processes[pid] = known
        ring = _read_ring(memory, known.place) if known.place is not None else None
        if known.place is None or ring is None:
            return HeaderLook(image.status.uid, known.allocators)
        return HeaderLook(
            image.status.uid,
            known.allocators,
            len(ring),
            system=sum(header.system_mem for header in ring),
            mmapped=_mmapped(memory, known.place),
            free=_free(image, memory, known.place.layout, ring, limit=chunks),
        )

    def _find(self, image: ProcessImage, memory: Memory, identity: tuple[int, bytes]) -> _EarlierLook:
        regions = image.regions()
        modules = list(programs_of(regions))
        libcs = [module for module in modules if LIBC_NAME.search(module[0].path)]
        build_id = module_build_id(memory.read, libcs[0][0].start) if len(libcs) == 1 else None
        place = self._as_before(memory, build_id, libcs[0][0].start) if build_id is not None else None
        names = self._allocators_of(image, modules)
        if place is None:
            place = self._search(image, build_id, libcs)
        return _EarlierLook(identity, place, () if place is not None else regions, names)

    def _as_before(self, memory: Memory, build_id: str, base: int) -> Optional[MallocPlace]:
        known = self._libcs.get(build_id)
        if known is None:
            return None
        at = known.params + base if known.params is not None else None
        place = MallocPlace(known.main_arena + base, at, known.layout)
        return place if _read_ring(memory, place) is not None else None

    def _search(
        self, image: ProcessImage, build_id: Optional[str], libcs: Sequence[Sequence[Region]]
    ) -> Optional[MallocPlace]:
        """Locates malloc as every other command does."""
        try:
            located = Session(ProcessTarget(image, (), True)).located
        except (ArenascopeError, ValueError):
            return None
        layout = located.layout
        place = MallocPlace(located.main_arena, located.params, layout)
        if build_id is not None and build_id == located.libc.build_id and place.params and layout.newer is None:
            base = libcs[0][0].start
            self._libcs.setdefault(build_id, MallocPlace(place.main_arena - base, place.params - base, layout))
        return place

    def _allocators_of(self, image: ProcessImage, modules: Sequence[Sequence[Region]]) -> tuple[str, ...]:
        try:
            program = os.stat(f"/proc/{image.pid}/exe")
            names = tuple(module[0].path for module in modules)
            key = (program.st_dev, program.st_ino, program.st_mtime_ns, os.readlink(f"/proc/{image.pid}/ns/mnt"), names)
        except OSError:
            return ()
        if key not in self._allocators:
            found = find_allocators(ProcessTarget(image, (), False), image.regions())
            self._allocators[key] = tuple(each.name for each in found if each.replaces_malloc)
        return self._allocators[key]


def _read_ring(memory: Memory, place: MallocPlace) -> Optional[list[ArenaHeader]]:
    """Reads all arenas; None if there are none, or they change too fast. An unknown top has no bytes."""
    best: Optional[list[ArenaHeader]] = None
    for _ in range(TRIES):
        findings: list[Finding] = []
        ring = walk_ring(memory, place.layout, place.main_arena, findings)
        if is_closed(ring) and all(each.rule in ("top", "heap-arena") for each in findings):
            best = ring
            if not findings:
                break
    return best


def _mmapped(memory: Memory, place: MallocPlace) -> Optional[Tally]:
    if place.params is None or not place.layout.mmaps_proven:
        return None
    try:
        return malloc_par.counts(malloc_par.read_params(memory, place.layout, place.params))
    except MemoryReadError:
        return None


def _free(image: ProcessImage, memory: Memory, layout: Layout, ring: Sequence[ArenaHeader], *, limit: int) -> FreeSeen:
    page = image.page_size
    tops = [Range(each.top, each.top_bytes or 0) for each in ring if has_heap(layout, each)]
    whole = all(each.top_bytes is not None for each in ring)
    # a top ends where a page does, and shares its first one
    pages = [advised(top.address, top.end, 0, page) for top in tops]
    binned = stranded = seen = 0
    cut = False
    # smallest first: the others get what these leave of their shares
    for number, header in enumerate(sorted(ring, key=_beside_top)):
        share = max(1, (limit - seen) // (len(ring) - number))
        first = first_chunks(memory, layout, header, share)
        seen += len(first.chunks)
        whole &= first.whole
        cut |= not first.whole and len(first.chunks) >= share
        size = min(sum(each.bytes for each in first.chunks), _beside_top(header))
        large = (each for each in first.chunks if each.bytes > page)
        inside = [advised(each.address, each.end, layout.chunk_struct, page) for each in large]
        pages += inside
        binned += size
        stranded += max(0, size - sum(each.bytes for each in inside))
    return FreeSeen(
        sum(each.bytes for each in tops),
        binned,
        whole=whole,
        pages=_resident(image, pages),
        stranded=stranded,
        followed=seen,
        cut=cut,
    )


def _beside_top(header: ArenaHeader) -> int:
    return max(0, header.system_mem - (header.top_bytes or 0))


def _resident(image: ProcessImage, spans: Sequence[Range]) -> Optional[int]:
    try:
        residency = PagemapResidency(image.memory_tid, image.page_size)
    except ArenascopeError:
        return None
    with residency:
        counted = [residency.count(each.address, each.end) for each in spans if each.bytes > 0]
        if not residency.exact or not all(counted):
            return None
        return sum(each.resident for each in counted if each is not None)
