"""heap save: this moment as a core that keeps what cores lose."""

from __future__ import annotations

import os
import struct
from bisect import bisect_left
from collections import Counter
from contextlib import ExitStack, suppress
from functools import cached_property
from itertools import chain
from typing import Callable, Container, Iterable, Iterator, Mapping, Optional, Sequence

from ..base.errors import ArenascopeError, MemoryReadError, UsageError
from ..base.heap_model import ArenaHeader, Bin, ChunkRun, Gap, Range, Statement, ThreadCache
from ..base.progress_bar import Progress
from ..base.whole_file import nameless_file
from ..glibc.arena import LEAST_PAGE
from ..glibc.find.other_allocators import places_of_modules
from ..glibc.malloc_chunk import PREV_INUSE, SIZE_BITS, masked, reveal
from ..glibc.malloc_par import MAX_FAST, PERTURB
from ..glibc.mmapped_chunks import read_mmapped
from ..glibc.regular_bins import NBINS
from ..glibc.tcache import read_tcache
from ..present.json_documents.record import Document, Size
from ..present.shared_text.lines_and_tables import next_lines
from ..session.session import Session
from ..sources.core.core_image import CoreImage
from ..sources.core.core_in_memory import NoRoomInMemory
from ..sources.core.save_image import save_core
from ..sources.elf import elf_file
from ..sources.elf.modules import FIRST_PAGE, Module, Modules, modules_of
from ..sources.live.process import ProcessImage
from ..sources.live.save_process import ProcessCopy, copy_process
from ..sources.shell_target import ShellTarget
from ..sources.target import Region, SavedCore, Span, Target, joined
from .framework.command import Answer, Context, always, argument, command
from .framework.live_copy import expect_save


class SaveDocument(Document, command="save"):
    """The answer of save."""

    file: str
    """Where it was written."""
    bytes_written: Size
    """What the file takes on the disk."""
    resident_bytes: Size
    """Memory in it."""
    redacted: bool
    """Whether it has malloc's own words alone."""


def save(target: Target, path: str, release: Callable[[], float], redact: bool) -> Optional[SavedCore]:
    """Saves the image. `release` is called once all of a process was read. None if the image is not on this machine."""
    if not redact:
        return target.image.save(path, target.register_sets(), release)
    if isinstance(target.image, CoreImage):
        return _redact(target, target.image, path)
    # redacting walks over every chunk: copy to an unnamed file first, and let the process go
    image = target.image
    if isinstance(image, ProcessImage) and image.room is not None:
        room, image.room = image.room, None
        with suppress(NoRoomInMemory):
            core, saved = copy_process(image, target, room, registers=target.register_sets(), release=release)
            return _redact_copy(target, core, saved, path)
    with nameless_file(os.path.dirname(path) or ".") as file:
        written = image.save(file, target.register_sets(), release)
        if written is None:
            return None
        return _redact_copy(target, ProcessCopy(f"/proc/self/fd/{file}", target, written.lost), written, path)


def _redact_copy(target: Target, core: CoreImage, saved: SavedCore, path: str) -> SavedCore:
    return _redact(target, core, path)._replace(held=saved.held, lost=saved.lost)


def _redact(target: Target, core: CoreImage, path: str) -> SavedCore:
    """Writes the redacted core. `core` is the unnamed copy of `target`, read with the same symbols."""
    symbols = target.symbols_from if isinstance(target, ShellTarget) else ()
    with ShellTarget(core, *symbols) as shown:
        words = kept(Session(shown, meter=Progress), core.random_bytes())
        return save_core(core, path, core.residency(), core.mapping_use(), kept=words)


@command(
    "changes over time",
    "save app.core",
    arguments=(
        argument("file", metavar="FILE", help="where to write it"),
        argument("--redact", action="store_true", help="keep only malloc's own data; write zeros for the program's"),
    ),
    whole=always,
)
def save_command(context: Context) -> Answer:
    """Save this moment as a core that also has what other cores lack: residency, names, what was locked.

    The process stands still only while its memory is copied: what was never touched is not written. The file is an ELF
    core: GDB and LLDB open it with threads and registers, and every command here answers from it what it would have
    answered of the process. --redact leaves zeros in place of blocks, stacks, variables, arguments and environment:
    figures stay, data does not. Names of files and threads stay. It takes room for the whole file, which has no name
    meanwhile.
    """
    path = context.options.file
    expect_save(context, path)
    saved = save(context.target, path, context.door.release, context.options.redact)
    if saved is None:
        raise UsageError("only what lies on this machine can be saved", "use the debugger's own gcore, or save there")
    found = SaveDocument(
        file=path, bytes_written=saved.written, resident_bytes=saved.resident, redacted=context.options.redact
    )
    problems = [Statement("memory-lost", {"bytes": saved.lost})] if saved.lost else []
    return Answer(found, _lines(context, saved), problems)


def _lines(context: Context, saved: SavedCore) -> list[str]:
    style = context.style
    path = context.options.file
    speed = f", {style.size(round(saved.resident / saved.held))} a second" if saved.held else ""
    first = f"{path}: {style.size(saved.resident)} of memory in {style.size(saved.written)}{speed}"
    return [style.bold(first), *next_lines(style, f"arenascope report {path}", f"gdb PROGRAM {path}")]


# Selects malloc's own words, which `save --redact` keeps of a process's memory. All else may be the program's data.
#
# A bug of the program can have overwritten any word. So a word is kept only if its value proves what it is: a link
# leads to a chunk of its list, a size to the next chunk, an address or a count is one. Of the variables of libc and
# ld.so, addresses are kept: an address is no secret, though what lies there may be one.

SMALL = 1 << 16
"""Numbers below this tell nothing: page sizes, module numbers, indexes."""

Kept = Iterator[tuple[int, int]]
"""(address, bytes)."""


class ProvableWords:
    """Finds such words in one image. `random`: the bytes of AT_RANDOM, from which libc makes its guards."""

    def __init__(self, session: Session, random: bytes) -> None:
        self.session = session
        self.memory, self.word, self.regions = session.memory, session.target.pointer_size, session.regions
        self._ends = [each.end for each in self.regions]
        self._guards = self._guards_of(random)

    def _guards_of(self, random: bytes) -> Container[int]:
        """The pointer guard and the stack guard (security_init in elf/rtld.c): they can look like addresses."""
        if len(random) < 2 * self.word:
            return ()
        first, second = self.memory.unpack_words(random[: 2 * self.word])
        # the first byte of the stack guard is zero
        last = (1 << 8 * (self.word - 1)) - 1
        return {first, second, first & ~0xFF, first & last}

    def is_address(self, value: int) -> bool:
        """Whether it is an address in a mapping or at a mapping's end (the break is one)."""
        at = bisect_left(self._ends, value)
        mapped = at < len(self._ends) and self.regions[at].start <= value and value not in self._guards
        return mapped and (self.word > 4 or self._is_no_text(self.regions[at], value))

    def _is_no_text(self, region: Region, value: int) -> bool:
        """On 32-bit machines four letters can be a heap address. Then only words that malloc or the loader wrote are
        believed."""
        if not all(0x20 <= each < 0x7F for each in value.to_bytes(4, "little")):
            return True
        return region.finds_malloc or any(map(region.contains, self._threads)) or value in self._written

    @cached_property
    def _threads(self) -> Sequence[int]:
        pointers = (each.thread.thread_pointer for each in self.session.thread_words)
        return [each for each in pointers if each is not None]

    @cached_property
    def _written(self) -> Container[int]:
        """Addresses that malloc or the loader wrote: chunks in lists, arenas, thread caches, module names."""
        session = self.session
        found = {each.address for each in places_of_modules(session.target, session.regions)}
        found |= {place for each in session.headers for place in (each.address, each.top)}
        if session.started:
            lists = [each for arena in session.arenas for each in (*arena.bins, *arena.fastbins)]
            found.update(chunk for each in lists for chunk in each.addresses)
            for cache in session.thread_caches:
                found.update([cache.address] if cache.address else ())
                found.update(chunk + session.layout.header for each in cache.bins for chunk in each.addresses)
        return found

    def words(self, start: int, size: int, small: int = SMALL, unit: int = 0) -> Kept:
        """Words that are addresses or numbers below `small`; with `unit` also its multiples."""
        limit = 1 << (8 * self.word - 1)
        data = self.memory.try_read(start, size // self.word * self.word)
        for index, value in enumerate(self.memory.unpack_words(data) if data else ()):
            amount = unit and not value % unit and value < limit
            if value and (value < small or amount or self.is_address(value)):
                yield start + index * self.word, self.word


class RedactedFiles:
    """Selects what is kept of the files of one image."""

    def __init__(self, session: Session, proved: ProvableWords) -> None:
        self.session, self.proved = session, proved
        self.memory, self.page = session.memory, session.target.page_size
        self._modules = Modules(session.target, modules_of(session.regions))

    def kept(self) -> Kept:
        theirs: dict[int, Region] = {}
        nameless = {each.start: each.end for each in self.session.regions if not each.path}
        paths = {name for each in self._modules.all for name in (each.path, each.name)}
        for module in self._modules.all:
            # a mapping that is only readable is data, even if it begins like an ELF file
            if not any(each.executable for each in module.regions) or module.regions[0].shared:
                continue
            try:
                elf = elf_file.Elf(self.memory.read, module.base, mapped=True)
                end = module.regions[-1].end
                first = module.regions[0]
                headers = _Headers(elf, module.base, nameless.get(end, end), paths).kept()
                yield from (each for each in headers if first.start <= each[0] and sum(each) <= first.end)
                build_id = elf.build_id()
            except (ArenascopeError, struct.error, ValueError):
                continue
            # what the loader mapped, or the kernel as the program: any other file may be the program's data
            is_loaded = module in (self._modules.in_order or ()) or module == self._modules.program
            if build_id is None and is_loaded and self._modules.file_of(module):
                # without a build-id the first page identifies its file
                yield module.base, min(FIRST_PAGE, module.regions[0].size)
            if module.regions[0].finds_malloc:
                yield from self._of_library(module)
                theirs.update((each.start, each) for each in module.regions if each.writable)
        yield from self._variables(theirs)
        for place in places_of_modules(self.session.target, self.session.regions):
            whole = (place.address, place.bytes)
            yield from self.proved.words(*whole) if place.words else (whole,)

    def _of_library(self, module: Module) -> Kept:
        """Read-only pages that are the same in the file. Of other pages, or without the file, only provable words."""
        with ExitStack() as stack:
            file: Optional[elf_file.Buffer] = None
            with suppress(ArenascopeError):
                file = stack.enter_context(elf_file.ElfFile(self._modules.file_of(module) or "")).data
            for region in module.regions:
                if not (region.writable or region.shared):
                    yield from self._of_constants(region, file)

    def _of_constants(self, region: Region, file: Optional[elf_file.Buffer]) -> Kept:
        for start in range(region.start, region.end, self.page):
            data = self.memory.try_read(start, self.page)
            at = start - region.start + region.offset
            same = file is not None and bytes(file[at : at + self.page]).ljust(self.page, b"\0") == data
            if data is not None:
                yield from ((start, self.page),) if same else self.proved.words(start, self.page)

    def _variables(self, theirs: Mapping[int, Region]) -> Kept:
        """Provable words in variables of libc, ld.so and a static program."""
        session = self.session
        copies = (copy.libc for copy in session.located.copies)
        data = {each.start: each for libc in (*copies, session.located.libc) for each in libc.data}
        small = dict.fromkeys(data, 0)
        before: Optional[Region] = None
        for region in session.regions:
            behind = before is not None and before.end == region.start and not region.path and region.writable
            if region.start in theirs or (behind and before is not None and before.start in theirs):
                data[region.start], small[region.start] = region, SMALL
            before = region
        for start, region in data.items():
            # the kernel may merge .bss with a mapping of its own behind it
            end = session.bss_ends.get(start, region.end)
            yield from self.proved.words(start, end - start, small[start])
        for name in (MAX_FAST, PERTURB):
            at = session.located.find_static(session.target, name)
            if at is not None:
                yield at, 4


GNU = b"GNU\0"
NT_GNU_ABI_TAG = 1
LONGEST_ID = 64
PROCESSOR_TYPES = range(0x70000000, 0x70000010)
TYPES = (*range(8), *range(0x6474E550, 0x6474E560), *PROCESSOR_TYPES)
"""Segment types of gABI, GNU and processors."""
CURRENT = 1
"""EV_CURRENT, the version in an ELF header."""


class _Headers:
    """Selects headers in the first mapping of a file. `end`: the highest address where .bss can end; `paths`: paths and
    names of mapped files."""

    def __init__(self, elf: elf_file.Elf, start: int, end: int, paths: Container[str]) -> None:
        self.elf, self.start, self.end, self.paths = elf, start, end, paths

    def kept(self) -> Kept:
        yield from self._file_header()
        yield from self._program_headers()
        for segment in self.elf.segments:
            if segment.type in (elf_file.PT_NOTE, elf_file.PT_INTERP) and self._is_within(segment):
                data = self.elf.contents(segment)
                yield from (
                    self._notes(segment, data) if segment.type == elf_file.PT_NOTE else self._loader(segment, data)
                )

    def _file_header(self) -> Kept:
        """The file header without padding, e_entry, e_shoff and e_flags, which nobody reads in memory."""
        base, word = self.elf.base, self.elf.pointer_size
        counts = 24 + 3 * word + 4
        version, size = (self._number(at, length) for at, length in ((base + 20, 4), (base + counts, 2)))
        yield base, 8
        yield base + 16, 4
        if version == CURRENT:
            yield base + 20, 4
        yield base + 24 + word, word
        if size == counts + 12:
            yield base + counts, 12

    def _number(self, at: int, size: int) -> int:
        return int.from_bytes(self.elf.read(at, size), self.elf.byte_order)

    def _program_headers(self) -> Kept:
        table, segments, word = self.elf.program_headers, self.elf.segments, self.elf.pointer_size
        size = (table.end - table.start) // len(segments) if segments else 0
        virtual = 2 * word
        for index, segment in enumerate(segments):
            at = table.start + index * size
            if not self._is_sound(segment):
                continue
            if self._number(at + virtual + word, word) in (0, segment.address):
                yield at, size
            else:
                # skip p_paddr, which only kernels use
                yield at, virtual + word
                yield at + virtual + 2 * word, size - virtual - 2 * word

    def _is_sound(self, segment: elf_file.Segment) -> bool:
        known = segment.type in TYPES and segment.flags < 8 and not segment.align & (segment.align - 1)
        # a stack segment has no contents in the file, only a size
        stack = not (segment.address or segment.offset or segment.file_size or segment.memory_size & 0xFFF)
        return known and (stack or self._is_within(segment))

    def _is_within(self, segment: elf_file.Segment) -> bool:
        start = self.elf.bias + segment.address
        inside = self.start <= start and start + segment.memory_size <= self.end
        return inside and segment.offset <= self.end - self.start and segment.file_size <= segment.memory_size

    def _notes(self, segment: elf_file.Segment, data: bytes) -> Kept:
        """Note headers with their sizes, by which the next is found; GNU's release and build-id with contents."""
        start = self.elf.bias + segment.address
        for each in elf_file.places_of_notes(data, self.elf.mark, segment.align):
            yield start + each.start, 8
            longest = {NT_GNU_ABI_TAG: 16, elf_file.NT_GNU_BUILD_ID: LONGEST_ID}.get(each.type, 0)
            if data[each.owner : each.owner + each.owner_bytes] == GNU and each.data_bytes <= longest:
                yield start + each.start, each.end - each.start

    def _loader(self, segment: elf_file.Segment, data: bytes) -> Kept:
        name = os.fsdecode(data[: elf_file.LONGEST_NAME].rstrip(b"\0"))
        if name in self.paths or os.path.basename(name) in self.paths:
            yield self.elf.bias + segment.address, len(data)


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
