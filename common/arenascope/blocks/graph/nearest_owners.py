"""Who leads to what no owner alone leads to: of each such block the nearest owners, as pointers go.

Only pointers from what hangs on one of them to another of these blocks count, and each block learns of few owners: so
the work is that of reading these pointers a few times, however many owners there are.
"""

from __future__ import annotations

from array import array
from collections import Counter, deque
from functools import cached_property
from itertools import accumulate
from types import ModuleType
from typing import Iterator, NamedTuple, Optional, Sequence

from .blocks import FLAGS
from .edges import AT_ONCE, Graph, fast

MOST = 8
"""So many owners a block learns of."""
MOST_POINTERS = 1 << 22
"""So many pointers are kept for that; of more than that owners are told, but not that these are all."""
TRIFLE = 100
"""Less than such a part of what some lead to."""
NONE = -1


class JointOwners(NamedTuple):
    """Who leads to some blocks, by their numbers: whoever leads to most of it first."""

    owners: Sequence[int] = ()
    whole: bool = True
    """These are all."""


class SharedBlock(NamedTuple):
    """A block that several lead to, and nothing below them alone."""

    block: int
    bytes: int
    """With what hangs on it."""


class Tops(NamedTuple):
    """What lies right below all roots."""

    held: Sequence[Sequence[int]]
    """Of each owner, the blocks that it has pointers to."""
    shared: Sequence[SharedBlock]
    whose: Sequence[int]
    """Of each block the owner, or after these the shared block, that it hangs on; NONE: nothing leads there."""


Pointers = Iterator[tuple[Sequence[int], Sequence[int]]]
"""From what hangs on one to another's uppermost block: of some what they hang on, and the shared block's place."""


class Common:
    """Of each shared block the owners that lead there."""

    def __init__(self, graph: Graph, tops: Tops) -> None:
        self._sizes = [each.bytes for each in tops.shared]
        self._known: list[list[int]] = [[] for _ in tops.shared]
        self._whole = True
        if tops.shared:
            self._learn(graph, tops)

    def _learn(self, graph: Graph, tops: Tops) -> None:
        place = array("i", [NONE]) * len(graph.blocks)
        for at, top in enumerate(tops.shared):
            place[top.block] = at
        owners = len(tops.held)
        numpy, whose = graph.numpy, tops.whose
        pointers = _slowly(graph, whose, place) if numpy is None else _at_once(numpy, graph, whose, place)
        offsets, targets = self._sorted(pointers, numpy, owners + len(tops.shared))
        # met first by those of which a pointer leads there, or one of what hangs on them
        new = [(place[block], owner) for owner, each in enumerate(tops.held) for block in each if place[block] != NONE]
        new += [(at, owner) for owner in range(owners) for at in targets[offsets[owner] : offsets[owner + 1]]]
        todo: deque[tuple[int, int]] = deque()
        for at, owner in new:
            if owner not in self._known[at] and len(self._known[at]) < MOST:
                self._known[at].append(owner)
                todo.append((at, owner))
        lists, begin = self._known, owners
        while todo:
            at, owner = todo.popleft()
            for to in targets[offsets[begin + at] : offsets[begin + at + 1]]:
                known = lists[to]
                if owner not in known and len(known) < MOST:
                    known.append(owner)
                    todo.append((to, owner))

    def _sorted(
        self, pointers: Pointers, numpy: Optional[ModuleType], count: int
    ) -> tuple[Sequence[int], Sequence[int]]:
        """By their sources: where those of each begin, and where they lead."""
        sources, targets = array("q"), array("q")
        for some, leads in pointers:
            sources.extend(some)
            targets.extend(leads)
            if len(sources) > MOST_POINTERS:
                self._whole = False
                break
        if numpy is not None:
            froms = numpy.frombuffer(sources, dtype=numpy.int64)
            order = numpy.argsort(froms, kind="stable")
            offsets = numpy.searchsorted(froms[order], numpy.arange(count + 1))
            return offsets.tolist(), numpy.frombuffer(targets, dtype=numpy.int64)[order].tolist()
        counts = Counter(sources)
        begins = [0, *accumulate(counts[each] for each in range(count))]
        filled, placed = begins[:-1], array("q", bytes(8 * len(targets)))
        for source, target in zip(sources, targets):
            placed[filled[source]] = target
            filled[source] += 1
        return begins, placed

    def of(self, places: Sequence[int]) -> JointOwners:
        """Of some shared blocks, by their places in the list. Who leads to a trifle of them is not named."""
        sizes: Counter[int] = Counter()
        for at in places:
            for owner in self._known[at]:
                sizes[owner] += self._sizes[at]
        least = sum(self._sizes[at] for at in places) // TRIFLE
        owners = sorted((each for each in sizes if sizes[each] >= least), key=lambda each: (-sizes[each], each))
        every = self._whole and all(len(self._known[at]) < MOST for at in places)
        return JointOwners(owners, every and len(owners) == len(sizes))

    @cached_property
    def leaders(self) -> Sequence[Optional[frozenset[int]]]:
        """Of each block all who lead there, where these are known; blocks are many, and few sets."""
        same: dict[frozenset[int], frozenset[int]] = {}
        every = (frozenset(known) if self._whole and len(known) < MOST else None for known in self._known)
        return [None if owners is None else same.setdefault(owners, owners) for owners in every]

    def sums(self) -> Counter[frozenset[int]]:
        """Bytes by all who lead there, where these are known."""
        found: Counter[frozenset[int]] = Counter()
        for owners, size in zip(self.leaders, self._sizes):
            if owners is not None:
                found[owners] += size
        return found

    def large(self) -> set[frozenset[int]]:
        """Those that lead to more than a trifle of all that several do."""
        least = sum(self._sizes) // TRIFLE
        return {owners for owners, size in self.sums().items() if size > least}


def _slowly(graph: Graph, whose: Sequence[int], place: Sequence[int]) -> Pointers:
    owners = _owners(whose, place)
    for block, top in enumerate(whose):
        if top != NONE:
            targets = {place[edge >> FLAGS] for edge in graph.of(block)} - {NONE, top - owners}
            if targets:
                yield [top] * len(targets), sorted(targets)


def _at_once(numpy: ModuleType, graph: Graph, whose: Sequence[int], place: Sequence[int]) -> Pointers:
    offsets, edges = fast(numpy, graph)
    tops, places = numpy.asarray(whose), numpy.asarray(place)
    owners = _owners(whose, place)
    last = len(graph.blocks)
    low = 0
    while low < last:
        high = max(low + 1, int(numpy.searchsorted(offsets, offsets[low] + AT_ONCE, side="right")) - 1)
        sources = numpy.repeat(tops[low:high], numpy.diff(offsets[low : high + 1]))
        targets = places[edges[offsets[low] : offsets[high]] >> FLAGS]
        which = (targets != NONE) & (sources != NONE) & (sources != targets + owners)
        # numpy's own unique() counts by hashes, which takes ten times as long
        both = numpy.sort(sources[which].astype(numpy.int64) << 32 | targets[which])
        once = both[numpy.diff(both, prepend=-1) != 0]
        yield array("q", (once >> 32).tobytes()), array("q", (once & 0xFFFFFFFF).tobytes())
        low = high


def _owners(whose: Sequence[int], place: Sequence[int]) -> int:
    """How many there are in front of shared blocks."""
    at = next(block for block, number in enumerate(place) if number == 0)
    return whose[at]
