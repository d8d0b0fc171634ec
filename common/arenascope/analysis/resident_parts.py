"""The parts that resident memory splits into, and the figures that verdict, causes and advice go by."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import repeat
from operator import add, le
from typing import Callable, Iterable, Mapping, NamedTuple, Optional, Sequence

from ..base.heap_model import HUGE_PAGES, SHARED_MEMORY, Arena, Range
from ..glibc.malloc_par import MMAP_THRESHOLD
from ..sources.target import MappingUse, Region, Span, covered
from .trim_prediction import ArenaTrim, Chunk


def all_inside(addresses: Sequence[int], sizes: Sequence[int], resident: Sequence[Span]) -> bool:
    """Tells whether each of these chunks lies in resident pages, as in a heap that returned nothing. Works on arrays in
    any order, as there may be a million chunks."""
    starts, ends = [each.start for each in resident], [0, *(each.end for each in resident)]
    limits = map(ends.__getitem__, map(bisect_right, repeat(starts), addresses))
    return all(map(le, map(add, addresses, sizes), limits))


class ArenaResident(NamedTuple):
    """One arena's resident bytes; the parts sum to `total`."""

    arena: int
    total: int
    live: int
    """Blocks in use, with the allocator's own bookkeeping."""
    tcache: int
    returnable: int
    """The bytes that malloc_trim(0) would return: whole free pages, and the end of the main arena's top."""
    top_end: int
    """The end of the main arena's top."""
    top: int
    """The rest of the top."""
    stranded: int
    """Free bytes in pages that blocks in use share."""
    large: int
    """Free chunks of at least mmap's default threshold, which would have kept a block of that size out of the arena."""
    single: int
    """The part of that which indicates one block to a chunk: all of it up to the current threshold. A chunk that is
    slightly larger is such a block, joined with free memory beside it; beyond that, the rest is evidence against it.
    Blocks of a few KiB, freed side by side, leave chunks of twice the threshold and of many MiB."""


def arena_resident(
    arena: Arena, plan: ArenaTrim, cached: Sequence[Range], resident: Sequence[Span], mmap_threshold: int
) -> ArenaResident:
    """Splits one arena. `cached` are its chunks in thread caches, `resident` the resident parts of its heaps, in
    order."""
    header = arena.header
    unused = 0
    free: list[Chunk] = []
    large: list[Chunk] = []
    for each in (*arena.bins, *arena.fastbins):
        if all_inside(each.addresses, each.sizes, resident):
            unused += each.bytes
        else:
            free += zip(each.addresses, each.sizes)
        if each.max_bytes is None or each.max_bytes >= MMAP_THRESHOLD:
            large += (chunk for chunk in zip(each.addresses, each.sizes) if chunk[1] >= MMAP_THRESHOLD)
    large.sort()
    single = [(address, min(size, 2 * mmap_threshold - size)) for address, size in large if size < 2 * mmap_threshold]
    if header.top_bytes:
        free.append((header.top, header.top_bytes))
    free.sort()
    total = sum(each.bytes for each in resident)
    unused += covered(free, resident)
    returnable = covered(plan.ranges, resident)
    top = covered([plan.top] if plan.top else [], resident)
    tcache = covered(sorted(cached), resident)
    return ArenaResident(
        arena=header.index,
        total=total,
        live=total - unused - tcache,
        tcache=tcache,
        returnable=returnable,
        top_end=covered([plan.brk_range] if plan.brk_range else [], resident),
        top=top,
        stranded=unused - returnable - top,
        large=covered(large, resident),
        single=covered(single, resident),
    )


KERNEL = ("[vdso]", "[vvar]", "[vvar_vclock]", "[vsyscall]")

PARTS = (
    "live",
    "mmapped",
    "tcache",
    "returnable",
    "thread_tops",
    "main_top",
    "scraps",
    "unread",
    "stacks",
    "files",
    "shared",
    "other",
    "kernel",
)
"""The parts in display order; present/screens/report_lines.py has their labels. In JSON what is stranded is called
scraps."""
RESIDENT, ANONYMOUS, SPACE = "resident", "anonymous", "address-space"
"""What the parts measure: all resident memory; resident anonymous memory (a core with holes in place of absent pages);
or mapped anonymous memory, resident or not (a core without holes)."""


class Extent(NamedTuple):
    """A heap, or a block with a mapping of its own."""

    start: int
    end: int
    resident: int
    arena: Optional[int] = None
    """None for an mmapped block."""
    first: bool = True
    """False if the block lies in several mappings, and began in an earlier one."""


FREE = ("tcache", "returnable", "thread_tops", "main_top", "scraps")
LIVE = ("live", "mmapped")
OF_ARENAS = ("live", *FREE)
"""The parts that come from arenas: a lower bound if an arena was not read."""


class NonMallocMapping(NamedTuple):
    """A mapping, or part of one, that is not malloc's: for the list of the largest."""

    region: Region
    """The mapping. If it is shared with others, the largest piece that belongs to none of them."""
    bytes: int
    """The bytes in it that are not malloc's."""
    name: str
    """Its path, ".bss of PROGRAM", or ""."""
    maker: str = ""
    """The allocator that owns it, if known."""


class ResidentPicture(NamedTuple):
    """Resident memory at one moment."""

    parts: dict[str, int]
    """Bytes by name in PARTS; they sum to `rss` if that is known."""
    measure: str
    rss: Optional[int]
    """None for a core: the pages of files are not known there."""
    swapped: Optional[int]
    huge: Optional[int]
    """Bytes in malloc's mappings that transparent huge pages back."""
    arenas: Sequence[ArenaResident]
    others: Sequence[NonMallocMapping]
    """The largest mappings in `other`, the largest first."""
    apart: int = 0
    """The part of `rss` in huge pages of hugetlbfs, which the kernel counts outside RSS."""
    made: Mapping[str, int] = {}
    """Bytes in mappings that are known to be an allocator's, by allocator."""
    shared_made: int = 0
    """The part of that which is shared memory."""

    @property
    def whole(self) -> bool:
        """Whether all arenas were read: otherwise live and free bytes are lower bounds."""
        return not self.parts.get("unread")

    @property
    def free(self) -> int:
        return sum(self.parts.get(name, 0) for name in FREE)

    @property
    def live(self) -> int:
        return sum(self.parts.get(name, 0) for name in LIVE)

    @property
    def elsewhere(self) -> int:
        """All memory that is, or may be, the heap of another allocator."""
        return self.parts.get("other", 0) + self.shared_made

    @property
    def known(self) -> int:
        return sum(self.parts.values())


def picture(
    arenas: Sequence[ArenaResident],
    unread: int,
    mmapped: int,
    uses: Sequence[MappingUse],
    extents: Sequence[Extent],
    stacks: Iterable[int],
    space: bool = False,
    maker_of: Callable[[Region], str] = lambda region: "",
    bss: Mapping[int, int] = {},
) -> ResidentPicture:
    """Splits resident memory. `extents` are all that malloc has, `stacks` the threads' stack pointers; `space`:
    resident or not; `maker_of` names the allocator that owns a mapping; `bss`: its start and end in memory."""
    parts = {
        "live": sum(each.live for each in arenas),
        "mmapped": mmapped,
        "tcache": sum(each.tcache for each in arenas),
        "returnable": sum(each.returnable for each in arenas),
        "thread_tops": sum(each.top for each in arenas if each.arena),
        "main_top": sum(each.top for each in arenas if not each.arena),
        "scraps": sum(each.stranded for each in arenas),
        "unread": unread,
        **dict.fromkeys(("stacks", "files", "shared", "other", "kernel"), 0),
    }
    ordered = sorted(extents)
    starts = [each.start for each in ordered]
    within = {use.region.start: extents_in(use.region, starts, ordered) for use in uses}
    malloc = [use for use in uses if within[use.region.start]]
    parts["other"] = sum(use.rss or 0 for use in malloc) - sum(parts.values())
    pointers = sorted(stacks)
    others = []
    made: dict[str, int] = {}
    shared_made = 0
    for before, use in zip([None, *uses], uses):
        beside = within[use.region.start]
        # the kernel merges neighbouring mappings, whoever asked for them
        ends = [bss[use.region.start]] if use.region.start in bss else []
        variables = [Span(use.region.start, end) for end in ends if end < use.region.end]
        gap = largest_gap(use.region, [*variables, *(Span(each.start, each.end) for each in beside)])
        if beside:
            rest = (use.rss or 0) - sum(each.resident for each in beside)
            others += [NonMallocMapping(gap, rest, use.region.path)] if rest > 0 else []
            continue
        kind = part_of(use.region, pointers)
        parts[kind] += use.rss or 0
        maker = maker_of(use.region) if use.rss and kind in ("other", "shared") else ""
        if maker:
            made[maker] = made.get(maker, 0) + (use.rss or 0)
            shared_made += (use.rss or 0) if kind == "shared" else 0
        if use.rss and (maker or kind == "other"):
            name = use.region.path or ("" if variables else bss_name(before, use, bss))
            others.append(NonMallocMapping(gap, use.rss, name, maker))
    others.sort(key=lambda owner: -owner.bytes)
    whole = all(use.rss is not None for use in uses)
    return ResidentPicture(
        # a part that was not read is unknown, even if it is 0
        parts={name: size for name, size in parts.items() if size or name in (LIVE[1:] if unread else LIVE)},
        measure=SPACE if space else RESIDENT if whole else ANONYMOUS,
        rss=sum(use.rss or 0 for use in uses) if whole and not space else None,
        swapped=sum(use.swapped or 0 for use in uses) if all(use.swapped is not None for use in uses) else None,
        huge=sum(use.huge or 0 for use in malloc) if all(use.huge is not None for use in malloc) else None,
        arenas=arenas,
        others=others[:8],
        apart=sum(use.rss or 0 for use in uses if use.region.path == HUGE_PAGES),
        made=made,
        shared_made=shared_made,
    )


def extents_in(region: Region, starts: Sequence[int], extents: Sequence[Extent]) -> Sequence[Extent]:
    """Returns the extents (ordered, not overlapping) that lie at least partly in the mapping."""
    last = first = bisect_left(starts, region.end)
    while first and extents[first - 1].end > region.start:
        first -= 1
    return extents[first:last]


def bss_name(before: Optional[MappingUse], use: MappingUse, bss: Mapping[int, int]) -> str:
    """Names a mapping that begins as zeroed variables, which the loader puts right after a file's data."""
    end = bss.get(use.region.start)
    if before is None or end is None:
        return ""
    return f".bss of {before.region.path.rpartition('/')[2]}{' and more' if end < use.region.end else ''}"


def largest_gap(region: Region, taken: Sequence[Span]) -> Region:
    """Returns the largest piece of the mapping that none of these (in order) covers."""
    starts = [region.start, *(max(region.start, each.end) for each in taken)]
    ends = [*(min(each.start, region.end) for each in taken), region.end]
    start, end = max(zip(starts, ends), key=lambda gap: gap[1] - gap[0])
    return region._replace(start=start, end=end)


def part_of(region: Region, pointers: Sequence[int]) -> str:
    path = region.path
    if path.startswith(SHARED_MEMORY) or (region.shared and not region.is_file):
        return "shared"
    if region.is_file:
        return "files"
    if path in KERNEL:
        return "kernel"
    if path.startswith("[stack") or _holds_one(region, pointers):
        return "stacks"
    return "other"


def _holds_one(region: Region, pointers: Sequence[int]) -> bool:
    """Tells whether the mapping contains one of these, which are in order."""
    first = bisect_left(pointers, region.start)
    return first < len(pointers) and pointers[first] < region.end


MALLOC = "malloc"
USES = (MALLOC, "stacks", "files", "shared", "other", "kernel")
"""The kinds of memory in a mapping: malloc's, and the other parts of a report."""


class Mapped(NamedTuple):
    """One mapping."""

    use: MappingUse
    part: str
    """One of USES; memory in a mapping of MALLOC that is not malloc's is "other"."""
    arenas: Sequence[int]
    """Arenas with a heap in it, or just before it if it is their `reserve`."""
    blocks: int
    """The number of mmapped blocks that begin in it; the kernel merges neighbours into one mapping."""
    malloc_bytes: Optional[int]
    """The resident bytes of malloc's; None if not known."""
    tid: Optional[int]
    """The thread whose stack it holds."""
    reserve: bool
    """Address space after a heap into which it can grow."""
    name: str

    @property
    def resident(self) -> Optional[int]:
        return self.use.rss

    @property
    def other_bytes(self) -> Optional[int]:
        """The resident bytes that are not malloc's."""
        return None if self.resident is None or self.malloc_bytes is None else self.resident - self.malloc_bytes


def mapped(
    uses: Sequence[MappingUse],
    extents: Sequence[Extent],
    stacks: Mapping[int, int],
    *,
    known: bool,
    bss: Mapping[int, int],
) -> list[Mapped]:
    """Describes each mapping. `stacks` are threads by their stack pointers; `known`: the extents tell how much of them
    is resident; `bss`: its start and end in memory."""
    ordered = sorted(extents)
    starts = [each.start for each in ordered]
    pointers = sorted(stacks)
    rows: list[Mapped] = []
    for before, use in zip([None, *uses], uses):
        region = use.region
        inside = extents_in(region, starts, ordered)
        arenas = sorted({each.arena for each in inside if each.arena is not None})
        part = MALLOC if inside else part_of(region, pointers)
        previous = rows[-1] if rows else None
        reserve = (
            part == "other"
            and not (region.readable or region.writable)
            and previous is not None
            and bool(previous.arenas)
            and previous.use.region.end == region.start
        )
        resident = sum(each.resident for each in inside) if known and use.rss is not None else None
        rows.append(
            Mapped(
                use,
                part,
                arenas=previous.arenas if reserve and previous else arenas,
                blocks=sum(1 for each in inside if each.arena is None and each.first),
                malloc_bytes=resident if inside else 0 if use.rss is not None else None,
                tid=next((stacks[each] for each in pointers if region.contains(each)), None)
                if part == "stacks"
                else None,
                reserve=reserve,
                name=region.path or bss_name(before, use, bss),
            )
        )
    return rows


def part_sums(rows: Sequence[Mapped]) -> dict[str, Optional[int]]:
    """Sums resident bytes by part, as a report has them; None if one mapping is not known."""
    sums: dict[str, Optional[int]] = dict.fromkeys(USES, 0)

    def add(part: str, size: Optional[int]) -> None:
        before = sums[part]
        sums[part] = None if before is None or size is None else before + size

    for row in rows:
        if row.part == MALLOC:
            add(MALLOC, row.malloc_bytes)
            add("other", row.other_bytes)
        else:
            add(row.part, row.resident)
    return sums
