"""Lost blocks by what they are, added up."""

from __future__ import annotations

from typing import Mapping, Optional, Sequence

from ..gather.single import kinds_of
from ..recognise.kinds import Kind
from ..records import NamedTuple
from .blocks import LiveBlocks
from .components import Lump
from .refs import Search

SAMPLES = 3
MOST_TYPED = 20000
"""Heads whose kind is asked for; of more than that the largest sizes must do."""


class LeakRow(NamedTuple):
    """All heads of one type."""

    type: str
    blocks: int
    bytes: int
    indirect_blocks: int
    indirect_bytes: int
    strength: str
    samples: Sequence[int]
    """What malloc returned for some of them."""

    @property
    def all_bytes(self) -> int:
        return self.bytes + self.indirect_bytes


def rows_of(search: Search, lumps: Sequence[Lump], strength: str) -> list[LeakRow]:
    """The largest first."""
    blocks = search.blocks
    types = types_of(search, [each.head for each in lumps])
    groups: dict[str, list[Lump]] = {}
    for each in lumps:
        groups.setdefault(types[each.head], []).append(each)
    rows = [
        LeakRow(
            name,
            blocks=len(group),
            bytes=sum(blocks.sizes[each.head] for each in group),
            indirect_blocks=sum(len(each.others) for each in group),
            indirect_bytes=sum(blocks.sizes[other] for each in group for other in each.others),
            strength=strength,
            samples=[blocks.starts[each.head] for each in group[:SAMPLES]],
        )
        for name, group in groups.items()
    ]
    return sorted(rows, key=lambda each: (-each.all_bytes, each.type))


def types_of(search: Search, numbers: Sequence[int]) -> Mapping[int, str]:
    """What blocks are, in words."""
    blocks = search.blocks
    asked = numbers[:MOST_TYPED]
    told = kinds_of(search.session, [(chunk_of(search, number), blocks.sizes[number]) for number in asked])
    kinds = {number: told.get(chunk_of(search, number)) for number in asked}
    return {number: name_of(kinds.get(number), blocks, number) for number in numbers}


def chunk_of(search: Search, number: int) -> int:
    return search.blocks.starts[number] - search.session.layout.header


def name_of(kind: Optional[Kind], blocks: LiveBlocks, number: int) -> str:
    return kind.name if kind is not None else f"{blocks.sizes[number]:,} bytes"
