"""zlib's streams: what deflate and inflate keep of each, and their windows and tables.

The state begins with the address of its z_stream, which has the state's in its eighth word, so that nothing passes for
one by chance. deflate_state and inflate_state have been laid out so since 1.2.9; Chromium's zlib, which node has, has
its own member where padding was. node puts a word in front of what zlib asks for: all the bytes of the block. Since
20 there is a word of padding after it.
"""

from __future__ import annotations

import struct
from typing import Optional, Sequence

from ...base.model import Kind
from .module_memory import LoadedModules, fits

HOW = "its z_stream, which points back"
DEFLATE = Kind("zlib deflate state", "holder", how=HOW)
INFLATE = Kind("zlib inflate state", "holder", how=HOW)
PART = "its zlib state's own sizes"
WINDOW = Kind("zlib window", "holder", how=PART)
PREVIOUS = Kind("zlib hash chains", "holder", how=PART)
HEADS = Kind("zlib hash heads", "holder", how=PART)
PENDING = Kind("zlib pending output", "holder", how=PART)
IN_NODE = (16, 8)
"""Bytes in front of what zlib asked for."""
STATE = 56
"""Where a z_stream has its state."""
STATUSES = (42, 57, 69, 73, 91, 103, 113, 666)
MODES = range(16180, 16212)
LEAST_STATE, MOST_STATE = 5000, 16 << 10
MORE = 64
"""Chromium's zlib asks for so much more than it will use, for instructions that read many bytes."""
OF_PENDING, OF_INFLATE = 2, 9
"""Words of a state: where it has the address of its output, and of a window where that is always at one place."""
PENDING_PARTS = (4, 5)
"""In quarters of what is used of it; since 1.3.1 there may be five."""
MOST_BITS, LOOKED_AT = 15, 40


class Zlib:
    """The streams of one process."""

    holders = (DEFLATE.name, INFLATE.name)
    apart = False

    def __init__(self, ground: LoadedModules) -> None:
        self._ground = ground
        node = ground.has("_ZN2v87Isolate7DisposeEv", "libnode")
        self.past = IN_NODE if node else (0,)
        self.runs = node or ground.has("deflate", "libz")

    def kind_of(self, user: int, usable: int, head: bytes) -> Optional[Kind]:
        if not LEAST_STATE <= usable < MOST_STATE:
            return None
        for past in self.past:
            stream, status = struct.unpack_from("<QI", head, past)
            kind = DEFLATE if status in STATUSES else INFLATE if status in MODES else None
            if kind is not None and self._ground.word(stream + STATE) == user + past:
                return kind
        return None

    def kept_by(self, words: Sequence[int], at: int, usable: int) -> Optional[Kind]:
        """What a block of so many bytes is that words[at] leads to, of a state."""
        past = next((past for past in self.past if words[past // 8 + 1] & 0xFFFFFFFF in (*STATUSES, *MODES)), 0)
        at -= past // 8
        own = words[past // 8 : past // 8 + LOOKED_AT]
        usable -= past
        if own[1] & 0xFFFFFFFF in MODES:
            bits = own[OF_INFLATE - 2] & 0xFFFFFFFF
            return WINDOW if at == OF_INFLATE and bits <= MOST_BITS and self._is_large(1 << bits, usable) else None
        if at == OF_PENDING:
            return PENDING if any(self._is_large(own[at + 1] * more // 4, usable) for more in PENDING_PARTS) else None
        place = _place_of_window(own)
        if place is None or not place <= at < place + 4:
            return None
        bytes_of = {0: (own[place + 1], WINDOW), 2: (own[place + 1], PREVIOUS), 3: (2 * (own[place + 4] >> 32), HEADS)}
        asked, kind = bytes_of.get(at - place, (0, WINDOW))
        return kind if self._is_large(asked, usable) else None

    def _is_large(self, asked: int, usable: int) -> bool:
        return asked > 0 and any(fits(asked + more, usable) for more in range(0, MORE + 1, 8))


def _place_of_window(own: Sequence[int]) -> Optional[int]:
    """After how large it is, the logarithm of that, and that less 1: the word of a state that leads to its window. Its
    size in bytes, its chains and their heads follow, and of these how many there are."""
    halves = [half for word in own for half in (word & 0xFFFFFFFF, word >> 32)]
    for at, (size, bits, mask) in enumerate(zip(halves, halves[1:], halves[2:])):
        place = (at + 4) // 2
        if 8 <= bits <= MOST_BITS and size == 1 << bits and mask == size - 1 and place + 5 <= len(own):
            return place
    return None
