"""Locates main_arena and mp_: by symbols if they are reliable, otherwise by their shape in memory."""

from __future__ import annotations

from typing import Iterator, NamedTuple, Optional, Sequence

from ...base.errors import NotFoundError
from ...base.model import Allocator, Statement
from ...sources.elf.elf_file import differ
from ...sources.memory import Memory
from ...sources.target import Region, Target
from .. import release_table
from ..arena import BINS_PAIRS, PREFIX_LIMIT, FoundBins, anchors, evidence_at, follow_ring, ring_from, scan, wrong_bins
from ..process_layout import NO_TRAIL, CandidateTrail, Layout, LayoutCheck, from_table
from ..unknown_release import fitting_layout
from ..unknown_release.fitting_layout import candidates
from . import libc_file, several_glibcs
from .find_params import ParamsSearch, follow_hugepages, surroundings
from .libc_file import Libc
from .several_glibcs import GlibcCopy
from .which_allocator import find_allocators

LARGE = 16 << 20
"""Larger data is not searched for main_arena: no library has as much."""
BY_SYMBOL = Statement("symbol-leads-here")


class Located(NamedTuple):
    """The addresses of the heap's structures, and how they were found."""

    main_arena: int
    params: Optional[int]
    layout: Layout
    located_by: str
    """"symbols" or "scan"."""
    libc: Libc
    notes: tuple[str, ...] = ()
    """Notes for the reader: symbols that were not trusted, further allocators."""
    other_file: bool = False
    """Whether the debugger has loaded another file for a libc, so that symbols lead nowhere."""
    copies: tuple[GlibcCopy, ...] = ()
    """All glibcs of the process, by number; empty if only one was searched for."""
    own_symbols: bool = False
    """Whether the target's symbols are this very copy's."""
    allocators: tuple[Allocator, ...] = ()
    """Allocators that replace glibc's malloc, or have a heap beside it."""

    @property
    def others(self) -> tuple[int, ...]:
        """main_arena of further copies of libc in the same process."""
        return tuple(copy.main_arena for copy in self.copies if copy.main_arena != self.main_arena)

    @property
    def version(self) -> Optional[str]:
        return self.libc.version

    def find_static(self, target: Target, name: str) -> Optional[int]:
        """Returns the address of a variable of this malloc by its symbols; None if they do not have it."""
        symbol = target.symbol(name)
        main = target.symbol("main_arena") if symbol is not None else None
        if symbol is None or main is None or symbol.build_id != main.build_id:
            return None
        if not self.own_symbols and symbol.build_id != self.libc.build_id:
            return None
        # of two copies of one libc a debugger may tell either's
        places = (symbol.address, symbol.address - main.address + self.main_arena)
        return next((at for at in places if any(each.contains(at) for each in self.libc.data)), None)


def locate(target: Target, memory: Memory, number: int = 0, trail: CandidateTrail = NO_TRAIL) -> Located:
    """Finds glibc's heap (of several glibcs that of this number); NotFoundError says what is there instead."""
    return _ArenaSearch(target, memory, number, trail).locate()


class _ArenaSearch:
    """One search: the image, its mappings, and notes for the reader."""

    def __init__(self, target: Target, memory: Memory, number: int, trail: CandidateTrail) -> None:
        self.target, self.memory, self.number, self.trail = target, memory, number, trail
        self.regions = target.regions()
        self.libcs = several_glibcs.with_static_program(
            target, memory, self.regions, libc_file.find_libcs(target, memory, self.regions)
        )
        self.notes: list[str] = []
        self.other_file = False

    def locate(self) -> Located:
        by_symbol = self._by_symbol()
        hits = [by_symbol] if by_symbol else []
        if by_symbol is None or len(self.libcs) > 1:
            # the debugger knows one main_arena; dlmopen and libc_malloc_debug bring further ones
            seen = self._scan_all()
            hits += [hit for hit in seen if hit.arena not in {known.arena for known in hits}]
        elif self.trail.wanted:
            list(self._scan_all())
        if not hits:
            hits = self._with_broken_ring()
        if not hits:
            return self._untouched()
        copies = several_glibcs.find_copies(
            self.target, self.memory, self.regions, self.libcs, hits=hits, trail=self.trail
        )
        chosen = several_glibcs.choose(copies, self.number, self.trail)
        self.notes += several_glibcs.notes_on(copies, self.number)
        if chosen.hit is None:
            return self._as_linked(chosen, copies, by_symbol=False)
        return self._as_used(chosen, chosen.hit, copies, by_symbol)

    def _as_used(
        self, chosen: GlibcCopy, hit: FoundBins, copies: Sequence[GlibcCopy], by_symbol: Optional[FoundBins]
    ) -> Located:
        """Finds an arena that malloc has written to, and the layout that fits it."""
        target, memory, trail = self.target, self.memory, self.trail
        main, libc = chosen.main_arena, chosen.libc
        guess = self._beside(by_symbol.ring[0], chosen) if by_symbol is not None else None
        release = release_table.parse(libc.version or "")
        structs = fitting_layout.read_structs(target) if by_symbol is not None else {}
        debug = fitting_layout.from_debug(release, memory.pointer_size, target.machine, structs)
        layout = fitting_layout.derive_layout(
            memory,
            target.machine,
            release,
            hit,
            around=lambda: surroundings(target, memory, self.regions, main, guess=guess),
            debug=debug,
            trail=trail,
        )
        if chosen.debugs:
            layout = several_glibcs.without_tcache(layout)
        search = ParamsSearch(memory, layout, target.machine, main, regions=self.regions, trail=trail)
        params, layout = search.find(guess, debug.params if debug else None)
        layout = fitting_layout.compare(layout, structs, self.notes)
        if chosen.debugs:
            layout = several_glibcs.without_tcache(layout)
        if libc.version is None:
            layout = fitting_layout.settle_release(
                memory, target.machine, layout, caches=(), arenas=hit.ring, trail=trail
            )
        layout = follow_hugepages(memory, layout, params, hit)
        own = by_symbol is not None and by_symbol.ring[0] == main
        found_by_symbol = own or guess is not None
        return self._located(chosen, params, layout, copies, by_symbol=found_by_symbol, own_symbols=own)

    def _located(
        self,
        chosen: GlibcCopy,
        params: Optional[int],
        layout: Layout,
        copies: Sequence[GlibcCopy],
        *,
        by_symbol: bool,
        own_symbols: bool = False,
    ) -> Located:
        return Located(
            chosen.main_arena,
            params,
            layout=layout,
            located_by="symbols" if by_symbol else "scan",
            libc=chosen.libc,
            notes=tuple(self.notes),
            other_file=self.other_file,
            copies=tuple(copies),
            own_symbols=own_symbols,
            allocators=tuple(find_allocators(self.target, self.regions)),
        )

    def _beside(self, arena: int, chosen: GlibcCopy) -> Optional[int]:
        """Guesses mp_: by the symbol, or as far from main_arena as in another copy of the same file."""
        params = self.target.symbol("mp_")
        if params is None:
            return None
        if arena != chosen.main_arena:
            known = libc_file.module_at(self.target, self.memory, self.regions, arena)
            if (known.path, known.build_id) != (chosen.libc.path, chosen.libc.build_id):
                return None
        return params.address + chosen.main_arena - arena

    def _by_symbol(self) -> Optional[FoundBins]:
        """Returns the arena that the symbol names, if it looks like one."""
        target, memory, trail = self.target, self.memory, self.trail
        self._look_for_another_file()
        symbol = target.symbol("main_arena")
        if symbol is None:
            return None
        inside = libc_file.build_id_at(memory, self.regions, symbol.address)
        hit = _hit_at(target, memory, symbol.address)
        if trail.wanted:
            proof = (Statement("same-build-id"),) if inside and symbol.build_id == inside else ()
            trail.add("main_arena", f"{symbol.address:#x}", (BY_SYMBOL, *proof))
            _tell(trail, memory, symbol.address, hit)
        if hit is not None and _another_is_whole(memory, hit):
            trail.add("main_arena", f"{symbol.address:#x}", (), (Statement("overlaps-whole-ring"),))
            hit = None
        if hit is None and several_glibcs.is_untouched(target, memory, symbol.address) is None:
            self.notes.append(f"the symbol main_arena ({symbol.address:#x}) does not lead to an arena: not used")
        return hit

    def _look_for_another_file(self) -> None:
        """Records libcs for which the debugger has loaded another file."""
        for libc in self.libcs:
            first = next((region for region in self.regions if region.start == libc.base), None)
            loaded = self.target.loaded_build_id(first) if first is not None else None
            if differ(libc.build_id, loaded):
                self.other_file = True
                told = {"build_id": loaded or "", "in_memory": libc.build_id or ""}
                self.trail.add("main_arena", libc.path, (), (Statement("another-build-id", names=told),))

    def _scan_all(self) -> Iterator[FoundBins]:
        """Scans for arenas in files' data: libc's own first, then any file's (a static program)."""
        any_hit = False
        for region in _written(self.target, self._libc_data()):
            for hit in _scan(self.memory, region, self.trail):
                any_hit = True
                yield hit
        if any_hit:
            return
        for region in _written(self.target, libc_file.file_data(self.regions)):
            yield from _scan(self.memory, region, self.trail)

    def _libc_data(self) -> list[Region]:
        return [region for libc in self.libcs for region in libc.data]

    def _with_broken_ring(self) -> list[FoundBins]:
        """Finds an arena whose `next` leads astray: its bins tell where it is, the release how far in front it
        begins."""
        target, memory, trail = self.target, self.memory, self.trail
        rated: list[tuple[int, FoundBins]] = []
        for region in _written(self.target, self._libc_data() or libc_file.file_data(self.regions)):
            for hit in scan(memory, region.start, region.end):
                libc = libc_file.module_at(target, memory, self.regions, hit.bins)
                known = release_table.parse(libc.version or "")
                rows = [from_table(release, memory.pointer_size, target.machine) for release in candidates(known)]
                starts = [hit.bins - row.arena["bins"] for row in rows]
                # what is cut off proves nothing, what is there and wrong is damage
                must_link = known is None and bool(target.image.shortage())
                evidence = [evidence_at(memory, row, start, must_link) for row, start in zip(rows, starts)]
                if max(evidence):
                    wrong = wrong_bins(memory, hit.bins)
                    start = starts[evidence.index(max(evidence))]
                    rated.append((0 if wrong is None else wrong, FoundBins(hit.bins, (start,))))
                    if trail.wanted:
                        trail.add("main_arena", f"{start:#x}", (Statement("members-of-broken-ring"),))
                        _tell(trail, memory, start, rated[-1][1])
        return [min(rated, key=lambda entry: entry[0])[1]] if rated else []

    def _untouched(self) -> Located:
        """Finds a glibc up to 2.41 whose malloc was never called, or raises NotFoundError."""
        target, memory, regions = self.target, self.memory, self.regions
        symbol = target.symbol("main_arena")
        starts = [symbol.address] if symbol and several_glibcs.is_untouched(target, memory, symbol.address) else []
        starts += several_glibcs.untouched(target, memory, self._libc_data() or libc_file.file_data(regions))
        if not starts:
            raise NotFoundError(
                *libc_file.what_is_there(
                    self.libcs,
                    regions,
                    self.notes,
                    shortage=target.image.shortage(),
                    others=find_allocators(target, regions),
                )
            )
        copies = [
            GlibcCopy(start, libc_file.module_at(target, memory, regions, start)) for start in dict.fromkeys(starts)
        ]
        for start in starts:
            self.trail.add("main_arena", f"{start:#x}", (Statement("as-linked"),))
        chosen = several_glibcs.choose(copies, self.number, self.trail)
        return self._as_linked(chosen, copies, by_symbol=symbol is not None and symbol.address == chosen.main_arena)

    def _as_linked(self, chosen: GlibcCopy, copies: Sequence[GlibcCopy], *, by_symbol: bool) -> Located:
        """Finds an arena that is as the linker left it."""
        target, memory, start = self.target, self.memory, chosen.main_arena
        release = release_table.parse(chosen.libc.version or "")
        layout = several_glibcs.is_untouched(target, memory, start)
        assert layout is not None
        if release is not None and from_table(release, layout.word, target.machine).arena == layout.arena:
            layout = from_table(release, layout.word, target.machine)
        beside = target.symbol("mp_") if by_symbol else None
        search = ParamsSearch(memory, layout, target.machine, start, regions=self.regions, trail=self.trail)
        params, layout = search.find(beside.address if beside else None)
        layout = layout._replace(checks=(LayoutCheck(Statement("never-called")),))
        return self._located(chosen, params, layout, copies, by_symbol=by_symbol)


def _tell(trail: CandidateTrail, memory: Memory, arena: int, hit: Optional[FoundBins]) -> None:
    """Describes what bins and ring show about an arena at this address."""
    wrong = wrong_bins(memory, hit.bins) if hit is not None else None
    if hit is None or wrong is None:
        trail.add("main_arena", f"{arena:#x}", (), (Statement("no-bins-behind"),))
        return
    ring = ring_from(memory, arena, hit.bins)
    good = [Statement("bins-lead-back-here", {"bins": BINS_PAIRS - wrong, "of": BINS_PAIRS})]
    bad = [Statement("bins-lead-elsewhere", {"bins": wrong, "of": BINS_PAIRS})] if wrong else []
    if ring:
        good.append(Statement("its-ring-closes", {"arenas": len(ring)}))
    else:
        bad.append(Statement("no-ring-closes"))
    trail.add("main_arena", f"{arena:#x}", good, bad)


def _hit_at(target: Target, memory: Memory, arena: int) -> Optional[FoundBins]:
    info = target.struct("malloc_state")
    offsets = [info.fields["bins"].offset] if info and "bins" in info.fields else []
    offsets += [from_table(release, memory.pointer_size, target.machine).arena["bins"] for release in candidates(None)]
    known = set(offsets)
    # a release that the table does not know
    offsets += [bins - arena for bins in anchors(memory, arena, arena + PREFIX_LIMIT + 254 * memory.pointer_size)]
    rated: list[tuple[bool, int, FoundBins]] = []
    for offset in dict.fromkeys(offsets):
        wrong = wrong_bins(memory, arena + offset) if 0 < offset < PREFIX_LIMIT else None
        if wrong is None:
            continue
        ring = ring_from(memory, arena, arena + offset)
        # where the ring is damaged the symbol still says where it begins, and the walk will say where it breaks
        if ring or offset in known:
            rated.append((not ring, wrong, FoundBins(arena + offset, ring or (arena,))))
    return min(rated, key=lambda entry: entry[:2])[2] if rated else None


def _another_is_whole(memory: Memory, hit: FoundBins) -> bool:
    """Tells whether an arena whose ring closes overlaps this one: a symbol that is a little off sees most of its
    bins."""
    if follow_ring(memory, hit.bins)[:1] == hit.ring[:1]:
        return False
    reach = 254 * memory.pointer_size
    return any(other.ring for other in scan(memory, hit.bins - reach, hit.bins + 2 * reach))


def _written(target: Target, regions: Sequence[Region]) -> Iterator[Region]:
    """Returns the parts of large mappings that may hold anything but zeros: a core's header may claim terabytes that
    are a hole. A core that was cut lacks parts of any mapping: bins of which some are missing look like others."""
    for region in regions:
        readable = target.image.readable(region.start, region.end) if region.size > LARGE else None
        if readable is None:
            yield region
        else:
            yield from (region._replace(start=start, end=end) for start, end in readable.data)


def _scan(memory: Memory, region: Region, trail: CandidateTrail) -> list[FoundBins]:
    """Scans for arenas whose ring closes."""
    hits = list(scan(memory, region.start, region.end))
    closed = [hit for hit in hits if hit.ring]
    if trail.wanted:
        place = Statement("scan-leads-here", names={"path": region.path})
        for hit in closed:
            trail.add("main_arena", f"{hit.ring[0]:#x}", (place,))
            _tell(trail, memory, hit.ring[0], hit)
        # bins still look like bins a few pairs to either side
        reach = 254 * memory.pointer_size
        for hit in hits:
            if not hit.ring and all(abs(hit.bins - other.bins) >= reach for other in closed):
                wrong = wrong_bins(memory, hit.bins) or 0
                good = (place, Statement("bins-lead-back-here", {"bins": BINS_PAIRS - wrong, "of": BINS_PAIRS}))
                trail.add("main_arena", f"bins at {hit.bins:#x}", good, (Statement("no-ring-closes"),))
    return closed
