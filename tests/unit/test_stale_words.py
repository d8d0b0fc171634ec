"""The table of words that can hold no pointer: against its rows asked one by one."""

from __future__ import annotations

import random
from array import array
from typing import Optional, Sequence

import pytest

from arenascope.base.errors import MemoryReadError
from arenascope.base.model import STALE
from arenascope.blocks.graph.blocks import LiveBlocks
from arenascope.blocks.graph.stale_rows import buffers, unset_words, unused_entries
from arenascope.blocks.graph.stale_words import NO_BLOCK, PointerWords, StaleEdges, StaleWords, why_text
from arenascope.engine import EngineImage, StaleRows
from arenascope.present.screens.refs import STALE_WORDS
from arenascope.sources.memory import Memory


def given_blocks(word: int, starts: array[int], ends: array[int], sizes: array[int]) -> LiveBlocks:
    """These blocks, in order."""
    engine = EngineImage(word, "little")
    engine.set_blocks(starts, ends, sizes)
    return LiveBlocks(engine)


BEGIN, MOST = 0x5600_0000_0000, 40


def blocks_of(rng: random.Random, word: int) -> LiveBlocks:
    rows, at = [], BEGIN if word == 8 else 0x5600_0000
    for _ in range(MOST):
        size = 2 * word * rng.randrange(2, 12)
        rows.append((at, at + size - word, size))
        at += size + 2 * word * rng.randrange(3)
    return given_blocks(word, *(array("Q", column) for column in zip(*rows)))


def layout_of(rng: random.Random, word: int) -> PointerWords:
    size = word * rng.randrange(1, 5)
    offsets = [each for each in range(0, size, word) if rng.randrange(2)]
    beyond = rng.choice((None, "beyond-end"))
    return PointerWords("not-a-pointer", size, offsets, begins=word * rng.randrange(2), beyond=beyond)


def expected(past: int, layout: PointerWords, used: int) -> Optional[str]:
    if past >= used:
        return layout.beyond
    within = past - layout.begins
    return None if within >= 0 and within % layout.size in layout.offsets else layout.why


@pytest.mark.parametrize("word", [8, 4])
@pytest.mark.parametrize("seed", range(20))
def test_every_word_is_as_its_row_says(seed: int, word: int) -> None:
    rng = random.Random(seed)
    blocks = blocks_of(rng, word)
    table = StaleWords(blocks.engine, word)
    kept: dict[int, tuple[PointerWords, int]] = {}
    free = set(range(MOST))
    for _ in range(rng.randrange(4)):
        some = rng.sample(range(MOST), 8)
        free -= {*some}
        layout, starts = layout_of(rng, word), array("Q", map(blocks.starts.__getitem__, some))
        rooms = [blocks.ends[each] - blocks.starts[each] + 1 for each in some]
        used = array("Q", (word * rng.randrange(30) for _ in some)) if rng.randrange(2) else None
        # what is no block's start is nobody's
        nowhere = array("Q", [starts[0] + word, 16])
        table.declare(starts + nowhere, layout, used + nowhere if used is not None else None)
        for at, (number, room) in enumerate(zip(some, rooms)):
            kept[number] = layout, min(room, used[at]) if used is not None else room
    ranges = {number: blocks.starts[number] + word for number in rng.sample(sorted(free), 3)}
    for start in ranges.values():
        table.exclude(start, start + word, "text")
    words = [
        (address, number)
        for number, start in enumerate(blocks.starts)
        for address in range(start, blocks.ends[number], word)
    ]
    odd = [rng.randrange(4) == 0 for _ in words]
    truth = [
        expected(address - blocks.starts[number], *kept[number])
        if number in kept
        else ("text" if ranges.get(number) == address else "low-number" if is_odd else None)
        for (address, number), is_odd in zip(words, odd)
    ]
    assert [why_text(table.why(*each, is_odd)) for each, is_odd in zip(words, odd)] == truth


def test_a_range_may_lie_anywhere() -> None:
    """In no block, or across some of them."""
    blocks = blocks_of(random.Random(0), 8)
    table = StaleWords(blocks.engine, 8)
    table.exclude(16, 64, "popped-stack")
    table.exclude(blocks.starts[3], blocks.starts[6], "text")
    assert [table.why(address, NO_BLOCK) > 0 for address in (8, 16, 56, 64)] == [False, True, True, False]


def test_what_was_found_is_in_order() -> None:
    rows: Sequence[tuple[int, int, int, int]] = [(80, 1, 8, 2), (96, 2, 24, 3), (16, NO_BLOCK, 16, 1)]
    stale = StaleEdges.of(StaleRows(*zip(*rows[:2])), rows[2:])
    assert [*zip(stale.addresses, stale.sources, stale.edges, stale.whys)] == sorted(rows)
    assert [stale.why(address) for address in (8, 16, 80, 88, 96, 104)] == [0, 1, 2, 0, 3, 0]


AT, STREAM = 0x7F00_0000_0000, 14
FILE = 0xFBAD_2488


def memory_of(words: Sequence[int]) -> Memory:
    data = array("Q", words).tobytes()

    def read(address: int, size: int) -> bytes:
        found = data[address - AT :][:size] if address >= AT else b""
        if len(found) < size:
            raise MemoryReadError(address, size)
        return found

    return Memory(read, 8, "little")


def stream(buffer: tuple[int, int], following: int, flags: int = FILE) -> list[int]:
    """struct _IO_FILE as far as its _chain; where it reads and writes is nobody's concern."""
    return [flags, *[1] * 6, *buffer, 0, 0, 0, 0, following]


@pytest.mark.parametrize(
    ("following", "found"),
    [
        (0, [(16, 32), (64, 96)]),
        # leads back to the first one, or to itself
        (AT + 8, [(16, 32), (64, 96)]),
        (AT + 8 * (1 + STREAM), [(16, 32), (64, 96)]),
        # nowhere, and to what is none
        (AT - 8, [(16, 32), (64, 96)]),
        (AT + 16, [(16, 32), (64, 96)]),
    ],
)
def test_each_stream_once(following: int, found: list[tuple[int, int]]) -> None:
    first, second = stream((16, 32), AT + 8 * (1 + STREAM)), stream((64, 96), following)
    assert [(start, end) for start, end, _ in buffers(memory_of([AT + 8, *first, *second]), AT)] == found


def test_whose_a_buffer_is() -> None:
    """setvbuf's is the program's: other things may lie behind it."""
    for flags, is_users in ((FILE & ~1, False), (FILE | 1, True)):
        (found,) = buffers(memory_of([AT + 8, *stream((16, 32), 0, flags=flags)]), AT)
        assert found == (16, 32, is_users)


@pytest.mark.parametrize(
    ("mode", "list_of_freed", "expected"),
    [
        (0, 0, {15, 16, 19, *range(22, 27), *range(30, 59)}),
        (0xFFFFFFFF, 0, {15, 16, 19, *range(22, 27), *range(30, 59)}),
        # wide: what it converts with, and what it reads and writes
        (1, 0, {15, 16, *range(22, 27)}),
        (0, 1, {15, 16, 19, *range(23, 27), *range(30, 59)}),
    ],
)
def test_what_fopen_leaves_as_it_was(mode: int, list_of_freed: int, expected: set[int]) -> None:
    """By words of what it asks malloc for."""
    words = [FILE, *[1] * 58]
    words[20], words[21], words[24] = AT + 30 * 8, list_of_freed, mode
    found = unset_words(memory_of(words), AT, AT + 59 * 8)
    assert {at for start, end in found for at in range((start - AT) // 8, (end - AT) // 8)} == expected
    # since 2.40 it leads to what leads here, before it is as little as the others
    for leads, of_before in ((AT, set()), (AT + 8, {23})):
        words[23], words[40] = AT + 40 * 8, leads
        found = unset_words(memory_of(words), AT, AT + 59 * 8)
        assert {at for start, end in found for at in range((start - AT) // 8, (end - AT) // 8)} == (
            expected - {23} | of_before
        )
    # one that has no such part, and what is too small for a stream
    words[20] = AT + (1 << 20)
    assert all(end <= AT + 27 * 8 for _, end in unset_words(memory_of(words), AT, AT + 59 * 8))
    assert not [*unset_words(memory_of(words[:27]), AT, AT + 27 * 8)]


def test_what_is_no_stream() -> None:
    assert [*buffers(memory_of([AT + 8, *stream((16, 32), 0, flags=1)]), AT)] == []
    assert [*buffers(memory_of([AT + 8, *stream((32, 16), 0)]), AT)] == []
    assert [*buffers(memory_of([0]), AT)] == []


FRONT = (AT, AT + 8 * 2)


@pytest.mark.parametrize(
    ("begin", "count", "room", "unused"),
    [
        (AT, 2, 5, [FRONT, (AT + 8 * 14, AT + 8 * 30)]),
        (AT, 0, 5, [FRONT, (AT + 8 * 6, AT + 8 * 30)]),
        # more than there is room for, in the segment and in the block
        (AT, 6, 5, []),
        (AT, 2, 7, []),
        # what free() wants is another block
        (AT + 16, 2, 5, []),
    ],
)
def test_entries_of_the_loader(begin: int, count: int, room: int, unused: list[tuple[int, int]]) -> None:
    """struct dlfo_mappings_segment two words into its block of thirty."""
    blocks = given_blocks(8, array("Q", [AT]), array("Q", [AT + 8 * 30]), array("Q", [8 * 31]))
    memory = memory_of([0, 0, 0, begin, count, room, *range(24)])
    assert [*unused_entries(memory, "x86_64", blocks, AT + 16)] == unused


def test_entries_in_several_segments() -> None:
    """Each begins its block of 14 words, and leads to the other one."""
    one, other = AT, AT + 8 * 16
    ends = array("Q", [each + 8 * 14 for each in (one, other)])
    blocks = given_blocks(8, array("Q", [one, other]), ends, array("Q", [8 * 15] * 2))
    memory = memory_of([other, one, 2, 2, *range(12), one, other, 1, 2, *range(12)])
    found = [each for each in unused_entries(memory, "x86_64", blocks, other) if each.bytes]
    assert found == [(other + 8 * 8, other + 8 * 14), (one + 8 * 12, one + 8 * 14)]


def test_each_reason_has_words() -> None:
    assert [*STALE_WORDS] == [*STALE]
