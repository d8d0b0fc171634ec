"""All bins of all arenas followed at once, each from both its ends: so many places are read in one call.

For a process that stands still and whose memory is read in bulk (sources/live/many.py): what one chunk costs is the
call, and the wait for the next address. Every chunk is held to what bins.py holds it to; a ring in which anything is
otherwise is none of those that are returned, and is followed there, link by link.
"""

from __future__ import annotations

from array import array
from typing import Iterable, Mapping, Sequence

from ..read_ahead import ReadBeside
from ..records import NamedTuple
from ..target import NodeWords, ReadNodes
from .chunk import PREV_INUSE, SIZE_BITS, Sizes
from .layout import Layout

MANY = 64
"""With fewer rings, handing over to a thread costs more than it saves."""


class Start(NamedTuple):
    """A bin that is not empty."""

    header: int
    """The bin's own place, as a chunk's."""
    first: int
    last: int
    sizes: Sizes
    """Of the chunks that belong there."""


class Followed(NamedTuple):
    """What a sound ring holds, in its order."""

    addresses: array[int]
    sizes: array[int]


class _Ring:
    """One that is followed: what was found from its front, and from its back."""

    __slots__ = ("addresses", "after", "back", "before", "front", "highest", "last", "lowest", "reverse", "sizes")

    def __init__(self, start: Start) -> None:
        self.front, self.back = start.first, start.last
        """The next chunk at either end; `before` and `after` are those that were passed last."""
        self.before = self.after = start.header
        self.lowest, self.highest = start.sizes.least | PREV_INUSE, start.sizes.most | PREV_INUSE
        self.addresses, self.sizes = array("Q"), array("Q")
        self.last, self.reverse = array("Q"), array("Q")
        """From the back: addresses, and sizes."""

    def followed(self) -> Followed:
        self.last.reverse()
        self.reverse.reverse()
        return Followed(self.addresses + self.last, self.sizes + self.reverse)


Going = Sequence[tuple[int, _Ring]]
"""Rings by their bins' places."""


def follow_rings(
    starts: Iterable[Start], layout: Layout, read: ReadNodes, most: int, beside: bool = False
) -> Mapping[int, Followed]:
    """By the bin's place; `most`: no ring can have more chunks. `beside`: a thread may read while others are judged."""
    following = _Following(layout)
    going: Going = [(start.header, _Ring(start)) for start in starts]
    rounds = most + 4
    if beside and len(going) >= MANY:
        with ReadBeside(read) as reader:
            going, rounds = following.by_turns(going, reader, rounds)
    while going and rounds:
        going, rounds = following.judge(going, read(following.places(going))), rounds - 1
    return following.whole


class _Following:
    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self.whole: dict[int, Followed] = {}

    def places(self, going: Going) -> array[int]:
        """Of the next chunk from either end."""
        word, asked = self._layout.word, array("Q")
        add = asked.append
        for _, ring in going:
            add(ring.front + word)
            add(ring.back + word)
        return asked

    def by_turns(self, going: Going, reader: ReadBeside[array[int], NodeWords], rounds: int) -> tuple[Going, int]:
        """One half is read while the other is judged, as long as they are many; those that are left."""
        now, other = going[::2], going[1::2]
        reader.begin(self.places(now))
        while rounds:
            words = reader.take()
            enough = len(now) + len(other) >= MANY
            if enough:
                reader.begin(self.places(other))
            now, other = other, self.judge(now, words)
            rounds -= enough
            if not enough:
                break
        return [*now, *other], rounds

    def judge(self, going: Going, words: NodeWords) -> Going:
        """Takes what is sound of what was read; those that lead on."""
        whole, left = self.whole, []
        low, mask, header = self._layout.mask | SIZE_BITS, self._layout.mask, self._layout.header
        both = zip(*[iter(zip(*words))] * 2)
        for each, ((raw, fd, bk), (raw_back, fd_back, bk_back)) in zip(going, both):
            ring = each[1]
            front, back = ring.front, ring.back
            if bk != ring.before or raw & low != PREV_INUSE or (front + header) & mask:
                continue
            if not ring.lowest <= raw <= ring.highest:
                continue
            ring.addresses.append(front)
            ring.sizes.append(raw - PREV_INUSE)
            if front == back:
                # the one in the middle
                if fd == ring.after:
                    whole[each[0]] = ring.followed()
                continue
            if fd_back != ring.after or raw_back & low != PREV_INUSE or (back + header) & mask:
                continue
            if not ring.lowest <= raw_back <= ring.highest:
                continue
            ring.last.append(back)
            ring.reverse.append(raw_back - PREV_INUSE)
            if fd == back:
                if bk_back == front:
                    whole[each[0]] = ring.followed()
                continue
            ring.before, ring.front = front, fd
            ring.after, ring.back = back, bk_back
            left.append(each)
        return left
