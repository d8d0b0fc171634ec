"""What single blocks are, without a sweep of all: what a class has for its size is told by blocks near by.

free() leaves most of a block as it was, so that a vtable can stand in a block that is something else by now. Where all
blocks are seen, the class's usual size tells; here it is looked for in the same heap.
"""

from __future__ import annotations

from array import array
from collections import Counter
from typing import Iterable, Iterator, NamedTuple, Optional, Sequence

from .. import engine
from ..base.heap_model import Heap, Kind
from ..glibc.malloc_chunk import PREV_INUSE, SIZE_BITS
from ..session.session import Session, likely_chunks
from ..sources.target import Span, joined
from .declared.named_blocks import NamedBlocks
from .declared.once_per_image import BlockMember, declared_blocks, members_of
from .graph.memory_windows import ImageBytes
from .name_all_blocks import THREAD_CACHE, catalogue_of, live_kinds
from .recognise.all_recognisers import GRAIN, NONE, SEVERAL, UNTOLD, Catalogue, KindOfSize, true_sizes

FEW = 20_000
"""Blocks of all heaps: a second."""
MANY = 1_000_000
"""To follow the pointers of so many takes some two seconds."""
NEAR = 8 << 20
"""So far to both sides."""
ALTOGETHER = 256 << 20
"""No more than that for all blocks that are asked for."""
STEPS = 3
"""From one block to the next at most, where these must be copied."""
ALONE = "{}, of this block alone"
NOTHING_NEAR = f"{ALONE}: nothing near it is of that class"


def kinds_by_types(session: Session, placed: Sequence[tuple[int, int]]) -> dict[int, Kind]:
    """As `types` has them, where there are so few blocks that all can be looked at: those that hold a block name it,
    too. Of more, `kinds_of`."""
    alone = kinds_of(session, placed)
    if not engine.is_there() or session.target.image.redacted or not session.started:
        return alone
    if likely_chunks(session, FEW) > FEW:
        return {**alone, **_declared_kinds(session, [chunk for chunk, _ in placed])}
    if session.block_results.live is None:
        session.block_results.live = live_kinds(session)
    live = session.block_results.live
    kinds: dict[int, Kind] = {}
    for chunk, _ in placed:
        number = live.blocks.find(chunk + session.layout.header)
        if number >= 0 and live.numbers[number] != NONE:
            kinds[chunk] = live.kinds[live.numbers[number]]
    # what a block says of itself may be doubted for reasons of its own, but where debug information says the same
    same = {
        chunk: each
        for chunk, each in alone.items()
        if chunk in kinds and kinds[chunk].name == each.name and kinds[chunk].kind != "declared"
    }
    return {**alone, **kinds, **same}


class BlockDescription(NamedTuple):
    """What a live block is, and what it has in it where debug information tells its type."""

    kind: Optional[Kind]
    members: Optional[Sequence[BlockMember]] = None
    named: Optional[NamedBlocks] = None
    """What all blocks are, where its members are known."""


def describe_block(session: Session, chunk: int, size: int) -> BlockDescription:
    """Of one; `size` with its neighbour's first field, where it uses that."""
    user = chunk + session.layout.header
    if any(cache.address == user for cache in session.thread_caches):
        return BlockDescription(THREAD_CACHE)
    kind = kinds_by_types(session, [(chunk, size)]).get(chunk)
    named = declared_among(session) if kind is not None and kind.kind == "declared" else None
    members = members_of(session, named, user) if named is not None else None
    return BlockDescription(kind, members, named if members is not None else None)


def declared_among(session: Session) -> Optional[NamedBlocks]:
    """What all blocks are by the program's debug information, where there are so few that they can be followed for the
    sake of one; None where nobody can tell."""
    if session.target.types is None or session.target.image.redacted or likely_chunks(session, MANY) > MANY:
        return None
    return declared_blocks(session)


def _declared_kinds(session: Session, chunks: Sequence[int]) -> dict[int, Kind]:
    named, kinds = declared_among(session), {}
    for chunk in chunks if named is not None else ():
        number = named.blocks.find(chunk + session.layout.header) if named is not None else -1
        kind = named.kind(number) if named is not None and number >= 0 else None
        if kind is not None and kind.certain:
            kinds[chunk] = kind
    return kinds


def kinds_of(session: Session, placed: Sequence[tuple[int, int]]) -> dict[int, Kind]:
    """Of single live blocks, by (chunk, bytes); of an image without the program's data, and without the engine, of
    none."""
    if session.target.image.redacted or not engine.is_there():
        return {}
    catalogue, target = catalogue_of(session), session.target
    header, word, near = session.layout.header, session.layout.word, _Near(session)
    sizes = {chunk + header: size for chunk, size in sorted(placed)}
    image = engine.EngineImage(target.pointer_size, target.byte_order, target.stop_if_asked)
    image.set_memory(ImageBytes(session, None).all_pieces(_led_to(session, sizes)))
    ends = array("Q", [user + size - word for user, size in sizes.items()])
    image.set_blocks(array("Q", sizes), ends, array("Q", sizes.values()))
    kinds = {}
    for (user, size), number in zip(sizes.items(), catalogue.kinds_of(image).kinds):
        entry = catalogue.entries[number]
        if entry.usable is not None and catalogue.front(user):
            # those near by begin with a header, too
            kinds[user - header] = entry.kind._replace(certain=False, how=ALONE.format(entry.kind.how))
        else:
            kinds[user - header] = near.settled(catalogue, entry, user - header, size - word)
    return kinds


def _led_to(session: Session, users: Iterable[int]) -> list[Span]:
    """The pages where these blocks begin, those that words there lead to, and so on: it is copied where reading alone
    gives the memory."""
    if session.target.pieces(*next(((user, user + 1) for user in users), (0, 0))) is not None:
        return []
    pages, memory = session.target.page_size, session.memory
    met: set[int] = set()
    following = {user // pages for user in users}
    for _ in range(STEPS):
        met |= following
        read = [memory.try_read(page * pages, pages) for page in following]
        words = {word // pages for data in read if data is not None for word in memory.as_words(data)}
        following = {page for page in words - met if any(each.contains(page * pages) for each in session.regions)}
    return joined((page * pages, page * pages + pages) for page in sorted(met))


class _Near:
    """The sizes that classes have near the blocks that are asked for."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._left = ALTOGETHER
        self._sizes: dict[Kind, dict[int, int]] = {}
        """What is usable of each block that begins with its vtable, by what malloc returned."""
        self._counts: dict[Kind, Counter[int]] = {}
        """How many of these have which size: blocks are asked for one by one, thousands of a class."""
        self._seen: dict[Kind, list[tuple[int, int]]] = {}

    def settled(self, catalogue: Catalogue, entry: KindOfSize, chunk: int, usable: int) -> Kind:
        """What a block is, if it says to be that by its vtable."""
        if entry.usable is None:
            return entry.kind
        of, user = entry.element or entry.kind, chunk + self._session.layout.header
        self._look_near(of, chunk)
        sizes = self._sizes.setdefault(of, {})
        if entry.element is None:
            self._put(of, user, usable)
        several = true_sizes(self._counts[of]) if sizes else ()
        own = several[0] if len(several) == 1 else None
        if entry.element is not None:
            # side by side, without headers between
            fits = own is None or own - GRAIN < entry.usable <= own
        else:
            fits = any(each <= usable <= each + GRAIN for each in several)
        if not fits:
            return UNTOLD if entry.element else catalogue.kind(catalogue.by_size(usable))
        if len(several) > 1:
            return entry.kind._replace(certain=False, how=SEVERAL.format(entry.kind.how))
        if any(other != user for other in sizes):
            return entry.kind
        return entry.kind._replace(certain=False, how=NOTHING_NEAR.format(entry.kind.how))

    def _look_near(self, kind: Kind, chunk: int) -> None:
        heap = self._heap_of(chunk)
        if heap is None:
            return
        start, end = max(heap.address, chunk - NEAR), min(heap.end, chunk + NEAR)
        seen = self._seen.setdefault(kind, [])
        if any(low <= chunk < high for low, high in seen) or end - start > self._left:
            return
        seen.append((start, end))
        self._left -= end - start
        for user, usable in self._alike(start, end, chunk):
            self._put(kind, user, usable)

    def _put(self, kind: Kind, user: int, usable: int) -> None:
        sizes, counts = self._sizes.setdefault(kind, {}), self._counts.setdefault(kind, Counter())
        before = sizes.get(user)
        if before != usable:
            sizes[user] = usable
            counts[usable] += 1
            if before is not None:
                counts[before] -= 1

    def _heap_of(self, chunk: int) -> Optional[Heap]:
        heaps = (heap for each in self._session.heaps.values() for heap in each)
        return next((heap for heap in heaps if heap.address <= chunk < heap.end), None)

    def _alike(self, start: int, end: int, chunk: int) -> Iterator[tuple[int, int]]:
        """(user, usable) of blocks in use there that hold one object of the class, by their headers."""
        session = self._session
        memory, layout = session.memory, session.layout
        first = memory.try_read(chunk + layout.header, layout.word)
        data = memory.try_read(start, end - start)
        if data is None or first is None:
            return
        words = memory.as_words(data[: len(data) // layout.word * layout.word])
        place = data.find(first, layout.header)
        while place >= 0:
            at = start + place - layout.header
            if layout.first_aligned(at) == at and at not in session.listed:
                size = words[place // layout.word - 1] & ~SIZE_BITS
                following = (place + size) // layout.word - 1
                sound = size >= layout.min_size and not size & layout.mask and following < len(words)
                # several side by side tell no size of one
                alone = sound and data.find(first, place + layout.word, place + size - layout.word) < 0
                if alone and words[following] & PREV_INUSE:
                    yield start + place, size - layout.word
            place = data.find(first, place + layout.word)
