"""Selects malloc's own words, which `save --redact` keeps of a process's memory. All else may be the program's data.

A bug of the program can have overwritten any word. So a word is kept only if its value proves what it is: a link leads
to a chunk of its list, a size to the next chunk, an address or a count is one. Of the variables of libc and ld.so,
addresses are kept: an address is no secret, though what lies there may be one.
"""

from __future__ import annotations

import struct
from collections import Counter
from itertools import chain
from typing import Container, Iterable, Optional, Sequence

from ...base.errors import MemoryReadError
from ...base.model import ArenaHeader, Bin, ChunkRun, Gap, Range, ThreadCache
from ...glibc.arena import LEAST_PAGE
from ...glibc.bins import NBINS
from ...glibc.chunk import PREV_INUSE, SIZE_BITS, masked, reveal
from ...glibc.mmapped import read_mmapped
from ...glibc.tcache import read_tcache
from ...session.session import Session
from ...sources.target import Span, joined
from .provable_words import SMALL, Kept, ProvableWords
from .redacted_files import RedactedFiles

AROUND = (8 << 10, 4 << 10)
"""How far below and above a thread pointer to search for malloc's two thread-local words and libc's control block."""
PAGE = 1 << 10


def kept(session: Session, random: bytes = b"") -> list[Range]:
    """Disjoint ranges in address order. `random`: see ProvableWords."""
    proved = ProvableWords(session, random)
    found = chain(_Redaction(session, proved).kept(), RedactedFiles(session, proved).kept())
    spans = joined(sorted((start, start + size) for start, size in found))
    return [Range(start, end - start) for start, end in spans]


class _Redaction:
    def __init__(self, session: Session, proved: ProvableWords) -> None:
        self.session, self.proved = session, proved
        self.layout, self.memory, self.word = session.layout, session.memory, session.layout.word

    def kept(self) -> Kept:
        session = self.session
        located = session.located
        for address in {located.main_arena, *located.others, *(each.address for each in session.headers)}:
            yield from self._arena(address)
        if located.params is not None:
            yield located.params, self.layout.params.size
        yield from self._threads()
        if not session.started:
            return
        for cache in session.thread_caches:
            yield from self._cache(cache)
        yield from self._keys()
        for arena in session.arenas:
            for each in arena.bins:
                yield from self._ring(arena.header, each)
            for each in arena.fastbins:
                yield from self._one_way(each, self.layout.header)
            yield from self._heaps(arena.header, [each.addresses for each in arena.bins])
        for block in session.mmapped:
            yield block.chunk, self.layout.header
            # where memalign moved the chunk, the original header is still at the block's start
            first = self.layout.first_aligned(block.base)
            if read_mmapped(self.memory, self.layout, first, session.target.page_size) is not None:
                yield first, self.layout.header

    def _arena(self, address: int) -> Kept:
        """Words of struct malloc_state: ints, addresses, the binmap, amounts."""
        fields = self.layout.arena
        data = self.memory.try_read(address, fields.size)
        if data is None:
            return
        first = fields["fastbinsY" if "fastbinsY" in fields else "top"]
        for at in range(0, first, 4):
            if int.from_bytes(data[at : at + 4], self.session.target.byte_order) < SMALL:
                yield address + at, 4
        yield from self.proved.words(address + first, fields.size - first, unit=LEAST_PAGE)
        # an overflow from either side would have destroyed the words around the binmap
        bits = fields["binmap"]
        around = self.memory.unpack_words(data[fields["bins"] : bits] + data[fields["next"] :][: self.word])
        if all(map(self.proved.is_address, around)):
            yield address + bits, NBINS // 8

    def _threads(self) -> Kept:
        """A thread's variables that hold an arena, a cache or its own address, and those that identify its control
        block: its tid, and the links of libc's list of threads."""
        session, word = self.session, self.word
        known = {header.address for header in session.headers}
        known |= {each.tcache for each in session.thread_words if each.tcache}
        threads = [each.thread for each in session.thread_words]
        pointers = [each.thread_pointer for each in threads if each.thread_pointer is not None]
        numbers = {each.tid for each in threads}
        below, above = AROUND
        stretches = [Span(each - below & -PAGE, each + above) for each in pointers]
        stretches += [Span(each.start, each.end) for each in session.regions if each.finds_malloc and each.writable]
        pages = {page for each in stretches for page in range(each.start // PAGE, -(-each.end // PAGE))}
        # a page that cannot be read is in another mapping
        for start in (page for pointer in pointers for page in range(pointer - below & -PAGE, pointer + above, PAGE)):
            data = self.memory.try_read(start, PAGE) or b""
            for index, value in enumerate(self.memory.unpack_words(data)):
                if value in known or (value // PAGE in pages and self.proved.is_address(value)):
                    yield start + index * word, word
            for index, (number,) in enumerate(struct.iter_unpack(f"{self.memory.mark}I", data)):
                if number in numbers:
                    yield start + index * 4, 4

    # lists

    def _cache(self, cache: ThreadCache) -> Kept:
        """Words of tcache_perthread_struct: heads that are addresses, and counts that match the lists."""
        form, address = self.layout.tcache, cache.address
        if form is None or not address:
            return
        if (self.memory.try_word(address - self.word) or 0) < SMALL:
            yield address - self.word, self.word
        for each in cache.bins:
            yield from self._one_way(each, 0)
        yield from self.proved.words(address + form.entries, form.bins * self.word, small=0)
        try:
            counts = read_tcache(self.memory, form, address).counts
        except MemoryReadError:
            return
        lengths = {each.index: each.chunks for each in cache.bins}
        slots = self.session.params.get("tcache_count") if self.session.params and form.counts_free_slots else None
        for index, count in enumerate(counts):
            held = slots - count if slots is not None else count
            # malloc and free change the list before the count
            if abs(held - lengths.get(index, 0)) <= 1:
                yield address + form.counts + index * form.count_bytes, form.count_bytes

    def _keys(self) -> Kept:
        """tcache_entry.key: the cache's address or, since 2.34, a random number in a variable of libc's."""
        if not self.layout.behaviour.tcache_key:
            return
        keys = {}
        for cache in self.session.thread_caches:
            for chunk in chain.from_iterable(each.addresses for each in cache.bins):
                at = chunk + self.layout.header + self.word
                keys[at] = self.memory.try_word(at) or 0, cache.address
        known = self._of_libc()
        usual = Counter(key for key, _ in keys.values() if key in known).most_common(1)
        for at, (key, own) in keys.items():
            if key == own or any(key == each for each, _ in usual):
                yield at, self.word

    def _of_libc(self) -> Container[int]:
        """All words in libc's variables."""
        data = (self.memory.try_read(each.start, each.size) for each in self.session.located.libc.data)
        return {word for each in data if each for word in self.memory.unpack_words(each)}

    def _one_way(self, listed: Bin, to_user: int) -> Kept:
        """`to_user`: see OneWay."""
        header, safe = self.layout.header, self.layout.behaviour.safe_linking
        for chunk, following in zip(listed.addresses, [*listed.addresses[1:], None]):
            at = chunk + header
            stored = self.memory.try_word(at) or 0
            expected = 0 if following is None else following + header - to_user
            if (reveal(stored, at) if safe else stored) == expected:
                yield at, self.word

    def _ring(self, header: ArenaHeader, listed: Bin) -> Kept:
        """fd and bk (and fd_nextsize, bk_nextsize of large chunks) that lead to a chunk of the list or its head."""
        members = set(listed.addresses)
        low = header.address + self.layout.arena["bins"] - self.layout.header
        high = low + 2 * NBINS * self.word
        count = 4 if listed.kind == "large" else 2
        for chunk in listed.addresses:
            at = chunk + self.layout.header
            try:
                links = self.memory.words(at, count)
            except MemoryReadError:
                continue
            for index, value in enumerate(links):
                if value in members or low <= value < high:
                    yield at + index * self.word, self.word

    # heaps

    def _heaps(self, header: ArenaHeader, binned: Sequence[Iterable[int]]) -> Kept:
        for heap in () if header.main else self.session.heaps[header.index]:
            # struct heap_info
            yield from self.proved.words(heap.address, self.layout.heap.size, unit=LEAST_PAGE)
        if header.top_bytes is not None:
            yield header.top + self.word, self.word
        walk = _Chain(self.session, binned)
        for piece in self.session.sweep(header):
            yield from walk.of_run(piece) if isinstance(piece, ChunkRun) else walk.of_gap(piece)


class _Chain:
    """The size words of an arena, in address order. They are trusted up to the first damage, and again from the next
    listed chunk: what looks like a header in between may be the program's data."""

    def __init__(self, session: Session, binned: Sequence[Iterable[int]]) -> None:
        self.memory, self.layout, self.word = session.memory, session.layout, session.layout.word
        self._sound, self._before, self._at = True, 0, 0
        """`_before`: size of the chunk that ends at `_at`."""
        self._listed, self._binned = session.listed, binned
        self._free: Optional[Container[int]] = None

    def _is_listed(self, chunk: int) -> bool:
        if self._free is None:
            self._free = {*self._listed, *chain.from_iterable(self._binned)}
        return chunk in self._free

    def of_run(self, run: ChunkRun) -> Kept:
        word = self.word
        chunk = run.address
        for raw in run.raws:
            if self._sound or self._is_listed(chunk):
                self._sound = True
                yield from self._foot(chunk, raw)
                yield chunk + word, word
            self._before = raw & ~SIZE_BITS
            chunk += self._before
            self._at = chunk

    def _foot(self, chunk: int, raw: int) -> Kept:
        """prev_size, if the chunk before is free; otherwise it is the program's data."""
        if not raw & PREV_INUSE and self._at == chunk and self.memory.try_word(chunk) == self._before:
            yield chunk, self.word

    def of_gap(self, gap: Gap) -> Kept:
        if gap.kind == "damage":
            self._sound = False
        elif gap.kind == "fencepost" and self._sound:
            raw = self.memory.try_word(gap.address + self.word)
            if raw is not None:
                yield from self._foot(gap.address, raw)
            for at in range(gap.address + self.word, gap.address + gap.bytes, 2 * self.word):
                if masked(self.memory.try_word(at) or 0) < self.layout.min_size + self.layout.header:
                    yield at, self.word
