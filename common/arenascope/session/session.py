"""One process image at one moment: it connects a Target to the walkers, and keeps what a command needs more than once.

It is made per command and dropped with it, so that a continued process is never read stale.
"""

from __future__ import annotations

from array import array
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Iterator, Literal, Mapping, Optional, Sequence

from ..analysis.arena_usage import ArenaUsage, arena_usage
from ..base.errors import NoEngineError
from ..base.heap_model import (
    Arena,
    ArenaHeader,
    ChunkRun,
    Finding,
    Heap,
    Lists,
    MmappedBlock,
    Params,
    Piece,
    Statement,
    Tally,
    ThreadCache,
)
from ..base.printable import one_line
from ..base.progress_bar import MakeMeter, unseen
from ..engine import EngineImage, FollowedList, FollowedLists, ListStart
from ..glibc import arena, malloc_par, mmapped_chunks, regular_bins, tcache
from ..glibc.arena import ArenaIndexes, Reaches, has_heap, is_closed, reaches_of, walk_ring
from ..glibc.find import arenas_of_threads, thread_pointers
from ..glibc.find.main_arena import Located, is_untouched, locate
from ..glibc.fitting_layout import with_tcache_seen
from ..glibc.malloc_chunk import masked
from ..glibc.process_layout import NO_TRAIL, Layout
from ..glibc.sweep import Sweep, find_chain, listed_chunks
from ..glibc.unknown_release.no_version import settle_release
from ..glibc.unknown_release.tcache_form import settle
from ..sources.elf.modules import bss_ends
from ..sources.image_files import other_files
from ..sources.memory import Memory
from ..sources.target import MemoryPiece, PageUse, Region, Residency, Span, Target, ThreadInfo, added, joined

if TYPE_CHECKING:
    from ..blocks.block_index import NamedLiveBlocks
    from ..blocks.declared.fitting_structs import StructsBySize
    from ..blocks.declared.named_blocks import NamedBlocks
    from ..blocks.declared.values import Values
    from ..blocks.graph.blocks import LiveBlocks
    from ..blocks.graph.pointers_to import ImageSearch
    from ..blocks.python_objects import PythonObjects
    from ..blocks.recognise.module_memory import LoadedModules
    from ..blocks.type_figures import TypeFigures

LARGEST = (1 << 64) - 1
Part = Literal["located", "heaps", "threads_found", "thread_caches", "cached_by_arena", "mmapped", "engine"]
"""A part of a session that steps before may have asked for."""


def follow_lists(session: Session, starts: Mapping[int, ListStart]) -> FollowedLists:
    """Follows lists to their ends: those of a process as it stands, or those in the bytes of another image. What is not
    among the result is left to the walkers: without the engine that is all, and so where only a debugger reads."""
    layout, engine = session.layout, session.engine if starts else None
    if engine is None:
        return FollowedLists()
    size = sum(header.system_mem for header in session.headers)
    most = size // layout.min_size + sum(start.limit for start in starts.values() if start.inside)
    rules = layout.header, layout.mask, layout.behaviour.safe_linking, min(most, LARGEST)
    with session.meter("following free lists", size) as meter:
        return engine.follow(session.target.memory_tid or 0, starts, rules, meter, size)


class UsersRules:
    """The rules for one image."""

    def __init__(self, file: str = "") -> None:
        """An empty `file` means the program's own one, as blocks/declared/rules.py finds it."""
        self.file = file
        self.read: Sequence[str] = []
        """The files by which blocks were named."""
        self.doubts: list[Statement] = []
        """Lines that could not be used, or that blocks contradict."""


class BlockResults:
    """The results of `blocks` for one image, which several commands share; None if no command has asked for them."""

    def __init__(self) -> None:
        self.ground: Optional[LoadedModules] = None
        self.blocks: Optional[LiveBlocks] = None
        self.search: Optional[ImageSearch] = None
        self.live: Optional[NamedLiveBlocks] = None
        self.types: Optional[TypeFigures] = None
        self.named: Optional[NamedBlocks] = None
        self.values: Optional[Values] = None
        self.structs: Optional[StructsBySize] = None
        self.python: Optional[PythonObjects] = None
        self.has_python = False
        """Whether `python` was asked for."""


class Session:
    """The walkers' results for one image, each read once."""

    def __init__(self, target: Target, libc: int = 0, meter: MakeMeter = unseen) -> None:
        """`meter` shows the progress of long walks. `stopped`: Ctrl-C ended a walk, and what was read until then is
        there."""
        self.target, self.libc, self.meter, self.stopped = target, libc, meter, False
        self.memory = Memory(target.read, target.pointer_size, target.byte_order, target.fill)
        self.findings: list[Finding] = []
        self.trail = NO_TRAIL  # keeps the candidates, if set before anything was found
        self._swept: set[tuple[str, Optional[int], Optional[int]]] = set()
        """The findings of sweeps, without duplicates: a heap may be swept twice."""
        self.asks_names = False  # whether names of modules' symbols are needed, not only addresses
        self.other_files = cache(partial(other_files, target))  # modules without a local file for their symbols
        self.rules = UsersRules()
        self.block_results = BlockResults()
        self.untouched: Optional[Located] = None
        """Where malloc was found before the process was held, if it had not been called by then."""

    def has_read(self, *parts: Part) -> bool:
        """Whether these parts are there: a step has asked for them."""
        return all(part in vars(self) for part in parts)

    @cached_property
    def located(self) -> Located:
        located = None if self.trail.wanted else self.untouched
        if located is None or is_untouched(self.target, self.memory, located.main_arena) is None:
            located = locate(self.target, self.memory, self.libc, self.trail)
        self.findings += located.layout.unknown
        return located

    def find(self) -> None:
        """Locates main_arena and mp_; NotFoundError says why there are none."""
        _ = self.located

    def find_threads(self) -> None:
        """Reads the threads' words, and by their caches the layout: the other values for which a trail has
        candidates."""
        if self.started:
            _ = self.thread_words, self.layout

    @cached_property
    def layout(self) -> Layout:
        """The layout that the walkers use. If the image does not tell its release, thread caches help."""
        layout = self.located.layout
        if not self.started or (self.located.version is not None and layout.newer is None):
            return layout
        if layout.newer is not None:
            return settle(self.memory, layout, [each.tcache for each in self.thread_words if each.tcache])
        sizes = [(each.tcache, self.chunk_size(each.tcache)) for each in self.thread_words if each.tcache]
        arenas = [each.address for each in self.headers]
        return settle_release(self.memory, self.target.machine, layout, sizes, arenas=arenas, trail=self.trail)

    def chunk_size(self, user: int) -> int:
        return masked(self.memory.try_word(user - self.target.pointer_size) or 0)

    @cached_property
    def regions(self) -> Sequence[Region]:
        return self.target.regions()

    @cached_property
    def bss_ends(self) -> Mapping[int, int]:
        return bss_ends(self.memory.read, self.target.page_size, self.regions)

    @cached_property
    def any_residency(self) -> Optional[Residency]:
        """Residency that may be only a lower bound: see `exact`."""
        return self.target.image.residency()

    @property
    def residency(self) -> Optional[Residency]:
        """Residency that is exact: a dense core cannot tell a page of zeros from one that was never there."""
        return self.any_residency if self.any_residency is not None and self.any_residency.exact else None

    @cached_property
    def locked(self) -> Sequence[Span]:
        return self.target.image.locked() or ()  # where that cannot be known, no figure can respect it

    @cached_property
    def params(self) -> Optional[Params]:
        mp_ = self._mp
        known = (
            mp_ is None
            or self.located.layout.mmaps_proven
            or malloc_par.counts(mp_) == mmapped_chunks.counts(self.mmapped)
        )
        return mp_ if known else None

    def read_params(self) -> None:
        """Reads mp_, and the mmapped blocks that confirm its counts."""
        _ = self.params

    @cached_property
    def _mp(self) -> Optional[Params]:
        at = self.located.params
        return malloc_par.read_params(self.memory, self.located.layout, at) if at is not None else None

    @cached_property
    def max_fast(self) -> Optional[int]:
        """global_max_fast; None if symbols do not tell where it lies, or there are no fastbins."""
        at = self.located.find_static(self.target, malloc_par.MAX_FAST) if self.layout.fastbins else None
        return malloc_par.read_max_fast(self.memory, self.layout, at) if at is not None else None

    @cached_property
    def perturb(self) -> Optional[int]:
        """perturb_byte; None if symbols do not tell where it lies."""
        at = self.located.find_static(self.target, malloc_par.PERTURB)
        return malloc_par.read_perturb(self.memory, at) if at is not None else None

    @cached_property
    def headers(self) -> list[ArenaHeader]:
        """The arenas of the ring, main_arena first."""
        new = self.located.layout.newer is not None
        return arenas_of_threads.confirm_attached(self._ring, self.thread_words) if new else self._ring

    @cached_property
    def _ring(self) -> list[ArenaHeader]:
        return walk_ring(self.memory, self.located.layout, self.located.main_arena, self.findings)

    @property
    def all_arenas(self) -> bool:
        """Whether the ring was followed to its end: otherwise there are more arenas, and no sum over these is
        complete."""
        return is_closed(self.headers)

    @cached_property
    def started(self) -> bool:
        """Whether malloc has any memory yet: 2.42 and later set main_arena up before the first call."""
        if not self.headers:
            return False
        if not self.headers[0].initialised:  # given all this, a top of 0 is damage
            return self.headers[0].system_mem != 0 or len(self.headers) > 1
        # a program's only blocks may have been too large for an arena
        mapped = self._mp is None or self._mp.values["max_n_mmaps"] != 0
        return mapped or any(has_heap(self.located.layout, header) for header in self.headers)

    @cached_property
    def heaps(self) -> dict[int, tuple[Heap, ...]]:
        """Every arena's heaps; the main arena's are the regions that it grew into."""
        ground = arena.ArenaSurroundings(self._mp, self.regions, self.target.page_size)
        return {
            header.index: arena.heaps_of(self.memory, self.layout, header, ground, findings=self.findings)
            for header in self.headers
        }

    @cached_property
    def heap_ranges(self) -> Sequence[Span]:
        """Where all heaps lie, in order."""
        return sorted(Span(heap.address, heap.end) for heaps in self.heaps.values() for heap in heaps)

    @cached_property
    def reaches(self) -> Reaches:
        return reaches_of(self.headers, self.heaps)

    @cached_property
    def resident(self) -> dict[int, Optional[PageUse]]:
        """How many bytes of each arena are resident, and swapped; None: not known. See measure_residency."""
        by_arena: dict[int, Optional[PageUse]] = {}
        for header in self.headers:
            # what lies past a heap's end is accessible, yet no longer the arena's (shrink_heap)
            parts = [self.resident_in(part) for part in self.heaps[header.index]]
            by_arena[header.index] = added(parts) if self.reaches[header.index].known else None
        return by_arena

    def measure_residency(self) -> None:
        """Reads residency before lists and heaps: reading a page that was never touched maps the kernel's zero page,
        which page tables then show as present."""
        _ = self.resident

    def resident_in(self, part: Heap) -> Optional[PageUse]:
        """How many bytes of a heap are resident, and swapped; unknown if its first page is absent, as that page was
        written."""
        if self.residency is None or self.memory.try_word(part.address) is None:
            return None
        return self.residency.count(part.address, part.end)

    @cached_property
    def fastbins(self) -> dict[int, Lists]:
        """The fastbins by arena, without walking other lists."""
        memory, layout, reaches, headers = self.memory, self.layout, self.reaches, self.headers
        followed = self._followed(regular_bins.fast_starts(memory, layout, headers))
        return {
            each.index: regular_bins.read_fastbins(memory, layout, each, reaches[each.index], self.findings, followed)
            for each in headers
        }

    def _followed(self, starts: Mapping[int, ListStart]) -> Mapping[int, FollowedList]:
        lists = follow_lists(self, starts)
        if lists.ended is not None:
            raise lists.ended
        return lists.whole

    @cached_property
    def followed_bins(self) -> FollowedLists:
        """The bins of all arenas that are sound."""
        return follow_lists(self, regular_bins.ring_starts(self.memory, self.layout, self.headers))

    @cached_property
    def arenas(self) -> list[Arena]:
        """The arenas with all their lists walked; after Ctrl-C, those that were not reached have none."""
        self.measure_residency()
        fast = self.fastbins
        walk = self.walk_bins()
        self.stopped |= walk.stopped or self.followed_bins.ended is not None
        for index, reach in self.reaches.items():
            reach.doubt_sum([*walk.lists[index].bins, *fast[index].bins], self.findings)
        # a list, a heap or top: whatever is wrong in an arena makes its figures partial
        wrong = {finding.arena for finding in self.findings}
        return [
            Arena(
                header,
                bins=walk.lists[header.index].bins,
                fastbins=fast[header.index].bins,
                heaps=self.heaps[header.index],
                complete=walk.lists[header.index].whole and header.index not in wrong,
                fast_read=fast[header.index].whole,
                bins_read=walk.lists[header.index].whole,
            )
            for header in self.headers
        ]

    @cached_property
    def usages(self) -> Sequence[ArenaUsage]:
        """The use of each arena's memory."""
        arenas = self.arenas
        if not self.started:
            # no thread can have a cache
            return arena_usage(arenas, [], {}, self.resident)
        caches = self.thread_caches
        return arena_usage(arenas, caches, self.cached_by_arena if self.caches_known else None, self.resident)

    def walk_bins(self) -> regular_bins.Walked:
        memory, layout, reaches, meter = self.memory, self.layout, self.reaches, self.meter
        return regular_bins.walk_all(memory, layout, reaches, self.findings, meter, self.followed_bins)

    def heed_ctrl_c(self) -> None:
        """Stops here, between two long walks, if Ctrl-C was pressed."""
        if self.stopped:
            raise KeyboardInterrupt

    @cached_property
    def target_threads(self) -> Sequence[ThreadInfo]:
        """The target's threads by tid. Each one costs time."""
        return sorted(self.target.threads(), key=lambda thread: thread.tid)

    @property
    def thread_words(self) -> Sequence[arenas_of_threads.ThreadWords]:
        """Every thread's arena and cache."""
        return self.threads_found.words

    @cached_property
    def threads_found(self) -> arenas_of_threads.ThreadsFound:
        libc = self.located.libc
        where = self.memory, self.target.machine, libc, self.regions
        everyone = thread_pointers.complete(*where, threads=self.target_threads, pid=self.target.pid)
        left = thread_pointers.left_by_the_main_thread(*where, threads=everyone, pid=self.target.pid)
        return arenas_of_threads.find_thread_words(
            self.memory,
            self.located.layout,
            self.target,
            everyone,
            libc=libc,
            ring=self._ring,
            symbols=self.located.own_symbols,
            others=self.located.others,
            trail=self.trail,
            left=left,
        )

    @cached_property
    def thread_owners(self) -> list[ThreadCache]:
        """The threads with their arenas, without the contents of their caches."""
        by_address = {header.address: header.index for header in self.headers}
        return [
            ThreadCache(
                each.thread.tid,
                one_line(each.thread.name) if each.thread.name is not None else None,
                by_address.get(each.arena) if each.arena else None,
                each.tcache or None,
                known=each.arena is not None and each.tcache is not None,
            )
            for each in self.thread_words
        ]

    @cached_property
    def thread_caches(self) -> list[ThreadCache]:
        chunks = [self.chunk_size(each.tcache) for each in self.thread_words if each.tcache]
        layout = with_tcache_seen(self.layout, chunks)
        slots = self.params.get("tcache_count") if self.params else None
        caches = []
        owners = self.thread_owners
        starts = tcache.cache_starts(self.memory, layout, [each.address for each in owners if each.address])
        followed = self._followed(starts)
        for owner in owners:
            if owner.address:
                lists = tcache.walk_tcache(self.memory, layout, owner.address, slots, self.findings, followed)
                owner = owner._replace(bins=lists.bins, known=lists.whole)
            caches.append(owner)
        return caches

    @cached_property
    def listed(self) -> dict[int, str]:
        """Chunks that their headers show as used but are not: "tcache" or "fast" by address."""
        caches = self.thread_caches if self.started else []
        return listed_chunks([*(lists.bins for lists in self.fastbins.values()), *(cache.bins for cache in caches)])

    @cached_property
    def listed_order(self) -> array[int]:
        return array("Q", sorted(self.listed))

    def sweep(self, header: ArenaHeader, only: Optional[Heap] = None) -> Iterator[Piece]:
        """Sweeps an arena, or one of its heaps, in address order. The result is not kept: it can be as large as the
        heap itself."""
        for part in self.heaps[header.index] if only is None else (only,):
            findings: list[Finding] = []
            marked, engine = self.listed_order, self.engine
            sweep = Sweep(self.memory, self.layout, header, part, findings=findings, marked=marked, engine=engine)
            yield from sweep.pieces()
            self.keep_findings(findings)

    @cached_property
    def engine(self) -> Optional[EngineImage]:
        """Has the bytes of all heaps; None where there is no engine, or only a debugger can read them."""
        target, pieces = self.target, list[MemoryPiece]()
        for start, end in joined(self.heap_ranges):
            found = target.pieces(start, end)
            if found is None:
                return None
            pieces += found
        try:
            engine = EngineImage(target.pointer_size, target.byte_order, target.stop_if_asked)
        except NoEngineError:
            return None
        engine.set_memory(pieces)
        return engine

    def let_go(self) -> None:
        """Lets go of the image's memory, which the engine has: a copy's can then be given back. Also of the files that
        types are read from: the engine closes them with the last result that refers to them."""
        blocks = self.block_results.blocks
        for engine in (
            self.engine if self.has_read("engine") else None,
            blocks.engine if blocks is not None else None,
        ):
            if engine is not None:
                engine.let_go()
        self.block_results = BlockResults()
        self.target.forget_types()

    def keep_findings(self, findings: Sequence[Finding]) -> None:
        """Keeps the findings from the sweep of one heap."""
        once = {each.key: each for each in findings}
        self.findings += [each for key, each in once.items() if key not in self._swept]
        self._swept.update(once)

    @cached_property
    def mmapped(self) -> list[MmappedBlock]:
        """The blocks that malloc got by mmap, as far as they can be recognised."""
        arenas = [part for parts in self.heaps.values() for part in parts]
        # a header is not zero: of a core even a lower bound has its page
        residency = self.any_residency if self.target.kind == "core" else self.residency
        ranges = partial(mmapped_chunks.search_ranges, self.layout, self.regions, arenas, residency)
        mp_ = self._mp if self.located.layout.mmaps_proven else None
        counted = malloc_par.counts(mp_) if mp_ else None
        inner = mmapped_chunks.Inner(self.memory, self.layout, self.target.page_size, self.regions)
        return mmapped_chunks.find_mmapped(inner, ranges, counted, alone=not self.located.others)

    @property
    def fast_known(self) -> bool:
        """Whether all fastbins were read to their ends: chunks in them look used."""
        return all(lists.whole for lists in self.fastbins.values())

    @property
    def caches_known(self) -> bool:
        """Whether every thread's cache was found: only then are the other chunks really in use."""
        if self.layout.tcache is None or not self.started:
            return True
        return bool(self.thread_caches) and all(cache.known for cache in self.thread_caches)

    @cached_property
    def cached_by_arena(self) -> dict[Optional[int], Optional[Tally]]:
        """Cached chunks by the arena that they came from (None: mmapped); a cache may hold chunks of any arena."""
        return self.arenas_of_chunks.tallies(self.thread_caches, self.arenas, self.findings)

    def arena_of(self, chunk: int) -> Optional[int]:
        """Returns the arena that a chunk belongs to; None for a mmapped one, and if unknown."""
        return self.arenas_of_chunks.find(chunk)

    @cached_property
    def arenas_of_chunks(self) -> ArenaIndexes:
        return ArenaIndexes(self.memory, self.layout, self.headers, self.heaps)


SEARCHED = 128 << 10
"""The most bytes searched for the start of a sample: with very large blocks there are few headers, and little to do."""
SAMPLE, SAMPLES = 256 << 10, 4
"""The size of a sample, and the number of samples from a long heap: programs begin with other blocks than they continue
with."""


def likely_chunks(session: Session, limit: int) -> int:
    """Estimates the number of chunks from samples of each heap; it stops once it exceeds `limit`."""
    likely = 0
    for header in session.headers:
        for heap in session.heaps[header.index]:
            if likely > limit:
                return likely
            stretches = _samples(session, header, heap)
            chunks = sum(_chunks_in(session, header, heap, each) for each in stretches)
            likely += chunks * heap.bytes // max(sum(each.bytes for each in stretches), 1)
    return likely


def _chunks_in(session: Session, header: ArenaHeader, heap: Heap, stretch: Span) -> int:
    sweep = Sweep(session.memory, session.layout, header, heap, findings=[], marked=array("Q"), stretch=stretch)
    return sum(len(piece.raws) for piece in sweep.pieces() if isinstance(piece, ChunkRun))


def _samples(session: Session, header: ArenaHeader, heap: Heap) -> list[Span]:
    every, starts = heap.bytes // SAMPLES, [heap.address]
    if every > SAMPLES * SAMPLE:
        limit = header.top if heap.address <= header.top < heap.end else heap.end
        for place in range(heap.address + every, limit - every // 2, every):
            chain = find_chain(session.memory, session.layout, header.main, place, limit=limit, searched=SEARCHED)
            starts += [chain] if chain is not None else []
    return [Span(start, min(heap.end, start + SAMPLE)) for start in starts]
