"""Where the variables of a loaded file end: .bss is nameless, and what the kernel puts right behind it is one mapping
with it. Behind a file that has none it only looks like it."""

from __future__ import annotations

import struct
from typing import Optional, Sequence

from ...base.errors import ArenascopeError, MemoryReadError
from ..target import Region
from .elf_file import PT_LOAD, Elf, Read


def memory_end(read: Read, start: int) -> Optional[int]:
    """Where the memory of the file that is mapped there ends by its program headers; None: they cannot be read."""
    try:
        elf = Elf(read, start, mapped=True)
        return max(elf.bias + each.address + each.memory_size for each in elf.segments if each.type == PT_LOAD)
    except MemoryReadError:
        return None
    except (ArenascopeError, struct.error, ValueError):
        return start  # no program: what lies after it is not its own


def bss_ends(read: Read, page: int, regions: Sequence[Region]) -> dict[int, int]:
    """Of each mapping that begins as .bss: where it begins, and where the last page of .bss ends. Where the program
    headers cannot be read it is all of what can be written right behind what can be written of the file."""
    ends: dict[int, int] = {}
    first: Optional[Region] = None  # of the file whose mappings these are
    before: Optional[Region] = None
    written = False
    for region in regions:
        if _may_be_loaded(region):
            if first is None or region.path != first.path or region.offset <= first.offset:
                first, written = region, False
            written = written or region.writable
        elif first is not None and before is not None and _may_be_bss(region, before):
            end = memory_end(read, first.start) if not first.offset else None
            last = min(region.end, -(-end // page) * page) if end is not None else region.end if written else 0
            if last > region.start:
                ends[region.start] = last
        before = region
    return ends


def _may_be_loaded(region: Region) -> bool:
    """No loader maps for others to write; and to read of such a mapping would make its page resident."""
    return region.is_file and not region.shared


def _may_be_bss(region: Region, before: Region) -> bool:
    return not region.path and region.writable and _may_be_loaded(before) and before.end == region.start
