"""Describes mp_'s fields: default, request, effect."""

from __future__ import annotations

from typing import Mapping, NamedTuple, Optional, Sequence

from ..base.model import Params, Statement
from ..glibc.params import MAX_FAST, ArenaLimit, Request, default_max_fast, max_fast_of, requests
from ..glibc.process_layout import Layout

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
    MAX_FAST,
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
    values = {
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
        values["tcache_bins"] = 64
        small = layout.min_size + 63 * layout.align
        values["tcache_max_bytes"] = small + 1 if layout.behaviour.tcache_logarithmic else small - layout.word
    return values


CHANGED = ("tcache_count", "tcache_max_bytes")
"""Fields whose default differs between releases."""


def describe_params(
    params: Params,
    layout: Layout,
    environment: Optional[Mapping[str, str]],
    release_known: bool = True,
    beside: Mapping[str, Optional[int]] = {},
    secure: bool = False,
    begun: bool = True,
) -> list[Param]:
    """Describes every field, in mp_'s own order, followed by variables outside mp_ (`beside`). `secure` as in
    requests(); `begun`: malloc_init_state() has run."""
    known = {name: value for name, value in defaults(layout).items() if release_known or name not in CHANGED}
    asked = requests(environment or {}, layout.behaviour, secure)
    rows = []
    for name, value in params.values.items():
        request = asked.pop(name, None)
        text = request.text if request else None
        rows.append(Param(name, value, known.get(name), text, note=_note(params, name, known, request)))
    for name, beside_value in beside.items():
        rows.append(_beside(layout, name, beside_value, asked.pop(name, None), begun=begun))
    for name, request in asked.items():
        # asked for, and this glibc has no such field, or one that is newer than the table keeps it somewhere else
        lacking = Statement("no-such-parameter" if layout.newer is None else "known-in-parts")
        unset = 0 if layout.newer is None else None
        rows.append(Param(name, unset, None, request.text, note=request.refusal or lacking))
    return rows


UNTOUCHED = "set-by-first-call"


def summed_up(rows: Sequence[Param], limit: ArenaLimit, environment: Optional[Mapping[str, str]]) -> Statement:
    """Tells whether anything was changed, and what limits the number of arenas."""
    known = [row for row in rows if row.value is not None and row.default is not None]
    changed = [row.name for row in known if row.value != row.default and not (row.note and row.note.id == UNTOUCHED)]
    figures = {
        "with_default": len(known),
        "changed": len(changed),
        "requested": None if environment is None else sum(row.requested is not None for row in rows),
        "limit": limit.arenas,
        "processors": limit.processors,
        "arenas_each": limit.each,
    }
    return Statement("not-at-defaults" if changed else "at-defaults", figures, {"changed": ", ".join(changed)})


def _beside(layout: Layout, name: str, value: Optional[int], request: Optional[Request], *, begun: bool) -> Param:
    """Describes global_max_fast or perturb_byte."""
    fast = name == MAX_FAST
    default = 0 if not fast else default_max_fast(layout) if layout.fastbins else None
    note: Optional[Statement] = None
    if request is not None and (request.refusal or request.value is None):
        note = _effect(0, request)
    elif value is None:
        note = Statement("no-fastbins" if fast and not layout.fastbins else "place-unknown")
    elif request is not None and request.value is not None:
        wanted = max_fast_of(layout, request.value) if fast else request.value
        stands = {"requested": request.value, "value": value}
        note = Statement("in-effect") if wanted == value else Statement("not-in-effect", stands)
    elif fast and not begun and value == 0:
        note = Statement(UNTOUCHED)
    elif value != default:
        note = Statement("set-by-program")
    return Param(name, value, default, request.text if request else None, note=note)


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
    if request.mode:
        return Statement("mode-in-effect" if value else "mode-without-effect")
    if request.value == value:
        return Statement("in-effect")
    return Statement("not-in-effect", {"requested": request.value, "value": value})
