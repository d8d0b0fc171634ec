"""Expressions about blocks: what the engine selects is what Python finds one by one."""

from __future__ import annotations

import random
import struct
from array import array

import pytest

from arenascope.blocks.recognise.selection import (
    BASE,
    PLACE,
    USABLE,
    USER,
    Places,
    Selection,
    first,
    holds_in_each,
    holds_in_one,
)
from arenascope.engine import EngineImage
from arenascope.sources.target import ByteOrder, MemoryPiece, Span

AT, WORDS, BLOCKS = 0x10000, 4, 200


def selection(word: int, order: ByteOrder) -> tuple[Selection, list[list[int]], EngineImage]:
    """Blocks of four words beside each other, which lead to each other or have small numbers."""
    rng = random.Random(word)
    size = WORDS * word
    values = [rng.choice((0, rng.randrange(9), AT + size * rng.randrange(BLOCKS))) for _ in range(BLOCKS * WORDS)]
    data = struct.pack(f"{'<' if order == 'little' else '>'}{len(values)}{'Q' if word == 8 else 'I'}", *values)
    engine = EngineImage(word, order)
    engine.set_memory([MemoryPiece(AT, len(data), memoryview(bytearray(data)))])
    starts = array("Q", range(AT, AT + len(data), size))
    sizes = array("Q", [size] * BLOCKS)
    engine.set_blocks(starts, array("Q", [start + size - word for start in starts]), sizes)
    rows = [values[at : at + WORDS] for at in range(0, len(values), WORDS)]
    return Selection(engine), rows, engine


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("word", [8, 4])
def test_what_holds_of_which_blocks(word: int, order: ByteOrder) -> None:
    blocks, rows, _ = selection(word, order)
    size = WORDS * word

    def at(place: int) -> list[int]:
        return [row[place] for row in rows]

    own = [(USER + place * word).number(0) for place in range(WORDS)]
    anywhere = (USER + PLACE * word).number(0)
    heaps = Span(AT, AT + BLOCKS * size)

    def following(value: int) -> int:
        return rows[(value - AT) // size][1] if value >= AT else -1

    truth = {
        own[0].is_in([3, 5]): [row[0] in (3, 5) for row in rows],
        own[1].between(2, 7) | (own[2] == 0): [2 <= row[1] < 7 or row[2] == 0 for row in rows],
        own[0].lies_in([heaps]) & ~own[1].lies_in([heaps]): [row[0] >= AT > row[1] for row in rows],
        (own[0] + word).number(0) == USER: [following(row[0]) == AT + n * size for n, row in enumerate(rows)],
        holds_in_each(anywhere < 9, WORDS): [max(row) < 9 for row in rows],
        holds_in_one(anywhere == USER, WORDS): [AT + n * size in row for n, row in enumerate(rows)],
        first(anywhere == 0, WORDS) == 2: [0 in row and row.index(0) == 2 for row in rows],
        (own[3] % 5 == 2) & (size - word == USABLE): [row[3] % 5 == 2 for row in rows],
    }
    for condition, holds in truth.items():
        expected = [number for number, each in enumerate(holds) if each]
        assert list(blocks.where(condition)) == expected
        assert list(blocks.where(condition, array("I", range(0, BLOCKS, 3)))) == [n for n in expected if n % 3 == 0]
    assert list(blocks.column(own[2])) == at(2)
    groups = {value: list(numbers) for value, numbers in blocks.grouped(own[0])}
    assert groups == {value: [number for number, each in enumerate(at(0)) if each == value] for value in {*at(0)} - {0}}


def test_other_places_than_blocks() -> None:
    _, rows, engine = selection(8, "little")
    # the second word of each block
    addresses = array("Q", [AT + 32 * number + 8 for number in range(BLOCKS)])
    places = Selection(engine, Places(addresses, array("Q", range(BLOCKS)), array("Q", [AT] * BLOCKS)))
    assert list(places.column(USER.word(-1))) == [row[0] for row in rows]
    assert list(places.where((USABLE == 7) | (USER - BASE == 8))) == [0, 7]
    # behind the last one there is nothing, which is not 0, and not anything else
    behind = USER.word(3)
    assert list(places.where((behind == 0) | (behind > 0))) == list(range(BLOCKS - 1))
