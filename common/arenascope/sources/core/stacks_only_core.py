"""Writes a core of registers and the used part of stacks alone, from which a debugger unwinds threads.

The original may be somebody else's file, compressed, or on another host: the debugger meets none of that.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from typing import Iterator, Sequence

from ...base.errors import MemoryReadError
from ..elf.elf_file import NT_PRSTATUS, OWN, PF_R, PF_W, Note, Segment
from ..target import Region, Span, joined
from .core_image import CoreImage
from .core_layout import ElfForm, head, head_bytes, load_segment, note_bytes, note_segment, prstatus

MOST_OF_ONE, MOST_OF_ALL = 8 << 20, 64 << 20
"""The most bytes of one stack and of all. What lies above is lost; frames are unwound from the innermost on."""
RED_ZONE = 128
"""A leaf function may use this much below the stack pointer."""
BLOCK = 1 << 20


def write_stacks(file: int, core: CoreImage, most: int) -> bool:
    """Writes the stacks of the first threads; False if there are none."""
    threads = core.register_sets()[:most]
    spans = _used(core, {each.tid for each in threads})
    if not spans:
        return False
    form, page = ElfForm(core.machine, core.pointer_size, core.elf.mark), core.page_size
    notes = []
    for each in threads:
        # in a core a number after the registers tells whether others follow: prstatus() adds it
        plain = each._replace(general=each.general[: -core.pointer_size])
        notes.append(Note("CORE", NT_PRSTATUS, prstatus(form, plain, core.pid or 0)))
        notes += [Note(*other) for other in each.others if other.owner != OWN]
    data = note_bytes(notes, form.mark)
    notes_at = head_bytes(form, len(spans) + 1)
    at = -(-(notes_at + len(data)) // page) * page
    segments: list[Segment] = [note_segment(notes_at, len(data))]
    for span in spans:
        size = _copy(core, span, file, at)
        segments.append(load_segment(PF_R | PF_W, at, span.start, size, memory_size=size, page=page))
        at += -(-size // page) * page
    os.pwrite(file, data, notes_at)
    os.pwrite(file, head(form, segments), 0)
    return True


def _used(core: CoreImage, tids: set[int]) -> Sequence[Span]:
    regions, left = core.regions(), MOST_OF_ALL
    starts = [each.start for each in regions]
    found = []
    for thread in core.threads():
        pointer = thread.stack_pointer
        at = bisect_right(starts, pointer) - 1 if pointer is not None and thread.tid in tids else -1
        if at < 0 or pointer is None or pointer >= regions[at].end:
            continue
        span = _part(regions[at], pointer, core.page_size, min(left, MOST_OF_ONE))
        left -= span.end - span.start
        if span.end > span.start:
            found.append(span)
    return joined(sorted(found))


def _part(region: Region, pointer: int, page: int, most: int) -> Span:
    start = max(region.start, (pointer - RED_ZONE) // page * page)
    return Span(start, min(region.end, start + most))


def _copy(core: CoreImage, span: Span, file: int, at: int) -> int:
    """Copies a stack up to the first missing byte, and returns how much that is."""
    done = 0
    for block in _blocks(core, span):
        os.pwrite(file, block, at + done)
        done += len(block)
    return done


def _blocks(core: CoreImage, span: Span) -> Iterator[memoryview]:
    room, address = memoryview(bytearray(BLOCK)), span.start
    while address < span.end:
        try:
            done = core.fill(address, room[: span.end - address])
        except MemoryReadError:
            return
        yield room[:done]
        address += done
