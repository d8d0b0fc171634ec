"""Follows all bins of all arenas at once, each from both ends: so many places are read in one call.

It serves a process whose memory is read in bulk (sources/live/bulk_reads.py): the cost of a chunk is the call, and the
wait for the next address. Every chunk is checked as in bins.py. A ring with any irregularity is not returned, and is
followed there, link by link. If the process runs on, a ring that is returned is valid only if all its words are read
again (sources/live/short_hold.py).

For many chunks numpy takes a third of the time; it is loaded once that many have been met.
"""

from __future__ import annotations

from array import array
from functools import partial
from itertools import compress, repeat
from operator import add, eq
from types import ModuleType
from typing import TYPE_CHECKING, Iterable, Mapping, NamedTuple, Optional, Sequence

from ..base import optional_libraries
from ..base.array_types import words_of
from ..base.background import BackgroundWork
from ..sources.target import Followed, NodeWords, ReadNodes, ReadPair
from .chunk import PREV_INUSE, SIZE_BITS, ChunkSizes
from .process_layout import Layout

MANY = 64
"""With fewer rings, handing over to a thread costs more than it saves."""
FEW = 6
"""At most so many rings are followed one by one, if two chunks can be read at a time: a row costs as much as eight
chunks."""
SPARE = 16
"""One ring in so many may be read in vain: ended rings are removed in groups."""
WORTH_IT = 60_000
"""With fewer chunks in a group, loading numpy takes longer than it saves."""
LONG = 64
"""Shorter rings are checked faster without it."""
LARGEST = (1 << 64) - 1

if TYPE_CHECKING:
    from ..base.array_types import Numbers


class BinStart(NamedTuple):
    """A bin that is not empty."""

    header: int
    """The bin's own address, as a chunk's."""
    first: int
    last: int
    sizes: ChunkSizes
    """The sizes of chunks that belong there."""

    def begins(self, ring: Followed) -> bool:
        """Whether this bin still has these chunks, each of which is as it was when they were followed."""
        addresses, sizes = ring
        return (addresses[0], addresses[-1]) == (self.first, self.last) and max(sizes) <= self.sizes.most


class _Ring:
    """A ring that is followed, with the chunks met from its front and from its back."""

    __slots__ = ("front", "front_raws", "raws", "reverse", "start")

    def __init__(self, start: BinStart) -> None:
        self.start = start
        self.front, self.front_raws = array("Q"), array("Q")
        self.reverse, self.raws = array("Q"), array("Q")
        """From the back: addresses, and size words."""

    def follow(self, front: int, back: int, word: int, read_pair: ReadPair, rounds: int) -> Optional[bool]:
        """Follows from both ends, a chunk at a time, until they meet. Returns whether there is one in the middle; None
        if a link is wrong."""
        before = self.front[-1] if self.front else self.start.header
        after = self.reverse[-1] if self.reverse else self.start.header
        add_front, add_front_raw = self.front.append, self.front_raws.append
        add_back, add_raw = self.reverse.append, self.raws.append
        for _ in range(rounds):
            front_raw, front_fd, front_bk, back_raw, back_fd, back_bk = read_pair(front + word, back + word)
            add_front(front)
            add_front_raw(front_raw)
            add_back(back)
            add_raw(back_raw)
            if front_bk != before or back_fd != after:
                return None
            if front == back:
                return True
            if front_fd == back:
                return False if back_bk == front else None
            before, front, after, back = front, front_fd, back, back_bk
        return None

    def followed(self, layout: Layout, odd: bool, numpy: Optional[ModuleType]) -> Optional[Followed]:
        """Returns the ring; None if a chunk is not as in this bin it must be. `odd`: both ends met the one in the
        middle."""
        if odd:
            self.reverse.pop()
            self.raws.pop()
        self.reverse.reverse()
        self.raws.reverse()
        addresses, raws = self.front + self.reverse, self.front_raws + self.raws
        mask, sizes = layout.mask, self.start.sizes
        low = mask | SIZE_BITS
        if numpy is not None and len(addresses) >= LONG:
            places, words = (numpy.frombuffer(each, dtype=numpy.uint64) for each in (addresses, raws))
            least, most = int(words.min()) - PREV_INUSE, int(words.max()) - PREV_INUSE
            placed = (places & numpy.uint64(mask) == numpy.uint64(-layout.header & mask)).all()
            flagged = (words & numpy.uint64(low) == numpy.uint64(PREV_INUSE)).all()
            if not (placed and flagged and sizes.least <= least and most <= sizes.most):
                return None
            return Followed(addresses, words_of(words - numpy.uint64(PREV_INUSE)))
        if {address & mask for address in addresses} - {-layout.header & mask}:
            return None
        if any(raw & low != PREV_INUSE or not sizes.least <= raw - PREV_INUSE <= sizes.most for raw in set(raws)):
            return None
        return Followed(addresses, array("Q", [raw - PREV_INUSE for raw in raws]))


def follow_rings(
    starts: Sequence[BinStart],
    layout: Layout,
    read: ReadNodes,
    longest: int,
    beside: bool = False,
    broken: Optional[array[int]] = None,
    read_pair: Optional[ReadPair] = None,
) -> Mapping[int, Followed]:
    """Returns rings by the bin's address; `longest`: the most chunks that a ring can have. `beside`: a thread may read,
    too. `broken` gets the chunks met in the other rings. `read_pair`: see FEW."""
    whole: dict[int, Followed] = {}
    few, rounds = FEW if read_pair is not None else 0, longest + 4
    parts = (starts[::2], starts[1::2]) if beside and len(starts) >= MANY else (starts,)
    groups = [_RingGroup(some, layout, whole, broken) for some in parts]
    # while one waits for the kernel, the other makes something of what it read
    begun = [BackgroundWork(partial(group.follow, read, few, rounds)) for group in groups[1:]]
    left = [groups[0].follow(read, few, rounds), *(each.result() for each in begun)]
    for group, rounds_left in zip(groups, left):
        if read_pair is not None:
            group.follow_few(read_pair, rounds_left)
    return whole


class _RingGroup:
    """Rings that are followed together, a step from either end at a time.

    A step of all of them is a row. Checks apply to all columns of a row at once, without a line of Python for each:
    whether links lead back, and whether the two ends of any ring have met. A ring that has ended repeats its place
    until there are enough of them; then rows are cut into rings.
    """

    def __init__(
        self, starts: Iterable[BinStart], layout: Layout, whole: dict[int, Followed], broken: Optional[array[int]]
    ) -> None:
        self._layout, self._whole, self._broken = layout, whole, broken
        self.rings = [_Ring(start) for start in starts]
        own = [ring.start for ring in self.rings]
        self._fronts, self._backs = array("Q", [each.first for each in own]), array("Q", [each.last for each in own])
        self._before = array("Q", [each.header for each in own])
        self._after = self._before[:]
        """The addresses that the ends' links must lead back to."""
        self._rows: list[tuple[array[int], array[int], Sequence[int]]] = []
        """Fronts, backs, and size words of both in turn."""
        self._still: dict[int, tuple[int, Optional[bool]]] = {}
        """By column, for rings that have ended: the number of their rows, and whether a chunk is in the middle; None if
        a link is wrong."""
        self._met = 0
        """The number that these add to the meetings of each row."""
        self._numpy: Optional[ModuleType] = None
        """Loaded once so many chunks were met."""

    def follow(self, read: ReadNodes, few: int, rounds: int) -> int:
        """Follows as long as there are more than `few`, and returns the rounds that are left."""
        chunks, worth = 0, WORTH_IT
        while len(self.rings) > few and rounds:
            if chunks > worth:
                self._numpy = optional_libraries.load("numpy")
                if self._numpy is not None:
                    return self._follow_at_once(self._numpy, read, few, rounds)
                worth = LARGEST
            self.judge(read(self.places()))
            chunks += 2 * len(self.rings)
            rounds -= 1
        return rounds

    def _follow_at_once(self, numpy: ModuleType, read: ReadNodes, few: int, rounds: int) -> int:
        """Does the same with arrays; a ring that has ended is left out of the next row."""
        self._cut()
        fronts, backs, before, after = (
            numpy.array(each, dtype=numpy.uint64) for each in (self._fronts, self._backs, self._before, self._after)
        )
        columns = numpy.arange(len(self.rings), dtype=numpy.uint16 if len(self.rings) < 1 << 16 else numpy.uint32)
        rows: list[tuple[Numbers, ...]] = []
        ended: dict[int, Optional[bool]] = {}
        word = numpy.uint64(self._layout.word)
        while len(columns) > few and rounds:
            rounds -= 1
            asked = numpy.empty(2 * len(columns), dtype=numpy.uint64)
            asked[0::2], asked[1::2] = fronts + word, backs + word
            raws, forward, backward = (numpy.asarray(each, dtype=numpy.uint64) for each in read(words_of(asked)))
            rows.append((columns, fronts, backs, raws[0::2], raws[1::2]))
            front_fd, back_fd, front_bk, back_bk = forward[0::2], forward[1::2], backward[0::2], backward[1::2]
            odd = fronts == backs
            meets = odd | (front_fd == backs)
            wrong = (front_bk != before) | (back_fd != after)
            before, fronts, after, backs = fronts, front_fd, backs, back_bk
            stops = meets | wrong
            if stops.any():
                wrong |= ~odd & (back_bk != before)
                for at in numpy.flatnonzero(stops).tolist():
                    ended[int(columns[at])] = None if wrong[at] else bool(odd[at])
                going = ~stops
                columns, fronts, backs = columns[going], fronts[going], backs[going]
                before, after = before[going], after[going]
        if rows:
            self._share_out(numpy, rows, ended)
        self._fronts, self._backs, self._before, self._after = map(words_of, (fronts, backs, before, after))
        return rounds

    def _share_out(
        self, numpy: ModuleType, rows: Sequence[tuple[Numbers, ...]], ended: Mapping[int, Optional[bool]]
    ) -> None:
        """Gives each ring its columns, and removes those that have ended."""
        columns, *parts = (numpy.concatenate(each) for each in zip(*rows))
        order = numpy.argsort(columns, kind="stable")
        ends = numpy.cumsum(numpy.bincount(columns, minlength=len(self.rings))).tolist()
        parts = [each[order] for each in parts]
        for at, (ring, start, end) in enumerate(zip(self.rings, [0, *ends], ends)):
            for own, part in zip((ring.front, ring.reverse, ring.front_raws, ring.raws), parts):
                own += words_of(part[start:end])
            if at in ended:
                self._end(ring, ended[at])
        self.rings = [ring for at, ring in enumerate(self.rings) if at not in ended]

    def places(self) -> array[int]:
        """Returns the addresses of the next chunk from either end."""
        asked = array("Q", bytes(16 * len(self._fronts)))
        for at, chunks in enumerate((self._fronts, self._backs)):
            word = self._layout.word
            try:
                asked[at::2] = array("Q", map(add, chunks, repeat(word)))
            except OverflowError:
                asked[at::2] = array("Q", [chunk + word & LARGEST for chunk in chunks])
        return asked

    def judge(self, words: NodeWords) -> None:
        """Checks a row that was read."""
        fronts, backs = self._fronts, self._backs
        front_fd, back_fd = _columns(words.forward)
        front_bk, back_bk = _columns(words.backward)
        self._rows.append((fronts, backs, words.raws))
        met = sum(map(eq, fronts, backs)) + sum(map(eq, front_fd, backs))
        if met != self._met or front_bk != self._before or back_fd != self._after:
            self._stop(front_fd, back_fd, front_bk, back_bk)
        before, after = fronts[:], backs[:]
        for at in self._still:
            front_fd[at], before[at] = fronts[at], front_bk[at]
            back_bk[at], after[at] = backs[at], back_fd[at]
        self._fronts, self._backs, self._before, self._after = front_fd, back_bk, before, after
        if len(self._still) * SPARE > len(self.rings):
            self._cut()

    def _stop(self, front_fd: array[int], back_fd: array[int], front_bk: array[int], back_bk: array[int]) -> None:
        """Records the columns that have ended."""
        rows = len(self._rows)
        for at, (front, back, leads) in enumerate(zip(self._fronts, self._backs, front_fd)):
            wrong = front_bk[at] != self._before[at] or back_fd[at] != self._after[at]
            meets = front == back or leads == back
            if at in self._still or not (wrong or meets):
                continue
            odd = front == back
            wrong = wrong or (not odd and back_bk[at] != front)
            self._still[at] = rows, None if wrong else odd
            self._met += odd + (leads == back)

    def follow_few(self, read_pair: ReadPair, rounds: int) -> None:
        """Follows the remaining rings, one after the other."""
        self._cut()
        for ring, front, back in zip(self.rings, self._fronts, self._backs):
            self._end(ring, ring.follow(front, back, self._layout.word, read_pair, rounds=rounds))
        self.rings = []

    def _end(self, ring: _Ring, odd: Optional[bool]) -> None:
        followed = ring.followed(self._layout, odd, self._numpy) if odd is not None else None
        if followed is not None:
            self._whole[ring.start.header] = followed
        elif self._broken is not None:
            self._broken += ring.front + ring.reverse

    def _cut(self) -> None:
        """Cuts rows into rings, and removes those that have ended."""
        fronts, backs, raws = array("Q"), array("Q"), array("Q")
        for row in self._rows:
            fronts += row[0]
            backs += row[1]
            raws += array("Q", row[2])  # of 32 bits it comes as an array of another kind
        width = len(self.rings)
        for at, ring in enumerate(self.rings):
            rows, odd = self._still.get(at, (len(self._rows), None))
            end = rows * width
            ring.front += fronts[at:end:width]
            ring.reverse += backs[at:end:width]
            ring.front_raws += raws[2 * at : 2 * end : 2 * width]
            ring.raws += raws[2 * at + 1 : 2 * end : 2 * width]
            if at in self._still:
                self._end(ring, odd)
        going = [at not in self._still for at in range(width)]
        self.rings = list(compress(self.rings, going))
        self._fronts, self._backs, self._before, self._after = (
            array("Q", compress(each, going)) for each in (self._fronts, self._backs, self._before, self._after)
        )
        self._rows, self._still, self._met = [], {}, 0


def _columns(words: Sequence[int]) -> tuple[array[int], array[int]]:
    """Splits a row into its fronts and its backs."""
    return array("Q", words[0::2]), array("Q", words[1::2])
