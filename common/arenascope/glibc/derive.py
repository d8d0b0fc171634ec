"""The layout that fits this image: the table's row for the release, or whatever row memory agrees with.

Distributions ship backports and new releases come, so a version string only says which row to try first.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Iterable, Mapping, Optional, Sequence

from ..errors import MemoryReadError
from ..memory import Memory
from ..target import StructInfo
from . import versions
from .layout import Layout, Struct, disagreements, from_table, heap_max, tcache_layout
from .scan import Hit
from .tcache import chunk_sizes
from .versions import Release

MANY_THREADS = 1 << 16


def derive_layout(memory: Memory, machine: str, release: Optional[Release], hit: Hit) -> Layout:
    """The layout whose malloc_state and heap_info fit the arenas that were found."""
    arena = hit.ring[0]
    for candidate in candidates(release):
        for layout in _both_alignments(candidate, memory, machine):
            checks = fit(memory, layout, hit)
            if checks:
                return replace(layout, checks=checks)
    return _by_relations(memory, machine, release, hit, arena)


def candidates(release: Optional[Release]) -> list[Release]:
    """The rows to try: the release itself, then the others by their distance from it."""
    shapes = list(versions.shapes())
    if release is None:
        return shapes
    rank = {shape: index for index, shape in enumerate(shapes)}
    own = next((shape for shape in shapes if shape <= release), shapes[-1])
    return [release, *sorted(shapes, key=lambda shape: abs(rank[shape] - rank[own]))]


def _both_alignments(release: Release, memory: Memory, machine: str) -> Iterable[Layout]:
    usual = from_table(release, memory.pointer_size, machine)
    yield usual
    if memory.pointer_size == 4:
        yield from_table(release, 4, machine, 24 - usual.align)


def fit(memory: Memory, layout: Layout, hit: Hit) -> tuple[str, ...]:
    """What agrees between this layout and the arenas; () where anything does not."""
    arena = hit.ring[0]
    if hit.bins - arena != layout.arena["bins"]:
        return ()
    checks = [f"bins at main_arena+{layout.arena['bins']}"]
    heap_infos = {address & (layout.heap_max - 1) for address in hit.ring[1:]}
    if hit.ring[1:]:
        if heap_infos != {layout.heap.size}:
            return ()
        checks.append(f"heap_info of {layout.heap.size} bytes before every thread arena")
    for address in hit.ring:
        if has_attached_threads(memory, hit.bins - arena + address) != ("attached_threads" in layout.arena):
            return ()
        if not _top_fits(memory, layout, address):
            return ()
    checks.append("attached_threads, system_mem and max_system_mem in their order")
    checks.append("every top chunk is aligned and ends at a page")
    return tuple(checks)


def has_attached_threads(memory: Memory, bins: int) -> bool:
    """Whether a small count stands between next_free and system_mem (2.23, and 2.22's branch)."""
    word = memory.pointer_size
    try:
        first, second, third = memory.words(bins + 254 * word + 16 + 2 * word, 3)
    except MemoryReadError:
        return True
    return first < MANY_THREADS and second <= third


def _top_fits(memory: Memory, layout: Layout, arena: int) -> bool:
    try:
        top = memory.word(arena + layout.arena["top"])
        if top == arena + layout.arena["bins"] - layout.header or not top:
            return True
        return layout.aligned(top)
    except MemoryReadError:
        return False


def _by_relations(memory: Memory, machine: str, release: Optional[Release], hit: Hit, arena: int) -> Layout:
    """A malloc_state that no row describes: its members by the order that all releases share."""
    word = memory.pointer_size
    layout = from_table(max(release or versions.NEWEST, versions.NEWEST), word, machine)
    bins = hit.bins - arena
    after_free = bins + 254 * word + 16 + 2 * word
    offsets = {"mutex": 0, "flags": 4, "top": bins - 2 * word, "last_remainder": bins - word, "bins": bins,
               "binmap": bins + 254 * word, "next": bins + 254 * word + 16,
               "next_free": bins + 254 * word + 16 + word}  # fmt: skip
    if has_attached_threads(memory, hit.bins):
        offsets["attached_threads"] = after_free
        after_free += word
    offsets["system_mem"], offsets["max_system_mem"] = after_free, after_free + word
    heap = layout.heap
    if hit.ring[1:]:
        heap = Struct(heap.offsets, hit.ring[1] & (heap_max(word) - 1))
    fastbins = (bins - 2 * word - 8) // word if bins - 2 * word > 8 + 9 * word else 0
    if fastbins:
        offsets["fastbinsY"] = bins - 2 * word - fastbins * word
    return replace(layout, arena=Struct(offsets, after_free + 2 * word), heap=heap, fastbins=fastbins,
                   checks=("no known malloc_state: members placed by the order that all releases share",))  # fmt: skip


def with_debug_information(layout: Layout, structs: Mapping[str, Optional[StructInfo]]) -> tuple[Layout, list[str]]:
    """The layout held against debug information, and what the two disagree on."""
    wrong: list[str] = []
    agreed = []
    for name, struct in (("malloc_state", layout.arena), ("_heap_info", layout.heap), ("malloc_par", layout.params)):
        info = structs.get(name)
        if info is None:
            continue
        differences = disagreements(struct, info)
        wrong += differences
        if not differences:
            agreed.append(name.lstrip("_"))
    if agreed:
        layout = replace(layout, checks=(*layout.checks, f"debug information agrees on {', '.join(agreed)}"))
    return layout, wrong


def with_tcache_seen(layout: Layout, sizes: Sequence[int]) -> Layout:
    """The layout with the form of thread cache that these chunk sizes prove: backports change it within a release."""
    if layout.tcache is None or not sizes:
        return layout
    if all(size in chunk_sizes(layout.tcache, layout) for size in sizes):
        return layout
    for release in versions.shapes():
        form = tcache_layout(release, layout.word)
        if form is not None and all(size in chunk_sizes(form, layout) for size in sizes):
            return replace(layout, tcache=form)
    return layout
