"""Tells whether a process grows, and which part of it: by two snapshots, never by one."""

from __future__ import annotations

from typing import Mapping, Optional

from ..base.model import Statement
from .diff import Document, compare
from .report import FREE, LIVE

NOTABLE = 128 << 10
"""Smaller changes are normal in steady operation."""
SHARE = 1000
"""Likewise, as a fraction of what is resident."""
NOT_TOLD = ("snapshot-is-later", "growth-unknown")
"""The conclusion if two snapshots do not show whether it grew."""
DOUBTFUL, TOLD_IN = 8, 3600
"""Less than that by so many times may be the begin of a growth, if it would bring as much in so many seconds."""


def growth(before: Document, after: Document) -> Statement:
    """Compares two snapshots; by resident memory if both have it, else by what malloc has handed out."""
    diff = compare(before, after)
    if diff.one_process is False:
        return Statement("another-process")
    changes = {each.name: each.change for each in diff.parts}
    reports = [each.get("report") or {} for each in (before, after)]
    told = all(each.get("parts") for each in reports) and len({each.get("measure") for each in reports}) == 1
    live = _sum([changes.get(name, 0) for name in LIVE]) if told else _in_use(before, after)
    free = _sum([changes.get(name, 0) for name in FREE]) if told else None
    rss = diff.rss.change
    elsewhere = None if rss is None or live is None or free is None else rss - live - free
    figures: dict[str, Optional[float]] = {
        "seconds": diff.seconds,
        "rss_change_bytes": rss,
        "live_change_bytes": live,
        "free_change_bytes": free,
        "elsewhere_change_bytes": elsewhere,
        "live_per_hour_bytes": diff.per_hour(live),
        "rss_per_hour_bytes": diff.per_hour(rss),
    }
    if diff.exchanged:
        return Statement("snapshot-is-later", figures)
    filled, names = diff.filled, {}
    if filled is not None:
        figures["container_change_elements"] = filled.change
        names["container"] = filled.name
    changed = {"live": live, "free": free, "elsewhere": elsewhere}
    return Statement(_kind(diff.rss.after, rss, changed, diff.seconds), figures, names)


def what_they_show(grown: Optional[Statement]) -> Optional[str]:
    """Returns the id of what two snapshots show; None if they show nothing. Cores do not tell how far apart they
    are."""
    if grown is None or grown.figures.get("seconds") is None or grown.id in NOT_TOLD:
        return None
    return grown.id


def _kind(
    now: Optional[int], rss: Optional[int], changes: Mapping[str, Optional[int]], seconds: Optional[float]
) -> str:
    """Returns what grew most, if anything did."""
    least = max(NOTABLE, (now or 0) // SHARE)
    if changes["live"] is None:
        return "growth-unknown"
    what, growth = max(changes.items(), key=lambda item: item[1] or 0)
    if growth is not None and growth >= least:
        return f"{what}-grew"
    fell = rss if rss is not None else changes["live"]
    if fell <= -least:
        return "fell"
    # other memory also grows by being looked at
    is_doubtful = changes["live"] * DOUBTFUL >= least
    is_fast = seconds is not None and changes["live"] * TOLD_IN >= least * seconds
    return "grew-too-little" if is_doubtful and is_fast else "held-still"


def is_outside_malloc(changes: Mapping[str, Optional[int]]) -> bool:
    """Tells whether most of the growth in resident memory is neither malloc's nor a file's."""
    other = changes.get("other") or 0
    return other >= NOTABLE and other >= max(change or 0 for change in changes.values())


def _sum(changes: list[Optional[int]]) -> Optional[int]:
    known = [change for change in changes if change is not None]
    return sum(known) if len(known) == len(changes) else None


def _in_use(before: Document, after: Document) -> Optional[int]:
    """Returns what is in use by malloc's own account: what the arenas hold that is not free, and mmapped blocks."""
    sums = []
    for document in (before, after):
        arenas = document.get("arenas") or {}
        used = (arenas.get("totals") or {}).get("used_bytes")
        mapped = (arenas.get("mmapped") or {}).get("bytes")
        if used is None or mapped is None:
            return None
        sums.append(used + mapped)
    return int(sums[1] - sums[0])
