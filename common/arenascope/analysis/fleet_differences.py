"""Finds which reports of a fleet differ from the others, and in what."""

from __future__ import annotations

from statistics import median_low
from typing import Mapping, NamedTuple, Optional, Sequence

from .diff import Document
from .report import FREE, LIVE


class Compared(NamedTuple):
    """A report compared with the others."""

    subject: str
    rss: Optional[int]
    used: Optional[int]
    free: Optional[int]
    trim: Optional[int]
    stranded: Optional[int]
    differs: Optional[str]
    """The part of memory furthest above the median of all reports measured alike; None if none is above it."""
    label: str
    above: int
    """The distance from that median."""
    median: int
    cause: str


def compared(documents: Sequence[Document]) -> list[Compared]:
    """Compares the reports that have parts, the one furthest above a median first."""
    parts = {id(each): {part["part"]: part["bytes"] for part in each["parts"]} for each in documents if _counts(each)}
    by_measure: dict[object, list[Mapping[str, int]]] = {}
    for each in documents:
        if id(each) in parts:
            by_measure.setdefault(each["measure"], []).append(parts[id(each)])
    rows = [_compared(each, parts[id(each)], by_measure[each["measure"]]) for each in documents if id(each) in parts]
    return sorted(rows, key=lambda row: (-row.above, -(row.rss or 0), row.subject))


def _counts(document: Document) -> bool:
    """Excludes incomplete reports: a part that seems small may be large."""
    return bool(document.get("parts")) and bool(document.get("complete")) and not document.get("error")


def _compared(document: Document, parts: Mapping[str, int], others: Sequence[Mapping[str, int]]) -> Compared:
    medians = {name: median_low([each.get(name, 0) for each in others]) for name in parts}
    most = max(parts, key=lambda name: parts[name] - medians[name])
    above = max(0, parts[most] - medians[most])
    labels = {part["part"]: part["label"] for part in document["parts"]}
    return Compared(
        document["subject"],
        rss=document["rss_bytes"],
        used=sum(parts.get(name, 0) for name in LIVE),
        free=sum(parts.get(name, 0) for name in FREE),
        trim=parts.get("returnable"),
        stranded=parts.get("scraps"),
        differs=most if above else None,
        label=labels[most],
        above=above,
        median=medians[most],
        cause=next((each["cause"] for each in document["causes"]), ""),
    )
