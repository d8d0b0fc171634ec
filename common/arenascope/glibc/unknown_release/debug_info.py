"""What debug information says about malloc's structures, as a layout; also for a release that no row describes."""

from __future__ import annotations

from typing import Mapping, Optional

from ...base.model import Statement
from ...sources.target import StructInfo, Target
from .. import release_table
from ..process_layout import Check, Layout, Struct, TcacheLayout, disagreements, from_table
from ..release_table import Release

STRUCTS = ("malloc_state", "_heap_info", "malloc_par", "tcache_perthread_struct")
RENAMED = {"tcache_small_bins": "tcache_bins"}
"""2.42 renamed it, at the same offset."""
KNOWN = {
    name: {field.name for field in fields}
    for name, fields in (
        ("malloc_state", release_table.MALLOC_STATE),
        ("_heap_info", release_table.HEAP_INFO),
        ("malloc_par", release_table.MALLOC_PAR),
    )
}
NEEDED = {
    "malloc_state": {"mutex", "flags", "top", "bins", "next", "system_mem", "max_system_mem"},
    "_heap_info": {"ar_ptr", "prev", "size", "mprotect_size"},
    "malloc_par": {
        "n_mmaps",
        "max_n_mmaps",
        "n_mmaps_max",
        "mmapped_mem",
        "max_mmapped_mem",
        "no_dyn_threshold",
        "sbrk_base",
        "arena_test",
        "mmap_threshold",
        "trim_threshold",
        "top_pad",
    },
}


def read_structs(target: Target) -> dict[str, StructInfo]:
    """The structs that the debugger knows; {} without debug information."""
    structs = {name: target.struct(name) for name in STRUCTS}
    structs["_heap_info"] = structs["_heap_info"] or target.struct("heap_info")
    return {name: info for name, info in structs.items() if info is not None}


def from_debug(
    release: Optional[Release], word: int, machine: str, structs: Mapping[str, StructInfo]
) -> Optional[Layout]:
    """The members where debug information has them; None where it lacks one that the walkers need."""
    layout = from_table(release or release_table.NEWEST, word, machine)
    if release is not None and release > release_table.NEWEST:
        layout = layout._replace(newer=release)
    built = {}
    for name, needed in NEEDED.items():
        info = structs.get(name)
        if info is None:
            if name == "malloc_par":
                continue
            return None
        fields = {RENAMED.get(member, member): place.offset for member, place in info.fields.items()}
        if not needed <= set(fields):
            return None
        built[name] = Struct({key: fields[key] for key in fields if key in KNOWN[name]}, info.size)
    fast = structs["malloc_state"].fields.get("fastbinsY")
    return layout._replace(
        arena=built["malloc_state"],
        heap=built["_heap_info"],
        params=built.get("malloc_par", layout.params),
        tcache=_tcache(structs.get("tcache_perthread_struct"), layout),
        fastbins=fast.size // layout.word if fast else 0,
    )


def _tcache(info: Optional[StructInfo], layout: Layout) -> Optional[TcacheLayout]:
    """The layout's own where debug information has none, or members that nobody knows of."""
    if info is None or "entries" not in info.fields:
        return layout.tcache
    name = "num_slots" if "num_slots" in info.fields else "counts"
    if name not in info.fields:
        return layout.tcache
    counts, entries = info.fields[name], info.fields["entries"]
    bins = entries.size // layout.word
    return TcacheLayout(
        bins,
        counts.size // bins,
        counts=counts.offset,
        counts_free_slots=name == "num_slots",
        entries=entries.offset,
        size=info.size,
    )


def clashes(layout: Layout, debug: Layout) -> bool:
    """Whether the two place a member of malloc_state or heap_info differently."""
    return any(
        ours.offsets.get(name) != offset
        for ours, theirs in ((layout.arena, debug.arena), (layout.heap, debug.heap))
        for name, offset in theirs.offsets.items()
    )


def compare(layout: Layout, structs: Mapping[str, StructInfo], notes: list[str]) -> Layout:
    """The layout with a check where debug information agrees; a note where it does not."""
    agreed, wrong = [], []
    for name, struct in (("malloc_state", layout.arena), ("_heap_info", layout.heap), ("malloc_par", layout.params)):
        if name in structs:
            differences = disagreements(struct, structs[name])
            wrong += differences
            agreed += [] if differences else [name.lstrip("_")]
    if wrong:
        notes.append("memory and debug information disagree, memory is believed: " + "; ".join(wrong[:3]))
    if agreed:
        agrees = Statement("debug-information-agrees", names={"on": ", ".join(agreed)})
        layout = layout._replace(checks=(*layout.checks, Check(agrees)))
    return layout
