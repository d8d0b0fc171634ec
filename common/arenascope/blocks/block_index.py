"""The live blocks by their addresses, and what is noted of each."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from itertools import chain, islice
from typing import TYPE_CHECKING, Iterator, NamedTuple, Optional, Sequence, Union

from ..base.model import ArenaHeader, Gap, Heap, Kind, MmappedBlock
from ..glibc.chunk import PREV_INUSE, SIZE_BITS
from ..session.session import Session
from ..sources.target import Span
from .recognise.all_recognisers import NONE, Catalogue
from .recognise.module_memory import PAGE_SHIFT, MemoryPages

if TYPE_CHECKING:
    from .graph.blocks import LiveBlocks

Block = tuple[int, int, str, int]
"""(chunk address, bytes, its state or a gap's kind, its kind's index or NONE)."""


class NamedRun(NamedTuple):
    """Chunks that lie back to back, as in a Run."""

    heap: Heap
    address: int
    bytes: int
    raws: Sequence[int]
    follow: int
    kinds: Sequence[int]
    """Of each: the index of its kind, or NONE."""


Swept = Union[NamedRun, Gap]


class HeapBlocks(NamedTuple):
    """A heap with the kinds of its blocks."""

    header: ArenaHeader
    heap: Heap
    pieces: Sequence[Swept]


class NamedLiveBlocks:
    """All live blocks of some arenas."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.kinds: list[Kind] = []
        self.heaps: list[HeapBlocks] = []
        self.mmapped: list[tuple[MmappedBlock, int]] = []

    def blocks(self, heap: HeapBlocks) -> Iterator[Block]:
        """Every chunk and gap of a heap in address order."""
        listed = self._session.listed.get
        for piece in heap.pieces:
            if isinstance(piece, Gap):
                yield piece.address, piece.bytes, piece.kind, NONE
                continue
            chunk = piece.address
            following = chain(islice(piece.raws, 1, None), (piece.follow,))
            for raw, after, kind in zip(piece.raws, following, piece.kinds):
                size = raw & ~SIZE_BITS
                if kind != NONE:
                    yield chunk, size, "used", kind
                else:
                    yield chunk, size, listed(chunk, "used") if after & PREV_INUSE else "free", NONE
                chunk += size


WEAK = ("size", "zeros", "pointers", "text")


class IndexedBlock(NamedTuple):
    """A block, or what it is for."""

    kind: int
    usable: int


Known = tuple[int, int, int]
"""A block: where it is, what is usable of it, its kind's number."""


class Index:
    """The live blocks by their addresses, and what each is."""

    def __init__(
        self, session: Session, catalogue: Catalogue, blocks: LiveBlocks, kinds: array[int], names: list[Kind]
    ) -> None:
        """`kinds` has each block's, by its number among `names`."""
        self._session, self._ground = session, catalogue.ground
        self.front, self.fronts = catalogue.front, catalogue.front_sizes
        """How far into a block pointers may lead, past what the program has in front."""
        self._blocks, self._starts = blocks, blocks.starts
        self.kinds, self.names = kinds, names
        self._low, self._high = catalogue.low, catalogue.high
        self._word = session.layout.word
        self._weak = bytearray()
        """Of each kind, by its number: whether holders may tell more."""
        self._mapped = {block.chunk + session.layout.header for block in session.mmapped}
        self.words = MemoryPages(session.memory).words

    def _number(self, user: int) -> int:
        number = bisect_left(self._starts, user)
        return number if number < len(self._starts) and self._starts[number] == user else NONE

    def _find(self, user: int) -> tuple[int, int]:
        """The block that begins there, or so far before it, in front of what it is for."""
        number = self._number(user)
        for front in self.fronts if number == NONE else ():
            fronted = self._number(user - front)
            if fronted != NONE and self.front(user - front) == front:
                return fronted, front
        return number, 0

    def _usable(self, number: int) -> int:
        return self._blocks.ends[number] - self._starts[number] + 1 & -self._word

    def block(self, user: int) -> Optional[IndexedBlock]:
        """The block that begins there, or of which what it is for does, after its allocator's header."""
        number, front = self._find(user)
        return IndexedBlock(self.kinds[number], self._usable(number) - front) if number != NONE else None

    def kind(self, user: int) -> int:
        number, _ = self._find(user)
        return self.kinds[number] if number != NONE else NONE

    def put(self, user: int, kind: int) -> None:
        number, _ = self._find(user)
        if number != NONE:
            self.kinds[number] = kind

    def of_kinds(self, kinds: set[int], mapped: bool = False) -> Iterator[Known]:
        """The blocks that are of one of these, in address order; those served by mmap, if these are wanted, too."""
        left_out = () if mapped else self._mapped
        for number in [number for number, kind in enumerate(self.kinds) if kind in kinds]:
            user = self._starts[number]
            if user not in left_out:
                yield user, self._usable(number), self.kinds[number]

    def counts(self) -> Counter[int]:
        """How many blocks each kind has."""
        return Counter(self.kinds)

    def pointers(self, user: int, size: int) -> Iterator[tuple[int, int]]:
        """(offset, word) of the words there that may lead to blocks."""
        for at, word in enumerate(self.words(user, size // self._word) or ()):
            if self._low <= word < self._high and not word % self._word:
                yield at * self._word, word

    def is_weak(self, kind: int) -> bool:
        if kind == NONE:
            return False
        while kind >= len(self._weak):
            told = self.names[len(self._weak)]
            self._weak.append(told.kind in WEAK or (told.kind == "node" and not told.certain))
        return bool(self._weak[kind])

    # what blocks/recognise/containers.py asks

    def usable(self, user: int) -> Optional[int]:
        number, front = self._find(user)
        return self._usable(number) - front if number != NONE and self.is_weak(self.kinds[number]) else None

    def around(self, address: int) -> Optional[Span]:
        number = bisect_right(self._starts, address) - 1
        if number < 0 or not self.is_weak(self.kinds[number]):
            return None
        block = Span(self._starts[number], self._starts[number] + self._usable(number))
        return block if address < block.end else None

    def read(self, address: int, size: int) -> Optional[bytes]:
        return self._session.memory.try_read(address, size)

    def function(self, address: int) -> Optional[str]:
        place = self._session.target.describe(address)
        return place.name if place is not None and not place.in_file else None

    def is_code(self, address: int) -> bool:
        module = self._ground.modules.at(address) if address >> PAGE_SHIFT in self._ground.pages else None
        return module is not None and any(each.executable and each.contains(address) for each in module.regions)
