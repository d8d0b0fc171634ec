"""Large blocks that variables lead to by more than one pointer, named after the way: "dflt_key_cache->+24 body".

A block of up to a KiB is told by its very size where nothing else tells; of larger ones the size says little. So these
are looked for where what variables point to leads, a few pointers deep. All of that is a guess.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import Iterable, Iterator, NamedTuple, Sequence

from ..base.model import POINTED, Kind
from .block_index import WEAK, Index
from .recognise.all_recognisers import EXACT, NONE

DEEPEST = 4
MOST_BLOCKS = 1 << 15
"""Blocks that are looked through."""
LARGEST = 16 << 10
"""So much of each."""
MOST_OF_ONE = 64
"""Of what one block points to, so many are looked through."""
VAGUE = ("size", "zeros")


class VariablePath(NamedTuple):
    """To a block, from a variable."""

    user: int
    name: str
    deep: int


def name_by_ways(index: Index, kinds: Sequence[Kind], ways: Iterable[VariablePath]) -> Iterator[tuple[int, Kind]]:
    """What to call them, by their addresses; `ways` are those of one pointer."""
    left = _vague_blocks(index, kinds)
    met: set[int] = set()
    following = deque(ways)
    looked = 0
    while following and left and looked < MOST_BLOCKS:
        way = following.popleft()
        block = index.block(way.user)
        if block is None or way.user in met:
            continue
        met.add(way.user)
        looked += 1
        # what is small is one thing, and each place in it has its meaning
        single, followed = block.usable <= EXACT, 0
        for at, word in index.pointers(way.user, min(block.usable, LARGEST)):
            led_to = index.block(word) if word not in met else None
            if led_to is None or led_to.kind == NONE or kinds[led_to.kind].kind not in WEAK:
                continue
            # one of a list
            alike = led_to.usable == block.usable
            name = way.name if alike else f"{way.name}->+{at}" if single else f"{way.name}[]"
            if led_to.usable > EXACT and kinds[led_to.kind].kind in VAGUE:
                yield word, Kind(f"{name} body", "holder", None, False, how=POINTED, owner=name)
                left -= 1
            if way.deep < DEEPEST and followed < MOST_OF_ONE:
                following.append(VariablePath(word, name, way.deep + (not alike)))
                followed += 1


def _vague_blocks(index: Index, kinds: Sequence[Kind]) -> int:
    """How many there are at most."""
    counts: Counter[int] = index.counts()
    return sum(blocks for kind, blocks in counts.items() if kind != NONE and kinds[kind].kind in VAGUE)
