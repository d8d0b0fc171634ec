"""struct malloc_state: arena headers, and the ring that links them."""

from __future__ import annotations

import struct
from typing import Optional, Sequence

from ..errors import MemoryReadError
from ..memory import Memory
from ..model import ArenaHeader, Finding
from .chunk import IS_MMAPPED, NON_MAIN_ARENA, PREV_INUSE, masked
from .heap import heap_for_ptr
from .layout import Layout
from .scan import wrong_bins

RING_LIMIT = 65536
LEAST_PAGE = 4096
"""Every page size is a multiple of it; an arena grows and shrinks by pages."""


def initial_top(layout: Layout, address: int) -> int:
    """The pseudo chunk that top points to while an arena has no heap: the header of bin 1."""
    return address + layout.arena["bins"] - layout.header


def read_arena(memory: Memory, layout: Layout, address: int, index: int, main: bool) -> ArenaHeader:
    """The header at `address`; MemoryReadError where it is not readable."""
    data = memory.read(address, layout.arena.size)

    def word(name: str) -> int:
        value: int = struct.unpack_from(memory.mark + memory.code, data, layout.arena[name])[0]
        return value

    mutex, flags = (struct.unpack_from(memory.mark + "I", data, layout.arena[name])[0] for name in ("mutex", "flags"))
    top = word("top")
    # the size word of the initial top is last_remainder: no heap behind it
    raw: Optional[int] = 0
    if top and top != initial_top(layout, address):
        raw = memory.try_word(top + layout.word)
    return ArenaHeader(
        index=index,
        address=address,
        main=main,
        mutex=mutex,
        flags=flags,
        top=top,
        top_bytes=None if raw is None else masked(raw),
        next=word("next"),
        attached_threads=word("attached_threads") if "attached_threads" in layout.arena else None,
        system_mem=word("system_mem"),
        max_system_mem=word("max_system_mem"),
        initialised=top != 0,
    )


def evidence_at(memory: Memory, layout: Layout, address: int, must_link: bool) -> int:
    """How much speaks for a main_arena of this layout here, should its ring be broken; 0 where it cannot be one.

    All members but the first few lie as far from the bins in every release: only a link proves (`must_link`) how far
    in front of them malloc_state begins.
    """
    try:
        header = read_arena(memory, layout, address, 0, True)
    except MemoryReadError:
        return 0
    if header.mutex > 2 or header.flags > 7:
        return 0
    linked = header.next == address or has_arena_behind(memory, layout, header.next)
    if must_link and not linked:
        return 0
    grown = 0 < header.system_mem <= header.max_system_mem and not header.system_mem % LEAST_PAGE
    return 1 + linked + grown + (bool(header.top) and not doubt_top(memory, layout, header))


def has_heap(layout: Layout, header: ArenaHeader) -> bool:
    return header.initialised and header.top != initial_top(layout, header.address)


def walk_ring(memory: Memory, layout: Layout, main_arena: int, findings: list[Finding]) -> list[ArenaHeader]:
    """All arenas in the order of malloc_info: main_arena, then the newest to the oldest."""
    arenas: list[ArenaHeader] = []
    seen: set[int] = set()
    address = main_arena
    while address not in seen and len(arenas) < RING_LIMIT:
        seen.add(address)
        try:
            header = read_arena(memory, layout, address, len(arenas), address == main_arena)
        except MemoryReadError as error:
            findings.append(
                Finding(f"the ring of arenas breaks off: {error.message}", address, len(arenas), rule="ring")
            )
            return arenas
        if not header.main:
            doubt = doubt_thread_arena(memory, layout, address)
            if doubt and has_arena_behind(memory, layout, address):
                # heap_info was overwritten, malloc_state behind it was not
                findings.append(
                    Finding(doubt, heap_for_ptr(layout, address), len(arenas), "heap-arena", f"{address:#x}")
                )
            elif doubt:
                findings.append(
                    Finding(f"the ring of arenas leads to something else: {doubt}", address, len(arenas), rule="ring")
                )
                return arenas
        doubt = doubt_top(memory, layout, header)
        if doubt:
            findings.append(Finding(f"top: {doubt}", header.top, len(arenas), rule="top"))
            header = header._replace(top_bytes=None)
        arenas.append(header)
        address = header.next
    if address != main_arena:
        findings.append(Finding("the ring of arenas does not close", address, len(arenas) - 1, rule="ring"))
    return arenas


def is_closed(headers: Sequence[ArenaHeader]) -> bool:
    """Whether these are all arenas: the ring led back to where it began."""
    return bool(headers) and headers[-1].next == headers[0].address


def doubt_top(memory: Memory, layout: Layout, header: ArenaHeader) -> str:
    """Why top cannot be what it should be; "" where it looks like one."""
    if not header.top:
        return "it is 0, although the arena holds memory" if header.system_mem else ""
    if header.top == initial_top(layout, header.address):
        return ""
    raw = memory.try_word(header.top + layout.word)
    if raw is None or header.top_bytes is None:
        return "it leads to unreadable memory"
    if not layout.aligned(header.top):
        return "it is not a chunk's address"
    if not raw & PREV_INUSE or raw & (IS_MMAPPED | NON_MAIN_ARENA):
        return f"its size word {raw:#x} has the flags of something else"
    if not layout.min_size <= header.top_bytes <= header.system_mem:
        return f"its size {header.top_bytes:#x} is not possible in an arena of {header.system_mem:#x}"
    if (header.top + header.top_bytes) % LEAST_PAGE:
        return f"it ends at {header.top + header.top_bytes:#x}, not at a page's edge"
    return ""


def has_arena_behind(memory: Memory, layout: Layout, address: int) -> bool:
    """Whether this is where a first heap has its malloc_state, and the bins look like bins."""
    in_place = address == heap_for_ptr(layout, address) + layout.heap.size
    return in_place and wrong_bins(memory, address + layout.arena["bins"]) is not None


def doubt_thread_arena(memory: Memory, layout: Layout, address: int) -> str:
    """Why this can not be a thread's arena; "" where it looks like one (GLIBC: it lies right behind its heap_info)."""
    heap = heap_for_ptr(layout, address)
    if address != heap + layout.heap.size:
        return "no heap_info in front of it"
    owner = memory.try_word(heap + layout.heap["ar_ptr"])
    if owner != address:
        return "its heap_info belongs to another arena"
    return ""
