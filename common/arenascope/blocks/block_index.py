"""The live blocks by their addresses, and what is noted of each."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from itertools import accumulate, chain, islice
from typing import TYPE_CHECKING, Iterator, NamedTuple, Optional, Sequence, Union

from ..base.model import ArenaHeader, Gap, Heap, Kind, MmappedBlock
from ..glibc.chunk import PREV_INUSE, SIZE_BITS
from ..session.session import Session
from ..sources.target import Span
from .recognise.all_recognisers import NONE, Catalogue
from .recognise.module_memory import PAGE_SHIFT, MemoryPages

if TYPE_CHECKING:
    pass

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


Place = tuple[int, int]
"""A block: which piece of a sweep has it, and where in that. No record, as there are millions."""


class IndexedBlock(NamedTuple):
    """A block, or what it is for: where it is noted what it is."""

    kind: int
    usable: int
    place: Optional[Place]
    mapped: Optional[int]
    """Its number among those served by mmap."""


Known = tuple[int, int, int]
"""A block: where it is, what is usable of it, its kind's number."""


class Index:
    """The live blocks by their addresses."""

    def __init__(self, session: Session, catalogue: Catalogue, live: NamedLiveBlocks) -> None:
        self._session = session
        self._ground = catalogue.ground
        self.front = catalogue.front
        self.fronts = catalogue.front_sizes
        """How far into a block pointers may lead, past what the program has in front."""
        self._live = live
        self._low, self._high = catalogue.low, catalogue.high
        pieces = sorted(
            (piece for heap in live.heaps for piece in heap.pieces if isinstance(piece, NamedRun)),
            key=lambda piece: piece.address,
        )
        self._starts = [piece.address for piece in pieces]
        self._raws = [piece.raws for piece in pieces]
        self._kinds = [piece.kinds for piece in pieces]
        self._asked, self._asked_place = NONE, (NONE, NONE)
        """The last block of which `usable` was asked: what is found to be something is named next."""
        self._users: list[Optional[Sequence[int]]] = [None for _ in pieces]
        self._word = session.layout.word
        self._weak = bytearray()
        """Of each kind, by its number: whether holders may tell more."""
        self._mmapped = {block.chunk + session.layout.header: at for at, (block, _) in enumerate(live.mmapped)}
        self._mapped_users = sorted(self._mmapped)
        self.words = MemoryPages(session.memory).words

    def _users_of(self, number: int) -> Sequence[int]:
        users = self._users[number]
        if users is None:
            raws = self._raws[number]
            sizes = (raw & ~SIZE_BITS for raw in raws)
            first = self._starts[number] + self._session.layout.header
            code = self._session.memory.code
            users = self._users[number] = array(code, islice(accumulate(sizes, initial=first), len(raws)))
        return users

    def _place(self, user: int) -> Optional[Place]:
        if user == self._asked:
            return self._asked_place
        number = bisect_right(self._starts, user) - 1
        if number < 0:
            return None
        users = self._users[number] or self._users_of(number)
        index = bisect_right(users, user) - 1
        return (number, index) if index >= 0 and users[index] == user else None

    def block(self, user: int) -> Optional[IndexedBlock]:
        """The block that begins there, or of which what it is for does, after its allocator's header."""
        block = self._block(user, 0)
        for front in self.fronts if block is None else ():
            fronted = self._block(user - front, front)
            if fronted is not None and self.front(user - front) == front:
                return fronted
        return block

    def _block(self, user: int, front: int) -> Optional[IndexedBlock]:
        place = self._place(user)
        if place is not None:
            piece, index = place
            usable = (self._raws[piece][index] & ~SIZE_BITS) - self._word
            return IndexedBlock(self._kinds[piece][index], usable - front, place, None)
        at = self._mmapped.get(user)
        if at is None:
            return None
        mapped, kind = self._live.mmapped[at]
        return IndexedBlock(kind, mapped.base + mapped.bytes - user - front, None, at)

    def kind(self, user: int) -> int:
        place = self._place(user)
        if place is not None:
            piece, index = place
            return self._kinds[piece][index]
        block = self.block(user)
        return NONE if block is None else block.kind

    def put(self, user: int, kind: int) -> None:
        place, block = self._place(user), None
        if place is None:
            block = self.block(user)
            place = block.place if block is not None else None
        if place is not None:
            piece, index = place
            self._kinds[piece][index] = kind  # type: ignore[index]  # an array
        elif block is not None and block.mapped is not None:
            self._live.mmapped[block.mapped] = self._live.mmapped[block.mapped][0], kind

    def of_kinds(self, kinds: set[int]) -> Iterator[Known]:
        """The blocks that are of one of these, in address order."""
        word = self._word
        for number, of in enumerate(self._kinds):
            if not kinds.isdisjoint(of):
                users, raws = self._users_of(number), self._raws[number]
                for index in [index for index, kind in enumerate(of) if kind in kinds]:
                    yield users[index], (raws[index] & ~SIZE_BITS) - word, of[index]

    def mapped_of_kinds(self, kinds: set[int]) -> Iterator[int]:
        """The same of those served by mmap, their addresses."""
        return (user for user, at in self._mmapped.items() if self._live.mmapped[at][1] in kinds)

    def counts(self) -> Counter[int]:
        """How many blocks each kind has."""
        counts = Counter(kind for _, kind in self._live.mmapped)
        for of in self._kinds:
            counts.update(of)
        return counts

    def pointers(self, user: int, size: int) -> Iterator[tuple[int, int]]:
        """(offset, word) of the words there that may lead to blocks."""
        for at, word in enumerate(self.words(user, size // self._word) or ()):
            if self._low <= word < self._high and not word % self._word:
                yield at * self._word, word

    def is_weak(self, kind: int) -> bool:
        if kind == NONE:
            return False
        while kind >= len(self._weak):
            told = self._live.kinds[len(self._weak)]
            self._weak.append(told.kind in WEAK or (told.kind == "node" and not told.certain))
        return bool(self._weak[kind])

    # what blocks/recognise/containers.py asks

    def usable(self, user: int) -> Optional[int]:
        # as block() does, but without a record: millions are asked for
        number = bisect_right(self._starts, user) - 1
        if number >= 0:
            users = self._users[number] or self._users_of(number)
            at = bisect_right(users, user) - 1
            if at >= 0 and users[at] == user:
                self._asked, self._asked_place = user, (number, at)
                kind = self._kinds[number][at]
                return (self._raws[number][at] & ~SIZE_BITS) - self._word if self.is_weak(kind) else None
        if not self.fronts and user not in self._mmapped:
            return None
        block = self.block(user)
        return block.usable if block is not None and self.is_weak(block.kind) else None

    def around(self, address: int) -> Optional[Span]:
        number = bisect_right(self._starts, address) - 1
        users = self._users_of(number) if number >= 0 else ()
        at = bisect_right(users, address) - 1
        mapped = bisect_right(self._mapped_users, address) - 1
        for user in (users[at] if at >= 0 else 0, self._mapped_users[mapped] if mapped >= 0 else 0):
            usable = self.usable(user)
            if usable is not None and address < user + usable:
                return Span(user, user + usable)
        return None

    def read(self, address: int, size: int) -> Optional[bytes]:
        return self._session.memory.try_read(address, size)

    def function(self, address: int) -> Optional[str]:
        place = self._session.target.describe(address)
        return place.name if place is not None and not place.in_file else None

    def is_code(self, address: int) -> bool:
        module = self._ground.modules.at(address) if address >> PAGE_SHIFT in self._ground.pages else None
        return module is not None and any(each.executable and each.contains(address) for each in module.regions)
