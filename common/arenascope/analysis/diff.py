"""What changed between two snapshots: by part of RSS, by arena, by bin, by size of block."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Mapping, Optional

from ..records import NamedTuple

Document = Mapping[str, Any]


class Change(NamedTuple):
    """One figure before and after; None where it was not known, and None for what was not there."""

    name: str
    before: Optional[int]
    after: Optional[int]

    @property
    def change(self) -> Optional[int]:
        return None if self.before is None or self.after is None else self.after - self.before


class Diff(NamedTuple):
    seconds: Optional[float]
    rss: Change
    parts: list[Change]
    arenas: list[Change]
    """By what an arena took from the kernel."""
    used: list[Change]
    """By what the program holds in it."""
    bins: list[Change]
    sizes: list[Change]
    """Bytes in use by size of block; empty where either snapshot has no sizes."""

    def per_hour(self, change: Optional[int]) -> Optional[float]:
        return None if change is None or not self.seconds else change * 3600 / self.seconds


def compare(before: Document, after: Document) -> Diff:
    first, second = before.get("taken"), after.get("taken")
    seconds = None if first is None or second is None else float(second - first)
    report = before.get("report") or {}, after.get("report") or {}
    arenas = [_by((document.get("arenas") or {}).get("arenas"), _arena_name) for document in (before, after)]
    return Diff(
        seconds=seconds,
        rss=Change("rss", report[0].get("rss_bytes"), report[1].get("rss_bytes")),
        parts=_changes(*[_by(each.get("parts"), lambda row: str(row["part"])) for each in report], key="bytes"),
        arenas=_changes(*arenas, key="system_bytes"),
        used=_changes(*arenas, key="used_bytes"),
        bins=_changes(*[_bins(document) for document in (before, after)], key="bytes"),
        sizes=_sizes(before, after),
    )


Rows = dict[str, dict[str, Any]]


def _by(rows: Optional[Iterable[dict[str, Any]]], name: Callable[[dict[str, Any]], str]) -> Rows:
    return {name(row): row for row in rows or ()}


def _arena_name(row: dict[str, Any]) -> str:
    """An arena's address stays for the process's life; its number moves with each new arena."""
    return "main" if row.get("main") else str(row["address"])


def _bins(document: Document) -> Rows:
    """All arenas' bins of one kind and index together: a list that grows does so wherever threads go."""
    found: Rows = {}
    for row in (document.get("bins") or {}).get("bins") or ():
        most = row.get("max_bytes")
        name = f"{row['kind']} {row['min_bytes']}" + (f"-{most}" if most and most != row["min_bytes"] else "")
        name = row["kind"] if row["kind"] == "unsorted" else name
        kept = found.setdefault(name, {"bytes": 0})
        kept["bytes"] += row["bytes"]
    return found


def _sizes(before: Document, after: Document) -> list[Change]:
    both = [(document.get("chunks") or {}).get("sizes") for document in (before, after)]
    if None in both:
        return []
    named = [_by(rows, _size_name) for rows in both]
    return _changes(*named, key="used_bytes")


def _size_name(row: Document) -> str:
    most = row.get("max_bytes")
    return f"{row['min_bytes']}-{most}" if most is not None else str(row["min_bytes"])


def _changes(before: Rows, after: Rows, *, key: str) -> list[Change]:
    """The largest change first; rows that are the same in both stay out."""
    found = []
    for name in dict.fromkeys([*before, *after]):
        # what one of the two does not have was, or is, nothing
        old = before[name].get(key) if name in before else 0
        new = after[name].get(key) if name in after else 0
        if old != new:
            found.append(Change(name, old, new))
    return sorted(found, key=lambda change: -abs(change.change or 0))
