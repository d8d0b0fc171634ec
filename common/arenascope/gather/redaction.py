"""Malloc's own words: what `save --redact` keeps of a process's memory. All else may be the program's data.

Kept are malloc's structures, the size words of chunks, the links of free ones, and of libc's and ld.so's variables
those that are addresses: an address of something is no secret, what lies there may be one.
"""

from __future__ import annotations

from typing import Iterator, Optional, Sequence

from ..glibc.chunk import PREV_INUSE, masked
from ..glibc.chunks.blocks import blocks
from ..glibc.find.allocators import places_of_modules
from ..model import Gap, Range, Run
from ..session import Session
from ..target import Region, joined

SMALL = 1 << 16
"""global_max_fast, perturb_byte and their like, which only symbols name."""
LARGE = 1024
"""From this size on a free chunk has links to the next size, too; on 32-bit machines from half of it."""
AROUND = (8 << 10, 4 << 10)
"""How much below and above a thread pointer malloc's two words may lie."""


def kept(session: Session) -> list[Range]:
    """In address order, apart."""
    spans = joined(sorted((start, start + size) for start, size in _kept(session)))
    return [Range(start, end - start) for start, end in spans]


def _kept(session: Session) -> Iterator[tuple[int, int]]:
    yield from _structures(session)
    yield from _variables(session)
    yield from _threads(session)
    yield from places_of_modules(session.target, session.regions)
    for header in session.headers if session.started else ():
        for piece in session.sweep(header):
            yield from _of_run(session, piece) if isinstance(piece, Run) else _of_gap(session, piece)
    for block in session.mmapped if session.started else ():
        yield block.chunk, session.layout.header
        # where memalign moved on, the first header still stands at the block's start
        yield session.layout.first_aligned(block.base), session.layout.header


def _structures(session: Session) -> Iterator[tuple[int, int]]:
    layout, located = session.layout, session.located
    for copy in {located.main_arena, *located.others}:
        yield copy, layout.arena.size
    for header in session.headers:
        yield header.address, layout.arena.size
    if located.params is not None:
        yield located.params, layout.params.size
    for each in session.thread_words:
        if each.tcache:
            size = masked(session.memory.try_word(each.tcache - layout.word) or 0)
            yield each.tcache - layout.word, max(size, layout.word)


def _variables(session: Session) -> Iterator[tuple[int, int]]:
    """Of libc and ld.so: addresses, and numbers that are too small to tell anything; of a static program addresses."""
    by_start = {region.start: (region, 0) for copy in session.located.copies for region in copy.libc.data}
    by_start.update({region.start: (region, 0) for region in session.located.libc.data})
    before: Optional[Region] = None
    for region in session.regions:
        file = region
        if not region.path and before is not None and before.end == region.start:
            file = before
        # musl's among them: what runs on it has nothing of malloc's to keep, and is refused before
        if file.finds_malloc and region.writable:
            by_start[region.start] = (region, SMALL)
        before = region
    for region, small in by_start.values():
        yield from _words_in(session, region, small)
    for name in ("global_max_fast", "perturb_byte"):
        symbol = session.target.symbol(name)
        if symbol is not None:
            yield symbol.address, 4


def _words_in(session: Session, region: Region, small: int) -> Iterator[tuple[int, int]]:
    word = session.layout.word
    data = session.memory.try_read(region.start, region.size)
    for index, value in enumerate(session.memory.unpack_words(data) if data else ()):
        if value and (value < small or _is_address(session.regions, value)):
            yield region.start + index * word, word


def _is_address(regions: Sequence[Region], value: int) -> bool:
    """Of something mapped, or of where that ends, as the break is."""
    low, high = 0, len(regions)
    while low < high:
        middle = (low + high) // 2
        if regions[middle].end < value:
            low = middle + 1
        else:
            high = middle
    return low < len(regions) and regions[low].start <= value


def _threads(session: Session) -> Iterator[tuple[int, int]]:
    """Of a thread's variables those that hold an arena, a cache or the thread's own address."""
    word = session.layout.word
    known = {header.address for header in session.headers}
    known |= {each.tcache for each in session.thread_words if each.tcache}
    for each in session.thread_words:
        pointer = each.thread.thread_pointer
        if pointer is None:
            continue
        below, above = AROUND
        # a block of the range that cannot be read lies in another page
        for start in range((pointer - below) & -(1 << 10), pointer + above, 1 << 10):
            data = session.memory.try_read(start, 1 << 10)
            for index, value in enumerate(session.memory.unpack_words(data) if data else ()):
                if value in known or value == pointer:
                    yield start + index * word, word


def _of_run(session: Session, run: Run) -> Iterator[tuple[int, int]]:
    layout, word = session.layout, session.layout.word
    large = LARGE * word // 8
    before_free = False
    for chunk, size, state in blocks(run, session.listed):
        # the word in front of the size is the block's before this one, unless that is free
        yield (chunk, 2 * word) if before_free else (chunk + word, word)
        before_free = state == "free"
        if state == "free":
            yield chunk + layout.header, (4 if size >= large else 2) * word
        elif state != "used":
            yield chunk + layout.header, 2 * word
    end = run.address + run.bytes
    yield (end, 2 * word) if not run.follow & PREV_INUSE else (end + word, word)


def _of_gap(session: Session, gap: Gap) -> Iterator[tuple[int, int]]:
    word = session.layout.word
    if gap.kind == "header":
        yield gap.address, gap.bytes
    elif gap.kind == "top":
        yield gap.address + word, word
    elif gap.kind == "fencepost":
        for at in range(gap.address + word, gap.address + gap.bytes, 2 * word):
            yield at, word
