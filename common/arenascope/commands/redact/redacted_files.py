"""Selects what `save --redact` keeps of mapped files: the headers that identify a file, and contents of libc and ld.so.

A program's data can begin like an ELF file. So a field is kept for its value, not for its place.
"""

from __future__ import annotations

import os
import struct
from contextlib import ExitStack, suppress
from typing import Container, Mapping, Optional

from ...base.errors import ArenascopeError
from ...glibc.find.which_allocator import places_of_modules
from ...glibc.params import MAX_FAST, PERTURB
from ...session.session import Session
from ...sources.elf.address_names import modules_of
from ...sources.elf.elf_file import LONGEST_NAME, PT_INTERP, PT_NOTE, Elf, ElfFile, Segment
from ...sources.elf.elf_notes import NT_GNU_BUILD_ID, Buffer, places_of_notes
from ...sources.elf.modules import FIRST_PAGE, Module, Modules
from ...sources.target import Region
from .provable_words import SMALL, Kept, ProvableWords


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
                elf = Elf(self.memory.read, module.base, mapped=True)
                end = module.regions[-1].end
                yield from headers_of(elf, module, nameless.get(end, end), paths)
                build_id = elf.build_id()
            except (ArenascopeError, struct.error, ValueError):
                continue
            if build_id is None and self._is_loaded(module) and self._modules.file_of(module):
                # without a build-id the first page identifies its file
                yield module.base, min(FIRST_PAGE, module.regions[0].size)
            if module.regions[0].finds_malloc:
                yield from self._of_library(module)
                theirs.update((each.start, each) for each in module.regions if each.writable)
        yield from self._variables(theirs)
        for place in places_of_modules(self.session.target, self.session.regions):
            whole = (place.address, place.bytes)
            yield from self.proved.words(*whole) if place.words else (whole,)

    def _is_loaded(self, module: Module) -> bool:
        """Whether the loader mapped it, or the kernel as the program. Any other file may be the program's data."""
        return module in (self._modules.in_order or ()) or module == self._modules.program

    def _of_library(self, module: Module) -> Kept:
        """Read-only pages that are the same in the file. Of other pages, or without the file, only provable words."""
        with ExitStack() as stack:
            file: Optional[Buffer] = None
            with suppress(ArenascopeError):
                file = stack.enter_context(ElfFile(self._modules.file_of(module) or "")).data
            for region in module.regions:
                if not (region.writable or region.shared):
                    yield from self._of_constants(region, file)

    def _of_constants(self, region: Region, file: Optional[Buffer]) -> Kept:
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


def headers_of(elf: Elf, module: Module, end: int, paths: Container[str]) -> Kept:
    """Headers in the first mapping. `end`: the highest address where .bss can end; `paths`: paths and names of mapped
    files."""
    first = module.regions[0]
    for start, size in _Headers(elf, module.base, end, paths).kept():
        if first.start <= start and start + size <= first.end:
            yield start, size


class _Headers:
    def __init__(self, elf: Elf, start: int, end: int, paths: Container[str]) -> None:
        self.elf, self.start, self.end, self.paths = elf, start, end, paths

    def kept(self) -> Kept:
        yield from self._file_header()
        yield from self._program_headers()
        for segment in self.elf.segments:
            if segment.type in (PT_NOTE, PT_INTERP) and self._is_within(segment):
                data = self.elf.contents(segment)
                yield from self._notes(segment, data) if segment.type == PT_NOTE else self._loader(segment, data)

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

    def _is_sound(self, segment: Segment) -> bool:
        known = segment.type in TYPES and segment.flags < 8 and not segment.align & (segment.align - 1)
        # a stack segment has no contents in the file, only a size
        stack = not (segment.address or segment.offset or segment.file_size or segment.memory_size & 0xFFF)
        return known and (stack or self._is_within(segment))

    def _is_within(self, segment: Segment) -> bool:
        start = self.elf.bias + segment.address
        inside = self.start <= start and start + segment.memory_size <= self.end
        return inside and segment.offset <= self.end - self.start and segment.file_size <= segment.memory_size

    def _notes(self, segment: Segment, data: bytes) -> Kept:
        """Note headers with their sizes, by which the next is found; GNU's release and build-id with contents."""
        start = self.elf.bias + segment.address
        for each in places_of_notes(data, self.elf.mark, segment.align):
            yield start + each.start, 8
            longest = {NT_GNU_ABI_TAG: 16, NT_GNU_BUILD_ID: LONGEST_ID}.get(each.type, 0)
            if data[each.owner : each.owner + each.owner_bytes] == GNU and each.data_bytes <= longest:
                yield start + each.start, each.end - each.start

    def _loader(self, segment: Segment, data: bytes) -> Kept:
        name = os.fsdecode(data[:LONGEST_NAME].rstrip(b"\0"))
        if name in self.paths or os.path.basename(name) in self.paths:
            yield self.elf.bias + segment.address, len(data)
