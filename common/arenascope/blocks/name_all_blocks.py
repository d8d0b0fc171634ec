"""What every live block is: all arenas swept once, and the blocks served by mmap.

The kinds of a sweep are settled only when all of it was seen (a vtable that was left behind is told by the sizes of the
others), so that what it found is kept: a size word and a kind for each chunk.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from itertools import accumulate, compress, islice, repeat
from typing import Iterable, Iterator, Optional, Sequence

from ..base.errors import RedactedError
from ..base.meter import metered
from ..base.model import ArenaHeader, ChunkRun, Kind
from ..glibc.chunk import PREV_INUSE, SIZE_BITS
from ..session.session import Session
from ..sources.target import Span, joined
from .block_index import WEAK, HeapBlocks, Known, NamedLiveBlocks, NamedRun, Swept
from .declared.named_blocks import NamedBlocks
from .declared.once_per_image import declared_blocks
from .graph.blocks import heap_spans, live_blocks
from .graph.memory_windows import ImageBytes
from .named_by_holders import name_by_holders
from .recognise.all_recognisers import NONE, Catalogue
from .recognise.module_memory import ground_of


class KindsOfBlocks:
    """What all live blocks are by their own words."""

    def __init__(self, session: Session, catalogue: Catalogue) -> None:
        blocks = live_blocks(session)
        self.engine = blocks.engine
        """With all of the image's memory that is looked through."""
        self.engine.set_memory(ImageBytes(session, None).all_pieces(_data_of(session)))
        self._starts = blocks.starts
        self._kinds, self._has_table = catalogue.kinds_of(self.engine)
        self._cache = catalogue.plain(THREAD_CACHE)
        self._caches = {each.address for each in session.thread_caches}

    def of(self, users: Sequence[int], told: Optional[Sequence[int]]) -> Iterator[int]:
        """The kinds' numbers of blocks in address order, NONE of what is no live block. What is `told` counts, unless
        NONE, but where there is a vtable: what is not told may begin with the same."""
        block, count = bisect_left(self._starts, users[0]) if users else 0, len(self._starts)
        for user, number in zip(users, told or repeat(NONE)):
            while block < count and self._starts[block] < user:
                block += 1
            if block == count or self._starts[block] != user:
                yield self._cache if user in self._caches else NONE
            elif number != NONE and not self._has_table[block]:
                yield number
            else:
                yield self._kinds[block]


REPLACED_HOLDERS = ("c++", "control", "node")
REPLACED = (*WEAK, *REPLACED_HOLDERS)
"""What blocks are by their own words, of which no runtime asks later."""


class DeclaredNames:
    """Names the blocks of one look, in steps."""

    def __init__(self, session: Session, catalogue: Catalogue, found: NamedBlocks) -> None:
        self._catalogue, self._found, self._starts = catalogue, found, found.blocks.starts
        self._header, self._word = session.layout.header, session.layout.word
        self._certain = array("i", [NONE]) * len(found.name)
        """Of each block the number of its kind, where it is certain; or NONE."""
        numbers: dict[int, int] = {}
        for block in found.certain():
            name = found.name[block]
            kind = found.kind(block) if name not in numbers else None
            if kind is not None:
                numbers[name] = catalogue.plain(kind)
            self._certain[block] = numbers[name]
        self._numbers: dict[tuple[int, int, int], int] = {}
        self._users, self._usables, self._before = array("Q"), array("Q"), array("i")
        """What was known to hold others before it had a certain name."""

    def certain_of(self, users: Sequence[int]) -> Sequence[int]:
        """Of each block the number of its kind, where it is certain, or NONE. In address order."""
        if not users:
            return ()
        first, count = bisect_left(self._starts, users[0]), len(users)
        if self._starts[first : first + count] == array("Q", users):
            return self._certain[first : first + count]
        # thread caches are among them, or what is damaged
        last = bisect_right(self._starts, users[-1])
        certain = dict(zip(self._starts[first:last], self._certain[first:last]))
        return [certain.get(user, NONE) for user in users]

    def put_certain(self, live: NamedLiveBlocks) -> None:
        """Before holders are asked, which takes longer than all else: what is certain needs none. What a runtime's own
        words tell stays, as these tell of other blocks, too."""
        replaced = [each.kind in REPLACED for each in live.kinds]
        holds = [each.kind in REPLACED_HOLDERS for each in live.kinds]
        if self._catalogue.asks_blocks_alone and not any(holds):
            return
        starts, sizes, certain = self._starts, self._found.blocks.sizes, self._certain
        for piece in _typed_pieces(live):
            kinds = piece.kinds
            for index, block in self._placed(piece):
                before = kinds[index]
                if certain[block] != NONE and replaced[before]:
                    if holds[before]:
                        self._users.append(starts[block])
                        self._usables.append(sizes[block] - self._word)
                        self._before.append(before)
                    kinds[index] = certain[block]  # type: ignore[index]  # an array

    def holders(self) -> Iterator[Known]:
        """What was known to hold others, with the kinds that it had before."""
        return zip(self._users, self._usables, self._before)

    def put_rest(self, live: NamedLiveBlocks) -> None:
        """What is less than certain names what nothing else has, or says more."""
        names, certain, known = self._found.name, self._certain, self._numbers.get
        for piece in _typed_pieces(live):
            kinds = piece.kinds
            for index, block in self._placed(piece):
                before = kinds[index]
                if before != certain[block]:
                    number = known((names[block], certain[block], before))
                    if number is None:
                        number = self._number(live, block, before)
                    kinds[index] = number  # type: ignore[index]  # an array
        for at, (mapped, kind) in enumerate(live.mmapped):
            block = self._found.blocks.find(mapped.chunk + self._header)
            if block >= 0:
                live.mmapped[at] = mapped, self._number(live, block, kind)
        live.kinds += [entry.kind for entry in self._catalogue.entries[len(live.kinds) :]]

    def _placed(self, piece: NamedRun) -> Iterator[tuple[int, int]]:
        """(place, number) of each block that has a name: both sweeps met them in the order of their addresses."""
        starts, names = self._starts, self._found.name
        block, count = bisect_left(starts, piece.address), len(starts)
        sizes = (raw & ~SIZE_BITS for raw in piece.raws)
        users = accumulate(sizes, initial=piece.address + self._header)
        for index, (kind, user) in enumerate(zip(piece.kinds, users)):
            if kind == NONE:
                continue
            while block < count and starts[block] < user:
                block += 1
            if block < count and starts[block] == user:
                if names[block] >= 0:
                    yield index, block
                block += 1

    def _number(self, live: NamedLiveBlocks, block: int, before: int) -> int:
        """Of a block's kind, by what it was before."""
        found = self._found
        key = found.name[block], self._certain[block], before
        number = self._numbers.get(key)
        if number is None:
            kind = found.kind(block) if found.is_better(block, live.kinds[before]) else None
            number = self._numbers[key] = self._catalogue.plain(kind) if kind is not None else before
        return number


def _typed_pieces(live: NamedLiveBlocks) -> Iterator[NamedRun]:
    return (piece for heap in live.heaps for piece in heap.pieces if isinstance(piece, NamedRun))


THREAD_CACHE = Kind("glibc's thread cache", "holder", how="its thread's own pointer to it")


def catalogue_of(session: Session) -> Catalogue:
    heaps = [heap for each in session.heaps.values() for heap in each]
    mapped = session.mmapped
    starts = [*(heap.address for heap in heaps), *(block.base for block in mapped)]
    ends = [*(heap.end for heap in heaps), *(block.base + block.bytes for block in mapped)]
    ground, low, high = ground_of(session), min(starts, default=0), max(ends, default=0)
    return Catalogue(ground, low, high, lambda: live_blocks(session).engine)


def live_kinds(session: Session, only: Optional[int] = None, holders: bool = True) -> NamedLiveBlocks:
    """The live blocks of one arena, or of all and those served by mmap; at Ctrl-C those that were met. With `holders`
    what holds a block may name it, too, which takes as long again."""
    if session.target.image.redacted:
        raise RedactedError("what they are")
    session.measure_residency()
    headers = [header for header in session.headers if only in (None, header.index)]
    size = sum(heap.bytes for header in headers for heap in session.heaps[header.index])
    live = NamedLiveBlocks(session)
    catalogue = catalogue_of(session)
    declared = _declared(session, catalogue) if holders else None
    try:
        found = KindsOfBlocks(session, catalogue)
        _sweep(session, catalogue, headers, live, found=found, declared=declared, size=size)
        if only is None:
            header = session.layout.header
            for block in session.mmapped:
                (kind,) = found.of([block.chunk + header], None)
                # a thread's cache may have it
                room = block.base + block.bytes - block.chunk - header
                live.mmapped.append((block, kind if kind != NONE else catalogue.by_size(room)))
    except KeyboardInterrupt:
        session.stopped = True
    _settle(catalogue, live)
    live.kinds = [entry.kind for entry in catalogue.entries]
    if holders and not session.stopped:
        try:
            if declared is not None:
                declared.put_certain(live)
            known = [*declared.holders()] if declared is not None else []
            name_by_holders(session, catalogue, found.engine, live, known)
            if declared is not None:
                declared.put_rest(live)
        except KeyboardInterrupt:
            session.stopped = True
    return live


def _data_of(session: Session) -> list[Span]:
    """Heaps, and what else blocks lead to or are held by; what a search needs, too, which goes on afterwards."""
    search = session.block_results.search
    roots = search.root_spans.spans if search is not None else ()
    every = (each for each in session.regions if each.writable and each.readable and each.present and not each.shared)
    return joined(sorted([*heap_spans(session), *roots, *(Span(each.start, each.end) for each in every)]))


def _declared(session: Session, catalogue: Catalogue) -> Optional[DeclaredNames]:
    """Before all else, which need not be asked then of what has a certain name. After Ctrl-C none, but what blocks are
    by their own words is told."""
    try:
        found = declared_blocks(session)
    except KeyboardInterrupt:
        session.stopped = True
        return None
    return DeclaredNames(session, catalogue, found) if found is not None and found.names else None


def _sweep(
    session: Session,
    catalogue: Catalogue,
    headers: Sequence[ArenaHeader],
    live: NamedLiveBlocks,
    found: KindsOfBlocks,
    declared: Optional[DeclaredNames],
    size: int,
) -> None:
    with session.meter("sweeping", size) as meter:
        for header in headers:
            for heap in session.heaps[header.index]:
                pieces = [
                    _typed(session, catalogue, piece, declared, found) if isinstance(piece, ChunkRun) else piece
                    for piece in metered(session.sweep(header, heap), meter)
                ]
                live.heaps.append(HeapBlocks(header, heap, pieces))


def _settle(catalogue: Catalogue, live: NamedLiveBlocks) -> None:
    """What the numbers of all of them tell."""
    counts: Counter[int] = Counter(kind for _, kind in live.mmapped)
    for heap in live.heaps:
        for piece in heap.pieces:
            if isinstance(piece, NamedRun):
                counts.update(piece.kinds)
    last = [*catalogue.settle(counts), NONE]
    live.mmapped = [(block, last[kind]) for block, kind in live.mmapped]
    live.heaps = [heap._replace(pieces=_renumbered(heap.pieces, last)) for heap in live.heaps]


def _renumbered(pieces: Iterable[Swept], indices: Sequence[int]) -> list[Swept]:
    return [
        piece._replace(kinds=array("i", map(indices.__getitem__, piece.kinds)))
        if isinstance(piece, NamedRun)
        else piece
        for piece in pieces
    ]


def _typed(
    session: Session,
    catalogue: Catalogue,
    run: ChunkRun,
    declared: Optional[DeclaredNames],
    found: KindsOfBlocks,
) -> NamedRun:
    """A run's chunks, those in use with their kinds."""
    raws = run.raws
    sizes = [raw & ~SIZE_BITS for raw in raws]
    used = [raw & PREV_INUSE for raw in islice(raws, 1, None)]
    used.append(run.follow & PREV_INUSE)
    for index, _ in run.marks:
        used[index] = 0
    users = list(accumulate(sizes, initial=run.address + session.layout.header))
    blocks = list(compress(users, used))
    told = declared.certain_of(blocks) if declared is not None and catalogue.asks_blocks_alone else None
    kinds = found.of(blocks, told)
    in_order = array("i", [next(kinds) if each else NONE for each in used])
    code = session.memory.code
    return NamedRun(run.heap, run.address, run.bytes, array(code, raws), follow=run.follow, kinds=in_order)
