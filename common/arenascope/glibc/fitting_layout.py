"""Finds the layout that fits this image: the table's row for the release, or another row that memory agrees with, and
what debug information says of it. unknown_release/ goes on where no row fits.

Distributions ship backports and new releases come, so a version string only tells which row to try first.
"""

from __future__ import annotations

from typing import Callable, Iterable, Mapping, NamedTuple, Optional, Sequence

from ..base.errors import MemoryReadError
from ..base.heap_model import Statement
from ..sources.memory import Memory
from ..sources.target import StructInfo, Target
from . import process_layout, release_table
from .arena import FoundBins, doubt_thread_arena, heap_for_ptr
from .process_layout import CandidateTrail, Layout, LayoutCheck, Struct, TcacheLayout, from_table
from .release_table import Release
from .tcache import chunk_sizes

STRUCTS = ("malloc_state", "_heap_info", "malloc_par", "tcache_perthread_struct")
RENAMED = {"tcache_small_bins": "tcache_bins"}
"""2.42's new name for a member at the same offset."""
KNOWN = {
    name: {field.name for field in fields}
    for name, fields in (
        ("malloc_state", release_table.MALLOC_STATE),
        ("_heap_info", release_table.HEAP_INFO),
        ("malloc_par", release_table.MALLOC_PAR),
    )
}
NEEDED = {
    "malloc_state": {"mutex", "flags", "top", "bins", "next", "system_mem", "max_system_mem"},
    "_heap_info": {"ar_ptr", "prev", "size", "mprotect_size"},
    "malloc_par": {
        "n_mmaps",
        "max_n_mmaps",
        "n_mmaps_max",
        "mmapped_mem",
        "max_mmapped_mem",
        "no_dyn_threshold",
        "sbrk_base",
        "arena_test",
        "mmap_threshold",
        "trim_threshold",
        "top_pad",
    },
}


def read_structs(target: Target) -> dict[str, StructInfo]:
    """Reads the structs that the debugger knows; {} without debug information."""
    structs = {name: target.struct(name) for name in STRUCTS}
    structs["_heap_info"] = structs["_heap_info"] or target.struct("heap_info")
    return {name: info for name, info in structs.items() if info is not None}


def from_debug(
    release: Optional[Release], word: int, machine: str, structs: Mapping[str, StructInfo]
) -> Optional[Layout]:
    """Places members by debug information; None if it lacks one that the walkers need."""
    layout = from_table(release or release_table.NEWEST, word, machine)
    if release is not None and release > release_table.NEWEST:
        layout = layout._replace(newer=release)
    built = {}
    for name, needed in NEEDED.items():
        info = structs.get(name)
        if info is None:
            if name == "malloc_par":
                continue
            return None
        fields = {RENAMED.get(member, member): place.offset for member, place in info.fields.items()}
        if not needed <= set(fields):
            return None
        built[name] = Struct({key: fields[key] for key in fields if key in KNOWN[name]}, info.size)
    fast = structs["malloc_state"].fields.get("fastbinsY")
    return layout._replace(
        arena=built["malloc_state"],
        heap=built["_heap_info"],
        params=built.get("malloc_par", layout.params),
        tcache=_tcache(structs.get("tcache_perthread_struct"), layout),
        fastbins=fast.size // layout.word if fast else 0,
    )


def _tcache(info: Optional[StructInfo], layout: Layout) -> Optional[TcacheLayout]:
    """Returns the layout's own form if debug information has none, or unknown members."""
    if info is None or "entries" not in info.fields:
        return layout.tcache
    name = "num_slots" if "num_slots" in info.fields else "counts"
    if name not in info.fields:
        return layout.tcache
    counts, entries = info.fields[name], info.fields["entries"]
    bins = entries.size // layout.word
    return TcacheLayout(
        bins,
        counts.size // bins,
        counts=counts.offset,
        counts_free_slots=name == "num_slots",
        entries=entries.offset,
        size=info.size,
    )


def clashes(layout: Layout, debug: Layout) -> bool:
    """Tells whether the two place a member of malloc_state or heap_info differently."""
    return any(
        ours.offsets.get(name) != offset
        for ours, theirs in ((layout.arena, debug.arena), (layout.heap, debug.heap))
        for name, offset in theirs.offsets.items()
    )


def agrees_with_debug(row: Layout, debug: Optional[Layout], trail: CandidateTrail) -> bool:
    """Tells whether debug information, if there is any, places all members as the row does."""
    if debug is None:
        return True
    if clashes(row, debug):
        return False
    trail.add("layout", DEBUG, (Statement("places-as-the-row"),))
    return True


def compare(layout: Layout, structs: Mapping[str, StructInfo], notes: list[str]) -> Layout:
    """Returns the layout with a check if debug information agrees; with a note if it does not."""
    agreed, wrong = [], []
    for name, struct in (("malloc_state", layout.arena), ("_heap_info", layout.heap), ("malloc_par", layout.params)):
        if name in structs:
            differences = process_layout.disagreements(struct, structs[name])
            wrong += differences
            agreed += [] if differences else [name.lstrip("_")]
    if wrong:
        notes.append("memory and debug information disagree, memory is believed: " + "; ".join(wrong[:3]))
    if agreed:
        agrees = Statement("debug-information-agrees", names={"on": ", ".join(agreed)})
        layout = layout._replace(checks=(*layout.checks, LayoutCheck(agrees)))
    return layout


PAGE = 4096
"""Every page size is a multiple of this; an arena grows and shrinks by pages."""
PAGES_BEHIND = 4 << 20
"""A few transparent huge pages."""
MANY_THREADS = 1 << 16
LEAST_HEAP_MAX = 4 * (64 << 10)
"""HEAP_MAX_SIZE with the smallest huge pages."""
DEBUG = "debug information"


class Fit(NamedTuple):
    """How well a row fits the arenas that were found."""

    agrees: tuple[Statement, ...]
    against: Optional[Statement] = None
    """The first disagreement; None if all agrees."""


def majority(votes: Iterable[Optional[bool]]) -> bool:
    """Tells whether more say yes than no, and at least one does; None abstains."""
    cast = [vote for vote in votes if vote is not None]
    return bool(cast) and 2 * sum(cast) > len(cast)


def row_name(row: Layout) -> str:
    return f"glibc {release_table.text(row.release)}" + ("" if row.word == 8 else f", aligned to {row.align}")


def taken(layout: Layout, trail: CandidateTrail, name: str) -> Layout:
    trail.choose("layout", name, Statement("another-is-nearer"))
    return layout


def fitting_row(
    memory: Memory, machine: str, release: Optional[Release], hit: FoundBins, trail: CandidateTrail
) -> Optional[Layout]:
    """Returns the first of the table's rows whose malloc_state and heap_info fit the arenas that were found; None if
    none does, or the release is newer than the table."""
    if release is not None and release > release_table.NEWEST:
        return None
    first: Optional[Layout] = None
    for align in _alignments(memory, machine):
        for candidate in candidates(release):
            layout = from_table(candidate, memory.pointer_size, machine, align(candidate))
            layout = with_small_heaps(memory, layout, hit)
            fitting = fit(memory, layout, hit)
            if first is None and not fitting.against:
                first = layout._replace(checks=tuple(map(LayoutCheck, fitting.agrees)))
            trail.add("layout", row_name(layout), fitting.agrees, [fitting.against] if fitting.against else ())
            if first is not None and not trail.wanted:
                return first
    return first


def _alignments(memory: Memory, machine: str) -> Iterable[Callable[[Release], int]]:
    """Yields the machine's own MALLOC_ALIGNMENT for all releases first, then the other: both can fit one
    malloc_state."""
    word = memory.pointer_size
    yield lambda release: release_table.alignment(word, machine, release)
    if word == 4:
        yield lambda release: 24 - release_table.alignment(word, machine, release)


def candidates(release: Optional[Release]) -> list[Release]:
    """Yields the rows to try: the release itself, then the others by their distance from it."""
    shapes = list(release_table.shapes())
    if release is None:
        return shapes
    rank = {shape: index for index, shape in enumerate(shapes)}
    own = next((shape for shape in shapes if shape <= release), shapes[-1])
    return [release, *sorted(shapes, key=lambda shape: abs(rank[shape] - rank[own]))]


def with_small_heaps(memory: Memory, layout: Layout, hit: FoundBins) -> Layout:
    """Handles 2.35 to 2.41: returns the row with heaps of 4 huge pages if no arena lies right behind the start of a
    larger one.

    mp_ tells how large they are (follow_hugepages), and is not found before the row. Larger ones begin where the usual
    ones may, too.
    """
    if not layout.behaviour.heap_max_follows_hugepages or len(hit.ring) < 2:
        return layout
    usual = layout.heap_max
    for heap_max in [usual, *(usual >> bits for bits in range(1, 9))]:
        row = layout._replace(heap_max=heap_max)
        if heap_max >= LEAST_HEAP_MAX and majority(not doubt_thread_arena(memory, row, each) for each in hit.ring[1:]):
            return row
    return layout


def fit(memory: Memory, layout: Layout, hit: FoundBins) -> Fit:
    """Returns what agrees between this layout and the arenas, and the first disagreement."""
    arena = hit.ring[0]
    if hit.bins - arena != layout.arena["bins"]:
        return Fit((), Statement("bins-elsewhere", {"offset": layout.arena["bins"], "seen_at": hit.bins - arena}))
    checks = [Statement("bins-at", {"offset": layout.arena["bins"]})]
    heap_info = {"bytes": layout.heap.size}
    # the majority must agree: one arena may be damaged, and this is still its row
    others = [address - heap_for_ptr(layout, address) for address in hit.ring[1:]]
    if others:
        if not majority(size == layout.heap.size for size in others):
            return Fit(tuple(checks), Statement("heap-info-of-another-size", heap_info))
        checks.append(Statement("heap-info-before-arenas", heap_info))
    attached = "attached_threads" in layout.arena
    if not majority(has_attached_threads(memory, hit.bins - arena + each) == attached for each in hit.ring):
        return Fit(tuple(checks), Statement("no-attached-threads" if attached else "attached-threads"))
    if not majority(_top_fits(memory, layout, each) for each in hit.ring):
        return Fit(tuple(checks), Statement("tops-not-aligned", {"alignment": layout.align}))
    return Fit((*checks, Statement("counters-in-order"), Statement("tops-aligned")))


def has_attached_threads(memory: Memory, bins: int) -> bool:
    """Tells whether a small count stands between next_free and system_mem (2.23, and 2.22's branch)."""
    word = memory.pointer_size
    try:
        first, second, third = memory.words(bins + 254 * word + 16 + 2 * word, 3)
    except MemoryReadError:
        return True
    # systrim may grow the heap by a page and leaves max_system_mem behind: where top is MINSIZE, since 2.19
    lag = second - third
    return first < MANY_THREADS and (lag <= 0 or (third >= PAGE and lag % PAGE == 0 and lag <= PAGES_BEHIND))


def _top_fits(memory: Memory, layout: Layout, arena: int) -> bool:
    try:
        top = memory.word(arena + layout.arena["top"])
        if top == arena + layout.arena["bins"] - layout.header or not top:
            return True
        return layout.aligned(top)
    except MemoryReadError:
        return False


def with_tcache_seen(layout: Layout, sizes: Sequence[int]) -> Layout:
    """Returns the layout with the form of thread cache that these chunk sizes prove: backports change it within a
    release."""
    if layout.tcache is None or not sizes or layout.newer is not None:
        return layout
    for form in process_layout.tcache_forms(layout):
        if all(size in chunk_sizes(form, layout) for size in sizes):
            return layout._replace(tcache=form)
    return layout
