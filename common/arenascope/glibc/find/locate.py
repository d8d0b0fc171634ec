"""main_arena and mp_: by symbols where they can be believed, by what memory looks like otherwise."""

from __future__ import annotations

from typing import Iterator, NamedTuple, Optional, Sequence

from ...errors import NotFoundError
from ...memory import Memory
from ...model import Allocator
from ...target import Region, Target
from .. import versions
from ..arena import evidence_at
from ..derive.debug_info import compare, from_debug, read_structs
from ..derive.rows import candidates, derive_layout, settle_release
from ..layout import Check, Layout, from_table
from ..scan import PREFIX_LIMIT, Hit, anchors, follow_ring, ring_from, scan, wrong_bins
from . import libc_file
from .allocators import find_allocators
from .copies import Copy, choose, find_copies, is_untouched, notes_on, untouched, with_static_program, without_tcache
from .libc_file import Libc
from .params import find_params, follow_hugepages, surroundings


class Located(NamedTuple):
    """Where the heap's structures are, and how that was learnt."""

    main_arena: int
    params: Optional[int]
    layout: Layout
    located_by: str
    """"symbols" or "scan"."""
    libc: Libc
    notes: tuple[str, ...] = ()
    """What a reader should know: symbols that were not believed, further allocators."""
    copies: tuple[Copy, ...] = ()
    """All glibcs of the process, by number; empty where nobody looked for more than one."""
    own_symbols: bool = False
    """Whether the symbols that the target knows are this very copy's."""
    allocators: tuple[Allocator, ...] = ()
    """What serves malloc in place of glibc, or has a heap beside it."""

    @property
    def others(self) -> tuple[int, ...]:
        """main_arena of further copies of libc in the same process."""
        return tuple(copy.main_arena for copy in self.copies if copy.main_arena != self.main_arena)

    @property
    def version(self) -> Optional[str]:
        return self.libc.version


def locate(target: Target, memory: Memory, number: int = 0) -> Located:
    """Finds glibc's heap (of several glibcs that of this number), or NotFoundError with what is there instead."""
    regions = target.regions()
    notes: list[str] = []
    libcs = with_static_program(target, memory, regions, libc_file.find_libcs(target, memory, regions))
    by_symbol = _by_symbol(target, memory, regions, notes)
    hits = [by_symbol] if by_symbol else []
    if by_symbol is None or len(libcs) > 1:
        # the debugger knows one main_arena; dlmopen and libc_malloc_debug bring further ones
        hits += [hit for hit in _scan_all(memory, libcs, regions) if hit.arena not in {known.arena for known in hits}]
    if not hits:
        hits = _with_broken_ring(target, memory, libcs, regions)
    if not hits:
        return _untouched(target, memory, libcs, regions, notes, number)
    copies = find_copies(target, memory, regions, libcs, hits)
    chosen = choose(copies, number)
    notes += notes_on(copies, number)
    if chosen.hit is None:
        return _as_linked(target, memory, regions, chosen, "scan", notes, copies)
    found, main, libc = chosen.hit, chosen.main_arena, chosen.libc
    guess = _beside(target, memory, regions, by_symbol.ring[0], chosen) if by_symbol is not None else None
    release, structs = versions.parse(libc.version or ""), read_structs(target) if by_symbol is not None else {}
    debug = from_debug(release, memory.pointer_size, target.machine, structs)
    layout = derive_layout(
        memory, target.machine, release, found, lambda: surroundings(target, memory, regions, main, guess), debug
    )
    if chosen.debugs:
        layout = without_tcache(layout)
    params, layout = find_params(target, memory, layout, main, regions, guess, debug.params if debug else None)
    layout = compare(layout, structs, notes)
    if chosen.debugs:
        layout = without_tcache(layout)
    if libc.version is None:
        layout = settle_release(memory, target.machine, layout, (), found.ring)
    layout = follow_hugepages(memory, layout, params, found)
    own = by_symbol is not None and by_symbol.ring[0] == main
    located_by = "symbols" if own or guess is not None else "scan"
    return Located(
        main,
        params,
        layout,
        located_by,
        libc,
        tuple(notes),
        tuple(copies),
        own,
        tuple(find_allocators(target, regions)),
    )


def _beside(target: Target, memory: Memory, regions: Sequence[Region], arena: int, chosen: Copy) -> Optional[int]:
    """Where mp_ should be: by the symbol, or as far from main_arena as in another copy of the same file."""
    params = target.symbol("mp_")
    if params is None:
        return None
    if arena != chosen.main_arena:
        known = libc_file.module_at(target, memory, regions, arena)
        if (known.path, known.build_id) != (chosen.libc.path, chosen.libc.build_id):
            return None
    return params.address + chosen.main_arena - arena


def _by_symbol(target: Target, memory: Memory, regions: Sequence[Region], notes: list[str]) -> Optional[Hit]:
    """The arena that the symbol names, if its file is the one in memory and it looks like an arena."""
    symbol = target.symbol("main_arena")
    if symbol is None:
        return None
    inside = libc_file.build_id_at(memory, regions, symbol.address)
    if inside and symbol.build_id and inside != symbol.build_id:
        notes.append(
            f"the debugger's libc (build-id {symbol.build_id[:12]}…) is not the one in memory "
            f"({inside[:12]}…): its symbols are not used"
        )
        return None
    hit = _hit_at(target, memory, symbol.address)
    if hit is not None and _another_is_whole(memory, hit):
        hit = None
    if hit is None and is_untouched(target, memory, symbol.address) is None:
        notes.append(f"the symbol main_arena ({symbol.address:#x}) does not lead to an arena: not used")
    return hit


def _hit_at(target: Target, memory: Memory, arena: int) -> Optional[Hit]:
    info = target.struct("malloc_state")
    offsets = [info.fields["bins"][0]] if info and "bins" in info.fields else []
    offsets += [from_table(release, memory.pointer_size, target.machine).arena["bins"] for release in candidates(None)]
    known = set(offsets)
    # a release that the table does not know
    offsets += [bins - arena for bins in anchors(memory, arena, arena + PREFIX_LIMIT + 254 * memory.pointer_size)]
    found: list[tuple[bool, int, Hit]] = []
    for offset in dict.fromkeys(offsets):
        wrong = wrong_bins(memory, arena + offset) if 0 < offset < PREFIX_LIMIT else None
        if wrong is None:
            continue
        ring = ring_from(memory, arena, arena + offset)
        # where the ring is damaged the symbol still says where it begins, and the walk will say where it breaks
        if ring or offset in known:
            found.append((not ring, wrong, Hit(arena + offset, ring or (arena,))))
    return min(found, key=lambda entry: entry[:2])[2] if found else None


def _another_is_whole(memory: Memory, hit: Hit) -> bool:
    """Whether an arena whose ring closes overlaps this one: a symbol that is a little off sees most of its bins."""
    if follow_ring(memory, hit.bins)[:1] == hit.ring[:1]:
        return False
    reach = 254 * memory.pointer_size
    return any(other.ring for other in scan(memory, hit.bins - reach, hit.bins + 2 * reach))


def _scan_all(memory: Memory, libcs: Sequence[Libc], regions: Sequence[Region]) -> Iterator[Hit]:
    """Arenas that lie in a file's data: libc's own first, then any file's (a static program)."""
    found = False
    for libc in libcs:
        for region in libc.data:
            for hit in scan(memory, region.start, region.end):
                if hit.ring:
                    found = True
                    yield hit
    if found:
        return
    for region in libc_file.file_data(regions):
        for hit in scan(memory, region.start, region.end):
            if hit.ring:
                yield hit


def _with_broken_ring(target: Target, memory: Memory, libcs: Sequence[Libc], regions: Sequence[Region]) -> list[Hit]:
    """An arena whose `next` leads astray: its bins say where it is, the release how far in front it begins."""
    found: list[tuple[int, Hit]] = []
    for region in [region for libc in libcs for region in libc.data] or libc_file.file_data(regions):
        for hit in scan(memory, region.start, region.end):
            libc = libc_file.module_at(target, memory, regions, hit.bins)
            known = versions.parse(libc.version or "")
            rows = [from_table(release, memory.pointer_size, target.machine) for release in candidates(known)]
            starts = [hit.bins - row.arena["bins"] for row in rows]
            # what is cut off proves nothing, what is there and wrong is damage
            must_link = known is None and target.image.shortage() is not None
            evidence = [evidence_at(memory, row, start, must_link) for row, start in zip(rows, starts)]
            if max(evidence):
                wrong = wrong_bins(memory, hit.bins)
                start = starts[evidence.index(max(evidence))]
                found.append((0 if wrong is None else wrong, Hit(hit.bins, (start,))))
    return [min(found, key=lambda entry: entry[0])[1]] if found else []


def _untouched(
    target: Target, memory: Memory, libcs: Sequence[Libc], regions: Sequence[Region], notes: list[str], number: int
) -> Located:
    """A glibc up to 2.41 whose malloc was never called, or NotFoundError."""
    symbol = target.symbol("main_arena")
    starts = [symbol.address] if symbol and is_untouched(target, memory, symbol.address) else []
    starts += untouched(target, memory, [each for libc in libcs for each in libc.data] or libc_file.file_data(regions))
    if not starts:
        others = find_allocators(target, regions)
        raise NotFoundError(*libc_file.what_is_there(libcs, regions, notes, target.image.shortage(), others))
    copies = [Copy(start, libc_file.module_at(target, memory, regions, start)) for start in dict.fromkeys(starts)]
    chosen = choose(copies, number)
    by_symbol = symbol is not None and symbol.address == chosen.main_arena
    return _as_linked(target, memory, regions, chosen, "symbols" if by_symbol else "scan", notes, copies)


def _as_linked(
    target: Target,
    memory: Memory,
    regions: Sequence[Region],
    chosen: Copy,
    located_by: str,
    notes: Sequence[str],
    copies: Sequence[Copy],
) -> Located:
    start, libc = chosen.main_arena, chosen.libc
    release = versions.parse(libc.version or "")
    layout = is_untouched(target, memory, start)
    assert layout is not None
    if release is not None and from_table(release, layout.word, target.machine).arena == layout.arena:
        layout = from_table(release, layout.word, target.machine)
    beside = target.symbol("mp_") if located_by == "symbols" else None
    params, layout = find_params(target, memory, layout, start, regions, beside.address if beside else None)
    layout = layout._replace(checks=(Check("main_arena as the linker left it: malloc was never called"),))
    return Located(
        start,
        params,
        layout,
        located_by,
        libc,
        tuple(notes),
        tuple(copies),
        allocators=tuple(find_allocators(target, regions)),
    )
