"""Holders with their words, and which of these may lead to a block that has no name yet: many are read at a time."""

from __future__ import annotations

from bisect import bisect_left
from heapq import merge
from types import ModuleType
from typing import Callable, Container, Iterable, Iterator, NamedTuple, Optional, Sequence

from ..base.array_types import words_of
from ..base.count_work import Meter
from ..base.model import Kind
from ..session.session import Session
from .block_index import Index, Known
from .pointer_finder import FastFinder
from .recognise.all_recognisers import NONE
from .recognise.containers import HASHED
from .recognise.linked_nodes import LIST, TREE

LARGEST = 64 << 10
"""So much of a holder is looked through."""
WINDOW = 512 << 10
FAR = 4 << 10
"""Objects further apart, on the average, are read one by one."""
LINKS = {TREE: 4, LIST: 2, HASHED: 1}
"""Words in front of what a node is for."""


class Area(NamedTuple):
    """Memory in which holders lie."""

    start: int
    bytes: int
    name: Optional[str]
    """None: that of the variable there. Empty: nobody's."""
    single: bool = True
    """One thing, in which every place has its meaning; in a list of them none has."""
    links: int = 0
    """So many bytes in front only link it to others."""
    kind: int = NONE
    """Its number, where it is an object."""


class LookedAt(NamedTuple):
    """An area, or a part of it."""

    area: Area
    start: int
    """Where the words lie."""
    words: Sequence[int]
    likely: Sequence[int]
    """The indices of those that may lead to blocks which holders can name."""


Likely = Callable[[Sequence[int]], Sequence[int]]
"""The indices of the words that may lead to a block."""


class HolderWords:
    """Of blocks that hold others."""

    def __init__(
        self, session: Session, index: Index, kinds: Sequence[Kind], likely: Likely, numpy: Optional[ModuleType]
    ) -> None:
        """`likely`: by the number alone. With `numpy`: pointers lead to beginnings of blocks."""
        self._session, self._index, self._kinds, self._likely = session, index, kinds, likely
        self.numpy = numpy

    def of(
        self, kinds: set[int], meter: Meter, barren: Container[int] = (), declared: Iterable[Known] = ()
    ) -> Iterator[tuple[int, Optional[LookedAt]]]:
        """For each block of these kinds its kind's number and what follows its links; None where no word leads to a
        block that can be named. None of a kind that turns out to be `barren`."""
        finder = self._finder(self.numpy) if self.numpy is not None else None
        kept: list[Known] = []
        for known in merge(self._index.of_kinds(kinds), declared):
            if known[2] in barren:
                continue
            if kept and known[0] + known[1] - kept[0][0] > WINDOW:
                yield from self._together(kept, finder)
                meter.advance(kept[-1][0] + kept[-1][1] - kept[0][0])
                kept = []
            kept.append(known)
        yield from self._together(kept, finder)

    def _finder(self, numpy: ModuleType) -> FastFinder:
        starts = words_of(self._index.weak_starts(numpy))
        return FastFinder(numpy, starts, starts, self._session.layout.word)

    def _together(
        self, blocks: Sequence[Known], finder: Optional[FastFinder]
    ) -> Iterator[tuple[int, Optional[LookedAt]]]:
        if not blocks:
            return
        memory, word = self._session.memory, self._session.layout.word
        base = blocks[0][0]
        end = blocks[-1][0] + min(blocks[-1][1], LARGEST)
        # a block that lies alone is read alone
        alone = end - base > FAR * len(blocks)
        data = None if alone else memory.try_read(base, end - base)
        words = memory.as_words(data[: len(data) // word * word]) if data is not None else ()
        hits = [at for at, _ in finder.hits(words)] if finder is not None and words else None
        for user, usable, number in blocks:
            links = LINKS.get(self._kinds[number].name, 0)
            first = (user - base) // word + links
            last = first - links + min(usable, LARGEST) // word
            if hits is not None:
                hit = bisect_left(hits, first)
                if hit == len(hits) or hits[hit] >= last:
                    yield number, None
                    continue
            name = self._kinds[number].name
            area = Area(user, min(usable, LARGEST), name, not name.endswith("[]"), links=links * word, kind=number)
            own = words[first:last] if words else self._index.words(user + area.links, last - first) or ()
            likely = self._likely(own) if hits is None else [at - first for at in hits[hit : bisect_left(hits, last)]]
            yield number, LookedAt(area, user + area.links, own, likely) if likely else None
