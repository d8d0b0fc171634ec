"""Finds which types of blocks grow over snapshots that have types, by how many blocks, and who holds the growth."""

from __future__ import annotations

from typing import Iterable, Iterator, NamedTuple, Optional, Sequence

from .diff import Document, owner_name
from .trend import STEADILY, ValueAt, judged
from .usage import total

BLOCKS_OF_A_SIZE, TYPE = "size", "type"
NAMED, WORTH_NAMING = 3, 0.1
"""At most so many types are named, each with at least this share of the growth."""
LONG_ENOUGH = 10
"""Shorter times give no meaningful rate per minute."""


class Grown(NamedTuple):
    """A type that has more than it had, and still grows."""

    type: str
    kind: Optional[str]
    """None if the snapshots do not tell."""
    certain: bool
    blocks: Optional[int]
    """The number of blocks that were added; None likewise."""
    bytes: int
    seconds: float
    """From the first of these moments to the last."""
    per_minute_bytes: Optional[int]
    """None if the time is too short."""
    steadily: bool
    """Whether it grew without going down in between, as work in progress does."""
    owner: Optional[str]
    """The owner of at least half of the growth, named as owners are in snapshots; None if not known."""
    owner_kind: Optional[str]


class _SnapshotRows(NamedTuple):
    """The rows of one type in one snapshot: two modules may each have a type of that name."""

    rows: Sequence[Document] = ()

    @property
    def bytes(self) -> int:
        return sum(int(row["bytes"]) for row in self.rows)

    @property
    def blocks(self) -> Optional[int]:
        return total(row.get("blocks") for row in self.rows)

    @property
    def largest(self) -> Document:
        return max(self.rows, key=lambda row: int(row["bytes"]))


def grown_types(documents: Sequence[Document]) -> Optional[list[Grown]]:
    """Returns the types that grew in snapshots of one process, in order of time. Those that grow steadily come first,
    then the largest growth. None if fewer than two snapshots have types."""
    both = [(float(each["taken"]), _rows_of(each)) for each in documents]
    told = [(taken, _by_type(rows)) for taken, rows in both if rows is not None]
    if len(told) < 2:
        return None
    last = told[-1][1]
    found = (_grown(name, [(taken, types.get(name, _SnapshotRows())) for taken, types in told]) for name in last)
    return sorted((each for each in found if each is not None), key=lambda each: (not each.steadily, -each.bytes))


def worth_naming(grown: Sequence[Grown]) -> Sequence[Grown]:
    """Returns the first type, and those that grow like it and matter beside it."""
    least = WORTH_NAMING * sum(each.bytes for each in grown)
    alike = [each for each in grown[1:] if each.steadily == grown[0].steadily and each.bytes >= least]
    return [*grown[:1], *alike][:NAMED]


def without_types(documents: Sequence[Document]) -> int:
    """Counts the snapshots without types, if others have them: in these no type counts as zero."""
    lacking = sum(_rows_of(each) is None for each in documents)
    return lacking if lacking < len(documents) else 0


def _rows_of(document: Document) -> Optional[Iterable[Document]]:
    rows: Optional[Iterable[Document]] = (document.get("types") or {}).get("types")
    return rows


def _by_type(rows: Iterable[Document]) -> dict[str, _SnapshotRows]:
    types: dict[str, list[Document]] = {}
    for row in rows:
        types.setdefault(str(row["type"]), []).append(row)
    return {name: _SnapshotRows(several) for name, several in types.items()}


def _grown(name: str, moments: Sequence[tuple[float, _SnapshotRows]]) -> Optional[Grown]:
    series = judged(TYPE, name, [ValueAt(taken, rows.bytes) for taken, rows in moments])
    if series.since is None or series.until is not None or series.change <= 0:
        return None
    (start, first), (end, last) = moments[0], moments[-1]
    seconds = end - start
    rate = None
    if seconds >= LONG_ENOUGH:
        rate = round(series.change * 60 / seconds if series.per_hour is None else series.per_hour / 60)
    owner, blocks = _owner(first, last, series.change), (first.blocks, last.blocks)
    return Grown(
        type=name,
        kind=last.largest.get("kind"),
        certain=all(bool(row.get("certain")) for row in last.rows),
        blocks=None if blocks[0] is None or blocks[1] is None else blocks[1] - blocks[0],
        bytes=series.change,
        seconds=seconds,
        per_minute_bytes=rate,
        steadily=series.how == STEADILY,
        owner=None if owner is None else owner_name(owner),
        owner_kind=None if owner is None else str(owner["kind"]),
    )


def _owner(first: _SnapshotRows, last: _SnapshotRows, change: int) -> Optional[Document]:
    """Returns the owner of the growth. A row names who holds most of a type. What that owner held before is known if
    the earlier row names it, too, or if there were no such blocks."""
    after: Optional[Document] = last.largest.get("held_by")
    if after is None:
        return None
    before = list(_held(first, owner_name(after)))
    if first.rows and not before:
        return None
    more = sum(_held(last, owner_name(after))) - sum(before)
    return after if 2 * more >= change else None


def _held(rows: _SnapshotRows, owner: str) -> Iterator[int]:
    for row in rows.rows:
        held_by = row.get("held_by")
        if held_by and owner_name(held_by) == owner:
            yield held_by.get("bytes") or 0
