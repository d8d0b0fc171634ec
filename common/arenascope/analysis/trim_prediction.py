"""Simulates malloc_trim(0), arena by arena: mtrim over all bins, then systrim on the main arena's top.

plan_trim, for one arena:

1. consolidate: fast chunks join free neighbours, and top, as malloc_consolidate does it.
2. _madvise_ranges (advised): mtrim gives back the whole pages of each free chunk, but for its first fields.
3. systrim: the break of the main arena moves back over its top. Other arenas' tops stay: `tops` are their whole pages.

What then shows in RSS session/trims.py counts; locked mappings stop madvise (until_locked). reasons: what stays, and
why.

No heap is swept: it needs only the chunks that are listed in bins and fastbins, and top. Where this glibc has fastbins,
malloc_consolidate runs first; its outcome does not depend on the order, so neighbours are simply joined.
"""

from __future__ import annotations

from typing import Iterable, Iterator, NamedTuple, Optional, Sequence

from ..base.heap_model import Arena, Range, Statement
from ..glibc.process_layout import Layout
from ..sources.target import Span
from .arena_usage import total

Chunk = tuple[int, int]
"""(address, bytes) of a free chunk, or a Range. There may be millions, and a record takes ten times as long to make."""


class TrimRules(NamedTuple):
    """The rules that the outcome depends on besides the lists."""

    layout: Layout
    page: int
    brk: Optional[int]
    """__curbrk; None if it could not be read."""
    thp_pagesize: int = 0
    """The unit in which systrim releases, if the hugetlb tunable set it."""


class ArenaTrim(NamedTuple):
    """The result for one arena: what goes, and what stays."""

    arena: int
    address: int
    madvise: Optional[Sequence[Range]]
    """In address order; mtrim itself goes bin by bin. None if not every list could be read."""
    brk_bytes: Optional[int]
    """How far the break moves back; negative if systrim's unsigned comparison grows the heap instead. None: unknown."""
    brk_range: Optional[Range]
    top: Optional[Range]
    """top as it is afterwards; None if it could not be read."""
    stranded_bytes: Optional[int]
    """Free bytes that share a page with something else: chunk headers, and what is smaller than a page."""
    tcache_bytes: Optional[int]
    tops: Optional[Range]
    """The whole pages inside the top of a thread's arena, which malloc_trim never touches."""
    tops_bytes: Optional[int]
    complete: bool

    @property
    def madvise_bytes(self) -> Optional[int]:
        return None if self.madvise is None else sum(each.bytes for each in self.madvise)

    @property
    def release_bytes(self) -> Optional[int]:
        if self.madvise_bytes is None or self.brk_bytes is None:
            return None
        return self.madvise_bytes + max(self.brk_bytes, 0)

    @property
    def ranges(self) -> list[Range]:
        """The ranges that go back, in address order."""
        return sorted([*(self.madvise or ()), *([self.brk_range] if self.brk_range else [])])

    @property
    def kept_bytes(self) -> Optional[int]:
        if self.tcache_bytes is None or self.top is None or self.stranded_bytes is None:
            return None
        return self.top.bytes + self.stranded_bytes + self.tcache_bytes


class Residents(NamedTuple):
    """The resident bytes of a plan's ranges; None if that cannot be known."""

    returned: Optional[int]
    """By how much RSS would fall."""
    top: Optional[int]
    tops: Optional[int]


class Trim(NamedTuple):
    """A plan, and how much of it would show in RSS."""

    plan: ArenaTrim
    resident: Residents
    at_least: Optional[Residents] = None
    """A lower bound, if the image cannot tell more (a dense core)."""


def plan_trim(arena: Arena, tcache_bytes: Optional[int], rules: TrimRules) -> ArenaTrim:
    """Plans malloc_trim(0) for one arena."""
    header, page = arena.header, rules.page
    fast, binned = arena.fast, arena.binned
    # fast chunks can merge with top, and what they merge with lies in the bins
    may_merge = fast is None or bool(arena.fastbins)
    top_known = header.top_bytes is not None and not (may_merge and (fast is None or binned is None))
    madvise: Optional[list[Range]] = None
    stranded: Optional[int] = None
    free, (top, top_bytes) = consolidate(arena, page + rules.layout.chunk_struct)
    if fast is not None and binned is not None and (top_known or not may_merge):
        madvise = sorted(_madvise_ranges(free, rules.layout.chunk_struct, page))
        stranded = binned.bytes + fast.bytes - (header.top - top) - sum(each.bytes for each in madvise)
    brk_bytes: Optional[int] = 0 if top_known or not header.main else None
    brk_range = tops = None
    if header.main and top_known and header.top_bytes:
        brk_bytes = systrim(top, top_bytes, rules)
        if brk_bytes:
            end = top + top_bytes
            brk_range = Range(end - brk_bytes, brk_bytes) if brk_bytes > 0 else None
            top_bytes -= brk_bytes
    elif top_known and not header.main:
        tops = _inside(top + rules.layout.header, top + top_bytes, page)
    return ArenaTrim(
        arena=header.index,
        address=header.address,
        madvise=madvise,
        brk_bytes=brk_bytes,
        brk_range=brk_range,
        top=Range(top, top_bytes) if top_known else None,
        stranded_bytes=stranded,
        tcache_bytes=tcache_bytes,
        tops=tops,
        tops_bytes=(tops.bytes if tops else 0) if top_known or header.main else None,
        complete=arena.complete,
    )


class Consolidated(NamedTuple):
    """The free memory of an arena once fast chunks have joined their free neighbours."""

    free: Iterable[Chunk]
    top: Range
    """Empty if it could not be read."""


def consolidate(arena: Arena, least: int) -> Consolidated:
    """Returns what malloc_consolidate leaves; chunks smaller than `least` may be left out."""
    header = arena.header
    top, top_bytes = header.top, header.top_bytes or 0
    binned = (chunk for each in arena.bins for chunk in zip(each.addresses, each.sizes))
    if not arena.fastbins:
        # nothing grows: most of a million are smaller
        long = (each for each in arena.bins if each.max_bytes is None or each.max_bytes >= least)
        binned = (chunk for each in long for chunk in zip(each.addresses, each.sizes))
        return Consolidated(binned, Range(top, top_bytes))
    fast = _joined(chunk for each in arena.fastbins for chunk in zip(each.addresses, each.sizes))
    # of the binned chunks, which may be a million, only those count that touch a fast one (or top)
    starts, ends = {header.top, *(start for start, _ in fast)}, {start + size for start, size in fast}
    merged: list[Chunk] = []
    for address, size in binned:
        (fast if address in ends or address + size in starts else merged).append((address, size))
    for start, size in _joined(fast):
        if start + size == header.top:
            top, top_bytes = start, size + top_bytes
        else:
            merged.append((start, size))
    return Consolidated(merged, Range(top, top_bytes))


def _joined(chunks: Iterable[Chunk]) -> list[Chunk]:
    """Joins neighbours, and returns them in address order."""
    joined: list[Chunk] = []
    start = end = 0
    for address, size in sorted(chunks):
        if address != end:
            if end:
                joined.append((start, end - start))
            start = address
        end = address + size
    return [*joined, (start, end - start)] if end else joined


def _madvise_ranges(free: Iterable[Chunk], kept: int, page: int) -> Iterator[Range]:
    """Returns what mtrim releases: whole pages after the chunk's own fields (struct malloc_chunk)."""
    least = page + kept
    for chunk, size in free:
        # mtrim looks only at bin 1, and at bins from bin_index(page) on. A chunk of this size is in one of these: its
        # bin need not be asked for
        if size >= least:
            whole = advised(chunk, chunk + size, kept, page)
            if whole.bytes:
                yield whole


def advised(start: int, end: int, kept: int, page: int) -> Range:
    """Returns what mtrim releases of one free chunk (0 bytes: nothing): whole pages after what it keeps."""
    low = first_whole(start, kept, page)
    return Range(low, max(end - low, 0) & -page)


def first_whole(start: int, kept: int, page: int) -> int:
    """Returns the first page that goes of a free chunk that begins at `start`."""
    return (start + kept + page - 1) & -page


def systrim(top: int, top_bytes: int, rules: TrimRules, pad: int = 0) -> Optional[int]:
    """Returns how far the break would fall; None if libc's idea of the break is not known."""
    layout = rules.layout
    unit = rules.thp_pagesize or rules.page
    area = top_bytes - layout.min_size - 1
    if layout.behaviour.systrim_unsigned:
        # `area <= pad` compares unsigned: a top of MINSIZE passes, and sbrk gets a positive number
        if 0 <= area <= pad:
            return 0
        extra = (area - pad) // unit * unit
    else:
        extra = (area - pad) // unit * unit
        if extra <= 0:
            return 0
    if not extra:
        return 0
    if rules.brk is None:
        return None
    return extra if rules.brk == top + top_bytes else 0


def until_locked(ranges: Iterable[Range], locked: Sequence[Span]) -> Iterator[Range]:
    """Returns what madvise(MADV_DONTNEED) really releases: it ends at the first locked mapping."""
    for each in ranges:
        start, end = each.address, each.end
        if locked:
            end = min((max(low, start) for low, high in locked if low < end and start < high), default=end)
        if end > start:
            yield Range(start, end - start)


def _inside(start: int, end: int, page: int) -> Optional[Range]:
    """Returns the whole pages of [start, end)."""
    low = -(-start // page) * page
    high = end // page * page
    return Range(low, high - low) if high > low else None


def reasons(plans: Sequence[Trim], whole: bool, locked: Sequence[Span]) -> Iterator[Statement]:
    """Returns why memory stays, one reason for each kind, with its total over these arenas; `whole`: there are no
    others."""
    if any(trim.plan.tops for trim in plans):
        figures = {
            "bytes": total((trim.plan.tops_bytes for trim in plans), whole),
            "resident_bytes": total((trim.resident.tops for trim in plans), whole),
        }
        yield Statement("tops-untouched", figures)
    if any(trim.plan.stranded_bytes for trim in plans):
        # the id of what is stranded
        yield Statement("pages-shared", {"bytes": total((trim.plan.stranded_bytes for trim in plans), whole)})
    if any(trim.plan.tcache_bytes for trim in plans):
        yield Statement("cached-by-threads", {"bytes": total((trim.plan.tcache_bytes for trim in plans), whole)})
    refused = sum(_locked_bytes(trim, locked) for trim in plans)
    if refused:
        yield Statement("pages-locked", {"bytes": refused})
    grows = -sum(min(trim.plan.brk_bytes or 0, 0) for trim in plans)
    if grows:
        yield Statement("break-grows", {"bytes": grows})


def _locked_bytes(trim: Trim, locked: Sequence[Span]) -> int:
    """Returns how much of the known ranges the kernel refuses to release."""
    released = until_locked(trim.plan.madvise or (), locked)
    return (trim.plan.madvise_bytes or 0) - sum(each.bytes for each in released)


SECONDS_PER_BYTE = 1 / 12e9
SECONDS_PER_CALL = 1.5e-6
"""Measured: madvise returns 4 KiB pages at 10 to 20 GB/s, and costs about a microsecond a call."""


def trim_seconds(returned: int, calls: int) -> float:
    return returned * SECONDS_PER_BYTE + calls * SECONDS_PER_CALL
