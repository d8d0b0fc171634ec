"""Whether words may be a container's, by numbers alone, as there are millions of words to ask this of."""

from __future__ import annotations

import sys
from typing import Sequence

STDIO = 0xFBAD
"""_IO_MAGIC, in the upper half of a FILE's flags."""
MOST_NODES = 1 << 24
MOST_ROOM = 1 << 40
MOST_CODE = 1 << 30
"""So far apart are functions of one module at most, mostly."""
ONES = 0xFFFFFFFF


def may_have_streams(words: Sequence[int], high_half: bool) -> bool:
    """Whether one of them has the magic number of struct _IO_FILE in it. `high_half`: a word begins with that half."""
    if isinstance(words, memoryview):
        return STDIO.to_bytes(2, sys.byteorder) in words.tobytes()
    shift = 48 if high_half else 16
    return any(word >> shift & 0xFFFF == STDIO for word in words)


def may_be_of_rust(words: Sequence[int], index: int) -> bool:
    if index + 2 >= len(words):
        return False
    second, room = words[index + 1], words[index - 1] if index else 0
    return 0 < second <= room < MOST_ROOM or (0 < second < MOST_ROOM and not second & second + 1)


def may_be_of_cplusplus(words: Sequence[int], index: int) -> bool:
    if index + 2 >= len(words):
        return False
    first, second, third = words[index : index + 3]
    if second < MOST_ROOM:
        # a string, a hash table, a deque's map
        return second > 0 or (index + 3 < len(words) and third ^ words[index + 3] < MOST_CODE)
    # a vector, a tree, a list
    if first <= second <= third < first + MOST_ROOM or 0 < third < MOST_ROOM or words[index - 1] & ONES < 2:
        return True
    return index + 3 < len(words) and third ^ words[index + 3] < MOST_CODE
