"""Locates main_arena and mp_: by symbols if they are reliable, otherwise by their shape in memory.

mp_ without a symbol lies near main_arena in libc's data, and is recognised by the values that it must hold for that
main arena. A process may have several glibcs (dlmopen, libc_malloc_debug, dlopen from a static program), each with a
main_arena: number 0 is the one that serves the program's malloc; the others follow, the larger ones first.
"""

from __future__ import annotations

from typing import Iterator, NamedTuple, Optional, Sequence

from ...base.errors import ArenascopeError, MemoryReadError, NotFoundError, UsageError
from ...base.heap_model import NONCONTIGUOUS, Allocator, ArenaHeader, Params, Statement
from ...glibc import release_table
from ...sources.elf.elf_file import PT_INTERP, Elf, differ
from ...sources.elf.modules import modules_of
from ...sources.memory import Memory
from ...sources.target import Region, Span, Target
from .. import fitting_layout
from ..arena import (
    BINS_PAIRS,
    PREFIX_LIMIT,
    FoundBins,
    anchors,
    doubt_thread_arena,
    evidence_at,
    follow_ring,
    next_offset,
    read_arena,
    ring_from,
    scan,
    wrong_bins,
)
from ..find import libc_file
from ..fitting_layout import candidates
from ..malloc_par import doubt_params, read_params
from ..process_layout import NO_TRAIL, CandidateTrail, Layout, LayoutCheck, Struct, from_table
from ..release_table import Release
from ..unknown_release.derived_layout import derive_layout
from ..unknown_release.no_version import settle_release
from ..unknown_release.state import Surroundings
from .libc_file import Libc
from .other_allocators import find_allocators

NEAR = 0x4000
"""mp_ precedes main_arena by 0x900 to 0x940 bytes in the builds that were examined."""
ENOUGH = 6
BY_DISTANCE = Statement("by-symbol-distance")


class _Form(NamedTuple):
    """A form of malloc_par, and its release."""

    name: str
    struct: Struct


class _ParamsPlace(NamedTuple):
    address: int
    form: _Form

    def __str__(self) -> str:
        return f"{self.address:#x}, {self.form.name}"


class _Judged(NamedTuple):
    points: int
    doubt: Optional[Statement]
    """The evidence against it."""


class ParamsSearch:
    """A search for mp_ for this main arena, in this layout."""

    def __init__(
        self,
        memory: Memory,
        layout: Layout,
        machine: str,
        main_arena: int,
        *,
        regions: Sequence[Region],
        trail: CandidateTrail = NO_TRAIL,
    ) -> None:
        self.memory, self.layout, self.machine = memory, layout, machine
        self.regions, self.trail = regions, trail
        self.main = read_arena(memory, layout, main_arena)

    def find(self, guess: Optional[int], debug: Optional[Struct] = None) -> tuple[Optional[int], Layout]:
        """Returns the address of mp_ and the layout with its form; (None, layout) if nothing fits.

        `guess` is the symbols' address, `debug` the form in debug information.
        """
        given = _Form("debug information", debug) if debug is not None else None
        if self.layout.newer is not None:
            if (
                guess
                and given is not None
                and self._judge(_ParamsPlace(guess, given), self.main, BY_DISTANCE).doubt is None
            ):
                return self._chosen(_ParamsPlace(guess, given))
            return self._by_values(guess)
        forms = [*([given] if given is not None else []), *_forms(self.layout, self.machine)]
        place = self._at_symbol(forms, guess) if guess else None
        # a trail also lists the rest
        if place is None or self.trail.wanted:
            near = self._near(forms)
            place = place or near
        return self._chosen(place)

    def _chosen(self, place: Optional[_ParamsPlace]) -> tuple[Optional[int], Layout]:
        self.trail.choose("mp_", str(place) if place else None, Statement("less-speaks-for-it"))
        return (place.address, self.layout._replace(params=place.form.struct)) if place else (None, self.layout)

    def _at_symbol(self, forms: Sequence[_Form], guess: int) -> Optional[_ParamsPlace]:
        """Trusts a symbol even if the main arena is damaged: the walk will report what does not fit."""
        for held_against in (self.main, None):
            # another release's form may fit a damaged mp_, at other places
            for form in forms if held_against else forms[:1]:
                place = _ParamsPlace(guess, form)
                if self._judge(place, held_against, BY_DISTANCE).doubt is None:
                    return place
        return None

    def _near(self, forms: Sequence[_Form]) -> Optional[_ParamsPlace]:
        """Searches around main_arena, by values alone."""
        region = next((region for region in self.regions if region.contains(self.main.address)), None)
        if region is None:
            return None
        near = Span(max(region.start, self.main.address - NEAR), min(region.end, self.main.address + NEAR))
        fitting: list[tuple[int, _ParamsPlace]] = []
        for form in forms:
            for address in _places(self.memory, form.struct, near, self.main):
                place = _ParamsPlace(address, form)
                judged = self._judge(place, self.main)
                if judged.doubt is None and judged.points >= ENOUGH:
                    fitting.append((judged.points, place))
        return max(fitting, key=lambda each: each[0])[1] if fitting else None

    def _by_values(self, guess: Optional[int]) -> tuple[Optional[int], Layout]:
        """Searches for a release that no row describes: see derive_params."""
        memory, layout, main = self.memory, self.layout, self.main
        region = next((region for region in self.regions if region.contains(guess or main.address)), None)
        if region is None:
            return None, layout
        start = max(region.start, (guess or main.address) - NEAR)
        data = memory.try_read(start, min(region.end, start + 2 * NEAR) - start)
        if data is None:
            return None, layout
        from ..unknown_release.state import ArenaWindow, derive_params

        proven = derive_params(ArenaWindow(memory, start, data), layout, main, guess)
        said = (BY_DISTANCE,) if guess else ()
        name = f"{proven.address:#x}, member by member" if proven else f"what stands near {main.address:#x}"
        lost = () if proven else (Statement("counters-not-proven"),)
        self.trail.add("mp_", name, (*said, Statement("counters-proven")) if proven else (), lost)
        self.trail.choose("mp_", name if proven else None)
        if proven is None:
            return None, layout
        derived = layout._replace(params=proven.struct, mmaps_proven=proven.counted, mp_in_parts=proven.unknown)
        return proven.address, derived

    def _judge(self, place: _ParamsPlace, main: Optional[ArenaHeader], told: Optional[Statement] = None) -> _Judged:
        """Judges whether mp_ is at this place, given that main arena."""
        layout = self.layout._replace(params=place.form.struct)
        try:
            params = read_params(self.memory, layout, place.address)
            doubt = doubt_params(params, main)
            judged = _Judged(0 if doubt else sum(points for points, _ in _speaks_for(layout, params, main)), doubt)
        except MemoryReadError:
            params, judged = None, _Judged(0, Statement("mp-unreadable"))
        reasons = [said for _, said in _speaks_for(layout, params, main)] if params and not judged.doubt else []
        against = [judged.doubt] if judged.doubt else []
        if not against and judged.points < ENOUGH and told is None:
            against = [Statement("too-few-points", {"points": judged.points, "wanted": ENOUGH})]
        self.trail.add("mp_", str(place), [told, *reasons] if told else reasons, against)
        return judged


def surroundings(
    target: Target, memory: Memory, regions: Sequence[Region], main_arena: int, guess: Optional[int]
) -> Surroundings:
    """Returns what proves a layout besides the arenas themselves."""
    near: set[int] = set()
    for place in {main_arena, guess or main_arena}:
        region = next((region for region in regions if region.contains(place)), None)
        start = max(region.start, place - NEAR) if region else place
        end = min(region.end, place + NEAR) if region else place
        near.update(memory.unpack_words(memory.try_read(start, end - start) or b""))
    return Surroundings(regions, target.page_size, frozenset(near), len(target.threads()))


def _forms(layout: Layout, machine: str) -> list[_Form]:
    """Returns the forms of malloc_par, that of this release first."""
    forms = [_Form(f"as in glibc {release_table.text(layout.release)}", layout.params)]
    for release in candidates(layout.release):
        struct = from_table(release, layout.word, machine).params
        if all(struct != form.struct for form in forms):
            forms.append(_Form(f"as in glibc {release_table.text(release)}", struct))
    return forms


def _places(memory: Memory, form: Struct, within: Span, main: ArenaHeader) -> list[int]:
    """Returns the possible places of mp_: sbrk_base there holds the start of a contiguous main arena, or 0 before there
    is one."""
    word = memory.pointer_size
    start = -(-within.start // word) * word
    values = memory.try_words(start, (within.end - start) // word)
    if values is None:
        return []
    first = form["sbrk_base"] // word
    last = len(values) - (form.size - form["sbrk_base"]) // word
    wanted = main.brk_base
    if wanted is not None:
        return [start + (n - first) * word for n in range(first, last) if values[n] == wanted]
    # neither mallopt nor a tunable takes 0, so this skips whatever is empty
    test = form["arena_test"] // word
    return [start + (n - first) * word for n in range(first, last) if 0 < values[n - first + test] <= 1 << 20]


def _speaks_for(layout: Layout, params: Params, main: Optional[ArenaHeader]) -> Iterator[tuple[int, Statement]]:
    """Returns (points, evidence). Defaults count, as most processes leave most of them alone."""
    values = params.values
    if main and main.contiguous and main.top_bytes:
        yield 4, Statement("sbrk-base-is-main-top-end")
    if values["n_mmaps_max"] == 65536:
        yield 3, _default("n_mmaps_max")
    if values["arena_test"] == (8 if layout.word == 8 else 2):
        yield 2, _default("arena_test")
    for name in ("mmap_threshold", "trim_threshold"):
        if values[name] >= 128 << 10:
            yield 1, Statement("default-or-more", names={"parameter": name})
    if values["top_pad"] == 128 << 10:
        yield 1, _default("top_pad")
    if values.get("tcache_bins") in (64, 76):
        yield 2, _default("tcache_bins")
    if values.get("tcache_count") in (7, 16):
        yield 1, _default("tcache_count")


def _default(name: str) -> Statement:
    return Statement("has-default", names={"parameter": name})


def follow_hugepages(memory: Memory, layout: Layout, address: Optional[int], hit: FoundBins) -> Layout:
    """Corrects 2.35 to 2.41: heaps span 4 huge pages if the hugetlb tunable set their size."""
    if not layout.behaviour.heap_max_follows_hugepages or address is None:
        return layout
    huge = read_params(memory, layout, address).get("hp_pagesize") or 0
    if not huge:
        return layout
    larger = layout._replace(heap_max=4 * huge)
    if all(not doubt_thread_arena(memory, larger, arena) for arena in hit.ring[1:]):
        return larger
    return layout


MALLOC_DEBUG = "libc_malloc_debug.so"
MAX_THREADS = 1 << 16
"""More threads attached to an arena are not plausible, nor are fewer bytes in one."""


class GlibcCopy(NamedTuple):
    """One of several glibcs."""

    main_arena: int
    libc: Libc
    hit: Optional[FoundBins] = None
    """None if it is as the linker left it."""
    system: int = 0
    """Bytes that its main arena has from the kernel."""

    @property
    def used(self) -> bool:
        """Whether its malloc has any memory; it may be set up without ever having been called."""
        return self.hit is not None and (self.system > 0 or len(self.hit.ring) > 1)

    @property
    def debugs(self) -> bool:
        """Whether it is libc_malloc_debug: malloc with checks, beside the malloc of libc.so itself."""
        return MALLOC_DEBUG in self.libc.path

    @property
    def file(self) -> str:
        return self.libc.path or "no file known"


def with_static_program(target: Target, memory: Memory, regions: Sequence[Region], libcs: list[Libc]) -> list[Libc]:
    """Puts a static program that loads a libc before that libc."""
    if not libcs:
        return libcs
    paths = {libc.path for libc in libcs}
    for module in modules_of(regions):
        # no program is mapped shared, and reading shared memory would make pages there
        if module[0].shared or module[0].offset or ".so" in module[0].path or module[0].path in paths:
            continue
        # nor has it no code, unless a core lacks that: what is read of a file becomes the process's memory
        if not any(each.executable or not each.present for each in module):
            continue
        try:
            elf = Elf(memory.read, module[0].start, mapped=True)
            if all(segment.type != PT_INTERP for segment in elf.segments):
                return [libc_file.describe(target, memory, libc_file.bss_of(regions), module), *libcs]
        except ArenascopeError:
            continue
    return libcs


def find_copies(
    target: Target,
    memory: Memory,
    regions: Sequence[Region],
    libcs: Sequence[Libc],
    hits: Sequence[FoundBins],
    trail: CandidateTrail = NO_TRAIL,
) -> list[GlibcCopy]:
    """Finds all of them, in their order."""
    copies: list[GlibcCopy] = []
    for hit in hits:
        if not any(hit.ring[0] in known.hit.ring for known in copies if known.hit):
            libc = libc_file.module_at(target, memory, regions, hit.ring[0])
            copies.append(GlibcCopy(hit.ring[0], libc, hit, _system(memory, hit)))
    copies.sort(key=lambda copy: _weight(memory, copy), reverse=True)
    if len(copies) > 1:
        for copy in copies:
            serves, grows, _ = _weight(memory, copy)
            own = [Statement("malloc-leads-to-it" if serves else "grows-by-brk")] if serves or grows else []
            lost = [] if own else [Statement("does-not-grow-by-brk")]
            trail.add("main_arena", f"{copy.main_arena:#x}", own, lost)
    if len(libcs) > 1:
        for libc in libcs:
            if not any(region.contains(copy.main_arena) for region in libc.data for copy in copies):
                copies += [GlibcCopy(start, libc) for start in untouched(target, memory, libc.data)][:1]
    version = next((copy.libc.version for copy in copies if copy.libc.version), None)
    # libc_malloc_debug has no version: it belongs to the libc.so that is also loaded
    return [copy._replace(libc=copy.libc._replace(version=version)) if copy.debugs else copy for copy in copies]


def _system(memory: Memory, hit: FoundBins) -> int:
    """Returns system_mem, which is the first word, or the second if attached_threads precedes it."""
    try:
        first, second = memory.words(hit.bins + next_offset(memory.pointer_size) + 2 * memory.pointer_size, 2)
    except MemoryReadError:
        return 0
    return second if first < MAX_THREADS else first


def _weight(memory: Memory, copy: GlibcCopy) -> tuple[bool, bool, int]:
    """Ranks copies: the program's own is the one that malloc leads to, else the one that grows by brk, else the
    largest."""
    flags = memory.u32(copy.main_arena + 4)
    return copy.debugs and copy.used, not flags & NONCONTIGUOUS, copy.system


def choose(copies: Sequence[GlibcCopy], number: int, trail: CandidateTrail = NO_TRAIL) -> GlibcCopy:
    """Returns the copy of that number; UsageError if there is none."""
    _tell_choice(copies, number, trail)
    if 0 <= number < len(copies):
        return copies[number]
    some = f"this process has libcs 0 to {len(copies) - 1}" if len(copies) > 1 else "this process has one, number 0"
    raise UsageError(f"there is no libc {number}", some)


def _tell_choice(copies: Sequence[GlibcCopy], number: int, trail: CandidateTrail) -> None:
    """Records in the trail what decides between several."""
    for index, copy in enumerate(copies):
        good = [Statement("its-file", names={"file": copy.file})]
        if copy.hit is not None:
            good.append(Statement("has-bytes" if copy.system else "has-nothing-yet", {"bytes": copy.system}))
        bad = [Statement("of-another-libc", {"libc": index})] if index != number else []
        trail.add("main_arena", f"{copy.main_arena:#x}", good, bad)
    taken = f"{copies[number].main_arena:#x}" if 0 <= number < len(copies) else None
    trail.choose("main_arena", taken, Statement("another-in-libc-data"))


def notes_on(copies: Sequence[GlibcCopy], number: int) -> list[str]:
    """Returns notes about the other copies."""
    notes = []
    more = [f"{copy.main_arena:#x}" for copy in copies[1:] if copy.used]
    if copies[0].debugs and copies[0].used:
        notes.append(
            f"{MALLOC_DEBUG} serves malloc here (libc 0); what went past it is in libc.so's own arenas (--libc 1)"
        )
    elif more and not number:
        notes.append(
            f"{len(more)} more libc with a heap of its own in this process, main_arena at {', '.join(more)}: "
            f"--libc {1 if len(copies) == 2 else 'N'} shows it"
        )
    if number:
        notes.append(f"this is libc {number} ({copies[number].file}); the program's malloc is libc 0's")
    return notes


def without_tcache(layout: Layout) -> Layout:
    """Adapts a layout to libc_malloc_debug, compiled without USE_TCACHE: no thread caches, and mp_ ends before their
    limits."""
    offsets = {name: offset for name, offset in layout.params.offsets.items() if not name.startswith("tcache_")}
    size = layout.params.get("tcache_bins") or layout.params.size
    return layout._replace(tcache=None, params=Struct(offsets, size))


def untouched(target: Target, memory: Memory, data: Sequence[Region]) -> Iterator[int]:
    """Finds a main_arena that is as the linker left it."""
    for region in data:
        for start in _self_links(memory, target.machine, region):
            if is_untouched(target, memory, start) is not None:
                yield start


def is_untouched(target: Target, memory: Memory, arena: int) -> Optional[Layout]:
    """Returns the layout whose malloc_state is here as the linker left it: all zero but `next`, which is itself."""
    for release in candidates(None):
        layout = from_table(release, memory.pointer_size, target.machine)
        try:
            header = read_arena(memory, layout, arena)
            data = memory.read(arena, layout.arena["next"])
        except MemoryReadError:
            return None
        if (
            header.next == arena
            and not data.strip(b"\0")
            and not header.system_mem
            and header.attached_threads in (1, None)
        ):
            return layout
    return None


def _self_links(memory: Memory, machine: str, region: Region) -> Iterator[int]:
    word = memory.pointer_size
    distances = {from_table(release, word, machine).arena["next"] for release in candidates(None)}
    for index, value in enumerate(memory.try_words(region.start, region.size // word) or ()):
        if value and region.start + index * word - value in distances:
            yield value


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
        self.libcs = with_static_program(
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
        copies = find_copies(self.target, self.memory, self.regions, self.libcs, hits=hits, trail=self.trail)
        chosen = choose(copies, self.number, self.trail)
        self.notes += notes_on(copies, self.number)
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
        layout = self._layout(main, hit, release, debug, guess)
        if chosen.debugs:
            layout = without_tcache(layout)
        search = ParamsSearch(memory, layout, target.machine, main, regions=self.regions, trail=trail)
        params, layout = search.find(guess, debug.params if debug else None)
        layout = fitting_layout.compare(layout, structs, self.notes)
        if chosen.debugs:
            layout = without_tcache(layout)
        if libc.version is None:
            layout = settle_release(memory, target.machine, layout, caches=(), arenas=hit.ring, trail=trail)
        layout = follow_hugepages(memory, layout, params, hit)
        own = by_symbol is not None and by_symbol.ring[0] == main
        found_by_symbol = own or guess is not None
        return self._located(chosen, params, layout, copies, by_symbol=found_by_symbol, own_symbols=own)

    def _layout(
        self, main: int, hit: FoundBins, release: Optional[Release], debug: Optional[Layout], guess: Optional[int]
    ) -> Layout:
        """Returns the layout of malloc_state and heap_info: the table's row that fits, or one that is derived."""
        target, memory, trail = self.target, self.memory, self.trail
        row = fitting_layout.fitting_row(memory, target.machine, release, hit, trail)
        if row is not None and fitting_layout.agrees_with_debug(row, debug, trail):
            return fitting_layout.taken(row, trail, fitting_layout.row_name(row))
        return derive_layout(
            memory,
            target.machine,
            release,
            hit,
            around=lambda: surroundings(target, memory, self.regions, main, guess=guess),
            debug=debug,
            row=row,
            trail=trail,
        )

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
        if hit is None and is_untouched(target, memory, symbol.address) is None:
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
        starts = [symbol.address] if symbol and is_untouched(target, memory, symbol.address) else []
        starts += untouched(target, memory, self._libc_data() or libc_file.file_data(regions))
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
        chosen = choose(copies, self.number, self.trail)
        return self._as_linked(chosen, copies, by_symbol=symbol is not None and symbol.address == chosen.main_arena)

    def _as_linked(self, chosen: GlibcCopy, copies: Sequence[GlibcCopy], *, by_symbol: bool) -> Located:
        """Finds an arena that is as the linker left it."""
        target, memory, start = self.target, self.memory, chosen.main_arena
        release = release_table.parse(chosen.libc.version or "")
        layout = is_untouched(target, memory, start)
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
