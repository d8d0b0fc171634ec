"""What every live block is: all arenas swept once, and the blocks served by mmap.

The kinds of a sweep are settled only when all of it was seen (a vtable that was left behind is told by the sizes of the
others), so that what it found is kept: a size word and a kind for each chunk.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from itertools import accumulate, compress, islice, repeat
from operator import sub
from types import ModuleType
from typing import Iterable, Iterator, Optional, Sequence

from ..base import optional_libraries
from ..base.errors import MemoryReadError, RedactedError
from ..base.meter import Unseen, metered
from ..base.model import ArenaHeader, ChunkRun, Kind, MmappedBlock
from ..engine import CONTENTS, is_there, places_of
from ..glibc.chunk import PREV_INUSE, SIZE_BITS
from ..session.session import Session
from ..sources.target import Span, joined
from .block_index import WEAK, HeapBlocks, Known, NamedLiveBlocks, NamedRun, Swept
from .declared.named_blocks import NamedBlocks
from .declared.once_per_image import declared_blocks
from .graph.blocks import live_blocks
from .named_by_holders import name_by_holders
from .pointer_finder import library
from .recognise.all_recognisers import BEGINS, NODES, NONE, POINTERS, TEXTS, ZEROS, Catalogue
from .recognise.containers import LIST, PAGES, TREE
from .recognise.contents import LOOKED_AT
from .recognise.module_memory import ground_of


class KindsAtOnce:
    """What all blocks are by their own words, as the engine sees it, where no runtime and no program has words of its
    own."""

    def __init__(self, session: Session, catalogue: Catalogue) -> None:
        blocks, word = live_blocks(session), session.layout.word
        engine, ground = blocks.engine, catalogue.ground
        data = [Span(each.start, each.end) for each in ground.regions if each.writable]
        contents = engine.contents(catalogue.low, catalogue.high, joined(sorted(data)), Unseen())
        numbers = [catalogue.known(KINDS[each]) if each in KINDS else NONE for each in CONTENTS]
        kinds = self._kinds = array("i", map(numbers.__getitem__, contents))
        self._starts = blocks.starts
        self._has_table = bytearray(len(blocks))
        sizes = blocks.sizes
        for block in places_of(0, contents):
            kinds[block] = catalogue.by_size(sizes[block] - word)
        for first, block, step in engine.beginning_with(ground.page_spans, Unseen()):
            number = catalogue.of_table(first, sizes[block] - word, step)
            if number != NONE:
                kinds[block] = number
                self._has_table[block] = 1
        engine.let_go()

    def of(self, users: Sequence[int], told: Optional[Sequence[int]]) -> Iterator[int]:
        """The kinds' numbers of blocks in address order, NONE of what is no live block. What is `told` counts, unless
        NONE, but where there is a vtable: what is not told may begin with the same."""
        block, count = bisect_left(self._starts, users[0]) if users else 0, len(self._starts)
        for user, number in zip(users, told or repeat(NONE)):
            while block < count and self._starts[block] < user:
                block += 1
            if block == count or self._starts[block] != user:
                yield NONE
            elif number != NONE and not self._has_table[block]:
                yield number
            else:
                yield self._kinds[block]


KINDS = {
    "zeros": ZEROS,
    "begins with zeros": BEGINS,
    **TEXTS,
    "tree node": NODES[TREE],
    "list node": NODES[LIST],
    "linked pages": NODES[PAGES],
    "pointers": POINTERS,
}
"""By what the engine calls contents."""
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
        self._numpy = library(found.blocks.bytes) if len(self._starts) else None
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
        if self._numpy is not None:
            yield from _placed_at_once(self._numpy, piece, self._header, starts=starts, names=names)
            return
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


def _placed_at_once(
    numpy: ModuleType, piece: NamedRun, header: int, *, starts: Sequence[int], names: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """The same with numpy."""
    raws = numpy.asarray(piece.raws).astype(numpy.uint64)
    sizes = raws & numpy.uint64(~SIZE_BITS & (1 << 64) - 1)
    used = numpy.flatnonzero(numpy.asarray(piece.kinds) != NONE)
    users = (numpy.cumsum(sizes) - sizes + numpy.uint64(piece.address + header))[used]
    blocks = numpy.searchsorted(starts, users, side="right") - 1
    named = (numpy.asarray(starts)[blocks] == users) & (numpy.asarray(names)[blocks] >= 0)
    return zip(used[named].tolist(), blocks[named].tolist())


def _typed_pieces(live: NamedLiveBlocks) -> Iterator[NamedRun]:
    return (piece for heap in live.heaps for piece in heap.pieces if isinstance(piece, NamedRun))


THREAD_CACHE = Kind("glibc's thread cache", "holder", how="its thread's own pointer to it")
WORTH_IT = 16 << 20
"""Of so many bytes the blocks are told without numpy in the time that it takes to load, where they are small."""
FAR = 32 << 10
"""Blocks further apart are read one by one."""


def catalogue_of(session: Session) -> Catalogue:
    heaps = [heap for each in session.heaps.values() for heap in each]
    mapped = session.mmapped
    starts = [*(heap.address for heap in heaps), *(block.base for block in mapped)]
    ends = [*(heap.end for heap in heaps), *(block.base + block.bytes for block in mapped)]
    return Catalogue(ground_of(session), min(starts, default=0), max(ends, default=0))


def live_kinds(session: Session, only: Optional[int] = None, holders: bool = True) -> NamedLiveBlocks:
    """The live blocks of one arena, or of all and those served by mmap; at Ctrl-C those that were met. With `holders`
    what holds a block may name it, too, which takes as long again."""
    if session.target.image.redacted:
        raise RedactedError("what they are")
    session.measure_residency()
    headers = [header for header in session.headers if only in (None, header.index)]
    size = sum(heap.bytes for header in headers for heap in session.heaps[header.index])
    live = NamedLiveBlocks(session, optional_libraries.load("numpy") if size >= WORTH_IT else None)
    catalogue = catalogue_of(session)
    declared = _declared(session, catalogue) if holders else None
    try:
        _sweep(session, catalogue, headers, live, declared=declared, size=size)
        if only is None:
            live.mmapped += _of_mmapped(session, catalogue)
    except KeyboardInterrupt:
        session.stopped = True
    _settle(catalogue, live)
    live.kinds = [entry.kind for entry in catalogue.entries]
    if holders and not session.stopped:
        try:
            if declared is not None:
                declared.put_certain(live)
            name_by_holders(session, catalogue, live, list(declared.holders()) if declared is not None else ())
            if declared is not None:
                declared.put_rest(live)
        except KeyboardInterrupt:
            session.stopped = True
    return live


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
    declared: Optional[DeclaredNames],
    size: int,
) -> None:
    at_once = KindsAtOnce(session, catalogue) if catalogue.asks_blocks_alone and is_there() else None
    with session.meter("sweeping", size) as meter:
        for header in headers:
            for heap in session.heaps[header.index]:
                pieces = [
                    _typed(session, catalogue, piece, declared, at_once) if isinstance(piece, ChunkRun) else piece
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
    at_once: Optional[KindsAtOnce],
) -> NamedRun:
    """A run's chunks, those in use with their kinds."""
    header, word = session.layout.header, session.layout.word
    raws = run.raws
    sizes = [raw & ~SIZE_BITS for raw in raws]
    used = [raw & PREV_INUSE for raw in islice(raws, 1, None)]
    used.append(run.follow & PREV_INUSE)
    for index, _ in run.marks:
        used[index] = 0
    users = list(accumulate(sizes, initial=run.address + header))
    usables = list(map(sub, compress(sizes, used), repeat(word)))
    blocks = list(compress(users, used))
    told = declared.certain_of(blocks) if declared is not None and catalogue.asks_blocks_alone else None
    kinds = (
        at_once.of(blocks, told)
        if at_once is not None
        else kinds_between(session, catalogue, blocks, usables, told=told)
    )
    in_order = array("i", [next(kinds) if each else NONE for each in used])
    for cache in session.thread_caches:
        index = bisect_left(users, cache.address or 0)
        if index < len(in_order) and users[index] == cache.address:
            in_order[index] = catalogue.plain(THREAD_CACHE)
    code = session.memory.code
    return NamedRun(run.heap, run.address, run.bytes, array(code, raws), follow=run.follow, kinds=in_order)


def kinds_between(
    session: Session,
    catalogue: Catalogue,
    users: Sequence[int],
    usables: Sequence[int],
    told: Optional[Sequence[int]] = None,
) -> Iterator[int]:
    """Of blocks in address order, read many at a time. `told`: of each the number of its kind, or NONE."""
    memory, at = session.memory, 0
    while at < len(users):
        base = users[at]
        # those whose heads lie close enough together
        end = bisect_left(users, base + memory.BLOCK - LOOKED_AT, at)
        if end < len(users) or users[end - 1] - base > FAR * (end - at):
            end = _close_ones(users, at, end)
        last = users[end - 1] + min(usables[end - 1], LOOKED_AT)
        try:
            data = memory.read(base, last - base)
        except MemoryReadError:
            yield from one_by_one(session, catalogue, users[at:end], usables[at:end])
        else:
            data = data[: len(data) // memory.pointer_size * memory.pointer_size]
            known = told[at:end] if told is not None else None
            words, some = memory.as_words(data), (users[at:end], usables[at:end])
            yield from catalogue.classify_many(words, data, base, *some, told=known or repeat(NONE))
        at = end


def _close_ones(users: Sequence[int], at: int, end: int) -> int:
    """How far one reads without reading much that lies between."""
    for index in range(at + 1, end):
        if users[index] - users[index - 1] > FAR:
            return index
    return end


def one_by_one(session: Session, catalogue: Catalogue, users: Sequence[int], usables: Sequence[int]) -> Iterator[int]:
    """What can be read of it: a core may have been cut."""
    for user, usable in zip(users, usables):
        head = session.memory.try_read(user, min(usable, LOOKED_AT))
        yield catalogue.by_size(usable) if head is None else catalogue.classify(user, usable, head)


def _of_mmapped(session: Session, catalogue: Catalogue) -> Iterator[tuple[MmappedBlock, int]]:
    header = session.layout.header
    for block in session.mmapped:
        usable = block.base + block.bytes - block.chunk - header
        (kind,) = one_by_one(session, catalogue, [block.chunk + header], [usable])
        yield block, kind
