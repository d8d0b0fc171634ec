"""What the environment asked of malloc: MALLOC_… variables (all releases) and GLIBC_TUNABLES (malloc's since 2.26)."""

from __future__ import annotations

from typing import Mapping, NamedTuple, Optional

from ..base.model import Statement
from .release_table import Behaviour

# the environment's name: mp_'s field, or that of a variable beside it
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
"""Not sizes: transparent huge pages, and those of the system's default size. malloc keeps how large they are."""
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
# what looks right but is not
MISSPELT = {name.rstrip("_"): name for name in VARIABLES if name.endswith("_")}


class Request(NamedTuple):
    """What was asked for, and why it cannot have been heard (None: it can)."""

    text: str
    value: Optional[int]
    refusal: Optional[Statement] = None
    mode: bool = False
    """Whether that is a mode, of which a size is made."""


def requests(environment: Mapping[str, str], behaviour: Behaviour, secure: bool = False) -> dict[str, Request]:
    """By mp_'s field; a tunable outranks the variable of the same meaning. `secure`: __libc_enable_secure is set, so
    that glibc heeds none of them."""
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
    """As strtoul does with base 0."""
    text = text.strip()
    try:
        if text.lower().startswith("0x"):
            return int(text, 16)
        return int(text, 8) if text.startswith("0") and len(text) > 1 else int(text)
    except ValueError:
        return None
