"""The parts that resident memory splits into, and the figures that verdict, causes and advice go by."""

from __future__ import annotations

from bisect import bisect_left
from typing import Callable, Iterable, Mapping, NamedTuple, Optional, Sequence

from ..base.model import HUGE_PAGES, SHARED_MEMORY
from ..sources.target import MappingUse, Region, Span
from .resident import ArenaResident

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
"""The parts in display order; present/screens/report.py has their labels."""
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
        "scraps": sum(each.scraps for each in arenas),
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
