"""mp_'s fields as a reader wants them: default, request, effect."""

from __future__ import annotations

from typing import Mapping, Optional

from ..glibc.layout import Layout
from ..glibc.tunables import Request, requests
from ..model import Params, Statement
from ..records import NamedTuple

SIZES = {
    "trim_threshold",
    "top_pad",
    "mmap_threshold",
    "thp_pagesize",
    "hp_pagesize",
    "mmapped_mem",
    "max_mmapped_mem",
    "max_total_mem",
    "tcache_max_bytes",
}
MMAP_THRESHOLD = TRIM_THRESHOLD = TOP_PAD = 128 << 10
"""DEFAULT_MMAP_THRESHOLD, DEFAULT_TRIM_THRESHOLD, and malloc-machine.h's DEFAULT_TOP_PAD."""


class Param(NamedTuple):
    """One field of mp_."""

    name: str
    value: Optional[int]
    default: Optional[int]
    requested: Optional[str]
    note: Optional[Statement]

    @property
    def is_size(self) -> bool:
        return self.name in SIZES


def defaults(layout: Layout) -> dict[str, int]:
    found = {
        "trim_threshold": TRIM_THRESHOLD,
        "top_pad": TOP_PAD,
        "mmap_threshold": MMAP_THRESHOLD,
        "arena_test": 8 if layout.word == 8 else 2,
        "arena_max": 0,
        "thp_pagesize": 0,
        "hp_pagesize": 0,
        "hp_flags": 0,
        "n_mmaps_max": 65536,
        "no_dyn_threshold": 0,
        "tcache_count": layout.behaviour.tcache_count,
        "tcache_unsorted_limit": 0,
    }
    if layout.tcache is not None:
        found["tcache_bins"] = 64
        small = layout.min_size + 63 * layout.align
        found["tcache_max_bytes"] = small + 1 if layout.behaviour.tcache_logarithmic else small - layout.word
    return found


CHANGED = ("tcache_count", "tcache_max_bytes")
"""Fields whose default is not the same in all releases."""


def describe_params(
    params: Params, layout: Layout, environment: Optional[Mapping[str, str]], release_known: bool = True
) -> list[Param]:
    """Every field, in mp_'s own order."""
    known = {name: value for name, value in defaults(layout).items() if release_known or name not in CHANGED}
    asked = requests(environment or {}, layout.behaviour)
    rows = []
    for name, value in params.values.items():
        request = asked.pop(name, None)
        text = request.text if request else None
        rows.append(Param(name, value, known.get(name), text, _note(params, name, known, request)))
    for name, request in asked.items():
        # asked for, and this glibc has no such field, or one that is newer than the table keeps it somewhere else
        lacking = Statement("no-such-parameter" if layout.newer is None else "known-in-parts")
        unset = 0 if layout.newer is None else None
        rows.append(Param(name, unset, None, request.text, request.refusal or lacking))
    return rows


def _note(params: Params, name: str, known: Mapping[str, int], request: Optional[Request]) -> Optional[Statement]:
    values = params.values
    if request is not None:
        return _effect(values[name], request)
    dynamic = values["no_dyn_threshold"] == 0
    figures = {"bytes": values[name]}
    if name == "mmap_threshold" and values[name] != known[name]:
        return Statement("grew-by-itself" if dynamic else "set-and-fixed", figures)
    if name == "trim_threshold" and values[name] != known[name]:
        twice = dynamic and values[name] == 2 * values["mmap_threshold"]
        return Statement("twice-mmap-threshold" if twice else "set-by-program", figures)
    if name == "no_dyn_threshold" and values[name]:
        return Statement("thresholds-fixed")
    if name == "arena_max" and not values[name]:
        return Statement("no-limit-set")
    return None


def _effect(value: int, request: Request) -> Statement:
    if request.refusal:
        return request.refusal
    if request.value is None:
        return Statement("no-number", names={"requested": request.text})
    if request.value == value:
        return Statement("in-effect")
    return Statement("not-in-effect", {"requested": request.value, "value": value})
