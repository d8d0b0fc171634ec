"""What every live block is: all arenas swept once, and the blocks served by mmap.

The kinds of a sweep are settled only when all of it was seen (a vtable that was left behind is told by the sizes of the
others), so that what it found is kept: a size word and a kind for each chunk.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from itertools import accumulate, compress, islice, repeat
from operator import sub
from types import ModuleType
from typing import TYPE_CHECKING, Iterable, Iterator, NamedTuple, Optional, Sequence

from ..base import optional_libraries
from ..base.errors import MemoryReadError, RedactedError
from ..base.model import ArenaHeader, ChunkRun, Kind, MmappedBlock, Piece
from ..glibc.chunk import PREV_INUSE, SIZE_BITS
from ..session.session import HeapPart, Session, swept
from .block_index import WEAK, HeapBlocks, Known, NamedLiveBlocks, NamedRun, Swept
from .declared.named_blocks import NamedBlocks
from .declared.once_per_image import declared_blocks
from .named_by_holders import name_by_holders
from .pointer_finder import library
from .recognise.all_recognisers import BEGINS, NONE, POINTERS, TEXTS, ZEROS, Catalogue, KindOfSize
from .recognise.contents import LOOKED_AT, PLAIN, SHORTEST, STARTS
from .recognise.module_memory import PAGE_SHIFT, ground_of

if TYPE_CHECKING:
    from ..base.array_types import Flags, Numbers

FEW = 64
"""Blocks for which it is not worth while."""
SPARSE = 256
"""Bytes from block to block on the average, from which on their heads are put side by side first."""
WORD, LEAST = 8, 24
"""Bytes of a word, and of a block that has the three words by which links are told."""
LEAST_TEXT = 256
NOT_PLAIN = bytes(byte not in PLAIN for byte in range(256))
LOW_BITS, HIGH_BITS = 0x0101010101010101, 0x8080808080808080
"""In every byte of a word: they tell where the first one is that is 0, or which are not ASCII."""
WIDE_ZEROS, WIDE_LETTERS = 0xFF00FF00FF00FF00, 0x000000FF00FF0000
"""Of two letters of two bytes each, as contents.py asks of them."""
LONGEST_LETTER = 4
"""In UTF-8: of one so near to the end of what is looked at there may be more."""


class _Heads:
    """What is looked at of some blocks: where each begins in `words`, and where that ends, in bytes."""

    def __init__(self, numpy: ModuleType, words: Numbers, starts: Numbers, ends: Numbers) -> None:
        self._numpy = numpy
        self.words, self.starts, self.ends = words, starts, ends
        self.bytes: Numbers = words.view(numpy.uint8)

    def places(self, words: Numbers) -> Numbers:
        """Of those that are not 0; and where all of them end."""
        found: Numbers = self._numpy.append(self._numpy.flatnonzero(words), len(words))
        return found

    def first_byte(self, words: Numbers) -> Numbers:
        """Of each block the offset of the first byte in `words` that is not 0, or its end where that comes first."""
        numpy, places = self._numpy, self.places(words)
        at = places[numpy.searchsorted(places, self.starts >> 3)]
        word = words[at.clip(max=len(words) - 1)]
        within = numpy.log2((word & (~word + numpy.uint64(1))).clip(min=1)).astype(numpy.int64) >> 3
        offsets: Numbers = numpy.minimum((at << 3) + within, self.ends)
        return offsets

    def is_empty(self, places: Numbers) -> Flags:
        """Whether nothing but zeros follows from these words on."""
        filled = self.places(self.words)
        empty: Flags = filled[self._numpy.searchsorted(filled, places)] << 3 >= self.ends
        return empty


class _Window:
    """What was read at once, and the blocks in it."""

    def __init__(self, numpy: ModuleType, data: bytes, base: int, users: Sequence[int], usables: Sequence[int]) -> None:
        self._numpy, self.base = numpy, base
        self.words: Numbers = numpy.frombuffer(data, dtype=numpy.uint64)
        self.starts: Numbers = numpy.asarray(users, dtype=numpy.uint64).astype(numpy.int64) - base
        """Offsets in bytes; `ends` are those of what is looked at."""
        self.usables: Numbers = numpy.asarray(usables, dtype=numpy.uint64).astype(numpy.int64)
        self.ends: Numbers = numpy.minimum(self.starts + numpy.minimum(self.usables, LOOKED_AT), len(data))
        self.is_sparse = len(data) > SPARSE * len(users)

    def word(self, blocks: Numbers, place: int) -> Numbers:
        """That word of each. What lies behind its end says nothing."""
        found: Numbers = self.words[((self.starts[blocks] >> 3) + place).clip(max=len(self.words) - 1)]
        return found

    def rows(self, blocks: Numbers) -> tuple[Numbers, Numbers]:
        """All words of each that are looked at, 0 behind its end; and how many these are."""
        numpy, first = self._numpy, self.starts[blocks] >> 3
        counts: Numbers = (self.ends[blocks] >> 3) - first
        columns = numpy.arange(int(counts.max(initial=0)))
        words: Numbers = self.words[(first[:, None] + columns).clip(max=len(self.words) - 1)]
        words[columns >= counts[:, None]] = 0
        return words, counts

    def heads(self, blocks: Numbers) -> _Heads:
        """Side by side, where much lies between."""
        numpy, starts, ends = self._numpy, self.starts[blocks], self.ends[blocks]
        if not self.is_sparse:
            return _Heads(numpy, self.words, starts, ends=ends)
        lengths = ends - starts
        last: Numbers = numpy.cumsum(lengths)
        ahead = numpy.repeat((starts - last + lengths) >> 3, lengths >> 3)
        return _Heads(numpy, self.words[numpy.arange(len(ahead)) + ahead], last - lengths, ends=last)


class ManyBlocks:
    """The blocks of one image."""

    def __init__(self, numpy: ModuleType, catalogue: Catalogue) -> None:
        self._numpy, self._catalogue = numpy, catalogue
        self._low, self._room = numpy.uint64(catalogue.low), numpy.uint64(catalogue.high - catalogue.low)
        # of the modules' pages, those that lie back to back
        pages = numpy.array(sorted(catalogue.ground.pages), dtype=numpy.uint64)
        apart = numpy.flatnonzero(numpy.diff(pages) > 1)
        self._firsts = pages[numpy.append(0, apart + 1)] if len(pages) else pages
        self._lasts = pages[numpy.append(apart, len(pages) - 1)] if len(pages) else pages
        self._begins_text: Flags = numpy.frombuffer(STARTS, dtype=bool)
        data = sorted((each.start, each.end) for each in catalogue.ground.regions if each.writable)
        self._data_starts = numpy.array([start for start, _ in data], dtype=numpy.uint64)
        self._data_ends = numpy.array([end for _, end in data], dtype=numpy.uint64)
        memory = catalogue.ground.memory
        is_native = memory.pointer_size == WORD and memory.byte_order == sys.byteorder == "little"
        # where a runtime's or a program's own words come first, hardly any block is left to be told at once
        self.runs = is_native and catalogue.asks_blocks_alone

    def told(
        self, data: bytes, base: int, users: Sequence[int], usables: Sequence[int], told: Optional[Sequence[int]]
    ) -> Optional[Numbers]:
        """Of each block its kind's number, or NONE where that is asked one by one; None: all are. As
        Catalogue.classify_many."""
        if len(users) < FEW:
            return None
        numpy = self._numpy
        window = _Window(numpy, data, base, users, usables=usables)
        firsts = window.words[window.starts >> 3]
        kinds: Numbers = numpy.full(len(firsts), NONE, dtype=numpy.int32)
        left = numpy.ones(len(firsts), dtype=bool)
        in_modules = numpy.flatnonzero(self._in_modules(firsts))
        if len(in_modules):
            left[in_modules] = self._by_vtables(window, firsts, in_modules, kinds)
        if told is not None:
            known = numpy.asarray(told, dtype=numpy.int32)
            kinds[left] = known[left]
            left &= known == NONE
        blocks = numpy.flatnonzero(left & (window.ends - window.starts >= LEAST))
        self._by_contents(window, blocks, firsts[blocks], kinds)
        return kinds

    def _in_modules(self, words: Numbers) -> Flags:
        numpy, pages = self._numpy, words >> self._numpy.uint64(PAGE_SHIFT)
        if not len(self._firsts):
            nowhere: Flags = numpy.zeros(len(words), dtype=bool)
            return nowhere
        at = numpy.searchsorted(self._firsts, pages, side="right") - 1
        inside: Flags = (at >= 0) & (pages <= self._lasts[at])
        return inside

    def _by_vtables(self, window: _Window, firsts: Numbers, blocks: Numbers, kinds: Numbers) -> Flags:
        """Objects of which others of that size were met before; of each of these blocks, whether it has no vtable."""
        numpy, seen = self._numpy, self._catalogue.tables
        words, which = numpy.unique(firsts[blocks], return_inverse=True)
        tables = [seen.get(word, NONE) for word in words.tolist()]
        without: Flags = numpy.array([table is None for table in tables], dtype=bool)[which]
        sizes, size = numpy.unique(window.usables[blocks], return_inverse=True)
        pairs, pair = numpy.unique(which * len(sizes) + size, return_inverse=True)
        lengths = sizes.tolist()
        numbers = []
        for each in pairs.tolist():
            table = tables[each // len(lengths)]
            known = table is not None and table is not NONE
            numbers.append(table.sizes.get(lengths[each % len(lengths)], NONE) if known else NONE)
        found = numpy.array(numbers, dtype=numpy.int32)[pair]
        found[window.starts[blocks] + window.usables[blocks] > window.words.nbytes] = NONE
        # several objects side by side have it again
        likely = numpy.flatnonzero(window.words - words[0] <= words[-1] - words[0])
        owners = numpy.searchsorted(window.starts[blocks] >> 3, likely, side="right") - 1
        own = blocks[numpy.maximum(owners, 0)]
        ahead = (likely << 3) - window.starts[own]
        again = (owners >= 0) & (ahead > 0) & (ahead < window.usables[own]) & (window.words[likely] == firsts[own])
        found[owners[again]] = NONE
        kinds[blocks] = found
        return without

    def _by_contents(self, window: _Window, blocks: Numbers, firsts: Numbers, kinds: Numbers) -> None:
        """Text, zeros, and what no rule fits but the size."""
        numpy = self._numpy
        inside = self._inside(firsts)
        is_empty = firsts == 0
        heads = window.heads(blocks[is_empty])
        is_empty[is_empty] = heads.is_empty(heads.starts >> 3)
        is_whole = window.usables[blocks] <= LOOKED_AT
        kinds[blocks[is_empty & is_whole]] = self._catalogue.known(ZEROS)
        kinds[blocks[is_empty & ~is_whole]] = self._catalogue.known(BEGINS)
        rest = ~is_empty
        begins = self._begins_text[(firsts & numpy.uint64(0xFF)).astype(numpy.int64)]
        may_be_text = numpy.flatnonzero(begins & ~inside & (firsts >= LEAST_TEXT))
        if len(may_be_text):
            is_text = self._is_plain_text(window.heads(blocks[may_be_text]))
            kinds[blocks[may_be_text[is_text]]] = self._catalogue.known(TEXTS["ASCII"])
            others = may_be_text[~is_text]
            rest[may_be_text[is_text]] = False
            rest[others] = ~self._may_be_other_text(window.heads(blocks[others]), firsts[others])
        of = numpy.flatnonzero(rest)
        of = of[~self._may_be_node(window, blocks[of], firsts[of], inside[of])]
        has_pointers = self._has_pointers(window, blocks[of])
        kinds[blocks[of[has_pointers]]] = self._catalogue.known(POINTERS)
        of = of[~has_pointers]
        sizes, size = numpy.unique(window.usables[blocks[of]], return_inverse=True)
        numbers = numpy.array([self._catalogue.by_size(each) for each in sizes.tolist()], dtype=numpy.int32)
        kinds[blocks[of]] = numbers[size]

    def _inside(self, words: Numbers) -> Flags:
        inside: Flags = words - self._low < self._room
        return inside

    def _is_plain_text(self, heads: _Heads) -> Flags:
        """Letters up to its end or a 0; where they take up less than half of it, more zeros."""
        numpy, starts, ends = self._numpy, heads.starts, heads.ends
        stops = heads.first_byte(numpy.frombuffer(heads.words.tobytes().translate(NOT_PLAIN), dtype=numpy.uint64))
        at = numpy.minimum(stops, heads.words.nbytes - 1)
        is_ended = (stops == ends) | (heads.bytes[at] == 0)
        tail = heads.words[at >> 3] >> ((at & 7) << 3).astype(numpy.uint64)
        fills = (2 * stops >= starts + ends) | ((tail == 0) & heads.is_empty((at >> 3) + 1))
        is_text: Flags = (stops - starts >= SHORTEST) & is_ended & fills
        return is_text

    def _may_be_other_text(self, heads: _Heads, firsts: Numbers) -> Flags:
        """Whether what is no plain text, but begins as text does, may be one with letters of several bytes: see
        contents.text_in."""
        numpy, number = self._numpy, self._numpy.uint64
        zeros = (firsts - number(LOW_BITS)) & ~firsts & number(HIGH_BITS)
        is_short = (zeros & ~zeros + number(1)) - number(1) < (1 << 8 * SHORTEST) - 1
        low = firsts & number(0xFF)
        is_wide = (low != 0) & (firsts & number(WIDE_ZEROS) == 0) & (firsts & number(WIDE_LETTERS) != 0)
        is_wide |= (low == 0) & (firsts & number(0xFFFFFF00) != 0)
        # the first letter that is not ASCII
        highs = heads.first_byte(heads.words & number(HIGH_BITS))
        lead, following = (heads.bytes[numpy.minimum(highs + more, heads.words.nbytes - 1)] for more in (0, 1))
        is_letter = (lead >= 0xC2) & (lead < 0xF5) & (following >= 0x80) & (following < 0xC0)
        near = heads.ends - highs
        is_narrow = (near > 0) & (is_letter | (near <= LONGEST_LETTER))
        may_be: Flags = numpy.where(is_short, is_wide, is_narrow)
        return may_be

    def _may_be_node(self, window: _Window, blocks: Numbers, firsts: Numbers, inside: Flags) -> Flags:
        """Whether it may be a node: what NodeLinks asks first of all, and what it asks of words that are here."""
        numpy, number = self._numpy, self._numpy.uint64
        seconds, thirds, fourths = (window.word(blocks, place) for place in (1, 2, 3))
        second_inside, third_inside = self._inside(seconds), self._inside(thirds)
        has_fourth = window.ends[blocks] - window.starts[blocks] > LEAST
        own = (window.starts[blocks] + window.base).astype(numpy.uint64)

        def lead_back(pointers: Numbers, places: Sequence[int]) -> Flags:
            """Whether one of these words there may be the block's address: it is not known of what lies elsewhere."""
            at = pointers - number(window.base) >> number(3)
            here = at + number(places[-1]) < len(window.words)
            at = numpy.where(here, at, 0).astype(numpy.int64)
            back = ~here
            for place in places:
                back |= window.words[numpy.minimum(at + place, len(window.words) - 1)] == own
            possible: Flags = back & (pointers != 0) & (pointers & number(WORD - 1) == 0)
            return possible

        is_node = (firsts & number(0xFFFFFFFF)) < 2
        is_node &= (thirds == 0) | third_inside
        is_node &= has_fourth & ((fourths == 0) | self._inside(fourths))
        is_node &= lead_back(seconds, (1, 2, 3))
        is_in_list = inside | second_inside
        is_in_list &= lead_back(firsts, (1,)) & lead_back(seconds, (0,))
        is_other = has_fourth & ((fourths & number(0xFF)) < 2)
        is_other &= ((firsts == 0) | inside) & ((seconds == 0) | second_inside) & lead_back(thirds, (0, 1))
        may_be: Flags = is_node | is_in_list | is_other
        return may_be

    def _has_pointers(self, window: _Window, blocks: Numbers) -> Flags:
        """contents.are_addresses of each that is no node."""
        numpy = self._numpy
        is_some: Flags = numpy.zeros(len(blocks), dtype=bool)
        for place in range(3):
            is_some |= self._inside(window.word(blocks, place))
        words, counts = window.rows(blocks[is_some])
        pointers = self._inside(words) & (words & numpy.uint64(WORD - 1) == 0)
        inside, some = numpy.count_nonzero(pointers, axis=1), numpy.count_nonzero(words, axis=1)
        enough = (inside >= 3) & (4 * inside >= 3 * some) & (2 * some >= counts)
        at = numpy.searchsorted(self._data_starts, words[enough], side="right") - 1
        is_data = pointers[enough] & (at >= 0) & (words[enough] < self._data_ends[at])
        enough[enough] = 4 * numpy.count_nonzero(is_data, axis=1) >= 3 * some[enough]
        is_some[is_some] = enough
        return is_some


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


class HeapLook(NamedTuple):
    """What was seen of a heap, or of a stretch of it."""

    entries: Sequence[KindOfSize]
    pieces: Sequence[Swept]


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
    processes = session.processes_for(size)
    many = ManyBlocks(live.numpy, catalogue) if live.numpy is not None else None
    many = many if many is not None and many.runs else None

    def look(part: HeapPart, pieces: Iterator[Piece]) -> HeapLook:
        typed = [
            _typed(session, catalogue, piece, declared, many=many) if isinstance(piece, ChunkRun) else piece
            for piece in pieces
        ]
        return HeapLook(catalogue.entries if processes > 1 else (), typed)

    with session.meter("sweeping", size) as meter, swept(session, headers, look, processes, meter=meter) as swept_heaps:
        for header in headers:
            ours = session.heaps[header.index]
            for heap, parts in zip(ours, islice(swept_heaps, len(ours))):
                pieces = [each for part in parts for each in _taken_in(catalogue, part)]
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


def _taken_in(catalogue: Catalogue, part: HeapLook) -> Iterable[Swept]:
    """A part's pieces; a worker numbers its kinds by itself."""
    if not part.entries:
        return part.pieces
    return _renumbered(part.pieces, [*map(catalogue.index_of, part.entries), NONE])


def _typed(
    session: Session, catalogue: Catalogue, run: ChunkRun, declared: Optional[DeclaredNames], many: Optional[ManyBlocks]
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
    kinds = kinds_between(session, catalogue, blocks, usables, told=told, many=many)
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
    many: Optional[ManyBlocks] = None,
) -> Iterator[int]:
    """Of blocks in address order, read many at a time. `told`: of each the number of its kind, or NONE. `many`: tells
    what it can at once."""
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
            at_once = many.told(data, base, *some, told=known) if many is not None else None
            if at_once is None:
                yield from catalogue.classify_many(words, data, base, *some, told=known or repeat(NONE))
            else:
                kinds, left = at_once.tolist(), (at_once == NONE).nonzero()[0].tolist()
                columns = [[each[block] for block in left] for each in (*some, *([known] if known is not None else ()))]
                for block, kind in zip(left, catalogue.classify_many(words, data, base, *columns)):
                    kinds[block] = kind
                yield from kinds
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
