"""main_arena and mp_: by symbols where they can be believed, by what memory looks like otherwise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Iterator, Optional, Sequence

from ..errors import MemoryReadError, NotFoundError
from ..memory import Memory
from ..target import Region, Target
from . import libc_file, versions
from .arena import read_arena
from .derive import candidates, derive_layout, settle_release, with_debug_information
from .find_params import find_params, follow_hugepages
from .layout import Layout, from_table
from .libc_file import Libc
from .scan import PREFIX_LIMIT, Hit, anchors, follow_ring, scan, wrong_bins

STRUCTS = ("malloc_state", "_heap_info", "malloc_par")


@dataclass(frozen=True)
class Located:
    """Where the heap's structures are, and how that was learnt."""

    main_arena: int
    params: Optional[int]
    layout: Layout
    located_by: str
    """"symbols" or "scan"."""
    libc: Libc
    notes: tuple[str, ...] = ()
    """What a reader should know: symbols that were not believed, further allocators."""
    others: tuple[int, ...] = ()
    """main_arena of further copies of libc in the same process."""

    @property
    def version(self) -> Optional[str]:
        return self.libc.version


def locate(target: Target, memory: Memory) -> Located:
    """Finds glibc's heap, or NotFoundError with what is there instead."""
    regions = target.regions()
    notes: list[str] = []
    libcs = libc_file.find_libcs(target, memory, regions)
    by_symbol = _by_symbol(target, memory, regions, notes)
    hits = [by_symbol] if by_symbol else []
    if by_symbol is None or len(libcs) > 1:
        # the debugger knows one main_arena; dlmopen and libc_malloc_debug bring further ones
        hits += [hit for hit in _scan_all(memory, libcs, regions) if hit.arena not in {known.arena for known in hits}]
    if not hits:
        hits = _with_broken_ring(target, memory, libcs, regions)
    if not hits:
        return _untouched(target, memory, libcs, regions, notes)
    found = max(hits, key=lambda hit: _weight(memory, hit))
    main = found.ring[0]
    libc = libc_file.module_at(target, memory, regions, main)
    layout = derive_layout(memory, target.machine, versions.parse(libc.version or ""), found)
    beside = None
    if by_symbol is not None:
        layout = _check_debug_information(target, layout, notes)
        beside = target.symbol("mp_")
    # copies of one libc hold both at the same distance
    guess = beside.address + main - by_symbol.ring[0] if beside and by_symbol else None
    params, layout = find_params(target, memory, layout, main, regions, guess)
    if libc.version is None:
        layout = settle_release(memory, target.machine, layout, (), found.ring)
    layout = follow_hugepages(memory, layout, params, found)
    others = tuple(hit.ring[0] for hit in hits if hit.ring[0] not in found.ring)
    if others:
        notes.append(
            f"{len(others)} more libc with a heap of its own in this process: main_arena at "
            + ", ".join(f"{address:#x}" for address in others)
        )
    located_by = "symbols" if by_symbol is not None else "scan"
    return Located(main, params, layout, located_by, libc, tuple(notes), others)


def _by_symbol(target: Target, memory: Memory, regions: Sequence[Region], notes: list[str]) -> Optional[Hit]:
    """The arena that the symbol names, if its file is the one in memory and it looks like an arena."""
    symbol = target.symbol("main_arena")
    if symbol is None:
        return None
    inside = libc_file.build_id_at(memory, regions, symbol.address)
    if inside and symbol.build_id and inside != symbol.build_id:
        notes.append(f"the debugger's libc (build-id {symbol.build_id[:12]}…) is not the one in memory "
                     f"({inside[:12]}…): its symbols are not used")  # fmt: skip
        return None
    hit = _hit_at(target, memory, symbol.address)
    if hit is not None and _another_is_whole(memory, hit):
        hit = None
    if hit is None and _is_untouched(target, memory, symbol.address) is None:
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
        ring = follow_ring(memory, arena + offset)
        closed = bool(ring) and ring[0] == arena
        # where the ring is damaged the symbol still says where it begins, and the walk will say where it breaks
        if closed or offset in known:
            found.append((not closed, wrong, Hit(arena + offset, ring if closed else (arena,))))
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
            for release in candidates(versions.parse(libc.version or "")):
                start = hit.bins - from_table(release, memory.pointer_size, target.machine).arena["bins"]
                mutex, flags = memory.try_word(start), memory.try_word(start + 4)
                if mutex is not None and flags is not None and mutex & 0xFFFFFFFF <= 2 and flags & 0xFFFFFFFF <= 7:
                    wrong = wrong_bins(memory, hit.bins)
                    found.append((0 if wrong is None else wrong, Hit(hit.bins, (start,))))
                    break
    return [min(found, key=lambda entry: entry[0])[1]] if found else []


def _weight(memory: Memory, hit: Hit) -> tuple[bool, int]:
    """Of several libcs' main arenas the program's own is the one that grows by brk, else the largest."""
    word = memory.pointer_size
    flags = memory.u32(hit.ring[0] + 4)
    try:
        system, most = memory.words(hit.bins + 254 * word + 16 + 3 * word, 2)
    except MemoryReadError:
        system = most = 0
    return not flags & 2, min(system, most)


def _check_debug_information(target: Target, layout: Layout, notes: list[str]) -> Layout:
    structs = {name: target.struct(name) for name in STRUCTS}
    structs["_heap_info"] = structs["_heap_info"] or target.struct("heap_info")
    layout, wrong = with_debug_information(layout, structs)
    if wrong:
        notes.append("memory and debug information disagree, memory is believed: " + "; ".join(wrong[:3]))
    return layout


def _is_untouched(target: Target, memory: Memory, arena: int) -> Optional[Layout]:
    """The layout whose malloc_state stands here as the linker left it: all zero but `next`, which is itself."""
    for release in candidates(None):
        layout = from_table(release, memory.pointer_size, target.machine)
        try:
            header = read_arena(memory, layout, arena, 0, True)
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


def _untouched(target: Target, memory: Memory, libcs: Sequence[Libc], regions: Sequence[Region],
               notes: list[str]) -> Located:  # fmt: skip
    """A glibc up to 2.41 whose malloc was never called, or NotFoundError."""
    symbol = target.symbol("main_arena")
    starts = [symbol.address] if symbol else []
    for region in [region for libc in libcs for region in libc.data] or libc_file.file_data(regions):
        starts += _self_links(memory, target.machine, region)
    for start in starts:
        layout = _is_untouched(target, memory, start)
        if layout is None:
            continue
        libc = libc_file.module_at(target, memory, regions, start)
        release = versions.parse(libc.version or "")
        if release is not None and from_table(release, layout.word, target.machine).arena == layout.arena:
            layout = from_table(release, layout.word, target.machine)
        beside = target.symbol("mp_") if symbol is not None else None
        params, layout = find_params(target, memory, layout, start, regions, beside.address if beside else None)
        layout = replace(layout, checks=("main_arena as the linker left it: malloc was never called",))
        return Located(
            start, params, layout, "symbols" if start == starts[0] and symbol else "scan", libc, tuple(notes)
        )
    raise NotFoundError(*libc_file.what_is_there(libcs, regions, notes, target.shortage()))


def _self_links(memory: Memory, machine: str, region: Region) -> Iterator[int]:
    word = memory.pointer_size
    distances = {from_table(release, word, machine).arena["next"] for release in candidates(None)}
    try:
        values = memory.words(region.start, region.size // word)
    except MemoryReadError:
        return
    for index, value in enumerate(values):
        if value and region.start + index * word - value in distances:
            yield value
