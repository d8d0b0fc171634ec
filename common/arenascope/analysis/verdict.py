"""Gives the verdict: where resident memory is, and whether it is a leak."""

from __future__ import annotations

from typing import Optional, Sequence

from ..base.model import Statement
from .causes import Facts, stranded_by
from .trim import Trim
from .usage import ArenaUsage, total

SECONDS_PER_BYTE = 1 / 12e9
SECONDS_PER_CALL = 1.5e-6
"""Measured: madvise returns 4 KiB pages at 10 to 20 GB/s, and costs about a microsecond a call."""

LITTLE = 10
"""Less than one part in this many of resident memory is too little to give back."""


OF_ARENAS = (
    *("returnable_bytes", "trim_seconds", "thread_tops", "thread_tops_bytes", "scraps_bytes", "tcache_bytes"),
    *("tops_at_default_bytes", "large_free_bytes"),
)


def trim_seconds(returned: int, calls: int) -> float:
    return returned * SECONDS_PER_BYTE + calls * SECONDS_PER_CALL


def judge(facts: Facts) -> Statement:
    """Returns the kind of problem, with the figures of the whole picture."""
    picture, part = facts.picture, facts.part
    figures: dict[str, Optional[float]] = {
        "rss_bytes": picture.rss,
        "known_bytes": facts.rss,
        "live_bytes": picture.live,
        "free_bytes": picture.free,
        "arenas": len(facts.usages),
        "started": int(facts.started),
        "returnable_bytes": part("returnable"),
        "trim_seconds": trim_seconds(part("returnable"), facts.calls),
        "thread_tops": sum(1 for each in picture.arenas if each.arena and each.top),
        "thread_tops_bytes": part("thread_tops"),
        "scraps_bytes": part("scraps"),
        "tcache_bytes": part("tcache"),
        "not_malloc_bytes": facts.rss - picture.live - picture.free - part("unread"),
        "unread_bytes": part("unread"),
        "mmap_threshold_bytes": facts.params.values["mmap_threshold"] if facts.params else None,
        # of what thresholds at their defaults would have given back: for certain, and if large blocks left it
        "tops_at_default_bytes": facts.tops_at_default if facts.params else None,
        "large_free_bytes": facts.large if facts.params else None,
    }
    if not picture.whole:
        # what the others have is not known, and so no sum is
        figures.update(dict.fromkeys(OF_ARENAS), live_bytes=None, free_bytes=None)
        figures.update(live_at_least_bytes=picture.live, free_at_least_bytes=picture.free)
    serving = [each.name for each in facts.allocators if each.replaces_malloc]
    perhaps = [each.name for each in facts.allocators if each.replaces_malloc is None]
    by = stranded_by(facts.strander)
    if facts.held is not None:
        figures.update(lost_bytes=facts.held.lost, lost_blocks=facts.held.lost_blocks)
        figures.update(possible_bytes=facts.held.possible, unknown_bytes=facts.held.unknown)
    names = {"measure": picture.measure, "serves_malloc": " and ".join(serving), **by.names}
    return Statement(_kind(facts), {**figures, **by.figures}, {**names, "may_serve_malloc": " and ".join(perhaps)})


def _kind(facts: Facts) -> str:
    picture = facts.picture
    if not picture.whole:
        return "unread"
    if not facts.started and 2 * facts.part("other") <= facts.rss:
        return "no-heap"
    if 2 * (picture.live + picture.free) < facts.rss:
        return _elsewhere(facts)
    if picture.free >= picture.live and facts.matters(picture.free):
        return "freed-thresholds-grew" if facts.thresholds_explain else "freed"
    if 10 * picture.live >= 7 * (picture.live + picture.free) and LITTLE * _to_be_had(facts) < facts.rss:
        return "live-data"
    return "live-and-freed"


def _to_be_had(facts: Facts) -> int:
    """Returns what malloc_trim, or trim --apply --tops, would free."""
    return facts.part("returnable") + facts.part("thread_tops")


def _elsewhere(facts: Facts) -> str:
    if 2 * facts.part("other") > facts.rss:
        return "mostly-not-this-malloc"
    for name, kind in (("files", "mostly-mapped-files"), ("shared", "mostly-shared-memory")):
        if 2 * facts.part(name) > facts.rss:
            return kind
    return "mostly-not-malloc"


def address_space(plans: Sequence[Trim], usages: Sequence[ArenaUsage]) -> Statement:
    """Returns where address space goes, for an image without residency."""
    return Statement(
        "address-space",
        {
            "system_bytes": sum(usage.header.system_mem for usage in usages),
            "arenas": len(usages),
            "used_bytes": total(usage.used for usage in usages),
            "release_bytes": total(trim.plan.release_bytes for trim in plans),
            "tops_bytes": total(trim.plan.tops_bytes for trim in plans),
        },
    )
