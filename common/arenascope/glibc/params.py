"""struct malloc_par: mp_, the knobs and counters of the whole process."""

from __future__ import annotations

import struct
from typing import NamedTuple, Optional

from ..base.model import ArenaHeader, Params, Statement, Tally
from ..sources.memory import Memory
from ..sources.target import Target
from . import release_table
from .process_layout import Layout

INTS = {field.name for field in release_table.MALLOC_PAR if field.kind == "int"}


def read_params(memory: Memory, layout: Layout, address: int) -> Params:
    data = memory.read(address, layout.params.size)
    values = {}
    for name, offset in layout.params.offsets.items():
        code = "i" if name in INTS else memory.code
        values[name] = struct.unpack_from(memory.mark + code, data, offset)[0]
    return Params(address, values)


def counts(params: Params) -> Tally:
    """Blocks served by mmap."""
    return Tally(params.values["n_mmaps"], params.values["mmapped_mem"])


def doubt_params(params: Params, main: Optional[ArenaHeader]) -> Optional[Statement]:
    """Why this cannot be mp_ (beside that main_arena, where it is given); None where all that can be checked holds."""
    values = params.values

    def doubt(id: str, *names: str) -> Statement:
        return Statement(id, {name: values[name] for name in names})

    if not 0 <= values["n_mmaps"] <= max(values["max_n_mmaps"], 0):
        return doubt("mmaps-over-maximum", "n_mmaps", "max_n_mmaps")
    if values["mmapped_mem"] > values["max_mmapped_mem"]:
        return doubt("mmapped-mem-over-maximum", "mmapped_mem", "max_mmapped_mem")
    if values["no_dyn_threshold"] not in (0, 1):
        return doubt("no-dyn-threshold-impossible", "no_dyn_threshold")
    base = values["sbrk_base"]
    if main and main.top_bytes and main.contiguous and base + main.system_mem != main.top + main.top_bytes:
        return Statement("sbrk-base-not-top-end")
    if main and not main.system_mem and base:
        return Statement("sbrk-base-without-heap")
    bins = values.get("tcache_bins")
    if bins is not None and not 1 <= bins <= 76:
        return doubt("tcache-bins-impossible", "tcache_bins")
    if values.get("tcache_count", 0) > 0xFFFF or values.get("tcache_max_bytes", 0) > 1 << 23:
        return doubt("tcache-limits-impossible", "tcache_count", "tcache_max_bytes")
    if values["arena_test"] > 1 << 20 or values["n_mmaps_max"] < 0:
        return doubt("limits-impossible", "arena_test", "n_mmaps_max")
    # 2.44 took the cache's last limit away, and renumbered the modes: 3, once "not supported", is of pages of a size
    if values.get("thp_mode") == 3 and not values.get("thp_pagesize") and "tcache_unsorted_limit" not in values:
        return doubt("thp-mode-impossible", "thp_mode")
    return None


MAX_FAST, PERTURB = "global_max_fast", "perturb_byte"
"""Variables of their own beside mp_, which mallopt's M_MXFAST and M_PERTURB set."""


def default_max_fast(layout: Layout) -> int:
    """set_max_fast (DEFAULT_MXFAST)."""
    return max_fast_of(layout, 64 * layout.word // 4) or 0


def max_fast_of(layout: Layout, request: int) -> Optional[int]:
    """The largest chunk that goes into a fastbin, where that was asked for; None where do_set_mxfast refuses."""
    if not 0 <= request <= 80 * layout.word // 4:
        return None
    return (request + layout.word) & ~layout.mask if request > layout.mask - layout.word else 2 * layout.word


def read_max_fast(memory: Memory, layout: Layout, address: int) -> Optional[int]:
    """A size_t, in later releases a byte, into which all that it can be fits."""
    if memory.byte_order == "little":
        data = memory.try_read(address, 1)
    else:
        first, last = memory.try_read(address, 1), memory.try_read(address + layout.word - 1, 1)
        data = first if first != b"\0" else last
    return data[0] if data is not None and data[0] <= default_max_fast(layout) * 2 else None


def read_perturb(memory: Memory, address: int) -> Optional[int]:
    data = memory.try_read(address, 4)
    return int.from_bytes(data, memory.byte_order, signed=True) if data is not None else None


class ArenaLimit(NamedTuple):
    """How many arenas a process may make, and why."""

    arenas: Optional[int]
    """None: not known."""
    processors: Optional[int] = None
    """That count where no limit is set."""
    each: Optional[int] = None
    """So many arenas for each of these; None where it does not depend on them."""


def arena_limit(params: Optional[Params], layout: Layout, target: Target) -> ArenaLimit:
    """arena_max where it is set, else so many for each processor of the machine that the process runs on."""
    arena_max = params.get("arena_max") if params else None
    if params is None or arena_max is None or "arena_test" not in params.values:
        return ArenaLimit(None)
    if arena_max:
        return ArenaLimit(arena_max)
    processors, each = target.image.processors(), 8 if layout.word == 8 else 2
    if layout.behaviour.arena_for_each_processor:
        each = 1
    if processors is None:
        return ArenaLimit(None)
    # a sum is only asked for once there are more than arena_test arenas
    least = params.values["arena_test"]
    return ArenaLimit(each * processors, processors, each) if each * processors >= least else ArenaLimit(least)
