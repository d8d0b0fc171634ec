"""Mappings that only look like blocks served by mmap: left out where glibc's counts tell which they are."""

from __future__ import annotations

import pytest
from test_split_mappings import ROWS, SIZE, found, image_of, laid, relaid

from arenascope.base.heap_model import MmappedBlock, Tally
from arenascope.glibc.mmapped_chunks import MAX_CHOICES, without_strangers

KIB = 1024


def blocks(*sizes: int) -> list[MmappedBlock]:
    return [MmappedBlock(chunk, chunk, size * KIB) for chunk, size in enumerate(sizes, 1 << 20)]


# what a JVM 17 showed: tables of its class data that begin like a block of 192 KiB
SEEN = blocks(192, 196, 516, 364, 260)


@pytest.mark.parametrize(
    ("found", "counted", "left"),
    [
        (SEEN, (4, 1336 * KIB), SEEN[1:]),
        (SEEN, (5, 1528 * KIB), SEEN),
        (SEEN, (3, 972 * KIB), [SEEN[1], SEEN[2], SEEN[4]]),  # two strangers, of 192 and 364
        (SEEN, (0, 0), []),
        (SEEN, (4, 1000 * KIB), SEEN),  # no way to tell
        (SEEN, (6, 1528 * KIB), SEEN),  # one was not found
        (SEEN, (-1, 0), SEEN),
        (blocks(192, 192, 500), (2, 692 * KIB), blocks(192, 192, 500)),  # two ways
        ([], (0, 0), []),
    ],
)
def test_what_glibc_counts_is_left(
    found: list[MmappedBlock], counted: tuple[int, int], left: list[MmappedBlock]
) -> None:
    assert without_strangers(found, Tally(*counted)) == left


def test_many_possible_strangers_end_the_search() -> None:
    many = blocks(*range(100, 160))
    counted = Tally(30, sum(block.bytes for block in many[:30]))
    assert MAX_CHOICES < 10**9
    assert without_strangers(many, counted) == many


@pytest.mark.parametrize("name", ROWS)
def test_none_is_larger_than_all_together(name: str) -> None:
    """A thread has just unmapped a block, which glibc still counts; words of a JVM's heap look like a header."""
    image = image_of(name)
    image.mmapped(1 << 24)
    # glibc has not counted this one
    image.mmapped_blocks.pop()
    blocks = [image.mmapped(SIZE, apart=not number) for number in range(3)]
    target = relaid(image.target(), blocks[1].base, blocks[1].base + blocks[1].total)
    assert found(target) == laid(blocks[0], blocks[2])
