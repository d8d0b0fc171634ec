"""struct heap_info: the sub-heaps of a thread's arena, chained from the newest back to the first."""

from __future__ import annotations

from ..base.errors import MemoryReadError
from ..base.model import ArenaHeader, Finding, Heap, Statement
from ..sources.memory import Memory
from .layout import Layout


def heap_for_ptr(layout: Layout, address: int) -> int:
    return address & ~(layout.heap_max - 1)


def walk_heaps(memory: Memory, layout: Layout, header: ArenaHeader, findings: list[Finding]) -> list[Heap]:
    """The heaps of a thread's arena, oldest first; the last one holds top."""
    heaps: list[Heap] = []
    seen: set[int] = set()
    address = heap_for_ptr(layout, header.top)
    fields = layout.heap
    say = findings.append
    while address:
        if address in seen:
            say(Finding(Statement("heaps-circle"), address, header.index, "heap-chain"))
            break
        seen.add(address)
        try:
            words = memory.words(address, fields.size // layout.word)
        except MemoryReadError:
            say(Finding(Statement("heaps-unreadable"), address, header.index, "heap-chain"))
            break
        owner, previous, size, mprotect = (
            words[fields[name] // layout.word] for name in ("ar_ptr", "prev", "size", "mprotect_size")
        )
        if owner != header.address:
            say(
                Finding(
                    Statement("heap-owner", names={"owner": f"{owner:#x}", "expected": f"{header.address:#x}"}),
                    address,
                    header.index,
                    "heap-arena",
                )
            )
            break
        if not fields.size < size <= mprotect <= layout.heap_max:
            say(
                Finding(
                    Statement("heap-size", {"bytes": size, "mprotect_bytes": mprotect, "max_bytes": layout.heap_max}),
                    address,
                    header.index,
                    "heap-size",
                )
            )
            break
        heaps.append(Heap(header.index, address, address + size, mprotect, last=not heaps))
        if previous & (layout.heap_max - 1):
            wrong = Statement("heap-prev", names={"prev": f"{previous:#x}"})
            say(Finding(wrong, address, header.index, "heap-chain"))
            break
        address = previous
    end = None if header.top_bytes is None else header.top + header.top_bytes
    if heaps and end is not None and end != heaps[0].end:
        say(
            Finding(
                Statement("top-end-of-heap", names={"end": f"{end:#x}", "heap_end": f"{heaps[0].end:#x}"}),
                header.top,
                header.index,
                "top-end",
            )
        )
    total = sum(heap.bytes for heap in heaps)
    if heaps and total != header.system_mem:
        say(
            Finding(
                Statement("heaps-sum", {"bytes": total, "system_bytes": header.system_mem}),
                header.address,
                header.index,
                "system-mem",
            )
        )
    heaps.reverse()
    return heaps
