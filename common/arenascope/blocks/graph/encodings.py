"""Encoded pointers: what a second search looks for, where no plain pointer leads to a block.

With a tag in the low bits a pointer still leads into the block. What takes a calculation that the program alone knows
(XOR lists, references from a base of its own) is not found. The engine decodes: see encoded.rs.
"""

from __future__ import annotations

WHOLE = ("tagged", "shifted")
"""The upper 16 bits are a count or a tag (boost::lockfree), or the lower ones are."""
ALIKE = "inside"
"""No other writing: the offset inside a block is that of all blocks of its size."""
UNALIGNED, RELATIVE = "unaligned", "relative"
TAGS = 16
"""Tags in the low bits stay below malloc's alignment."""
FAR = 4096
"""A distance is longer: lengths and counts would lead to a neighbour."""


def room(encoding: str) -> int:
    """How far past a block's start a word leads, at most, that can be a pointer to it, and one: what is written
    otherwise has to lead to the start."""
    return TAGS if encoding in WHOLE else 1
