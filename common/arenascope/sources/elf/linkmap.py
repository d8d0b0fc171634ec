"""The modules that ld.so has loaded, by its own list (struct r_debug in link.h), where nothing else lists them.

An emulator is the case: its stub serves memory and the auxiliary vector and has no /proc, so that what belongs to no
module (heaps, stacks) stays unknown; its cores have mappings, but neither the files' names nor their text.
"""

from __future__ import annotations

import os
from typing import Iterator, Mapping, NamedTuple, Optional, Sequence

from ...base.errors import ArenascopeError, MemoryReadError
from ..memory import Memory
from ..target import Region
from .elf_file import PF_R, PF_W, PF_X, PT_DYNAMIC, PT_LOAD, Elf
from .environment import read_string
from .notes import AT_BASE, AT_EXECFN, AT_PHDR
from .symbols import dynamic_tags

DT_DEBUG = 21
HEADER_BYTES = {4: 52, 8: 64}
"""sizeof (Elf32_Ehdr), sizeof (Elf64_Ehdr): linkers put the program headers right after it."""
MAX_MODULES = 10000
LONGEST_PATH = 4096
LDSO_REACH = 4 << 20
"""ld.so's data, where r_debug is, begins no farther from its start."""
R_DEBUG_WORDS = 5


class Loaded(NamedTuple):
    """An entry of the list: struct link_map's l_addr, l_name, l_ld."""

    base: int
    path: str
    dynamic: int


def loaded_regions(memory: Memory, auxv: Mapping[int, int], page: int) -> Sequence[Region]:
    """The mappings of the program and its libraries in address order; none where the image does not tell."""
    if not auxv.get(AT_PHDR):
        return ()
    try:
        program = Elf(memory.read, auxv[AT_PHDR] - HEADER_BYTES[memory.pointer_size], mapped=True)
        regions = list(_mappings(program, _program_path(memory, auxv), page))
        dynamic = next((segment for segment in program.segments if segment.type == PT_DYNAMIC), None)
        debug = dynamic_tags(program, dynamic).get(DT_DEBUG) if dynamic else None
        libraries = list(_libraries(memory, debug)) if debug else []
    except ArenascopeError:
        return ()
    for library in libraries:
        try:
            regions += _mappings(Elf(memory.read, library.base, mapped=True), library.path, page)
        except ArenascopeError:
            continue  # linked for another address than 0, or being unloaded
    return sorted(regions, key=lambda region: region.start)


def named_regions(memory: Memory, auxv: Mapping[int, int], regions: Sequence[Region]) -> list[Region]:
    """The regions, those of modules with the paths of their files, and offsets as if these were mapped in one piece.

    A module reaches from its load address through its dynamic section to the writable mapping after that.
    """
    debug = _find_debug(memory, auxv.get(AT_BASE, 0), regions)
    modules = {library.base: library for library in _libraries(memory, debug)} if debug else {}
    headers = auxv.get(AT_PHDR, 0)
    program = next((region.start for region in regions if region.contains(headers)), None)
    if program is not None:
        modules[program] = Loaded(program, _program_path(memory, auxv), program)
    named = list(regions)
    for index, region in enumerate(regions):
        module = modules.get(region.start)
        if module is None:
            continue
        for position in range(index, _end_of_module(regions, index, module, modules)):
            part = regions[position]
            named[position] = part._replace(path=module.path, offset=part.start - module.base)
    return named


def _end_of_module(regions: Sequence[Region], first: int, module: Loaded, others: Mapping[int, Loaded]) -> int:
    """The index after the module's last region: bss is not the file's."""
    for index in range(first, len(regions)):
        part = regions[index]
        if index > first and (part.start != regions[index - 1].end or part.start in others):
            return index
        if part.writable and part.end > module.dynamic:
            return index + 1
    return len(regions)


def _find_debug(memory: Memory, base: int, regions: Sequence[Region]) -> Optional[int]:
    """ld.so's r_debug, whose last word is where ld.so was loaded."""
    word = memory.pointer_size
    for region in regions:
        if not base or not (region.writable and base < region.start < base + LDSO_REACH):
            continue
        try:
            words = memory.words(region.start, min(region.size, LDSO_REACH) // word)
        except MemoryReadError:
            continue
        for index, value in enumerate(words[R_DEBUG_WORDS - 1 :]):
            address = region.start + index * word
            # r_version is 1, or 2 since glibc 2.35; it says 0 before ld.so has begun
            if value == base and words[index + 1] and words[index + 2] and memory.u32(address) in (1, 2):
                return address
    return None


def _program_path(memory: Memory, auxv: Mapping[int, int]) -> str:
    return _path_at(memory, auxv.get(AT_EXECFN, 0))


def _path_at(memory: Memory, address: int) -> str:
    """ "" where it cannot be read: ld.so's own is in text that a core may lack."""
    try:
        return os.fsdecode(read_string(memory.read, address, LONGEST_PATH)) if address else ""
    except MemoryReadError:
        return ""


def _libraries(memory: Memory, debug: int) -> Iterator[Loaded]:
    """What r_map leads to; the program itself and the vDSO have no path."""
    seen: set[int] = set()
    entry = memory.try_word(debug + memory.pointer_size)
    while entry and entry not in seen and len(seen) < MAX_MODULES:
        seen.add(entry)
        try:
            base, name, dynamic, following = memory.words(entry, 4)
        except MemoryReadError:
            return
        path = _path_at(memory, name)
        if path.startswith("/"):
            yield Loaded(base, path, dynamic)
        entry = following


def _mappings(elf: Elf, path: str, page: int) -> Iterator[Region]:
    """What the kernel and ld.so make of program headers: the file's part, and anonymous memory after it (bss)."""
    for segment in elf.segments:
        if segment.type != PT_LOAD or not segment.memory_size:
            continue
        start = elf.bias + segment.address
        first, file_end, end = (
            edge & -page
            for edge in (start, start + segment.file_size + page - 1, start + segment.memory_size + page - 1)
        )
        mode = (bool(segment.flags & PF_R), bool(segment.flags & PF_W), bool(segment.flags & PF_X))
        if segment.file_size:
            yield Region(first, file_end, *mode, path=path, offset=segment.offset & -page)
        if end > file_end:
            yield Region(file_end, end, *mode)
