"""Sweeps a heap or region: every chunk in address order, by following size headers, and the gaps between.

The inner loop looks a size word up, keeps it and steps on; the meaning of the words is worked out afterwards from the
few distinct ones. The sweep yields runs of chunks and gaps (heads, fenceposts, other users' sbrk, top, damage), which
together are every byte of a heap. Chunks of thread caches and fastbins look used: a sweep is given their addresses.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from bisect import bisect_left
from collections import Counter
from functools import cached_property, reduce
from itertools import accumulate
from operator import or_
from typing import (
    TYPE_CHECKING,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Union,
)

from ..base.errors import MemoryReadError
from ..base.heap_model import ArenaHeader, Bin, ChunkRun, Ends, Finding, Gap, Heap, Piece, Statement
from ..sources.memory import Memory
from ..sources.target import Span
from .malloc_chunk import IS_MMAPPED, NON_MAIN_ARENA, PREV_INUSE, SIZE_BITS
from .process_layout import Layout

if TYPE_CHECKING:
    from ..engine import EngineImage

MANY = 1 << 17
"""The most chunks followed at a time, however small."""
LARGE, PAGE = 64 << 10, 4096
"""For chunks this large, only pages with a size word are read: the others may never have been touched."""


class ChunkTrail:
    """Adjacent chunks that were followed at once, by their size words."""

    def __init__(self) -> None:
        self.raws: Sequence[int] = ()
        self.counts: Mapping[int, int] = {}
        """The number of chunks with each size word."""
        self.end = 0
        """The end of the last chunk."""
        self.follow: Optional[int] = None
        """The size word there; None if it cannot be read."""
        self.broken = False
        """Whether that word is no chunk's."""
        self.marks: Sequence[tuple[int, int]] = ()
        """(index, address) of the chunks that were watched for."""
        self.free = Ends([], [], [])
        """The ends of chunks that the next size word marks as free."""


class Follower(ABC):
    """Follows size words from chunk to chunk, up to the last chunk's end at `limit`."""

    def __init__(self, memory: Memory, least: int, limit: int, end: int, stops: array[int]) -> None:
        """`least`: the size of the smallest chunk; `end`: the heap's; `stops`: chunks to watch for, by address."""
        self.memory = memory
        self.least = least
        self.limit = limit
        self.end = end
        self.stops = stops

    def follow(self, position: int, span: int) -> ChunkTrail:
        """Follows some `span` bytes of chunks, or fewer if something other than a chunk follows."""
        trail = self._trail(position, min(position + span, self.limit))
        if trail.end < self.end:
            trail.follow = self.memory.try_word(trail.end + self.memory.pointer_size)
            if not (trail.follow or 0) & PREV_INUSE:
                trail.free.add([len(trail.raws)], [trail.end], [self._word(trail.end)])
        return trail

    def _word(self, address: int) -> int:
        """The word there; 0 if it cannot be read."""
        return self.memory.try_word(address) or 0

    @abstractmethod
    def _trail(self, position: int, until: int) -> ChunkTrail:
        """The chunks that begin before `until`, or the first of these; `follow` adds what is behind the last one."""


class EngineFollower(Follower):
    """Has the engine follow them."""

    def __init__(self, engine: EngineImage, memory: Memory, least: int, limit: int, end: int, stops: array[int]):
        super().__init__(memory, least, limit, end=end, stops=stops)
        self._engine = engine

    def _trail(self, position: int, until: int) -> ChunkTrail:
        trail = ChunkTrail()
        found = self._engine.chunks_from(position, until, self.limit, self.least, self.stops)
        trail.raws, trail.counts, trail.marks = found.raws, found.counts, found.marks
        trail.end, trail.broken = found.end, found.broken
        trail.free.add(found.free[::3].tolist(), found.free[1::3].tolist(), found.free[2::3].tolist())
        return trail


class PlainFollower(Follower):
    """Follows them in Python, through windows of the image's words."""

    def __init__(self, memory: Memory, least: int, limit: int, end: int, stops: array[int]) -> None:
        super().__init__(memory, least, limit, end=end, stops=stops)
        # of top no more than its header: its pages may never have been touched
        self._until = min(end, limit + 2 * memory.pointer_size)
        self._are_large = False
        """Whether the last chunks were large."""

    def _trail(self, position: int, until: int) -> ChunkTrail:
        word, trail = self.memory.pointer_size, ChunkTrail()
        raws, counts, marks = list[int](), Counter[int](), list[tuple[int, int]]()
        while position < until and len(raws) < MANY and not trail.broken:
            view = self._window(position)
            most = min(len(view), (self.limit - position) // word)
            if not most:
                break
            before, index = len(raws), _follow(view, most, self.least, 8 // word, raws)
            followed = raws[before:]
            counts.update(followed)
            starts = list(accumulate((raw & ~SIZE_BITS for raw in followed), initial=position))
            free = [at for at, raw in enumerate(followed) if not raw & PREV_INUSE]
            # in words of the window, which begins behind the first of these
            feet = [view[(starts[at] - position) // word - 1] if at else self._word(position) for at in free]
            trail.free.add([before + at for at in free], [starts[at] for at in free], feet)
            for stop in self.stops[bisect_left(self.stops, position) : bisect_left(self.stops, starts[-1])]:
                at = bisect_left(starts, stop)
                if starts[at] == stop:
                    marks.append((before + at, stop))
            trail.broken = index < most
            self._are_large = len(followed) * LARGE <= index * word
            position += index * word
        trail.raws, trail.counts, trail.marks, trail.end = raws, counts, marks, position
        return trail

    def _window(self, position: int) -> Sequence[int]:
        """Returns the words from this chunk's size field on."""
        word = self.memory.pointer_size
        base = position + word
        most = -base % PAGE or PAGE if self._are_large else self.memory.BLOCK
        size = min(most, self._until - base) // word * word
        while size >= word:
            try:
                return self.memory.block(base, size)
            except MemoryReadError:
                # what can be read ends somewhere in here
                size = size // 8 // word * word
        return ()


def _follow(view: Sequence[int], count: int, least: int, per: int, words: list[int]) -> int:
    """Follows size words from the first one on, and returns the index where the last chunk ends: at `count` or behind
    it, or where no chunk begins. `per` words of the image have 64 bits, the unit of size words without their flags."""
    append, index = words.append, 0
    while index < count:
        raw = view[index]
        if raw < least:
            break
        append(raw)
        index += (raw >> 3) * per
    return index


SURE = 64
"""After damage, this many consecutive headers are no coincidence."""
PROVEN = 1 << 20
"""Foreign bytes may imitate headers: so many are followed, up to where they end."""
BLOCK = 64 << 10
SEARCHED = 256 << 20
"""The most bytes searched: another user's sbrk can be large."""


def find_chain(
    memory: Memory, layout: Layout, main: bool, start: int, limit: int, sure: int = SURE, searched: int = SEARCHED
) -> Optional[int]:
    """Returns the first address from which headers lead to `limit`, to a fencepost or through enough chunks; None:
    there is none.

    Bytes that look like headers by chance, or are left over from merged blocks, can give a place too early.
    """
    start = layout.first_aligned(start)
    verdicts: dict[int, bool] = {}
    wrong = IS_MMAPPED | layout.mask & ~SIZE_BITS | (NON_MAIN_ARENA if main else 0)
    word, step = layout.word, layout.align
    position = start
    while position < min(limit, start + searched):
        size = min(BLOCK, limit - position)
        block = memory.try_read(position, size)
        if block is None:
            # whole pages are there or not
            position += -(position + word) % 4096 or step
            position = layout.first_aligned(position)
            continue
        for index, raw in enumerate(memory.unpack_words(block)[1 :: step // word]):
            chunk = position + index * step
            if raw < layout.min_size or raw & wrong or chunk + (raw & ~SIZE_BITS) > limit:
                continue
            if _leads_on(memory, layout, chunk, limit, wrong=wrong, sure=sure, verdicts=verdicts):
                return chunk
        position += -(-size // step) * step
    return None


def _leads_on(
    memory: Memory, layout: Layout, chunk: int, limit: int, *, wrong: int, sure: int, verdicts: dict[int, bool]
) -> bool:
    path: list[int] = []
    good = False
    for _ in range(sure):
        if chunk in verdicts:
            good = verdicts[chunk]
            break
        if chunk == limit:
            good = True
            break
        raw = memory.try_word(chunk + layout.word)
        if raw is None or chunk > limit:
            break
        if raw & ~SIZE_BITS == layout.header and path:
            good = (memory.try_word(chunk + layout.header + layout.word) or 0) & PREV_INUSE == PREV_INUSE
            break
        if raw < layout.min_size or raw & wrong:
            break
        path.append(chunk)
        chunk += raw & ~SIZE_BITS
    else:
        good = True
    verdicts.update(dict.fromkeys(path, good))
    return good


SPAN = 64 << 20
"""The bytes of a heap that are followed before they are handed out."""


def first_chunk(layout: Layout, header: ArenaHeader, heap: Heap) -> int:
    """Returns the heap's first chunk, by the rules of sysmalloc and of new_heap."""
    start = heap.address
    if not header.main:
        start += layout.heap.size
        if start == header.address:
            start += layout.arena.size
    return layout.first_aligned(start)


class Sweep:
    """Yields everything between a heap's start and end, in order and without gaps: sizes sum to the heap's.

    `marked` are addresses, in order, whose chunks a run points out. `stretch` limits the sweep: it begins at a chunk,
    or with the heap; the last piece ends past it if no chunk begins at its end. `engine` has the heap's bytes; None: it
    is swept in Python.
    """

    def __init__(
        self,
        memory: Memory,
        layout: Layout,
        header: ArenaHeader,
        heap: Heap,
        findings: list[Finding],
        *,
        marked: array[int],
        stretch: Optional[Span] = None,
        engine: Optional[EngineImage] = None,
    ) -> None:
        self.memory = memory
        self.layout = layout
        self.header = header
        self.heap = heap
        self.findings = findings
        self.has_top = heap.address <= header.top < heap.end
        self.limit = header.top if self.has_top else heap.end
        """The end of the last chunk before top."""
        self.start = stretch.start if stretch else heap.address
        self.stop = min(stretch.end if stretch else heap.end, self.limit)
        self._marked, self._engine = marked, engine
        self._span = SPAN
        self.wrong = IS_MMAPPED | layout.mask & ~SIZE_BITS | (NON_MAIN_ARENA if header.main else 0)
        """Bits that no chunk of this heap has in its size word."""

    @cached_property
    def _follower(self) -> Follower:
        where = self.memory, self.layout.min_size, self.stop, self.heap.end, self._marked
        return PlainFollower(*where) if self._engine is None else EngineFollower(self._engine, *where)

    def pieces(self) -> Iterator[Piece]:
        position = self.start
        if position == self.heap.address:
            position = min(first_chunk(self.layout, self.header, self.heap), self.limit)
            if position > self.heap.address:
                yield self._gap(self.heap.address, position, "header")
        while position < self.stop:
            position = yield from self._chain(position)
            if position < self.stop:
                position = yield from self.gaps(position)
        if self.has_top and self.stop == self.limit:
            yield self._gap(self.limit, self.heap.end, "top")

    def gaps(self, position: int) -> Generator[Gap, None, int]:
        """Yields what stands where no chunk does, and returns where chunks may go on."""
        piece = self._what_follows(position)
        yield piece
        position += piece.bytes
        if piece.kind == "fencepost" and position < self.stop:
            position = yield from self._foreign(position)
        return position

    def _gap(self, start: int, end: int, kind: str) -> Gap:
        return Gap(self.heap, start, end - start, kind)

    def _say(self, what: Statement, address: int) -> None:
        self.findings.append(Finding(what, address, self.header.index, "size"))

    def _chain(self, position: int) -> Generator[Piece, None, int]:
        """Yields runs up to the first word that is no chunk's, and returns its place."""
        while position < self.stop:
            trail = self._follower.follow(position, self._span)
            if not trail.raws:
                return position
            if trail.end == self.heap.end:
                # a heap whose chunks end where it does has no fencepost: top, or its damage, lies elsewhere
                trail.follow = PREV_INUSE
            counts = trail.counts
            # no size is too large where all of them end within the heap
            sound = not reduce(or_, counts, 0) & self.wrong and trail.follow is not None and trail.end <= self.limit
            if not sound:
                self._cut(trail, position)
            stub = self._stub(trail)
            if stub:
                trail.raws, trail.follow = trail.raws[:-1], stub
            if stub or not sound:
                counts = Counter(trail.raws)
                trail.free.cut(len(trail.raws))
            # one damage suggests more: do not read what follows repeatedly
            self._span = min(2 * self._span, SPAN) if sound else self.memory.BLOCK
            end, chunks = trail.end - (stub & ~SIZE_BITS), len(trail.raws)
            if chunks:
                marks = [mark for mark in trail.marks if mark[0] < chunks]
                yield ChunkRun(
                    self.heap,
                    position,
                    bytes=end - position,
                    raws=trail.raws,
                    follow=trail.follow or 0,
                    counts=counts,
                    marks=marks,
                    free=trail.free,
                )
            if stub:
                yield self._gap(end, trail.end, "fencepost")
            position = trail.end
            if not sound or trail.broken:
                break
        return position

    def _stub(self, trail: ChunkTrail) -> int:
        """Recognises the header of a too small old top, which sysmalloc leaves before the size-0 post: it looks like a
        block."""
        last = trail.raws[-1] if trail.raws else 0
        if (
            last
            and trail.follow == PREV_INUSE
            and not self.header.main
            and not last & NON_MAIN_ARENA
            and last < self.layout.min_size + self.layout.header
        ):
            return last
        return 0

    def _cut(self, trail: ChunkTrail, position: int) -> None:
        """Cuts a trail at the first word that cannot be a chunk's."""
        for index, raw in enumerate(trail.raws):
            size = raw & ~SIZE_BITS
            if not raw & self.wrong and position + size <= self.limit:
                position += size
                continue
            self.say_wrong(raw, position)
            trail.raws, trail.end, trail.follow = trail.raws[:index], position, raw
            return

    def say_wrong(self, raw: int, position: int) -> None:
        """Adds the finding that a size word has wrong flags, or leads past the last chunk's end."""
        if raw & self.wrong:
            self._say(Statement("chunk-flags", names={"size_word": f"{raw:#x}"}), position)
        else:
            beyond = Statement("chunk-too-long", {"bytes": raw & ~SIZE_BITS}, {"limit": f"{self.limit:#x}"})
            self._say(beyond, position)

    # what stands where no chunk does

    def _what_follows(self, position: int) -> Gap:
        """Classifies what follows: a fencepost, another user's bytes after one, or damage."""
        layout, left = self.layout, self.limit - position
        raw = self.memory.try_word(position + layout.word)
        size = raw & ~SIZE_BITS if raw is not None else None
        if size == layout.header and left >= size:
            return self._gap(position, position + size, "fencepost")
        if self._is_slack(position) and raw == PREV_INUSE and not self.header.main:
            return self._gap(position, self.limit, "fencepost")
        if not (self.findings and self.findings[-1].address == position):
            what = Statement("chunk-unreadable")
            if raw is not None:
                what = Statement("no-chunk", names={"size_word": f"{raw:#x}"})
            self._say(what, position)
        chain = find_chain(self.memory, layout, self.header.main, position + layout.align, limit=self.limit)
        return self._gap(position, self.limit if chain is None else chain, "damage")

    def _is_slack(self, position: int) -> bool:
        """Tells whether less than a chunk is left before the heap's end: space for the last fencepost and alignment."""
        left = self.limit - position
        return not self.has_top and left <= self.layout.min_size - self.layout.header + self.layout.mask

    def _foreign(self, position: int) -> Generator[Gap, None, int]:
        """Finds the end of foreign bytes after two fenceposts of the main arena: nothing records where its own chunks
        resume."""
        raw = self.memory.try_word(position + self.layout.word)
        if not self.header.main or (raw is not None and raw & ~SIZE_BITS == self.layout.header):
            return position
        if self._is_slack(position):
            yield self._gap(position, self.limit, "fencepost")
            return self.limit
        chain = find_chain(self.memory, self.layout, True, position, limit=self.limit, sure=PROVEN)
        end = self.limit if chain is None else chain
        if end > position:
            yield self._gap(position, end, "foreign")
        return end


Block = tuple[int, int, str]
"""(chunk address, bytes, "used", "tcache", "fast" or "free")."""


def blocks(run: ChunkRun, listed: Mapping[int, str]) -> Iterator[Block]:
    """Returns a run's chunks in address order; `listed` are those of thread caches and fastbins, which look used."""
    chunk, previous = run.address, 0
    state = listed.get
    for raw in run.raws:
        if previous:
            yield chunk, previous, state(chunk, "used") if raw & PREV_INUSE else "free"
            chunk += previous
        previous = raw & ~SIZE_BITS
    if previous:
        yield chunk, previous, state(chunk, "used") if run.follow & PREV_INUSE else "free"


def free_chunks(run: ChunkRun) -> list[tuple[int, int]]:
    """(address, bytes) of a run's free chunks, in order."""
    sizes = [run.raws[at - 1] & ~SIZE_BITS if at else 0 for at in run.free.indexes]
    return [(end - size, size) for end, size in zip(run.free.addresses, sizes) if size]


def listed_chunks(lists: Iterable[Sequence[Bin]]) -> dict[int, str]:
    """Returns the chunks of fastbins and thread caches: "fast" or "tcache"."""
    kind_of: dict[int, str] = {}
    for bins in lists:
        for each in bins:
            kind_of.update(dict.fromkeys(each.addresses, each.kind))
    return kind_of


class Placed(NamedTuple):
    """A chunk among its neighbours in memory."""

    chunk: int
    bytes: int
    state: str
    """"used", "tcache", "fast", "free" or "top"."""
    previous: Optional[int]
    next: Optional[int]
    """Adjacent chunks; None if there are none."""


Enclosing = Union[Placed, Gap]
"""The chunk that contains an address, or the part of the heap that is there."""


def find_blocks(pieces: Iterable[Piece], listed: Mapping[int, str], addresses: Iterable[int]) -> dict[int, Enclosing]:
    """Finds chunks by address, without addresses that no piece has. It reads the pieces once, no further than
    needed."""
    wanted = sorted(set(addresses))
    by_address: dict[int, Enclosing] = {}
    before: Optional[int] = None
    last: list[int] = []
    at = 0
    for piece in pieces:
        # what ends with a piece has its neighbour in the next one
        _followed_by(_first(piece), last, by_address)
        end = piece.address + piece.bytes
        here = wanted[bisect_left(wanted, piece.address, at) : bisect_left(wanted, end, at)]
        at = bisect_left(wanted, end, at)
        if here and isinstance(piece, ChunkRun):
            last = _in_run(piece, listed, here, before, by_address=by_address)
        elif here and isinstance(piece, Gap):
            top = Placed(piece.address, piece.bytes, state="top", previous=before, next=None)
            by_address.update(dict.fromkeys(here, top if piece.kind == "top" else piece))
        if at == len(wanted) and not last:
            break
        before = end - (piece.raws[-1] & ~SIZE_BITS) if isinstance(piece, ChunkRun) else None
    return by_address


def _in_run(
    run: ChunkRun,
    listed: Mapping[int, str],
    wanted: Sequence[int],
    before: Optional[int],
    by_address: dict[int, Enclosing],
) -> list[int]:
    """Adds the chunks of addresses in this run to `by_address`; returns those in its last chunk."""
    held: list[int] = []
    at = 0
    for chunk, size, state in blocks(run, listed):
        _followed_by(chunk, held, by_address)
        while at < len(wanted) and wanted[at] < chunk + size:
            by_address[wanted[at]] = Placed(chunk, size, state=state, previous=before, next=None)
            held.append(wanted[at])
            at += 1
        if at == len(wanted) and not held:
            break
        before = chunk
    return held


def _followed_by(chunk: Optional[int], held: list[int], by_address: dict[int, Enclosing]) -> None:
    """Completes what was found for the addresses in `held`, which is emptied, with this neighbour."""
    for address in held:
        placed = by_address[address]
        assert isinstance(placed, Placed)
        by_address[address] = placed._replace(next=chunk)
    held.clear()


def _first(piece: Piece) -> Optional[int]:
    """Returns a piece's first chunk."""
    return piece.address if isinstance(piece, ChunkRun) or piece.kind == "top" else None
