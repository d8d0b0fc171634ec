"""zlib's streams: what deflate and inflate keep of each, and their windows and tables.

The state begins with the address of its z_stream, which has the state's in its eighth word, so that nothing passes for
one by chance. deflate_state and inflate_state have been laid out so since 1.2.9; Chromium's zlib, which node has, has
its own member where padding was. node puts a word in front of what zlib asks for: all the bytes of the block. Since
20 there is a word of padding after it.
"""

from __future__ import annotations

from ...base.heap_model import Kind
from .module_memory import LoadedModules
from .selection import BASE, LOW, PLACE, USABLE, USER, Condition, Found, Selection, Value, any_of, either, first, value

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
STATE = 7
"""The word of a z_stream that leads to its state."""
STATUSES = (42, 57, 69, 73, 91, 103, 113, 666)
MODES = range(16180, 16212)
LEAST_STATE, MOST_STATE = 5000, 16 << 10
MORE = 64
"""Chromium's zlib asks for so much more than it will use, for instructions that read many bytes."""
OF_PENDING, OF_INFLATE = 2, 9
"""Words of a state: where it has the address of its output, and of a window where that is always at one place."""
PENDING_PARTS = (4, 5)
"""In quarters of what is used of it; since 1.3.1 there may be five."""
LEAST_BITS, MOST_BITS, LOOKED_AT = 8, 15, 40
"""Of a window, and words of a state."""


class Zlib:
    """The streams of one process."""

    holders = (DEFLATE.name, INFLATE.name)
    apart = False

    def __init__(self, ground: LoadedModules) -> None:
        node = ground.has("_ZN2v87Isolate7DisposeEv", "libnode")
        self.past = IN_NODE if node else (0,)
        self.runs = node or ground.has("deflate", "libz")

    def kinds(self, blocks: Selection) -> Found:
        for past in self.past:
            state = USER + past
            is_state = USABLE.between(LEAST_STATE, MOST_STATE) & (state.word().word(STATE) == state)
            yield blocks.where(is_state & _status(state).is_in(STATUSES)), DEFLATE
            yield blocks.where(is_state & _status(state).is_in(MODES)), INFLATE

    def kept(self, pointers: Selection) -> Found:
        """What lies in a state."""
        for past in self.past:
            state, room = BASE + past, USABLE - past
            at = (USER - state) >> 3
            inflates = _status(state).is_in(MODES)
            bits = state.word(OF_INFLATE - 2) & LOW
            is_window = (bits <= MOST_BITS) & _is_large(value(1) << bits, room)
            yield pointers.where(inflates & (at == OF_INFLATE) & is_window), WINDOW
            deflates = _status(state).is_in(STATUSES)
            used = USER.word(1)
            is_pending = any_of(_is_large(used * parts >> 2, room) for parts in PENDING_PARTS)
            yield pointers.where(deflates & (at == OF_PENDING) & is_pending), PENDING
            place = _place_of_window(state)
            window, heads = (state + place * 8).word(1), ((state + place * 8).word(4) >> 32) * 2
            for past_window, asked, kind in ((0, window, WINDOW), (2, window, PREVIOUS), (3, heads, HEADS)):
                yield pointers.where(deflates & (at == place + past_window) & _is_large(asked, room)), kind


def _status(state: Value) -> Value:
    return (state + 8).number(4)


def _is_large(asked: Value, room: Value) -> Condition:
    return either(room - asked < MORE, room, asked + MORE).fits(room)


def _place_of_window(state: Value) -> Value:
    """After how large it is, the logarithm of that, and that less 1: the word of a state that leads to its window. Its
    size in bytes, its chains and their heads follow, and of these how many there are."""
    size, bits, mask = ((state + PLACE * 4 + at).number(4) for at in (0, 4, 8))
    is_window = bits.between(LEAST_BITS, MOST_BITS + 1) & (size == value(1) << bits) & (mask == size - 1)
    return (first(is_window, 2 * LOOKED_AT - 12) + 4) >> 1
