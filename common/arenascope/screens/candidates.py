"""`version --full`: what came into question for each thing that had to be found, and what spoke for and against it."""

from __future__ import annotations

from typing import Iterator

from ..glibc.trail import KINDS, Trail
from ..render.text import Style, count

SHOWN = 20
"""Of one kind; a scan may meet hundreds of places for mp_."""
TITLES = {
    "main_arena": "main_arena",
    "mp_": "mp_",
    "layout": "layout of malloc_state and heap_info",
    "thread_arena": "each thread's arena",
    "thread_caches": "each thread's cache",
}


def candidates_lines(style: Style, trail: Trail) -> Iterator[str]:
    for kind in KINDS:
        met = trail.of(kind)
        yield ""
        if not met:
            yield f"{style.bold(TITLES[kind])}: nothing came into question"
            continue
        taken = "" if met[0].chosen else ", none was taken"
        yield f"{style.bold(TITLES[kind])}: {count(len(met), 'candidate')}{taken}"
        for each in met[:SHOWN]:
            yield f"  {each.name}{' (taken)' if each.chosen else ''}"
            yield from (f"    + {text}" for text in each.speaks_for)
            yield from (f"    - {text}" for text in each.against)
        if len(met) > SHOWN:
            yield f"  {len(met) - SHOWN:,} more left out; --json lists them"


def candidates_json(trail: Trail) -> dict[str, object]:
    return {
        kind: [
            {"name": each.name, "taken": each.chosen, "for": list(each.speaks_for), "against": list(each.against)}
            for each in trail.of(kind)
        ]
        for kind in KINDS
    }
