"""Judges breaches: damage, or a malloc that was interrupted."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple, Optional, Sequence

from ..base.model import Breach

PASSING = frozenset(
    [
        "prev-inuse",
        "prev-size",
        "size",
        "size-min",
        "size-bounds",
        "size-alignment",
        "bin-link",
        "bin-size",
        "bin-order",
        "bin-skip-list",
        "binmap",
        "adjacent-free",
        "overlap",
        "beside-top",
        "top",
        "top-end",
        "system-mem",
        "sbrk-base",
        "heap-size",
    ]
)
"""The rules that malloc and free break for a moment: a chunk taken out of its bin and still marked free, a half-made
link, a remainder in a list while the chunk it was cut from still has its old size (_int_malloc), a size of one or a top
not yet written, system_mem or heap_info.size not yet up to date."""
FLAG = "non-main-arena"
"""The flag set a moment before or after a chunk is taken out of its bin (_int_malloc): in no chunk of main_arena."""
BUSY_LIMIT = 6
"""One interrupted call leaves at most this many breaches in an arena: more are damage."""
OUTSIDE = frozenset(["tcache-count", "mmapped-count"])
"""The rules about structures that change without an arena's lock."""


class Busy(NamedTuple):
    """A malloc at work when the process was stopped: a locked arena, a thread inside, or both."""

    arena: Optional[int]
    tid: Optional[int]
    locked: bool


def with_transients(breaches: Sequence[Breach], busy: Sequence[Busy], one_thread: bool) -> list[Breach]:
    """Marks the breaches that a call in progress explains. A program with one thread takes no lock, whatever arena it
    is in."""
    inside = any(each.tid is not None for each in busy)
    everywhere = one_thread and inside
    locked = {each.arena for each in busy if each.locked}
    per_arena = Counter(breach.arena for breach in breaches)

    def passes(breach: Breach) -> bool:
        if breach.rule in OUTSIDE:
            return inside
        at_work = everywhere or breach.arena in locked
        passing = breach.rule in PASSING or (breach.rule == FLAG and breach.arena != 0)
        return at_work and passing and per_arena[breach.arena] <= BUSY_LIMIT

    return [breach._replace(transient=True) if passes(breach) else breach for breach in breaches]
