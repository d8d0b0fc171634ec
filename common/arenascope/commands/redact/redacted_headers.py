"""What `save --redact` keeps of a module's headers: by what debuggers, and we, know its file.

Whatever a program maps can begin as an ELF file does. So a field is kept for what it says, not for where it lies.
"""

from __future__ import annotations

import os
from typing import Container

from ...sources.elf.elf_file import LONGEST_NAME, PT_INTERP, PT_NOTE, Elf, Segment
from ...sources.elf.modules import Module
from ...sources.elf.notes import NT_GNU_BUILD_ID, places_of_notes
from .provable_words import Kept

GNU = b"GNU\0"
NT_GNU_ABI_TAG = 1
LONGEST_ID = 64
PROCESSOR_TYPES = range(0x70000000, 0x70000010)
TYPES = (*range(8), *range(0x6474E550, 0x6474E560), *PROCESSOR_TYPES)
"""Those that gABI, GNU and processors have."""
CURRENT = 1
"""EV_CURRENT."""


def headers_of(elf: Elf, module: Module, end: int, paths: Container[str]) -> Kept:
    """Within the first mapping. `end` is where the .bss can end at most, `paths` are those of mapped files, and
    those files' names."""
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
        """Without the padding, e_entry, e_shoff and e_flags, which nobody reads in memory."""
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
                # p_paddr, which only a kernel's file has a use for
                yield at, virtual + word
                yield at + virtual + 2 * word, size - virtual - 2 * word

    def _is_sound(self, segment: Segment) -> bool:
        known = segment.type in TYPES and segment.flags < 8 and not segment.align & (segment.align - 1)
        # of a stack's size there is nothing in the file
        stack = not (segment.address or segment.offset or segment.file_size or segment.memory_size & 0xFFF)
        return known and (stack or self._is_within(segment))

    def _is_within(self, segment: Segment) -> bool:
        start = self.elf.bias + segment.address
        inside = self.start <= start and start + segment.memory_size <= self.end
        return inside and segment.offset <= self.end - self.start and segment.file_size <= segment.memory_size

    def _notes(self, segment: Segment, data: bytes) -> Kept:
        """Their sizes, by which the next is found; of GNU's the release and the build-id."""
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
