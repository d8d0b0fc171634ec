"""Lost blocks by what they are, added up."""

from __future__ import annotations

from array import array
from collections import Counter
from functools import cache
from itertools import islice
from typing import Mapping, NamedTuple, Sequence

from ...analysis.held_back import SAMPLES
from ...base.model import Kind
from ..block_index import WEAK
from ..declared.fitting_structs import fitting_structs
from ..declared.once_per_image import declared_kinds
from ..named_by_holders import of_libstdcxx
from ..recognise.containers import LEAST_POOL, POOL, is_pool
from ..single_blocks import kinds_of
from .blocks import LiveBlocks
from .components import Lumps
from .edge import FLAGS, INSIDE
from .refs import ImageSearch

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
    may_be: Sequence[str] = ()
    """As in TypeRow."""

    @property
    def all_bytes(self) -> int:
        return self.bytes + self.indirect_bytes


class _Group:
    """Those of one type so far."""

    def __init__(self) -> None:
        self.blocks = self.bytes = self.indirect_blocks = self.indirect_bytes = 0
        self.samples: list[int] = []


def rows_of(search: ImageSearch, lumps: Lumps, strength: str) -> list[LeakRow]:
    """The largest first."""
    blocks, heads = search.blocks, lumps.heads
    types = types_of(search, heads[:MOST_TYPED])
    groups: dict[str, _Group] = {}

    def group_of(head: int) -> _Group:
        kind = types.get(head)
        name = kind.name if kind is not None else by_size(blocks.sizes[head])
        return groups.get(name) or groups.setdefault(name, _Group())

    for head in islice(heads, MOST_TYPED):
        group = group_of(head)
        group.blocks += 1
        group.bytes += blocks.sizes[head]
        if len(group.samples) < SAMPLES:
            group.samples.append(blocks.starts[head])
    for size, rest in _by_size(blocks, heads[MOST_TYPED:]).items():
        group = group_of(rest.samples[0])
        group.blocks += rest.number
        group.bytes += size * rest.number
        group.samples += [blocks.starts[each] for each in rest.samples[: SAMPLES - len(group.samples)]]
    for head, others in lumps.hanging():
        group = group_of(head)
        group.indirect_blocks += len(others)
        group.indirect_bytes += blocks.bytes_of(others)
    rows = [
        LeakRow(
            name,
            blocks=group.blocks,
            bytes=group.bytes,
            indirect_blocks=group.indirect_blocks,
            indirect_bytes=group.indirect_bytes,
            strength=strength,
            samples=group.samples,
        )
        for name, group in groups.items()
    ]
    return sorted(rows, key=lambda each: (-each.all_bytes, each.type))


def with_guesses(search: ImageSearch, lumps: Lumps, rows: Sequence[LeakRow]) -> list[LeakRow]:
    """Of blocks of which nothing is known but their size, what they may be."""
    unnamed = [each for each in rows if each.type == by_size(each.bytes // each.blocks)]
    found = fitting_structs(search.session, unnamed, lumps.heads)
    return [each._replace(may_be=found.get(each.samples[0], ())) for each in rows]


@cache
def by_size(size: int) -> str:
    """What of nothing is known but how large it is."""
    return f"{size:,} bytes"


class _OfSize(NamedTuple):
    """Heads of one size."""

    number: int
    samples: list[int]
    """The first of them."""


def _by_size(blocks: LiveBlocks, heads: Sequence[int]) -> dict[int, _OfSize]:
    """They may be millions: those of a size are counted without a look at each."""
    sizes = array("Q", map(blocks.sizes.__getitem__, heads))
    found = {size: _OfSize(number, []) for size, number in Counter(sizes).items()}
    wanted = {size: min(each.number, SAMPLES) for size, each in found.items()}
    for head, size in zip(heads, sizes):
        if size in wanted:
            found[size].samples.append(head)
            if len(found[size].samples) == wanted[size]:
                del wanted[size]
                if not wanted:
                    break
    return found


def types_of(search: ImageSearch, numbers: Sequence[int]) -> Mapping[int, Kind]:
    """What blocks are."""
    blocks = search.blocks
    asked = numbers[:MOST_TYPED]
    told = kinds_of(search.session, [(chunk_of(search, number), blocks.sizes[number]) for number in asked])
    kinds = {number: told.get(chunk_of(search, number)) for number in asked}
    pools = _pools(search, [number for number, kind in kinds.items() if kind is None or kind.kind in WEAK])
    kinds.update(dict.fromkeys(pools, Kind(POOL, "holder")))
    kinds.update(declared_kinds(search, kinds))
    return {number: kinds.get(number) or Kind(by_size(blocks.sizes[number]), "size") for number in numbers}


def _pools(search: ImageSearch, numbers: Sequence[int]) -> set[int]:
    """libstdc++'s emergency pool, which its holder tells: of blocks that variables were found to lead to."""
    blocks, word = search.blocks, search.session.memory.pointer_size
    likely = {number for number in numbers if blocks.sizes[number] > LEAST_POOL}
    pools = set()
    graph = search.graph
    for seed in graph.seeds if likely and graph is not None else ():
        number = seed.edge >> FLAGS
        if number in likely and seed.root < len(search.roots.ranges) and not seed.edge & INSIDE:
            data = search.session.memory.try_read(seed.address - word, 3 * word)
            usable = blocks.sizes[number] - word
            found = data is not None and is_pool(search.session.memory.as_words(data), usable)
            if found and of_libstdcxx(search.session.target.describe(seed.address)):
                pools.add(number)
    return pools


def chunk_of(search: ImageSearch, number: int) -> int:
    return search.blocks.starts[number] - search.session.layout.header
