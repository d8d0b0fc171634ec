"""The memory of a core by address, each byte of the file once.

Whoever writes a core gives each mapping bytes of its own. Headers that claim one piece of the file for many mappings,
or one address twice, make of a small file a large process: walks are bounded by bytes, so they are not believed.
"""

from __future__ import annotations

from typing import NamedTuple, Optional, Sequence

from ..elf.file import PT_LOAD, Segment


class Memory(NamedTuple):
    """What a core's PT_LOAD segments come to, in address order."""

    segments: list[Segment]
    ends: list[int]
    """Where each one's bytes in this file end: short of its memory where it was not dumped, or was cut."""
    complaint: Optional[str]


def lay_out(headers: Sequence[Segment], file_size: int, pointer_size: int) -> Memory:
    """`headers` is all there are. Where two claim the same address, the one that begins later has it."""
    top = 1 << 8 * pointer_size
    loads = sorted((each for each in headers if each.type == PT_LOAD), key=lambda each: each.address)
    segments = []
    overlaps = 0
    for index, each in enumerate(loads):
        end = min(each.address + each.memory_size, top)
        # since 6.12 the kernel may write big mappings last, so file order need not be address order
        limit = loads[index + 1].address if index + 1 < len(loads) else top
        overlaps += end > limit
        if min(end, limit) > each.address:
            segments.append(each._replace(memory_size=min(end, limit) - each.address))
    sizes = [min(each.file_size, each.memory_size, max(0, file_size - each.offset)) for each in segments]
    shared = 0
    taken = 0
    for index in sorted((index for index, size in enumerate(sizes) if size), key=lambda at: segments[at].offset):
        offset = segments[index].offset
        if offset < taken:
            shared += 1
            sizes[index] = 0
        taken = max(taken, offset + sizes[index])
    said = []
    if overlaps:
        said.append(f"{overlaps:,} of its mappings lie over others")
    if shared:
        said.append(f"{shared:,} of its mappings claim bytes of the file that others have: they are left out")
    return Memory(
        segments,
        [each.address + size for each, size in zip(segments, sizes)],
        f"the core's program headers are damaged: {'; '.join(said)}" if said else None,
    )
