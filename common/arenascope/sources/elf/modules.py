"""Loaded modules, as the dynamic linker has them: their order, and what each of them exports.

What a core leaves out (a library's symbol tables) is read from its file, if that is provably the same.
"""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from functools import cached_property
from typing import Iterable, Iterator, Mapping, NamedTuple, Optional, Sequence

from ...base.errors import ArenascopeError, MemoryReadError
from ..memory import Memory
from ..target import Region, Span, Target, joined
from . import elf_file
from .elf_file import PF_R, PF_W, PF_X, Elf, ElfFile, Read, Segment
from .environment_variables import read_string

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
    """Returns the mappings of the program and its libraries in address order; empty if the image does not tell."""
    if not auxv.get(elf_file.AT_PHDR):
        return ()
    try:
        program = Elf(memory.read, auxv[elf_file.AT_PHDR] - HEADER_BYTES[memory.pointer_size], mapped=True)
        regions = list(_mappings(program, _path_at(memory, auxv.get(elf_file.AT_EXECFN, 0)), page))
        debug = elf_file.dynamic_tags(program).get(DT_DEBUG)
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
    """Returns the regions; those of modules get the paths of their files, and offsets as if these were mapped in one
    piece.

    A module reaches from its load address through its dynamic section to the writable mapping after that.
    """
    debug = _find_debug(memory, auxv.get(elf_file.AT_BASE, 0), regions)
    modules = {library.base: library for library in _libraries(memory, debug)} if debug else {}
    headers = auxv.get(elf_file.AT_PHDR, 0)
    program = next((region.start for region in regions if region.contains(headers)), None)
    if program is not None:
        modules[program] = Loaded(program, _path_at(memory, auxv.get(elf_file.AT_EXECFN, 0)), program)
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
    """Returns the index after the module's last region: bss is not the file's."""
    for index in range(first, len(regions)):
        part = regions[index]
        if index > first and (part.start != regions[index - 1].end or part.start in others):
            return index
        if part.writable and part.end > module.dynamic:
            return index + 1
    return len(regions)


def _find_debug(memory: Memory, base: int, regions: Sequence[Region]) -> Optional[int]:
    """Returns ld.so's r_debug, whose last word is where ld.so was loaded."""
    word = memory.pointer_size
    for region in regions:
        if not base or not (region.writable and base < region.start < base + LDSO_REACH):
            continue
        words = memory.try_words(region.start, min(region.size, LDSO_REACH) // word) or ()
        for index, value in enumerate(words[R_DEBUG_WORDS - 1 :]):
            address = region.start + index * word
            # r_version is 1, or 2 since glibc 2.35; it says 0 before ld.so has begun
            if value == base and words[index + 1] and words[index + 2] and memory.u32(address) in (1, 2):
                return address
    return None


def _path_at(memory: Memory, address: int) -> str:
    """Returns the path; "" if it cannot be read: ld.so's own is in text that a core may lack."""
    try:
        return os.fsdecode(read_string(memory.read, address, LONGEST_PATH)) if address else ""
    except MemoryReadError:
        return ""


def _libraries(memory: Memory, debug: int) -> Iterator[Loaded]:
    """Yields the entries of r_map; the program itself and the vDSO have no path."""
    with suppress(MemoryReadError):
        for each in _link_maps(memory, debug):
            path = _path_at(memory, each.name)
            if path.startswith("/"):
                yield Loaded(each.base, path, each.dynamic)


class _LinkMap(NamedTuple):
    """A struct link_map: its address, l_addr, l_name, l_ld."""

    address: int
    base: int
    name: int
    dynamic: int


def _link_maps(memory: Memory, debug: int) -> Iterator[_LinkMap]:
    """Yields the entries of r_map in the order of symbol lookup; MemoryReadError."""
    seen: set[int] = set()
    # struct r_debug: r_version, r_map; struct link_map: l_addr, l_name, l_ld, l_next
    entry = memory.word(debug + memory.pointer_size)
    while entry and entry not in seen and len(seen) < MAX_MODULES:
        seen.add(entry)
        base, name, dynamic, following = memory.words(entry, 4)
        yield _LinkMap(entry, base, name, dynamic)
        entry = following


def _mappings(elf: Elf, path: str, page: int) -> Iterator[Region]:
    """Returns the mappings that the kernel and ld.so make of program headers: the file's part, and anonymous memory
    after it (bss)."""
    for segment in elf.segments:
        if segment.type != elf_file.PT_LOAD or not segment.memory_size:
            continue
        start = elf.bias + segment.address
        first, file_end, end = (
            edge & -page
            for edge in (start, start + segment.file_size + page - 1, start + segment.memory_size + page - 1)
        )
        mode = bool(segment.flags & PF_R), bool(segment.flags & PF_W), bool(segment.flags & PF_X)
        if segment.file_size:
            yield Region(first, file_end, *mode, path=path, offset=segment.offset & -page)
        if end > file_end:
            yield Region(file_end, end, *mode)


FIRST_PAGE = 4096
DATA_LIMIT = 1 << 30
SYMBOLS = ".symtab"
CONSTANTS = (".rodata", ".lrodata", ".data")


class Module(NamedTuple):
    """A loaded file, once for each time that it is loaded: its mappings in address order, from the file's first byte
    on."""

    regions: tuple[Region, ...]

    @property
    def path(self) -> str:
        return self.regions[0].path

    @property
    def name(self) -> str:
        return self.path.rsplit("/", 1)[-1].replace(" (deleted)", "")

    @property
    def base(self) -> int:
        return self.regions[0].start

    def contains(self, address: int) -> bool:
        return self.base <= address < self.regions[-1].end


class LinkedPlace(NamedTuple):
    """The place of a structure of the dynamic linker's."""

    address: int
    bytes: int
    words: bool
    """Whether it consists of addresses and small numbers."""


class Modules:
    """The modules of one image."""

    def __init__(self, target: Target, runs: Iterable[Sequence[Region]]) -> None:
        self.target = target
        self._memory = Memory(lambda at, size: target.read(at, size), target.pointer_size, target.byte_order)
        self.all = [Module(tuple(run)) for run in runs if not run[0].offset]
        self._files: dict[Module, Optional[str]] = {}

    def exported(self, module: Module, names: Iterable[str]) -> dict[str, int]:
        """Returns addresses of the names that the module exports; {} if its tables are not available."""
        return self.find_exports(module, names) or {}

    def find_exports(self, module: Module, names: Iterable[str]) -> Optional[dict[str, int]]:
        """Returns the same; None if its tables are not available."""
        try:
            symbols = elf_file.dynamic_symbols(
                lambda address, size: self.read(module, address, size), module.base, names
            )
        except (ArenascopeError, struct.error):
            return None
        return {name: symbol.value for name, symbol in symbols.items()}

    def mentions(self, module: Module, name: str) -> Optional[bool]:
        """Tells whether the module has that function, or imports it; None if unknown."""
        try:
            strings = elf_file.dynamic_strings(lambda address, size: self.read(module, address, size), module.base)
            return b"\0" + name.encode() + b"\0" in strings
        except (ArenascopeError, struct.error):
            return bool(self.static(module, [name])) if SYMBOLS in self.sections(module) else None

    def pointer(self, address: int) -> int:
        """Returns the variable's value as a pointer; 0 if it cannot be read."""
        return self._memory.try_word(address) or 0

    def static(self, module: Module, names: Sequence[str]) -> dict[str, int]:
        """Returns the names that the file's own symbol tables have, with the addresses that it was linked for."""
        try:
            with ElfFile(self.file_of(module) or "") as file:
                if all(section.type != elf_file.SHT_SYMTAB for section in file.sections):
                    return {}
                return {name: symbols[0].value for name, symbols in elf_file.find_symbols(file, names).items()}
        except (ArenascopeError, struct.error):
            return {}

    def sections(self, module: Module) -> set[str]:
        """The names of the file's sections."""
        try:
            with ElfFile(self.file_of(module) or "") as file:
                return {section.name for section in file.sections}
        except (ArenascopeError, struct.error):
            return set()

    def strings(self, module: Module, needles: Sequence[bytes]) -> set[bytes]:
        """Returns the needles that stand among the file's constants, which stripping leaves."""
        try:
            with ElfFile(self.file_of(module) or "") as file:
                constants = [each for each in file.sections if each.name.startswith(CONSTANTS)]
                limit = min(len(file.data), DATA_LIMIT)
                # each byte once, however many sections claim it; a file can be without sections, too
                spans = joined(sorted((each.offset, min(each.offset + each.size, limit)) for each in constants))
                spans = spans or [Span(0, limit)]
                return {each for each in needles if any(file.data.find(each, *span) >= 0 for span in spans)}
        except ArenascopeError:
            return set()

    def file_of(self, module: Module) -> Optional[str]:
        """Returns a local path of the mapped file: with the same build-id, or else with the same first page."""
        if module not in self._files:
            self._files[module] = self._prove(module)
        return self._files[module]

    def _prove(self, module: Module) -> Optional[str]:
        path = self.target.open_file(module.regions[0])
        try:
            if path is None:
                return None
            with ElfFile(path) as file:
                there = Elf(self.target.read, module.base, mapped=True).build_id()
                if there is not None:
                    return path if there == file.build_id() else None
                size = min(FIRST_PAGE, len(file.data))
                return path if self.target.read(module.base, size) == file.data[:size] else None
        except (ArenascopeError, struct.error):
            return None

    def at(self, address: int) -> Optional[Module]:
        return next((each for each in self.all if each.contains(address)), None)

    def read(self, module: Module, address: int, size: int) -> bytes:
        """Reads memory, or the file: the loader does not change read-only parts."""
        try:
            return self.target.read(address, size)
        except MemoryReadError:
            region = next((each for each in module.regions if each.contains(address)), None)
            path = self.file_of(module)
            if region is None or region.writable or path is None or address + size > region.end:
                raise
        offset = address - region.start + region.offset
        with ElfFile(path) as file:
            data = file.data[offset : offset + size]
        if len(data) != size:
            raise MemoryReadError(address, size)
        return data

    @cached_property
    def program(self) -> Optional[Module]:
        """Returns the module that the dynamic linker notes itself in, else the first that is no library."""
        told = next((module for module in self.all if self._debug_address(module)), None)
        return told or next((module for module in self.all if ".so" not in module.name), None)

    @cached_property
    def in_order(self) -> Optional[list[Module]]:
        """Returns modules in the order of symbol lookup (link_map); None if unavailable."""
        debug = self._debug_address(self.program) if self.program else None
        if not debug:
            return None
        ordered: list[Module] = []
        try:
            for each in _link_maps(self._memory, debug):
                ordered += [module for module in self.all if module.contains(each.dynamic)][:1]
        except MemoryReadError:
            return None
        return ordered or None

    @cached_property
    def with_tls(self) -> list[Module]:
        """Returns the modules with thread-local variables, in the order in which the linker counts them."""
        return [each for each in self.in_order or self.all if self._has_tls(each)]

    def _has_tls(self, module: Module) -> bool:
        try:
            elf = Elf(lambda address, size: self.read(module, address, size), module.base, mapped=True)
            return any(segment.type == elf_file.PT_TLS and segment.memory_size for segment in elf.segments)
        except (ArenascopeError, struct.error):
            return False

    def places(self) -> Iterator[LinkedPlace]:
        """Returns all structures that tell what is loaded, in which order."""
        word = self.target.pointer_size
        if self.program is None:
            return
        for segment in Elf(self.target.read, self.program.base, mapped=True).segments:
            if segment.type == elf_file.PT_DYNAMIC:
                bias = self.program.base if segment.address < self.program.base else 0
                yield LinkedPlace(segment.address + bias, segment.memory_size, words=True)
                yield from self._as_in_file(self.program, segment, segment.address + bias)
        debug = self._debug_address(self.program)
        if not debug:
            return
        yield LinkedPlace(debug, 5 * word, words=True)
        files = {module.name for module in self.all}
        for each in _link_maps(self._memory, debug):
            yield LinkedPlace(each.address, 5 * word, words=True)
            name = read_string(self.target.read, each.name) if each.name else b""
            # an overwritten record may have any name
            if os.path.basename(os.fsdecode(name)) in files:
                yield LinkedPlace(each.name, len(name) + 1, words=False)

    def _as_in_file(self, module: Module, segment: Segment, start: int) -> Iterator[LinkedPlace]:
        """Returns the words that are unchanged: the program can write to .dynamic, if it is linked so."""
        word = self.target.pointer_size
        with suppress(ArenascopeError), ElfFile(self.file_of(module) or "") as file:
            there = file.contents(segment._replace(file_size=min(segment.file_size, elf_file.LONGEST_DYNAMIC)))
            here = self.target.read(start, len(there))
            for at in range(0, len(there), word):
                if here[at : at + word] == there[at : at + word]:
                    yield LinkedPlace(start + at, word, words=False)

    def _debug_address(self, module: Module) -> int:
        """Returns DT_DEBUG's value: ld.so writes it only into the program."""
        try:
            return elf_file.dynamic_tags(Elf(self.target.read, module.base, mapped=True)).get(DT_DEBUG, 0)
        except (ArenascopeError, struct.error):
            return 0


def memory_end(read: Read, start: int) -> Optional[int]:
    """Returns the end of the mapped file's memory by its program headers; None: they cannot be read."""
    try:
        elf = Elf(read, start, mapped=True)
        return max(elf.bias + each.address + each.memory_size for each in elf.segments if each.type == elf_file.PT_LOAD)
    except MemoryReadError:
        return None
    except (ArenascopeError, struct.error, ValueError):
        return start  # no program: what lies after it is not its own


def bss_ends(read: Read, page: int, regions: Sequence[Region]) -> dict[int, int]:
    """Returns, for each mapping that begins as .bss, its start and the end of the last page of .bss. If the program
    headers cannot be read, .bss is all writable memory right behind the file's."""
    ends: dict[int, int] = {}
    first: Optional[Region] = None  # of the file whose mappings these are
    before: Optional[Region] = None
    written = False
    for region in regions:
        if _may_be_loaded(region):
            if first is None or region.path != first.path or region.offset <= first.offset:
                first, written = region, False
            written = written or region.writable
        elif first is not None and before is not None and _may_be_bss(region, before):
            end = memory_end(read, first.start) if not first.offset else None
            last = min(region.end, -(-end // page) * page) if end is not None else region.end if written else 0
            if last > region.start:
                ends[region.start] = last
        before = region
    return ends


def _may_be_loaded(region: Region) -> bool:
    """Excludes mappings that others can write: no loader makes them, and reading one would make its page resident."""
    return region.is_file and not region.shared


def _may_be_bss(region: Region, before: Region) -> bool:
    return not region.path and region.writable and _may_be_loaded(before) and before.end == region.start


def modules_of(regions: Sequence[Region]) -> Iterator[list[Region]]:
    """Returns runs of mappings of the same file, in address order: one for each time that it was loaded."""
    module: list[Region] = []
    for region in regions:
        if not region.is_file:
            continue
        if module and (region.path != module[0].path or region.offset <= module[0].offset):
            yield module
            module = []
        module.append(region)
    if module:
        yield module


def programs_of(regions: Sequence[Region]) -> Iterator[list[Region]]:
    """Returns the runs of the program and its libraries: they begin with the file's first byte, which the loader has
    read, and have code. Reading any other mapped file would make a page of it resident."""
    return filter(is_program_or_library, modules_of(regions))


def is_program_or_library(run: Sequence[Region]) -> bool:
    """Tells whether a run is a program or library. GDB's gcore leaves code out, and left-out mappings have no
    permissions in a core."""
    code_left_out = len(run) > 1 and not all(region.present for region in run)
    has_code = code_left_out or any(region.executable for region in run)
    return not run[0].offset and not run[0].shared and has_code
