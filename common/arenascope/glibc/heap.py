"""struct heap_info: the sub-heaps of a thread's arena, chained from the newest back to the first."""

from __future__ import annotations

from typing import Mapping, Optional

from ..base.errors import MemoryReadError
from ..base.model import ArenaHeader, Finding, Heap, Statement
from ..sources.memory import Memory
from .process_layout import Layout


def heap_for_ptr(layout: Layout, address: int) -> int:
    return address & ~(layout.heap_max - 1)


def walk_heaps(memory: Memory, layout: Layout, header: ArenaHeader, findings: list[Finding]) -> list[Heap]:
    """The heaps of a thread's arena, oldest first; the last one holds top."""
    heaps: list[Heap] = []
    seen: set[int] = set()
    address = heap_for_ptr(layout, header.top)
    fields = layout.heap

    def say(
        rule: str, what: str, at: int, figures: Mapping[str, Optional[float]] = {}, names: Mapping[str, str] = {}
    ) -> None:
        findings.append(Finding(Statement(what, figures, names), at, header.index, rule))

    while address:
        if address in seen:
            say("heap-chain", "heaps-circle", address)
            break
        seen.add(address)
        try:
            words = memory.words(address, fields.size // layout.word)
        except MemoryReadError:
            say("heap-chain", "heaps-unreadable", address)
            break
        owner, previous, size, mprotect = (
            words[fields[name] // layout.word] for name in ("ar_ptr", "prev", "size", "mprotect_size")
        )
        if owner != header.address:
            names = {"owner": f"{owner:#x}", "expected": f"{header.address:#x}"}
            say("heap-arena", "heap-owner", address, names=names)
            break
        if not fields.size < size <= mprotect <= layout.heap_max:
            figures = {"bytes": size, "mprotect_bytes": mprotect, "max_bytes": layout.heap_max}
            say("heap-size", "heap-size", address, figures)
            break
        heaps.append(Heap(header.index, address, address + size, mprotect, last=not heaps))
        if previous & (layout.heap_max - 1):
            say("heap-chain", "heap-prev", address, names={"prev": f"{previous:#x}"})
            break
        address = previous
    end = None if header.top_bytes is None else header.top + header.top_bytes
    if heaps and end is not None and end != heaps[0].end:
        names = {"end": f"{end:#x}", "heap_end": f"{heaps[0].end:#x}"}
        say("top-end", "top-end-of-heap", header.top, names=names)
    total = sum(heap.bytes for heap in heaps)
    if heaps and total != header.system_mem:
        figures = {"bytes": total, "system_bytes": header.system_mem}
        say("system-mem", "heaps-sum", header.address, figures)
    heaps.reverse()
    return heaps
