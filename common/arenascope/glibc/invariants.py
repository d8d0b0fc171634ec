"""Checks malloc's structures: malloc_state itself, counts without a list, bins, fastbins, thread caches, and chunks.

regular_bins.walk_bins has followed every complete bin. An incomplete one is read again here, slowly and from both ends.
The findings of the walkers of singly linked lists tell where each breaks.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections import Counter
from itertools import chain, islice, repeat
from operator import sub
from typing import AbstractSet, Callable, Iterable, Iterator, Mapping, NamedTuple, Optional, Sequence

from ..base.errors import MemoryReadError
from ..base.heap_model import (
    ARENA_FLAGS,
    Arena,
    ArenaHeader,
    Bin,
    Breach,
    ChunkRun,
    Finding,
    Gap,
    MmappedBlock,
    Params,
    Piece,
    Statement,
    ThreadCache,
)
from ..sources.memory import Memory
from .arena import LEAST_PAGE, ArenaIndexes, ArenaReach
from .malloc_chunk import IS_MMAPPED, NON_MAIN_ARENA, PREV_INUSE, SIZE_BITS
from .malloc_par import counts as counts_of
from .mmapped_chunks import counts
from .process_layout import Layout
from .regular_bins import NBINS, UNSORTED, bin_kind, bin_sizes, min_large_size
from .sweep import find_chain

MUTEX_MAX = 2
"""The largest value of a low-level lock: free, taken, taken and waited for."""


def header_breaches(layout: Layout, header: ArenaHeader) -> Iterator[Breach]:
    """Checks the invariants of one malloc_state by itself."""

    def say(rule: str, what: str, **figures: int) -> Breach:
        return Breach(header.address, header.index, rule, Statement(what, figures))

    if header.mutex > MUTEX_MAX:
        yield say("mutex", "mutex", value=header.mutex)
    if header.flags & ~ARENA_FLAGS or (not header.main and header.contiguous):
        yield say("arena-flags", "flags-of-main-arena" if header.main else "flags-of-thread-arena", flags=header.flags)
    if header.system_mem > header.max_system_mem and not _grown_by_systrim(layout, header):
        yield say(
            "system-mem",
            "system-mem-over-maximum",
            system_bytes=header.system_mem,
            max_system_bytes=header.max_system_mem,
        )


def _grown_by_systrim(layout: Layout, header: ArenaHeader) -> bool:
    """Tells whether malloc_trim explains it: since 2.19 it extends a top of MINSIZE by whole pages.

    It adds them to system_mem and leaves max_system_mem behind until the heap grows next.
    """
    excess = header.system_mem - header.max_system_mem
    return (
        header.main
        and layout.behaviour.systrim_unsigned
        and header.max_system_mem >= LEAST_PAGE
        and excess % LEAST_PAGE == 0
    )


def mmapped_breach(
    layout: Layout,
    params: Optional[Params],
    blocks: Sequence[MmappedBlock],
    unclaimed: Callable[[], Sequence[int]],
) -> Iterator[Breach]:
    """Checks the number of mmapped blocks: fewer than counted means that a header was overwritten.

    `unclaimed` are the bytes of each stretch where the missing ones can lie. Without room for them they may just not be
    recognised. More than counted can be false matches: problems report that.
    """
    if params is None:
        return
    counted = counts_of(params)
    held = counts(blocks)
    missing, lacking = counted.chunks - held.chunks, counted.bytes - held.bytes
    if missing <= 0 or lacking < missing * LEAST_PAGE:
        return
    if layout.behaviour.mmapped_size_less_header:
        lacking -= lacking % LEAST_PAGE  # what each realloc() that moved one counts too many
    if sum(heapq.nlargest(missing, unclaimed())) >= lacking:
        figures = {
            "counted_blocks": counted.chunks,
            "counted_bytes": counted.bytes,
            "blocks": held.chunks,
            "bytes": held.bytes,
        }
        yield Breach(params.address, None, "mmapped-count", Statement("mmapped-count", figures))


LINKS = ("fast-link", "tcache-link")
SIZES = ("fast-size", "tcache-size")


def list_breach(layout: Layout, finding: Finding, owners: ArenaIndexes) -> Breach:
    """Converts a finding of a walker of fastbins or thread caches."""
    chunk = finding.address or 0
    if finding.arena is None and finding.rule != "tcache-count":
        # thread caches link blocks, not chunks
        chunk -= layout.header
    rule = finding.rule
    if rule in SIZES and owners.around(chunk) is None:
        rule = LINKS[SIZES.index(rule)]
    if rule in LINKS:
        names = {**finding.what.names, "leads_to": f"{chunk:#x}"}
        return Breach(finding.holder or chunk, finding.arena, rule, finding.what._replace(names=names))
    return Breach(chunk, finding.arena, rule, finding.what)


class _Listed(NamedTuple):
    """A list that names a chunk: an arena's fastbins, or a thread's cache."""

    kind: str
    bin: int
    arena: Optional[int]
    tid: Optional[int]
    addresses: Sequence[int]

    def figures(self, prefix: str = "") -> dict[str, int]:
        """The list's place, without what does not apply."""
        places = {"bin": self.bin, "arena": self.arena, "tid": self.tid}
        return {prefix + name: value for name, value in places.items() if value is not None}


def doubles(arenas: Sequence[Arena], caches: Sequence[ThreadCache], binned: AbstractSet[int]) -> Iterator[Breach]:
    """Finds chunks that are in two lists at once: freed twice."""
    seen: dict[int, _Listed] = {}
    lists = [
        _Listed("fast", each.index, arena.header.index, None, addresses=each.addresses)
        for arena in arenas
        for each in arena.fastbins
    ]
    lists += [
        _Listed("tcache", each.index, None, cache.tid, addresses=each.addresses)
        for cache in caches
        for each in cache.bins
    ]
    for listed in lists:
        for chunk in listed.addresses:
            other = seen.get(chunk)
            if other or chunk in binned:
                figures = {**listed.figures(), **(other.figures("other_") if other else {})}
                names = {"list": listed.kind, "other_list": other.kind if other else "bin"}
                yield Breach(chunk, listed.arena, "double-free", Statement("in-two-lists", figures, names))
            seen[chunk] = listed


def key_breaches(
    memory: Memory, layout: Layout, caches: Sequence[ThreadCache], secret: Optional[int]
) -> Iterator[Breach]:
    """Checks tcache_entry.key: the cache's own address up to 2.33, then one random number for the whole process.

    `secret` is that number, if known; otherwise the entries themselves tell it.
    """
    if not layout.behaviour.tcache_key:
        return
    keys: dict[int, tuple[int, int]] = {}
    for cache in caches:
        for each in cache.bins:
            for chunk in each.addresses:
                key = memory.try_word(chunk + layout.header + layout.word)
                if key is not None:
                    keys[chunk] = key, cache.address or 0
    own = sum(key == cache for key, cache in keys.values())
    usual, times = Counter(key for key, _ in keys.values()).most_common(1)[0] if keys else (0, 0)
    if not secret and (2 * max(own, times) <= len(keys) or (own < times and not usual)):
        return
    for chunk, (key, owner) in keys.items():
        expected = secret or (owner if own >= times else usual)
        if key != expected:
            names = {"expected": f"{expected:#x}", "key": f"{key:#x}"}
            yield Breach(chunk, None, "tcache-key", Statement("tcache-key", names=names))


class Rescued(NamedTuple):
    """The readable part of a broken list."""

    bin: int
    chunks: dict[int, int]
    """Size by address."""
    whole: bool
    """Whether every chunk was reached, from one end or the other."""


class BinCheck:
    """Checks one arena's bins."""

    def __init__(self, memory: Memory, layout: Layout, header: ArenaHeader, reach: ArenaReach) -> None:
        self.memory = memory
        self.reach = reach
        self.layout = layout
        self.header = header
        self.base = header.address + layout.arena["bins"]
        self.breaches: list[Breach] = []
        self.binned: dict[int, bool] = {}
        """The chunks of all bins, and whether a header led to each, which the sweep fills in."""
        self.entries = 0
        self.broken: list[Rescued] = []

    def run(self, bins: Sequence[Bin]) -> None:
        try:
            links = self.memory.words(self.base, 2 * (NBINS - 1))
            binmap = [self.memory.u32(self.header.address + self.layout.arena["binmap"] + 4 * n) for n in range(4)]
        except MemoryReadError:
            return
        whole = {each.index: each for each in bins if each.whole}
        for index in range(1, NBINS):
            head, first, last = self._head(index), links[2 * index - 2], links[2 * index - 1]
            if first == last and first in (head, 0):
                continue
            if index != UNSORTED and not binmap[index >> 5] >> (index & 31) & 1:
                self._say(self.header.address, "binmap", "binmap", {"bin": index, "map": binmap[index >> 5]})
            if index in whole:
                self.binned.update(zip(whole[index].addresses, repeat(False)))
                self._order(whole[index])
            else:
                self._rescue(index, head, first, last)
        self.entries = len(self.binned)

    def _head(self, index: int) -> int:
        """Computes bin_at()."""
        return self.base + 2 * (index - 1) * self.layout.word - self.layout.header

    def _say(
        self, address: int, rule: str, what: str, figures: Mapping[str, int] = {}, names: Mapping[str, str] = {}
    ) -> None:
        self.breaches.append(Breach(address, self.header.index, rule, Statement(what, figures, names)))

    # a list that is whole: its order, and fd_nextsize and bk_nextsize

    def _order(self, listed: Bin) -> None:
        if listed.kind == "small":
            return
        leaders: list[int] = []
        before: Optional[int] = None
        least = min_large_size(self.layout)
        for chunk, size in zip(listed.addresses, listed.sizes):
            if listed.kind == "unsorted":
                if size >= least:
                    self._no_skip(chunk)
            elif size == before:
                self._no_skip(chunk)
            else:
                if before is not None and size > before:
                    figures = {"bin": listed.index, "bytes": size, "bytes_before": before}
                    self._say(chunk, "bin-order", "bin-order", figures)
                leaders.append(chunk)
            before = size
        for place, chunk in enumerate(leaders):
            self._skip(chunk, leaders[(place + 1) % len(leaders)], leaders[place - 1])

    def _skip_links(self, chunk: int) -> Optional[Sequence[int]]:
        return self.memory.few_words(chunk + 4 * self.layout.word, 2)

    def _no_skip(self, chunk: int) -> None:
        links = self._skip_links(chunk)
        if links is not None and any(links):
            names = {"fd_nextsize": f"{links[0]:#x}", "bk_nextsize": f"{links[1]:#x}"}
            self._say(chunk, "bin-skip-list", "skip-links-not-zero", {}, names=names)

    def _skip(self, chunk: int, following: int, preceding: int) -> None:
        links = self._skip_links(chunk)
        if links is None:
            return
        for name, value, expected in zip(("fd_nextsize", "bk_nextsize"), links, (following, preceding)):
            if value != expected:
                names = {"link": name, "expected": f"{expected:#x}", "leads_to": f"{value:#x}"}
                self._say(chunk, "bin-skip-list", "skip-link", {}, names=names)

    # a list that is broken

    def _rescue(self, index: int, head: int, first: int, last: int) -> None:
        forward = _Walk(self, index, head, first, forward=True)
        backward = _Walk(self, index, head, last, forward=False)
        chunks = {**forward.chunks, **backward.chunks}
        for chunk, size in chunks.items():
            if not forward.fits(size):
                figures = {"bin": index, "bytes": size, "min_bytes": forward.low, "max_bytes": forward.high}
                self._say(chunk, "bin-size", "size-of-another-bin", figures)
        self._where_it_breaks(index, forward, backward)
        whole = forward.closed or backward.closed or forward.stop in backward.chunks or backward.stop in forward.chunks
        if forward.stop == backward.stop and forward.size is not None:
            # both of its links are wrong, its neighbours' are not
            chunks[forward.stop] = forward.size
            whole = True
        self.binned.update(zip(chunks, repeat(False)))
        self.broken.append(Rescued(index, chunks, whole))

    def _where_it_breaks(self, index: int, forward: _Walk, backward: _Walk) -> None:
        """Reports the links that disagree with what is known from the other end."""
        said = False
        for walk, other, name in ((forward, backward, "fd"), (backward, forward, "bk")):
            # where the other direction says that this link should lead
            known = other.before(walk.last)
            if walk.stop != known if known is not None else walk.astray:
                names = {"link": name, "leads_to": f"{walk.stop:#x}", **walk.why}
                if known is not None:
                    names["expected"] = f"{known:#x}"
                self._say(walk.last, "bin-link", "bin-link", {"bin": index}, names=names)
                said = True
        if not said and not (forward.closed and backward.closed):
            # neither end's last link is wrong by itself: what it leads to does not lead back
            names = {"link": "bk", "leads_to": f"{forward.back or 0:#x}", "expected": f"{forward.last:#x}"}
            self._say(forward.stop, "bin-link", "bin-link", {"bin": index}, names=names)


class _Walk:
    """A walk of a list from one end, up to the first link that cannot be followed or is not returned."""

    def __init__(self, check: BinCheck, index: int, head: int, start: int, forward: bool) -> None:
        self.layout, self.index = check.layout, index
        self.chunks: dict[int, int] = {}
        self.order: list[int] = [head]
        self.stop, self.astray = start, False
        self.why: dict[str, str] = {}
        """Why a link cannot be followed: "stopped_by", and other evidence."""
        self.back: Optional[int] = None
        self.size: Optional[int] = None
        """The size at `stop`, if a chunk is there that does not lead back."""
        limit = check.header.peak
        self.low, self.high = bin_sizes(check.layout, index).within(limit)
        while self.stop != head:
            link = self.stop
            try:
                raw, fd, bk = check.memory.node(link)
            except MemoryReadError:
                self.back, self.why, self.astray = 0, {"stopped_by": "unreadable"}, True
                return
            ahead, back = (fd, bk) if forward else (bk, fd)
            self.back = back
            if not check.layout.aligned(link) or not check.reach.holds(link):
                aligned = "outside" if check.layout.aligned(link) else "misaligned"
                self.why, self.astray = {"stopped_by": aligned}, True
                return
            if back != self.order[-1] or link in self.chunks:
                self.why = {"stopped_by": "not-returned", "back": f"{back:#x}"}
                self.size = raw & ~SIZE_BITS
                return
            self.chunks[link] = raw & ~SIZE_BITS
            self.order.append(link)
            self.stop = ahead
            if len(self.chunks) > limit // check.layout.min_size:
                return

    @property
    def closed(self) -> bool:
        return self.stop == self.order[0]

    @property
    def last(self) -> int:
        return self.order[-1]

    def fits(self, size: int) -> bool:
        return self.low <= size <= self.high and not size & self.layout.mask

    def before(self, chunk: int) -> Optional[int]:
        """Returns the chunk that this walk met before `chunk`: the other direction's next one."""
        if chunk == self.order[0]:
            return self.order[-1] if self.closed else None
        if chunk == self.stop and not self.closed:
            return self.last
        place = self.order.index(chunk) if chunk in self.chunks else 0
        return self.order[place - 1] if place else None


def bins_cut(broken: Sequence[Rescued], layout: Layout, arena: int) -> list[Statement]:
    """Reports the lists that were not read to the end."""
    return [
        Statement(
            "bin-cut",
            {"arena": arena, "bin": each.bin, "chunks": len(each.chunks)},
            {"kind": bin_kind(layout, each.bin)},
        )
        for each in broken
        if not each.whole
    ]


IN_FRONT = {"fast": "prev-inuse-of-fast", "tcache": "prev-inuse-of-cached"}
"""The rule that is broken if a listed chunk no longer looks in use, by the list that names it."""
OVERLAPS = {"fast": "overlaps-fast", "tcache": "overlaps-cached", "binned": "overlaps-binned"}


class _Wrong(NamedTuple):
    """The rule that a size word breaks, how it breaks it, and what would be valid."""

    rule: str
    what: str
    figures: Mapping[str, int]


class ChunkCheck:
    """Checks one arena's chunks against its lists. `binned` and `listed` tell what should be where.

    Each binned chunk is marked when a header leads to it: no second table, as a list may hold millions.
    """

    def __init__(
        self,
        memory: Memory,
        layout: Layout,
        header: ArenaHeader,
        binned: dict[int, bool],
        listed: Mapping[int, str],
        lists_whole: bool,
    ) -> None:
        self.memory = memory
        self.layout = layout
        self.header = header
        self.binned = binned
        self.listed = listed
        self.lists_whole = lists_whole
        self.breaches: list[Breach] = []
        self.chunks = 0
        self.loose = 0
        """Free chunks that may be in the unread part of a list."""
        self.unread: list[Gap] = []
        self.unmet: set[int] = set(listed)
        """Chunks in caches and fastbins that no header has led to so far."""
        self._forgotten: list[tuple[int, int]] = []
        """Chunks in caches and fastbins where no headers were read."""
        self.wanted = NON_MAIN_ARENA if not header.main else 0
        self.previous: Optional[tuple[int, int]] = None
        """The last chunk, and its end."""

    def run(self, pieces: Iterable[Piece]) -> None:
        first = True
        for piece in pieces:
            if piece.address == piece.heap.address:
                # whatever the heap before it ends with
                first, self.previous = True, None
            if isinstance(piece, ChunkRun):
                if not self._is_sound(piece, first):
                    self._run(piece, first)
                first = False
                continue
            if piece.kind == "damage":
                self._damage(piece)
            if piece.kind in ("damage", "foreign"):
                # what lies where no headers were read cannot be missed
                self._forgotten.append((piece.address, piece.address + piece.bytes))
            # what lies in front of the first chunk after damage is not known
            first = piece.kind != "damage"

    def _is_sound(self, run: ChunkRun, first: bool) -> bool:
        """Checks a run quickly, as nearly all are sound, and marks its chunks then. A binned chunk that is in use is
        found later: no free chunk was met there."""
        ends, raws, counts = run.free, run.raws, run.counts
        if first and not raws[0] & PREV_INUSE:
            return False
        # that of a run's first chunk says how the chunk in front of it is
        skip = 1 if ends.indexes and not ends.indexes[0] else 0
        own = [raws[at - 1] for at in ends.indexes[skip:]]
        if any(word & NON_MAIN_ARENA or not word & PREV_INUSE for word in set(own)):
            return False
        if sum(counts[word] for word in counts if word & NON_MAIN_ARENA != self.wanted) != len(own) * bool(self.wanted):
            return False
        sizes = [word & ~SIZE_BITS for word in own]
        chunks = list(map(sub, ends.addresses[skip:], sizes))
        if ends.feet[skip:] != sizes or not all(map(self.binned.__contains__, chunks)):
            return False
        self.binned.update(zip(chunks, repeat(True)))
        self.unmet.difference_update(chunk for _, chunk in run.marks)
        self.chunks += len(raws)
        end = run.address + run.bytes
        self.previous = (end - (raws[-1] & ~SIZE_BITS), end)
        return True

    def _run(self, run: ChunkRun, first: bool) -> None:
        """Checks a run; `first`: nothing in front of it could be free."""
        chunk, raw = run.address, run.raws[0]
        wanted, binned, met = self.wanted, self.binned, self.unmet.discard
        feet = dict(zip(run.free.addresses, run.free.feet))
        if first and not raw & PREV_INUSE:
            self._say(chunk, "prev-inuse", "prev-inuse-of-first", size_word=raw)
        front = 0 if raw & PREV_INUSE else self._front_of(chunk) or 0
        size = before = 0
        for following in chain(islice(run.raws, 1, None), (run.follow,)):
            before, size = size, raw & ~SIZE_BITS
            if following & PREV_INUSE:
                if not binned.get(chunk, True):
                    self._binned_yet_used(chunk, size, following)
                    binned[chunk] = True
                elif raw & NON_MAIN_ARENA != wanted:
                    self._flag(chunk, raw, chunk - before if before else self._front_of(chunk))
                met(chunk)
                front = 0
            else:
                met(chunk)
                self._free(chunk, raw, size, following, front=front, foot=feet.get(chunk + size))
                front = chunk
            chunk += size
            raw = following
        self.chunks += len(run.raws)
        self.previous = (chunk - size, chunk)

    def _free(self, chunk: int, raw: int, size: int, following: int, front: int, foot: Optional[int]) -> None:
        """Checks a chunk that the header after it calls free."""
        end = chunk + size
        if chunk not in self.binned:
            if not self.lists_whole:
                self.loose += 1
            elif end != self.header.top:
                what = IN_FRONT.get(self.listed.get(chunk, ""), "prev-inuse-of-used")
                self._say(end, "prev-inuse", what, culprit=chunk, front=chunk, size_word=following)
            return
        self.binned[chunk] = True
        if raw & NON_MAIN_ARENA:
            self._say(chunk, "non-main-arena", "non-main-arena-in-bin", size_word=raw)
        if front and front in self.binned:
            self._say(chunk, "adjacent-free", "adjacent-free", front=front)
        if foot not in (None, size) and self.memory.try_word(end) is not None:
            figures = {"bytes": size, "prev_size": foot}
            self._say(end, "prev-size", "prev-size", figures, culprit=chunk, front=chunk)

    def _binned_yet_used(self, chunk: int, size: int, following: int) -> None:
        end = chunk + size
        if end == self.header.top:
            self._say(chunk, "beside-top", "beside-top", {"bytes": size})
        else:
            self._say(end, "prev-inuse", "prev-inuse-of-binned", culprit=chunk, front=chunk, size_word=following)

    def _flag(self, chunk: int, raw: int, front: Optional[int]) -> None:
        what = "non-main-arena-clear" if self.wanted else "non-main-arena-set"
        figures = {"arena": self.header.index}
        self._say(chunk, "non-main-arena", what, figures, culprit=front, size_word=raw)

    def _front_of(self, chunk: int) -> Optional[int]:
        return self.previous[0] if self.previous and self.previous[1] == chunk else None

    # what is no chunk

    def _damage(self, gap: Gap) -> None:
        raw = self.memory.try_word(gap.address + self.layout.word)
        self.unread.append(gap)
        front = self._front_of(gap.address)
        self.previous = None
        if raw is None:
            return
        wrong = self._what_is_wrong(gap, raw)
        if front is not None and self._leads_past(front, gap):
            return
        end = gap.address + gap.bytes
        self._say(gap.address, wrong.rule, wrong.what, wrong.figures, culprit=front, size_word=raw, headers_go_on=end)

    def _what_is_wrong(self, gap: Gap, raw: int) -> _Wrong:
        layout, size, left = self.layout, raw & ~SIZE_BITS, gap.heap.end - gap.address
        if size < layout.min_size:
            return _Wrong("size-min", "size-min", {"min_bytes": layout.min_size})
        if size > left:
            return _Wrong("size-bounds", "size-bounds", {"max_bytes": left})
        if size & layout.mask:
            return _Wrong("size-alignment", "size-alignment", {"alignment": layout.align})
        if raw & IS_MMAPPED:
            return _Wrong("is-mmapped", "is-mmapped", {})
        if raw & NON_MAIN_ARENA and self.header.main:
            return _Wrong("non-main-arena", "non-main-arena-in-main", {})
        return _Wrong("size", "size-leads-to-no-chunk", {})

    def _leads_past(self, front: int, gap: Gap) -> bool:
        """Tells whether the chunk in front is the wrong one: headers inside it lead past its end."""
        limit = self.header.top if gap.heap.address <= self.header.top < gap.heap.end else gap.heap.end
        start = front + self.layout.min_size
        if start >= gap.address:
            return False
        chain_start = find_chain(self.memory, self.layout, self.header.main, start, limit=limit)
        if chain_start is None or chain_start >= gap.address:
            return False
        raw = self.memory.try_word(front + self.layout.word)
        figures = {"bytes": chain_start - front}
        self._say(front, "size", "size-too-long", figures, size_word=raw or 0, headers_go_on=chain_start)
        return True

    @property
    def hidden(self) -> list[int]:
        """Chunks that the lists name and no header led to, in order."""
        forgotten = sorted(self._forgotten)

        def unread(chunk: int) -> bool:
            place = bisect_right(forgotten, (chunk, self.layout.heap_max << 32)) - 1
            return place >= 0 and chunk < forgotten[place][1]

        binned = (chunk for chunk, met in self.binned.items() if not met)
        return sorted(chunk for chunk in {*binned, *self.unmet} if not unread(chunk))

    def find_hidden(self, hidden: Sequence[int], pieces: Iterable[Piece]) -> None:
        """Finds listed chunks that no header leads to: they lie inside others, whose size is then wrong, or they are in
        use."""
        for piece in pieces:
            first, end = (bisect_left(hidden, place) for place in (piece.address, piece.address + piece.bytes))
            if first < end and isinstance(piece, ChunkRun):
                self._overlapped(piece, hidden[first:end])

    def _overlapped(self, run: ChunkRun, hidden: Sequence[int]) -> None:
        """Finds overlapped chunks in a single pass over the run, however many lie in it."""
        chunk, at = run.address, 0
        for index, raw in enumerate(run.raws):
            size = raw & ~SIZE_BITS
            while at < len(hidden) and hidden[at] < chunk + size:
                inside = hidden[at]
                at += 1
                if inside == chunk:
                    self._binned_yet_used(chunk, size, run.after(index))
                elif inside > chunk:
                    state = self.listed.get(inside, "binned")
                    self._say(chunk, "overlap", OVERLAPS[state], {"bytes": size}, inside=inside)
            if at == len(hidden):
                return
            chunk += size

    def _say(
        self,
        address: int,
        rule: str,
        what: str,
        figures: Mapping[str, int] = {},
        culprit: Optional[int] = None,
        **words: int,
    ) -> None:
        """Adds a breach; `words` are addresses and size words, shown in hexadecimal."""
        said = Statement(what, figures, {name: f"{value:#x}" for name, value in words.items()})
        self.breaches.append(Breach(address, self.header.index, rule, said, culprit=culprit))
