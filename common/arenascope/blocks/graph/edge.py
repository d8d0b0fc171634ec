"""An edge as a number: the block that a pointer leads to, and how far into it."""

from __future__ import annotations

INSIDE, DEEP, STALE = 1, 2, 4
"""Of an edge: it leads to the block's inside; and that to past FRONT, in which a program's own headers may stand; it
comes from a word that stale_words.py excludes."""
FLAGS = 3
"""So many bits of an edge say that. Above them is the block's number."""
FRONT = 32
LOW = 1 << 32
ALIGNED = 8


def is_low_number(value: int, past: int, word: int) -> bool:
    """Whether what leads so far into a block may be a number by chance: where a program's heap lies below 4 GiB, 32-bit
    hashes and counts of 64-bit programs do. Structs inside of blocks are aligned; a pointer to a letter amid a text
    has another one beside it, to the start."""
    return word == ALIGNED and value < LOW and past > FRONT and value % ALIGNED != 0


def edge_to(number: int, past: int) -> int:
    """`past`: so far from the block's start on."""
    return number << FLAGS | (DEEP if past > FRONT else 0) | (INSIDE if past else 0)
