"""Finds the layout that fits this image: the table's row for the release, or whatever row memory agrees with.

Distributions ship backports and new releases come, so a version string only tells which row to try first.
A release that the table does not know may have another form of thread cache: a cache's own chunk tells how large it is,
the sizes of its lists' first blocks tell where `entries` begins, and the lengths of the lists tell where the counts are
and what they count.
"""

from __future__ import annotations

from typing import AbstractSet, Callable, Iterable, Iterator, Mapping, NamedTuple, Optional, Sequence

from ...base.errors import MemoryReadError, NotFoundError
from ...base.heap_model import ArenaHeader, Finding, Heap, Statement
from ...glibc import process_layout, release_table
from ...sources.memory import Memory
from ...sources.target import StructInfo, Target
from ..arena import (
    FoundBins,
    doubt_thread_arena,
    doubt_top,
    has_heap,
    heap_for_ptr,
    is_closed,
    walk_heaps,
    walk_ring,
    wrong_bins,
)
from ..malloc_chunk import masked, reveal
from ..process_layout import NO_TRAIL, CandidateTrail, Layout, LayoutCheck, Struct, TcacheLayout, from_table
from ..release_table import Release
from ..tcache import LIST_LIMIT, chunk_sizes, damaged_bins, read_if_sized, read_tcache, tcache_sizes, walk_tcache
from .state import PAGE, PAGES_BEHIND, Surroundings, derive_state, heap_extents, majority, not_less, unknown_lists

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


MANY_THREADS = 1 << 16
LEAST_HEAP_MAX = 4 * (64 << 10)
"""HEAP_MAX_SIZE with the smallest huge pages."""
DEBUG, RELATIONS = "debug information", "members placed by what holds in every release"


class Fit(NamedTuple):
    """How well a row fits the arenas that were found."""

    agrees: tuple[Statement, ...]
    against: Optional[Statement] = None
    """The first disagreement; None if all agrees."""


def derive_layout(
    memory: Memory,
    machine: str,
    release: Optional[Release],
    hit: FoundBins,
    around: Callable[[], Surroundings],
    debug: Optional[Layout] = None,
    trail: CandidateTrail = NO_TRAIL,
) -> Layout:
    """Returns the layout whose malloc_state and heap_info fit the arenas that were found; NotFoundError if none is
    proven.

    `debug` is the layout in debug information. It outranks the table, and what memory proves outranks it.
    """
    row = None
    if release is None or release <= release_table.NEWEST:
        row = _row_that_fits(memory, machine, release, hit, trail=trail)
        if row is not None and (debug is None or not clashes(row, debug)):
            if debug is not None:
                trail.add("layout", DEBUG, (Statement("places-as-the-row"),))
            return _taken(row, trail, row_name(row))
    if debug is not None:
        sound = believed(memory, debug, hit.ring[0], around().near)
        said = (Statement("kept-by-most-arenas" if sound else "kept-by-too-few-arenas"),)
        trail.add("layout", DEBUG, said if sound else (), () if sound else said)
        if sound:
            layout = debug._replace(checks=(LayoutCheck(Statement("debug-information-gives-state")),))
            return _taken(_with_unknown_lists(memory, layout, hit), trail, DEBUG)
    if row is not None:
        return _taken(row, trail, row_name(row))
    return _by_relations(memory, machine, release, hit, around=around, trail=trail)


def row_name(row: Layout) -> str:
    return f"glibc {release_table.text(row.release)}" + ("" if row.word == 8 else f", aligned to {row.align}")


def _taken(layout: Layout, trail: CandidateTrail, name: str) -> Layout:
    trail.choose("layout", name, Statement("another-is-nearer"))
    return layout


def _row_that_fits(
    memory: Memory, machine: str, release: Optional[Release], hit: FoundBins, trail: CandidateTrail
) -> Optional[Layout]:
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


def _by_relations(
    memory: Memory,
    machine: str,
    release: Optional[Release],
    hit: FoundBins,
    around: Callable[[], Surroundings],
    trail: CandidateTrail,
) -> Layout:
    """Derives a malloc_state that no row describes, or one of a release newer than the table."""
    # not loaded for known releases, which do not need it

    known = release is not None and release <= release_table.NEWEST
    newest = from_table(release or release_table.NEWEST, memory.pointer_size, machine)
    newest = newest._replace(newer=release_table.NEVER if known or release is None else release)
    try:
        layout = derive_state(memory, newest, hit, around())
    except NotFoundError as error:
        trail.add("layout", RELATIONS, (), (Statement("not-proven", text=error.message),))
        row = _row_of(memory, machine, release, hit) if known or release is None else None
        if row is not None:
            return _taken(row, trail, row_name(row))
        what = f"glibc {release_table.text(release)}" if release else "this glibc"
        end = release_table.text(release_table.NEWEST)
        raise NotFoundError(
            f"{what} is not among the releases that arenascope knows ({release_table.text(release_table.OLDEST)} "
            f"to {end}), and memory does not prove its structures: {error.message}",
            "load this very libc's debug symbols, or use a newer arenascope",
        ) from None
    like = next((shape for shape in release_table.shapes() if _same(layout, shape, machine)), None)
    as_in = {"as_in": release_table.text(like)} if like else {}
    checks = (LayoutCheck(Statement("placed-by-relations", names=as_in)),)
    trail.add("layout", RELATIONS, (Statement("state-as-in", names=as_in), Statement("proven-by-arenas")))
    trail.choose("layout", RELATIONS)
    return _with_unknown_lists(memory, layout._replace(release=like or release_table.NEWEST, checks=checks), hit)


def _row_of(memory: Memory, machine: str, release: Optional[Release], hit: FoundBins) -> Optional[Layout]:
    """Chooses a row for a heap too damaged for any row to fit: the one whose bins are where these are; no check is
    claimed."""
    for candidate in candidates(release):
        layout = from_table(candidate, memory.pointer_size, machine)
        if layout.arena["bins"] == hit.bins - hit.ring[0]:
            return layout
    return None


def _same(layout: Layout, shape: Release, machine: str) -> bool:
    row = from_table(shape, layout.word, machine, layout.align)
    both = set(row.arena.offsets) - {"have_fastchunks", "fastbinsY"}
    return {name: layout.arena.get(name) for name in both} == {name: row.arena[name] for name in both}


def _with_unknown_lists(memory: Memory, layout: Layout, hit: FoundBins) -> Layout:
    inside = heap_extents(memory, layout, hit.ring)
    return layout._replace(unknown=(*layout.unknown, *unknown_lists(memory, layout, hit.ring, inside)))


def with_tcache_seen(layout: Layout, sizes: Sequence[int]) -> Layout:
    """Returns the layout with the form of thread cache that these chunk sizes prove: backports change it within a
    release."""
    if layout.tcache is None or not sizes or layout.newer is not None:
        return layout
    for form in process_layout.tcache_forms(layout):
        if all(size in chunk_sizes(form, layout) for size in sizes):
            return layout._replace(tcache=form)
    return layout


def settle_release(
    memory: Memory,
    machine: str,
    layout: Layout,
    caches: Sequence[tuple[int, int]],
    arenas: Sequence[int],
    trail: CandidateTrail = NO_TRAIL,
) -> Layout:
    """Settles an image without a release: the newest row that all evidence agrees with.

    `caches` are the (address, chunk size) of thread caches that were found, `arenas` the addresses of all arenas.
    """
    linked = links_are_safe(memory, [address for address, _ in caches], arenas, layout)
    keyed = True if linked else blocks_bear_keys(memory, [address for address, _ in caches], layout)
    fitting = []
    for release in release_table.shapes():
        row = from_table(release, layout.word, machine, layout.align)
        against: Optional[Statement] = None
        if row.arena != layout.arena:
            against = Statement("another-malloc-state")
        # without a thread's arena nothing shows how large heap_info is
        elif len(arenas) > 1 and row.heap.size != layout.heap.size:
            against = Statement("heap-info-of-another-size", {"bytes": row.heap.size})
        elif caches and not (row.tcache and all(size in chunk_sizes(row.tcache, row) for _, size in caches)):
            against = Statement("caches-of-other-sizes")
        elif linked is not None and row.behaviour.safe_linking != linked:
            against = Statement("links-protected" if linked else "links-not-protected")
        elif keyed is not None and row.behaviour.tcache_key != keyed:
            against = Statement("cached-with-key" if keyed else "cached-without-key")
        else:
            fitting.append(row)
        trail.add("layout", row_name(row), (), [against] if against else ())
    fitting = _with_blocks_in_bins(memory, fitting, [address for address, _ in caches])
    # where mp_ was not found, its form is no more than a guess
    best = next((row for row in fitting if row.params == layout.params), fitting[0] if fitting else layout)
    if best in fitting:
        own = (Statement("mp-as-in-release"),) if best.params == layout.params else ()
        trail.add("layout", row_name(best), (Statement("all-agrees"), *own))
    trail.choose("layout", row_name(best), Statement("another-is-newer"))
    return best._replace(params=layout.params, heap_max=layout.heap_max, checks=layout.checks)


def _with_blocks_in_bins(memory: Memory, rows: list[Layout], caches: Sequence[int]) -> list[Layout]:
    """Chooses among rows whose caches have one size and different forms: those by whose form most lists begin as they
    must."""
    if len({row.tcache for row in rows}) < 2:
        return rows
    shown = [sum(_blocks_in_bins(memory, row, address) for address in caches) for row in rows]
    return [row for row, lists in zip(rows, shown) if lists == max(shown)]


def _blocks_in_bins(memory: Memory, row: Layout, address: int) -> int:
    """Returns how many bins begin with a block of their own size, less those that begin with anything else."""
    cache = read_if_sized(memory, row, row.tcache, address) if row.tcache is not None else None
    shown = 0
    for index, entry in enumerate(cache.entries if cache is not None else ()):
        if entry:
            least, most = tcache_sizes(row, index)
            shown += 1 if least <= masked(memory.try_word(entry - row.word) or 0) <= most else -1
    return shown


def links_are_safe(memory: Memory, caches: Sequence[int], arenas: Sequence[int], layout: Layout) -> Optional[bool]:
    """Tells whether lists end in a protected 0 (safe-linking) or in a plain one; None if no list tells."""
    for entry, to_user in _list_heads(memory, caches, arenas, layout):
        ended = _how_it_ends(memory, layout, entry, to_user)
        if ended is not None:
            return ended
    return None


def _filled_bins(memory: Memory, caches: Sequence[int], layout: Layout) -> Iterator[tuple[int, Sequence[int]]]:
    """Yields (cache, first blocks of its bins), in every form in which nothing there is impossible."""
    for address in caches:
        for form in process_layout.tcache_forms(layout):
            cache = read_if_sized(memory, layout, form, address)
            if cache is not None and not damaged_bins(layout, form, cache):
                yield address, [entry for entry in cache.entries if entry]


def _list_heads(
    memory: Memory, caches: Sequence[int], arenas: Sequence[int], layout: Layout
) -> Iterator[tuple[int, int]]:
    """Yields (first block, what its links lack to be blocks) of every thread-cache bin, then of every fastbin."""
    for _, entries in _filled_bins(memory, caches, layout):
        yield from ((entry, 0) for entry in entries)
    for arena in arenas if layout.fastbins else ():
        heads = memory.words(arena + layout.arena["fastbinsY"], layout.fastbins)
        yield from ((chunk + layout.header, layout.header) for chunk in heads if chunk)


def blocks_bear_keys(memory: Memory, caches: Sequence[int], layout: Layout) -> Optional[bool]:
    """Tells whether blocks in these caches have the cache's address after their link; None if the caches are empty.

    That is so up to 2.33. Since then the key is random, in releases that their links already tell apart.
    """
    told: Optional[bool] = None
    for address, entries in _filled_bins(memory, caches, layout):
        if any(memory.try_word(entry + layout.word) == address for entry in entries):
            return True
        told = False if entries else told
    return told


def _how_it_ends(memory: Memory, layout: Layout, entry: int, to_user: int) -> Optional[bool]:
    """Follows one list by either rule: the wrong one soon leads to something that is no block of the same size."""
    size = memory.try_word(entry - layout.word)
    for safe in (True, False):
        position = entry
        for _ in range(LIST_LIMIT):
            stored = memory.try_word(position)
            if stored is None or memory.try_word(position - layout.word) is None:
                break
            following = reveal(stored, position) if safe else stored
            if not following:
                return safe
            position = following + to_user
            if position & layout.mask or masked(memory.try_word(position - layout.word) or 0) != masked(size or 1):
                break
    return None


def prove(
    memory: Memory,
    layout: Layout,
    headers: Sequence[ArenaHeader],
    heaps: Mapping[int, Sequence[Heap]],
    bases: AbstractSet[int],
) -> list[LayoutCheck]:
    """Returns the checks; `bases` are the words that may be sbrk_base: mp_'s, or all near main_arena."""
    grown = [header for header in headers if has_heap(layout, header)]
    threads = [header for header in grown if not header.main]
    parts = {header.index: heaps.get(header.index, ()) for header in headers}
    checks = [
        LayoutCheck(Statement("ring-closes"), int(is_closed(headers))),
        _each(
            "bins-lead-back",
            [wrong_bins(memory, each.address + layout.arena["bins"]) == 0 for each in headers if each.initialised],
        ),
        _each("no-heap-holds-nothing", [not each.system_mem for each in headers if each not in grown]),
        _each("top-ends-at-page", [not doubt_top(memory, layout, each) for each in grown]),
        _each("heap-info-names-arena", [not doubt_thread_arena(memory, layout, each.address) for each in threads]),
        _each("top-ends-with-heap", [_ends(each, parts[each.index]) for each in threads]),
        _each("system-mem-sums-heaps", [_sum(parts[each.index]) == each.system_mem for each in threads]),
        *_of_main(grown, heaps, bases),
        _each(
            "max-system-mem-in-pages",
            [not_less({0: each.max_system_mem}, {0: each.system_mem}, 1 << 46) for each in grown],
        ),
        _each("flags-not-contiguous", [each.flags in (2, 3, 6, 7) for each in threads]),
    ]
    return [check for check in checks if check.of]


def _of_main(
    grown: Sequence[ArenaHeader], heaps: Mapping[int, Sequence[Heap]], bases: AbstractSet[int]
) -> Iterator[LayoutCheck]:
    main = next((header for header in grown if header.main), None)
    if main is None:
        return
    if main.contiguous:
        yield LayoutCheck(Statement("sbrk-base-is-top-end"), int(bool(main.system_mem) and main.brk_base in bases))
    elif heaps.get(0):
        yield LayoutCheck(Statement("system-mem-sums-regions"), int(_sum(heaps[0]) == main.system_mem))


def _ends(header: ArenaHeader, heaps: Sequence[Heap]) -> bool:
    return bool(heaps) and header.top_bytes is not None and header.top + header.top_bytes == heaps[-1].end


def _sum(heaps: Sequence[Heap]) -> int:
    return sum(heap.bytes for heap in heaps)


def _each(what: str, answers: Sequence[bool]) -> LayoutCheck:
    return LayoutCheck(Statement(what), sum(answers), len(answers))


def believed(memory: Memory, layout: Layout, main_arena: int, bases: AbstractSet[int]) -> bool:
    """Tells whether most arenas pass each of these checks with the layout of debug information, and they prove
    enough."""
    doubts: list[Finding] = []
    headers = walk_ring(memory, layout, main_arena, doubts)
    heaps = {
        header.index: walk_heaps(memory, layout, header, doubts)
        for header in headers
        if not header.main and has_heap(layout, header)
    }
    checks = prove(memory, layout, headers, heaps, bases=bases)
    main_alone = [header for header in headers if has_heap(layout, header)][:1]
    # brk was refused, and no thread's arena shows where system_mem is either
    silent = main_alone and not heaps and not main_alone[0].contiguous
    # a ring that is broken shows when it is walked
    return all(2 * check.times > check.of for check in checks[1:]) and not silent


MIN_BINS, MAX_BINS = 16, 1024
"""The number of bins of a cache: 64 to 2.41, 76 since."""
SAMPLE = 8
"""This many of the fullest caches show the form; the walk checks all others against it."""
LARGEST_STRUCT = 64 << 10
LARGEST_BLOCK = 4 << 20
"""No cache keeps larger ones."""


class TcacheForm(NamedTuple):
    """A form of thread cache, and the evidence for it."""

    layout: Layout
    """The layout with this form, and the rule that assigns a block to its bin."""
    lists: int
    """The number of lists whose blocks are of their bins' sizes and as many as the counts say."""
    slots: Optional[int]
    """For 2.42 and later: the sum of count and free slots in every bin."""

    @property
    def shown(self) -> bool:
        """Whether it is more than a block of zeros."""
        return bool(self.lists) or self.slots is not None


def solve(memory: Memory, layout: Layout, caches: Sequence[int]) -> Optional[TcacheForm]:
    """Returns the form that fits these caches, with protected links or with plain ones; None if none does."""
    for safe in (True, False):
        form = _solve(memory, layout._replace(behaviour=layout.behaviour._replace(safe_linking=safe)), caches)
        if form is not None and (form.lists or safe):
            return form
    return None


def _solve(memory: Memory, layout: Layout, caches: Sequence[int]) -> Optional[TcacheForm]:
    caches = sorted(caches, key=lambda address: -len(heads(memory, layout, address)))[:SAMPLE]
    sizes = {masked(memory.try_word(address - layout.word) or 0) for address in caches}
    if not caches or any(size > LARGEST_STRUCT for size in sizes):
        return None
    entries = [heads(memory, layout, address) for address in caches]
    fitting: list[TcacheForm] = []
    for form in _forms(layout, max(sizes)):
        if not all(size in chunk_sizes(form, layout) for size in sizes):
            continue
        if any(
            offset < form.size and not 0 <= offset - form.entries < form.bins * layout.word
            for offsets in entries
            for offset in offsets
        ):
            continue
        fitted = _fit(memory, layout, form, caches)
        fitting += [fitted] if fitted is not None else []
    return max(fitting, key=lambda form: (form.slots is not None, form.lists), default=None)


def settle(memory: Memory, layout: Layout, caches: Sequence[int]) -> Layout:
    """Returns the layout with the form of these caches, and with links as they are stored there."""
    if layout.tcache is None or not caches:
        return layout
    form = solve(memory, layout, caches)
    return form.layout if form is not None else layout._replace(tcache_proven=False)


def heads(memory: Memory, layout: Layout, address: int) -> list[int]:
    """Returns the places in the cache where a word leads to a block."""
    size = masked(memory.try_word(address - layout.word) or 0)
    if size > LARGEST_STRUCT:
        return []
    words = memory.try_words(address, max(size - layout.word, 0) // layout.word) or ()
    return [index * layout.word for index, value in enumerate(words) if leads_to_block(memory, layout, value)]


def leads_to_block(memory: Memory, layout: Layout, user: int) -> bool:
    """Tells whether a chunk of a possible size is at this address, by its own header."""
    if user & layout.mask or user < 1 << 16:
        return False
    size = masked(memory.try_word(user - layout.word) or 0)
    return layout.min_size <= size <= LARGEST_BLOCK and not size & layout.mask


def _forms(layout: Layout, chunk: int) -> Iterator[TcacheLayout]:
    """Yields all forms whose chunk can have this size: known ones first, then by counts before or after the entries."""
    if layout.tcache is not None:
        yield layout.tcache
    word = layout.word
    for slots in (True, False):
        for width in (2, 1, 4):
            for bins in range(MAX_BINS, MIN_BINS - 1, -1):
                size = bins * (width + word)
                if not chunk - 4 * layout.align - 2 * word <= size <= chunk:
                    continue
                front = -(-bins * width // word) * word
                yield TcacheLayout(
                    bins, width, counts=0, counts_free_slots=slots, entries=front, size=front + bins * word
                )
                whole = -(-size // word) * word
                yield TcacheLayout(bins, width, counts=bins * word, counts_free_slots=slots, entries=0, size=whole)


def _fit(memory: Memory, layout: Layout, form: TcacheLayout, caches: Sequence[int]) -> Optional[TcacheForm]:
    """Returns the form, if every list holds blocks of its bin's size and counts agree with lengths in every cache."""
    rules = (True, False) if form.bins > 64 else (layout.behaviour.tcache_logarithmic,)
    for logarithmic in rules:
        behaviour = layout.behaviour._replace(tcache_logarithmic=logarithmic)
        with_form = layout._replace(tcache=form, behaviour=behaviour)
        totals: set[int] = set()
        lists = 0
        for address in caches:
            measured = _lengths(memory, with_form, address)
            if measured is None:
                break
            counts, lengths = measured
            lists += sum(length > 0 for length in lengths)
            totals.update(
                count + length if form.counts_free_slots else count - length for count, length in zip(counts, lengths)
            )
        else:
            if form.counts_free_slots and len(totals) == 1 and 0 not in totals:
                return TcacheForm(with_form, lists, totals.pop())
            if not form.counts_free_slots and totals == {0}:
                return TcacheForm(with_form, lists, None)
    return None


def _lengths(memory: Memory, layout: Layout, address: int) -> Optional[tuple[Sequence[int], list[int]]]:
    """Returns (counts, lengths of the lists); None if a list cannot be followed."""
    assert layout.tcache is not None
    try:
        cache = read_tcache(memory, layout.tcache, address)
    except (MemoryReadError, KeyError):
        return None
    if any(entry & layout.mask for entry in cache.entries):
        return None
    doubts: list[Finding] = []
    without_counts = layout._replace(tcache=layout.tcache._replace(counts_free_slots=True))
    walked = walk_tcache(memory, without_counts, address, None, findings=doubts)
    if not walked.whole or doubts:
        return None
    lengths = [0] * layout.tcache.bins
    for each in walked.bins:
        lengths[each.index] = each.chunks
    return cache.counts, lengths
