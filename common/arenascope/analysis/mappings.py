"""Tells whose each mapping is: malloc's, by arena and block, or one of the other parts that a report splits memory
into."""

from __future__ import annotations

from typing import Mapping, NamedTuple, Optional, Sequence

from ..sources.target import MappingUse
from .report import Extent, bss_name, extents_in, part_of

MALLOC = "malloc"
PARTS = (MALLOC, "stacks", "files", "shared", "other", "kernel")
"""The kinds of memory in a mapping: malloc's, and the other parts of a report."""


class Mapped(NamedTuple):
    """One mapping."""

    use: MappingUse
    part: str
    """One of PARTS; memory in a mapping of MALLOC that is not malloc's is "other"."""
    arenas: Sequence[int]
    """Arenas with a heap in it, or just before it if it is their `reserve`."""
    blocks: int
    """The number of mmapped blocks that begin in it; the kernel merges neighbours into one mapping."""
    malloc_bytes: Optional[int]
    """The resident bytes of malloc's; None if not known."""
    tid: Optional[int]
    """The thread whose stack it holds."""
    reserve: bool
    """Address space after a heap into which it can grow."""
    name: str

    @property
    def resident(self) -> Optional[int]:
        return self.use.rss

    @property
    def other_bytes(self) -> Optional[int]:
        """The resident bytes that are not malloc's."""
        return None if self.resident is None or self.malloc_bytes is None else self.resident - self.malloc_bytes


def mapped(
    uses: Sequence[MappingUse],
    extents: Sequence[Extent],
    stacks: Mapping[int, int],
    *,
    known: bool,
    bss: Mapping[int, int],
) -> list[Mapped]:
    """Describes each mapping. `stacks` are threads by their stack pointers; `known`: the extents tell how much of them
    is resident; `bss`: its start and end in memory."""
    ordered = sorted(extents)
    starts = [each.start for each in ordered]
    pointers = sorted(stacks)
    rows: list[Mapped] = []
    for before, use in zip([None, *uses], uses):
        region = use.region
        inside = extents_in(region, starts, ordered)
        arenas = sorted({each.arena for each in inside if each.arena is not None})
        part = MALLOC if inside else part_of(region, pointers)
        previous = rows[-1] if rows else None
        reserve = (
            part == "other"
            and not (region.readable or region.writable)
            and previous is not None
            and bool(previous.arenas)
            and previous.use.region.end == region.start
        )
        resident = sum(each.resident for each in inside) if known and use.rss is not None else None
        rows.append(
            Mapped(
                use,
                part,
                arenas=previous.arenas if reserve and previous else arenas,
                blocks=sum(1 for each in inside if each.arena is None and each.first),
                malloc_bytes=resident if inside else 0 if use.rss is not None else None,
                tid=next((stacks[each] for each in pointers if region.contains(each)), None)
                if part == "stacks"
                else None,
                reserve=reserve,
                name=region.path or bss_name(before, use, bss),
            )
        )
    return rows


def part_sums(rows: Sequence[Mapped]) -> dict[str, Optional[int]]:
    """Sums resident bytes by part, as a report has them; None if one mapping is not known."""
    sums: dict[str, Optional[int]] = dict.fromkeys(PARTS, 0)

    def add(part: str, size: Optional[int]) -> None:
        before = sums[part]
        sums[part] = None if before is None or size is None else before + size

    for row in rows:
        if row.part == MALLOC:
            add(MALLOC, row.malloc_bytes)
            add("other", row.other_bytes)
        else:
            add(row.part, row.resident)
    return sums
