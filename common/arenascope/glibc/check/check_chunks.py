"""Checks chunks: sizes, flags, prev_size, and what each header says about the chunk in front of it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import chain, islice, repeat
from operator import sub
from typing import Iterable, Mapping, NamedTuple, Optional, Sequence

from ...base.model import ArenaHeader, Breach, ChunkRun, Gap, Piece, Statement
from ...sources.memory import Memory
from ..chunk import IS_MMAPPED, NON_MAIN_ARENA, PREV_INUSE, SIZE_BITS
from ..process_layout import Layout
from ..sweep import find_chain

IN_FRONT = {"fast": "prev-inuse-of-fast", "tcache": "prev-inuse-of-cached"}
"""The rule that is broken if a listed chunk no longer looks in use, by the list that names it."""
OVERLAPS = {"fast": "overlaps-fast", "tcache": "overlaps-cached", "binned": "overlaps-binned"}

CLOSE, MOST_NEAR = 4096, 64 << 10
"""prev_size words within so many bytes are read at once; and the most bytes of such a read."""


class _Wrong(NamedTuple):
    """The rule that a size word breaks, how it breaks it, and what would be valid."""

    rule: str
    what: str
    figures: Mapping[str, int]


class CheckedSums(NamedTuple):
    """The results of checking a part of an arena's chunks."""

    breaches: Sequence[Breach]
    chunks: int
    loose: int
    unread: Sequence[Gap]
    hidden: Sequence[int]
    forgotten: Sequence[tuple[int, int]]


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
        self._near: tuple[int, bytes] = (0, b"")
        """The place of the last read of prev_size words, and their bytes."""
        self._swept = 0
        """The end of what was read as chunks."""
        self.previous: Optional[tuple[int, int]] = None
        """The last chunk, and its end."""

    def sums(self) -> CheckedSums:
        """Returns the results, for another check to absorb."""
        hidden = [chunk for chunk, met in self.binned.items() if not met]
        return CheckedSums(
            self.breaches,
            self.chunks,
            self.loose,
            self.unread,
            hidden=[*hidden, *self.unmet],
            forgotten=self._forgotten,
        )

    def absorb(self, other: CheckedSums) -> None:
        """Adds the results of the part that follows; chunks that were searched there are not searched here."""
        self.breaches += other.breaches
        self.chunks += other.chunks
        self.loose += other.loose
        self.unread += other.unread
        self.unmet.update(other.hidden)
        self._forgotten += other.forgotten

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
        if ends is None or (first and not raws[0] & PREV_INUSE):
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
        self._swept = run.address + run.bytes
        wanted, binned, met = self.wanted, self.binned, self.unmet.discard
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
                self._free(chunk, raw, size, following, front=front)
                front = chunk
            chunk += size
            raw = following
        self.chunks += len(run.raws)
        self.previous = (chunk - size, chunk)

    def _free(self, chunk: int, raw: int, size: int, following: int, front: int) -> None:
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
        foot = self._foot(end)
        if foot is not None and foot != size:
            figures = {"bytes": size, "prev_size": foot}
            self._say(end, "prev-size", "prev-size", figures, culprit=chunk, front=chunk)

    def _foot(self, at: int) -> Optional[int]:
        """Reads the prev_size word. Where these lie close together, one read brings many: what was swept is read
        again."""
        word = self.memory.pointer_size
        start, data = self._near
        if not start <= at <= start + len(data) - word:
            close = 0 <= at - start < 2 * len(data) + CLOSE
            size = min(2 * len(data) + CLOSE, MOST_NEAR) if close else word
            data = self.memory.try_read(at, max(word, min(size, self._swept - at))) or b""
            self._near = at, data
            if not data:
                return None
            start = at
        return int.from_bytes(data[at - start : at - start + word], self.memory.byte_order)

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
