"""Many blocks at once are told to be what each is told to be by itself."""

from __future__ import annotations

import random
import sys
from collections import Counter
from typing import Callable, Mapping, Sequence

import pytest
from heap_mixtures import everything
from marks import in_full

from arenascope.base.errors import MemoryReadError
from arenascope.blocks.recognise.all_recognisers import NONE, POINTERS, TEXTS, ZEROS, Catalogue, _Table
from arenascope.blocks.recognise.contents import LOOKED_AT
from arenascope.blocks.recognise.cplusplus import ClassName
from arenascope.blocks.recognise.module_memory import PAGE_SHIFT, LoadedModules
from arenascope.session.session import Session
from arenascope.sources.memory import Memory
from arenascope.sources.target import Region

HEAP, TABLE, PLACE = 0x5600_0000_0000, 0x7F00_0000_1010, 0x7F00_0000_1200
BLOCKS, SIZES = 2000, (24, 40, 56, 104, 248, 264, 1032)
LETTERS = "é", "日", "😀", "\x01", "\x7f", "Z"
Words = Callable[[random.Random, int, Sequence[int]], bytes]


def words_of(rng: random.Random, usable: int, users: Sequence[int]) -> bytes:
    """Of each word what may be met in one: mostly what rules look for."""
    own = rng.choice(users)
    some = (0, 1, own, own, rng.choice(users) + 8, TABLE, PLACE, 0x41, 0x100, rng.getrandbits(64), rng.getrandbits(20))
    few = rng.choices(some, k=rng.randint(1, 3))
    return b"".join(rng.choice(few).to_bytes(8, "little") for _ in range(usable // 8))


def text_of(rng: random.Random, usable: int, users: Sequence[int]) -> bytes:
    """Of every encoding, cut anywhere, with something behind it or not."""
    text = "".join(rng.choice("abc 1\n" + (rng.choice(LETTERS) if rng.random() < 0.1 else "")) for _ in range(usable))
    data = text.encode(rng.choice(("utf-8", "utf-16-le", "utf-32-be", "utf-16-be")))
    data = data[rng.randint(0, 2) : rng.randint(0, usable + 8)]
    tail = b"\0" * rng.choice((0, 1, 7, usable)) + (rng.randbytes(rng.choice((1, 9))) if rng.random() < 0.3 else b"")
    return (data + tail).ljust(usable, b"\0")[:usable]


def same_byte(rng: random.Random, usable: int, users: Sequence[int]) -> bytes:
    return bytes([rng.choice((0, 1, 65, 0x80, 0xC3, 0xFF, rng.randrange(256)))]) * usable


def objects(rng: random.Random, usable: int, users: Sequence[int]) -> bytes:
    """One, or some side by side."""
    words = [rng.choice((0, 1, rng.choice(users))) for _ in range(usable // 8)]
    for at in range(0, len(words), rng.choice((len(words), len(words), 4))):
        words[at] = TABLE
    return b"".join(each.to_bytes(8, "little") for each in words)


def plant_nodes(rng: random.Random, users: Sequence[int], data: bytearray) -> None:
    """A list of three, and a tree of three under its header, as either library links it."""
    header, root, left, right = rng.sample(users[:-1], 4)
    libstdcxx = {
        header: (0, root, left, right),
        root: (1, header, left, right),
        left: (1, root, 0, 0),
        right: (1, root, 0, 0),
    }
    libcxx = {
        header: (left, root, 3, 0),
        root: (left, right, header + 8, 1),
        left: (0, 0, root, 1),
        right: (0, 0, root, 1),
    }
    linked = {header: (root, left), root: (left, header), left: (header, root)}
    nodes: Mapping[int, Sequence[int]] = rng.choice((libstdcxx, libcxx, linked))
    for user, words in nodes.items():
        planted = b"".join(word.to_bytes(8, "little") for word in words)[: 24 if rng.random() < 0.1 else 32]
        data[user - HEAP : user - HEAP + len(planted)] = planted


def window(rng: random.Random) -> tuple[list[int], list[int], bytes]:
    usables = [rng.choice(SIZES) for _ in range(BLOCKS)]
    users = [HEAP + 16]
    for usable in usables[:-1]:
        users.append(users[-1] + usable + 8 + rng.choice((0, 0, 64)))
    data = bytearray(users[-1] + usables[-1] - HEAP)
    forms: Sequence[Words] = (words_of, text_of, same_byte, objects)
    for user, usable in zip(users, usables):
        near = [user, user, *rng.sample(users, 2), HEAP + len(data) + 16 * rng.randrange(99)]
        data[user - HEAP : user - HEAP + usable] = rng.choice(forms)(rng, usable, near)
    for _ in range(BLOCKS // 20):
        plant_nodes(rng, users, data)
    return users, usables, bytes(data)


@pytest.mark.skipif(sys.byteorder != "little", reason="numpy is used on such machines alone")
@pytest.mark.parametrize("sparse", [0, *in_full(1 << 20)], ids=["heads side by side", "as they lie"])
@pytest.mark.parametrize("seed", range(8))
def test_each_is_what_it_is_by_itself(seed: int, sparse: int, monkeypatch: pytest.MonkeyPatch) -> None:
    numpy = pytest.importorskip("numpy", reason="numpy is not installed: scripts/setup.sh installs it")
    from arenascope.blocks.recognise import many_blocks_with_numpy
    from arenascope.blocks.recognise.many_blocks_with_numpy import ManyBlocks

    monkeypatch.setattr(many_blocks_with_numpy, "SPARSE", sparse)
    rng = random.Random(seed)
    users, usables, data = window(rng)

    def read(address: int, size: int) -> bytes:
        if not HEAP <= address <= address + size <= HEAP + len(data):
            raise MemoryReadError(address, size)
        return data[address - HEAP : address - HEAP + size]

    memory = Memory(read, 8, "little")
    # the second half of the heaps' range is not there
    ground = LoadedModules(Session(everything("2.36-64").target()).target, memory, [Region(HEAP, HEAP + len(data))])
    ground.pages.add(TABLE >> PAGE_SHIFT)
    catalogue = Catalogue(ground, HEAP, HEAP + 2 * len(data))
    catalogue.tables[TABLE] = _Table(ClassName("Session", None, "RTTI"), TABLE.to_bytes(8, "little"))
    base = users[0]
    end = users[-1] + min(usables[-1], LOOKED_AT)
    seen = data[base - HEAP : end - HEAP]
    told = [rng.choice((NONE, NONE, NONE, catalogue.by_size(8))) for _ in users]
    each = catalogue.classify_many(memory.as_words(seen), seen, base, users, usables, told=told)
    many = ManyBlocks(numpy, catalogue)
    assert many.runs
    at_once = many.told(seen, base, users, usables, told=told)
    assert at_once is not None
    # of nodes links are followed, which is not done at once
    assert {"node"} < {catalogue.kind(kind).kind for kind in each}
    decided = [(kind, found) for kind, found in zip(each, at_once.tolist()) if found != NONE]
    wrong = [(catalogue.entries[kind], catalogue.entries[found]) for kind, found in decided if kind != found]
    assert not wrong
    # and most are told, of every kind
    assert len(decided) > 0.6 * BLOCKS
    kinds = Counter(catalogue.entries[found].kind for _, found in decided)
    assert {TEXTS["ASCII"], ZEROS, POINTERS} < set(kinds)
    assert {"c++", "size"} < {kind.kind for kind in kinds}
