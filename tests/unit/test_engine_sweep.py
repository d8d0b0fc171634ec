"""The engine sweeps as Python does: block by block, sum by sum, in sound heaps and in damaged ones."""

from __future__ import annotations

import json
import random
from typing import Any, Iterator, Sequence

import pytest
from fake_door import FakeDoor
from fake_target import FakeTarget
from heap_mixtures import everything
from heapbuilder import EACH_ROW, HeapImage
from marks import in_full
from schemas import valid

from arenascope.base.errors import ArenascopeError
from arenascope.base.heap_model import ChunkRun, Gap
from arenascope.commands.framework.command import execute
from arenascope.commands.framework.find_command import find_command
from arenascope.glibc.sweep import blocks
from arenascope.session.session import Session
from arenascope.sources.target import MemoryPiece


def seen(session: Session) -> list[Any]:
    """All of every heap: runs may be cut elsewhere."""
    rows: list[Any] = []
    for header in session.headers:
        for heap in session.heaps[header.index]:
            for piece in session.sweep(header, heap):
                if isinstance(piece, Gap):
                    rows.append(piece)
                    continue
                rows += blocks(piece, session.listed)
                assert piece.bytes == sum(size for _, size, _ in blocks(piece, {}))
                agrees_with_itself(piece)
    return [*rows, *session.findings]


def agrees_with_itself(run: ChunkRun) -> None:
    assert sum(run.counts.values()) == len(run.raws)
    assert all([*run.raws].count(raw) == run.counts[raw] for raw in [*run.counts][:3])
    chunks = [*blocks(run, {})]
    free = [(at, chunk + size) for at, (chunk, size, state) in enumerate(chunks, 1) if state == "free"]
    in_front = [(0, run.address)] if not run.raws[0] & 1 else []
    assert [*zip(run.free.indexes, run.free.addresses)] == in_front + free
    assert all(chunks[at][0] == chunk for at, chunk in run.marks)


def by_engine(target: FakeTarget) -> FakeTarget:
    """The same target, whose bytes the engine can have."""

    def pieces(start: int, end: int) -> Iterator[MemoryPiece]:
        for each in target.mappings:
            low, high = max(start, each.start), min(end, each.end)
            if low < high and each.readable and each.present:
                yield MemoryPiece(low, high - low, memoryview(bytearray(target.space.read(low, high - low))))

    target.pieces = lambda start, end: [*pieces(start, end)]  # type: ignore[method-assign]
    return target


def same(image: HeapImage) -> Sequence[Any]:
    plain, engine = Session(image.target()), Session(by_engine(image.target()))
    assert plain.engine is None
    assert engine.engine is not None
    found = seen(plain)
    assert seen(engine) == found
    return found


@pytest.mark.parametrize("row", EACH_ROW, ids=lambda row: row.name)
def test_every_row(row: Any) -> None:
    assert any(isinstance(each, tuple) for each in same(everything(row)))


@pytest.mark.parametrize("seed", [*range(20), *in_full(*range(20, 400))])
def test_damaged_at_random(seed: int) -> None:
    """Words of chunks, or any, become others, near ones and impossible ones."""
    choose = random.Random(seed)
    image = everything(choose.choice(["2.36-64", "2.31-i386", "2.23-64"]))
    word = image.target().pointer_size
    places = [each for each in seen(Session(image.target())) if isinstance(each, tuple) and len(each) == 3]
    for _ in range(choose.randint(1, 8)):
        chunk, size, _state = choose.choice(places)
        value = choose.choice([0, 1, size, size + 8, size | 1, size + 0x1000 | 1, choose.getrandbits(8 * word)])
        image.poke(chunk + choose.choice([0, word, word, word, 2 * word]), value)
    try:
        found = seen(Session(image.target()))
    except ArenascopeError:
        return
    assert same(image) == found


@pytest.mark.parametrize("row", ["2.36-64", *in_full("2.31-i386")])
@pytest.mark.parametrize("command", ["chunks --limit 0", "chunks --exact", "check", "map"])
def test_documents(row: str, command: str) -> None:
    documents = []
    for target in (everything(row).target(), by_engine(everything(row).target())):
        door = FakeDoor(target)
        name, *words = command.split()
        execute(find_command(name), [*words, "--json"], door)
        documents.append(valid(json.loads("".join(door.written))))
    assert documents[0] == documents[1]
    assert documents[0]["complete"]
