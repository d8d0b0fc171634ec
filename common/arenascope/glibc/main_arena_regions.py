"""Where the main arena's memory lies: one stretch from sbrk_base on, or several once brk was refused.

glibc keeps no list of them. While the arena is contiguous, sbrk_base + system_mem is the end of top (bytes that
somebody else took by sbrk included). Otherwise each region that mmap gave starts at a page and its headers lead to
two fenceposts, or to top.
"""

from __future__ import annotations

from typing import Iterator, NamedTuple, Optional, Sequence

from ..base.errors import MemoryReadError
from ..base.model import ArenaHeader, Finding, Heap, Params, Statement
from ..sources.memory import Memory
from ..sources.target import Region
from .arena import has_heap
from .chunk import IS_MMAPPED, NON_MAIN_ARENA, PREV_INUSE, SIZE_BITS
from .heap import walk_heaps
from .process_layout import Layout

CHAIN_LIMIT = 1 << 26
"""More headers than a region can hold: a walk that gets this far is not in a heap."""

MAX_POSTS = 3


class Ground(NamedTuple):
    """What, besides its own header, tells where a main arena can have grown."""

    params: Optional[Params]
    """None where mp_ is not known, or not yet."""
    mappings: Sequence[Region]
    page: int


def heaps_of(
    memory: Memory, layout: Layout, header: ArenaHeader, ground: Ground, findings: list[Finding]
) -> tuple[Heap, ...]:
    """An arena's heaps in order; the main arena's are the regions that it grew into."""
    if not has_heap(layout, header):
        return ()
    if header.main:
        return tuple(main_regions(memory, layout, header, ground, findings=findings))
    return tuple(walk_heaps(memory, layout, header, findings))


def main_regions(
    memory: Memory, layout: Layout, header: ArenaHeader, ground: Ground, findings: list[Finding]
) -> list[Heap]:
    """The main arena's regions in address order; the one with top is `last`."""
    params, mappings, page = ground
    base = params.get("sbrk_base") if params else None
    start = header.brk_base
    if header.contiguous and start is None:
        # top cannot be read, yet it ends where sbrk_base and system_mem say
        return [] if base is None else [Heap(header.index, base, base + header.system_mem, None, last=True)]
    if start is not None:
        end = start + header.system_mem
        if base is not None and base != start:
            names = {"base": f"{base:#x}", "start": f"{start:#x}"}
            differs = Statement("sbrk-base", {"system_bytes": header.system_mem}, names)
            findings.append(Finding(differs, header.address, header.index, "sbrk-base"))
            # which of the two is wrong? memory begins at the right one
            start = base if base <= header.top and memory.try_word(base) is not None else start
        if any(each.contains(header.top) for each in mappings) and not any(each.contains(end - 1) for each in mappings):
            # systrim() moves the break back before it writes top's new size
            beyond = Statement("top-beyond-mapped", names={"end": f"{end:#x}"})
            findings.append(Finding(beyond, header.top, header.index, "top-end"))
        return [Heap(header.index, start, end, None, last=True)]
    parts = []
    if base:
        brk_end = _chain_end(memory, layout, layout.first_aligned(base), header, mappings=mappings, page=page)
        if brk_end is not None:
            parts.append((base, brk_end))
    for mapping in mappings:
        if mapping.writable and mapping.readable and mapping.present and not mapping.is_file:
            parts += _mapped_regions(memory, layout, header, mapping, page=page, taken=list(parts))
    parts.sort()
    total = sum(stop - start for start, stop in parts)
    if total != header.system_mem:
        missing = Statement("regions-missing", {"bytes": total, "system_bytes": header.system_mem})
        findings.append(Finding(missing, header.address, unknown="regions-missing"))
    return [Heap(header.index, start, stop, None, last=start <= header.top < stop) for start, stop in parts]


def _mapped_regions(
    memory: Memory, layout: Layout, header: ArenaHeader, mapping: Region, page: int, taken: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """sysmalloc's mmap fallback gives page-aligned regions, which may share a mapping with others."""
    shift = layout.first_aligned(0)
    position = mapping.start
    while position < mapping.end:
        inside = next((stop for start, stop in taken if start <= position < stop), None)
        if inside is not None:
            position = -(-inside // page) * page
            continue
        end = _chain_end(memory, layout, position + shift, header, mappings=(mapping,), page=page)
        if end is None or end - position < page:
            # mmap gave a megabyte at least (MMAP_AS_MORECORE_SIZE): a few words that look like posts are chance
            position += page
            continue
        yield position, end
        position = -(-end // page) * page


def _chain_end(
    memory: Memory, layout: Layout, chunk: int, header: ArenaHeader, mappings: Sequence[Region], page: int
) -> Optional[int]:
    """The end of the region whose first chunk this is; None where its headers lead nowhere."""
    limit = next((mapping.end for mapping in mappings if mapping.contains(chunk)), 0)
    word, fence = layout.word, layout.header
    read = memory.word
    try:
        for _ in range(CHAIN_LIMIT):
            if chunk == header.top:
                return None if header.top_bytes is None else chunk + header.top_bytes
            if chunk + 2 * word > limit:
                return None
            raw = read(chunk + word)
            size = raw & ~SIZE_BITS
            if raw & (IS_MMAPPED | NON_MAIN_ARENA):
                return None
            if size == fence:
                return _fence_end(memory, layout, chunk, limit, page=page)
            if size < layout.min_size or size & layout.mask:
                return None
            chunk += size
    except MemoryReadError:
        return None
    return None


def _fence_end(memory: Memory, layout: Layout, fence: int, limit: int, page: int) -> Optional[int]:
    """Two header-sized posts close a region, then at most alignment slack.

    Where top was but a header larger than these, what they left of it is no chunk, and looks like a third in front
    (sysmalloc): then the last two are the posts, and end where every top has to, at a page.
    """
    posts = 1
    while posts < MAX_POSTS and fence + (posts + 1) * layout.header <= limit:
        raw = memory.word(fence + posts * layout.header + layout.word)
        if raw & ~SIZE_BITS != layout.header or not raw & PREV_INUSE:
            break
        posts += 1
    ends = [end + (-end & layout.mask) for end in (fence + count * layout.header for count in range(2, posts + 1))]
    return next((end for end in ends if not end & (page - 1)), ends[0] if ends else None)
