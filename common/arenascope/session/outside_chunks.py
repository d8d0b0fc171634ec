"""Describes addresses that no chunk holds."""

from __future__ import annotations

from typing import Optional

from ..base.model import Gap, Heap, Statement
from .session import Session

KINDS = {
    "header": "in-heap-header",
    "fencepost": "in-fencepost",
    "foreign": "in-foreign-sbrk",
    "damage": "in-damage",
}


def in_heap(session: Session, place: int, heap: Heap, gap: Optional[Gap]) -> Statement:
    kind = gap.kind if gap is not None else "damage"
    return Statement(KINDS[kind], {"arena": heap.arena}, {"address": f"{place:#x}", "heap": f"{heap.address:#x}"})


def where_else(session: Session, place: int) -> Statement:
    said = _place(session, place)
    return said._replace(names={"address": f"{place:#x}", **said.names})


def _place(session: Session, place: int) -> Statement:
    for parts in session.heaps.values() if session.started else ():
        for part in parts:
            if part.mprotect_bytes and part.end <= place < part.address + part.mprotect_bytes:
                return Statement("behind-heap-end", {"arena": part.arena}, {"heap": f"{part.address:#x}"})
    region = next((each for each in session.regions if each.contains(place)), None)
    if region is None:
        return Statement("not-mapped" if session.regions else "mappings-unknown")
    for thread in session.target_threads:
        if thread.stack_pointer is not None and region.contains(thread.stack_pointer) and not region.is_file:
            return Statement("in-stack", {"tid": thread.tid}, {"name": thread.name or ""})
    named = session.target.describe(place)
    if named is not None:
        return Statement("in-file", names={"name": named.text, "path": region.path})
    if region.path == "[heap]":
        return Statement("in-break")
    extent = {"start": f"{region.start:#x}", "end": f"{region.end:#x}"}
    return Statement("in-mapping", names={**extent, "path": region.path})
