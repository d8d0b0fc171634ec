"""struct malloc_par: mp_, the knobs and counters of the whole process."""

from __future__ import annotations

import struct
from typing import Mapping, NamedTuple, Optional

from ..base.heap_model import ArenaHeader, Params, Statement, Tally
from ..sources.memory import Memory
from ..sources.target import Target
from . import release_table
from .process_layout import Layout
from .release_table import Behaviour

INTS = {field.name for field in release_table.MALLOC_PAR if field.kind == "int"}
MMAP_THRESHOLD = TRIM_THRESHOLD = TOP_PAD = 128 << 10
"""DEFAULT_MMAP_THRESHOLD, DEFAULT_TRIM_THRESHOLD, and malloc-machine.h's DEFAULT_TOP_PAD."""


def read_params(memory: Memory, layout: Layout, address: int) -> Params:
    data = memory.read(address, layout.params.size)
    values = {}
    for name, offset in layout.params.offsets.items():
        code = "i" if name in INTS else memory.code
        values[name] = struct.unpack_from(memory.mark + code, data, offset)[0]
    return Params(address, values)


def counts(params: Params) -> Tally:
    """Returns the counts of mmapped blocks."""
    return Tally(params.values["n_mmaps"], params.values["mmapped_mem"])


def doubt_params(params: Params, main: Optional[ArenaHeader]) -> Optional[Statement]:
    """Returns why this cannot be mp_ (for that main_arena, if it is given); None if all checks pass."""
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
"""Variables outside mp_, which mallopt's M_MXFAST and M_PERTURB set."""


def default_max_fast(layout: Layout) -> int:
    """Returns the value of set_max_fast (DEFAULT_MXFAST)."""
    return max_fast_of(layout, 64 * layout.word // 4) or 0


def max_fast_of(layout: Layout, request: int) -> Optional[int]:
    """Returns the largest chunk that goes into a fastbin after such a request; None if do_set_mxfast refuses."""
    if not 0 <= request <= 80 * layout.word // 4:
        return None
    return (request + layout.word) & ~layout.mask if request > layout.mask - layout.word else 2 * layout.word


def read_max_fast(memory: Memory, layout: Layout, address: int) -> Optional[int]:
    """Reads a size_t, in later releases a byte, which can hold all possible values."""
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
    """The number of arenas that a process may make, and the reason."""

    arenas: Optional[int]
    """None: not known."""
    processors: Optional[int] = None
    """The processors that count if no limit is set."""
    each: Optional[int] = None
    """The number of arenas for each of these; None if it does not depend on them."""


def arena_limit(params: Optional[Params], layout: Layout, target: Target) -> ArenaLimit:
    """Returns arena_max if it is set, else a number for each processor of the machine that the process runs on."""
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


# the environment variable's name: mp_'s field, or a variable outside mp_
VARIABLES = {
    "MALLOC_ARENA_MAX": "arena_max",
    "MALLOC_ARENA_TEST": "arena_test",
    "MALLOC_TRIM_THRESHOLD_": "trim_threshold",
    "MALLOC_TOP_PAD_": "top_pad",
    "MALLOC_MMAP_THRESHOLD_": "mmap_threshold",
    "MALLOC_MMAP_MAX_": "n_mmaps_max",
    "MALLOC_PERTURB_": "perturb_byte",
}
HUGE = "glibc.malloc.hugetlb"
HUGE_MODES = {1: "thp_pagesize", 2: "hp_pagesize"}
"""Values that are no sizes: transparent huge pages, and those of the system's default size. malloc keeps their size."""
TUNABLES = {
    "glibc.malloc.arena_max": "arena_max",
    "glibc.malloc.arena_test": "arena_test",
    "glibc.malloc.trim_threshold": "trim_threshold",
    "glibc.malloc.top_pad": "top_pad",
    "glibc.malloc.mmap_threshold": "mmap_threshold",
    "glibc.malloc.mmap_max": "n_mmaps_max",
    "glibc.malloc.tcache_max": "tcache_max_bytes",
    "glibc.malloc.tcache_count": "tcache_count",
    "glibc.malloc.tcache_unsorted_limit": "tcache_unsorted_limit",
    HUGE: "hp_pagesize",
    "glibc.malloc.mxfast": "global_max_fast",
    "glibc.malloc.perturb": "perturb_byte",
}
# values that look right but have no effect
MISSPELT = {name.rstrip("_"): name for name in VARIABLES if name.endswith("_")}


class Request(NamedTuple):
    """A requested value, and why it cannot have taken effect (None: it can)."""

    text: str
    value: Optional[int]
    refusal: Optional[Statement] = None
    mode: bool = False
    """Whether the value is a mode, from which a size is computed."""


def requests(environment: Mapping[str, str], behaviour: Behaviour, secure: bool = False) -> dict[str, Request]:
    """Returns requests by mp_'s field; a tunable outranks the variable of the same meaning. `secure`:
    __libc_enable_secure is set, so that glibc ignores all of them."""
    asked: dict[str, Request] = {}
    for variable, name in VARIABLES.items():
        if variable in environment:
            asked[name] = Request(f"{variable}={environment[variable]}", parse_number(environment[variable]))
    for wrong, right in MISSPELT.items():
        if wrong in environment and VARIABLES[right] not in asked:
            misspelt = Statement("misspelt-variable", names={"right": right})
            asked[VARIABLES[right]] = Request(f"{wrong}={environment[wrong]}", None, misspelt)
    for item in environment.get("GLIBC_TUNABLES", "").split(":"):
        name, _, text = item.partition("=")
        if name in TUNABLES:
            refusal = None if behaviour.glibc_tunables else Statement("no-malloc-tunables")
            value = parse_number(text)
            mode = HUGE_MODES.get(value or 0) if name == HUGE else None
            asked[mode or TUNABLES[name]] = Request(item, value, refusal, mode is not None)
    if secure:
        unheard = Statement("secure-program")
        asked = {name: each if each.refusal else each._replace(refusal=unheard) for name, each in asked.items()}
    return asked


def parse_number(text: str) -> Optional[int]:
    """Parses a number as strtoul does with base 0."""
    text = text.strip()
    try:
        if text.lower().startswith("0x"):
            return int(text, 16)
        return int(text, 8) if text.startswith("0") and len(text) > 1 else int(text)
    except ValueError:
        return None
