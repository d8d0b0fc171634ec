"""struct malloc_chunk: the size word and its flags, and the link encodings."""

from __future__ import annotations

PREV_INUSE = 1
IS_MMAPPED = 2
NON_MAIN_ARENA = 4
SIZE_BITS = 7

SAFE_LINK_SHIFT = 12
"""PROTECT_PTR (2.32): a link is stored XORed with its own address shifted by a page, whatever the page size."""


def masked(size_word: int) -> int:
    """chunksize()."""
    return size_word & ~SIZE_BITS


def reveal(stored: int, field_address: int) -> int:
    """REVEAL_PTR: the link behind a protected pointer that was read at field_address."""
    return stored ^ (field_address >> SAFE_LINK_SHIFT)
