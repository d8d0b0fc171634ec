"""What stands in front of top in a malloc_state that the table does not know: fastbins, and lists that nobody knows."""

from __future__ import annotations

from typing import Callable, Optional, Sequence

from ...base.model import NONCONTIGUOUS, Finding, Statement
from ...sources.memory import Memory
from ..chunk import masked
from ..fastbins import fastbin_size
from ..heap import heap_for_ptr
from ..process_layout import Layout, Struct, fastbin_count
from ..unknown_release.evidence import PAGE, Raw, majority

HUGE = 2 << 20
"""Where brk was refused: this much in front of top is taken to be the arena's."""


def place_lists(memory: Memory, layout: Layout, raws: Sequence[Raw]) -> Layout:
    """The layout with fastbinsY where words in front of top prove them."""
    start = _fastbins(memory, layout, raws)
    if start is None:
        return layout
    arena = Struct({**layout.arena.offsets, "fastbinsY": start}, layout.arena.size)
    return layout._replace(arena=arena, fastbins=fastbin_count(layout.word, layout.align))


def heap_extents(memory: Memory, layout: Layout, arenas: Sequence[int]) -> Callable[[int], bool]:
    """Says whether an address lies among the chunks of these arenas."""
    main, known = arenas[0], set(arenas)
    word = memory.pointer_size
    top, system, flags = (memory.try_word(main + layout.arena[name]) or 0 for name in ("top", "system_mem", "flags"))
    end = top + masked(memory.try_word(top + word) or 0)
    start = end - system if not flags & NONCONTIGUOUS else top & -HUGE

    def leads(value: int) -> bool:
        if start <= value < end:
            return True
        heap = heap_for_ptr(layout, value)
        owner = memory.try_word(heap + layout.heap["ar_ptr"]) if heap else None
        if owner not in known or owner == main:
            return False
        header = layout.heap.size + (layout.arena.size if heap == heap_for_ptr(layout, owner) else 0)
        return value - heap >= header

    return leads


def unknown_lists(memory: Memory, layout: Layout, arenas: Sequence[int], leads: Callable[[int], bool]) -> list[Finding]:
    """Words of malloc_state that are no known member's and lead to chunks: what they hold is not known."""
    taken: set[int] = set()
    counts = {"bins": 254, "fastbinsY": layout.fastbins, "binmap": 16 // layout.word}
    for name, offset in layout.arena.offsets.items():
        taken.update(offset + n * layout.word for n in range(counts.get(name, 1)))
    findings = []
    for index, arena in enumerate(arenas):
        for offset in range(layout.word, layout.arena.size, layout.word):
            if offset in taken:
                continue
            value = memory.try_word(arena + offset) or 0
            if value >= PAGE and leads(value):
                findings.append(
                    Finding(
                        Statement("list-unknown", {"offset": offset}, {"leads_to": f"{value:#x}"}),
                        arena,
                        index,
                        unknown="list-unknown",
                    )
                )
    return findings


def _fastbins(memory: Memory, layout: Layout, raws: Sequence[Raw]) -> Optional[int]:
    """Where the words in front of top are heads of lists of fast chunks, each of its own size; None where none is."""
    count = fastbin_count(layout.word, layout.align)
    filled: dict[int, int] = {}
    for start in range(layout.word, layout.arena["top"] - (count - 1) * layout.word, layout.word):
        votes = [_heads(memory, layout, raw, start, count=count) for raw in raws]
        if majority(vote is not None for vote in votes) and any(votes):
            filled[start] = sum(vote or 0 for vote in votes)
    return max(filled, key=filled.__getitem__, default=None)


def _heads(memory: Memory, layout: Layout, raw: Raw, start: int, count: int) -> Optional[int]:
    """How many fastbins would not be empty; None where a word is neither 0 nor a chunk of its bin's size."""
    filled = 0
    for index in range(count):
        chunk = raw.word(memory, start + index * layout.word)
        if not chunk:
            continue
        size = memory.try_word(chunk + layout.word)
        if size is None or not layout.aligned(chunk) or masked(size) != fastbin_size(layout, index):
            return None
        filled += 1
    return filled
