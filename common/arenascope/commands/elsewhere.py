"""Where an address lies that no chunk holds, in words."""

from __future__ import annotations

from typing import Optional

from ..model import Gap, Heap
from ..session import Session

KINDS = {
    "header": "the header of heap {heap:#x} (heap_info, perhaps malloc_state), no chunk",
    "fencepost": "a fencepost, the end of what was once top: no chunk",
    "foreign": "memory that somebody else took by sbrk, in the middle of the main arena",
    "damage": "a part of heap {heap:#x} that could not be read as chunks",
}


def in_heap(session: Session, place: int, heap: Heap, gap: Optional[Gap]) -> str:
    kind = gap.kind if gap is not None else "damage"
    return f"{place:#x} lies in arena {heap.arena}: {KINDS[kind].format(heap=heap.address)}"


def where_else(session: Session, place: int) -> str:
    return f"{place:#x} lies in no chunk: {_place(session, place)}"


def _place(session: Session, place: int) -> str:
    for parts in session.heaps.values() if session.started else ():
        for part in parts:
            if part.mprotect_bytes and part.end <= place < part.address + part.mprotect_bytes:
                return f"it is behind the end of heap {part.address:#x} of arena {part.arena}, given up yet accessible"
    region = next((each for each in session.regions if each.contains(place)), None)
    if region is None:
        return "nothing is mapped there" if session.regions else "what is mapped is not known"
    for thread in session.target.threads():
        if thread.stack_pointer is not None and region.contains(thread.stack_pointer) and not region.is_file:
            named = f" ({thread.name})" if thread.name else ""
            return f"it is in the stack of thread {thread.tid}{named}"
    name = session.target.describe(place)
    if name is not None:
        return f"it is {name}, in {region.path or 'the nameless part of that file'}"
    if region.path == "[heap]":
        return "it is in the break's mapping, where no arena of this libc has it"
    return f"it is in the mapping {region.start:#x} to {region.end:#x}{' ' + region.path if region.path else ''}"
